"""The RFB client against a stand-in that misbehaves and against TigerVNC."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from runner.display.rfb import (
    DisplayAddress,
    DisplayAuthError,
    DisplayClosed,
    DisplayError,
    DisplayProtocolError,
    DisplayTimeout,
    RfbClient,
)
from tests.peers.rfb_server import FakeRfbServer, wait_until
from tests.runner.display_helpers import tigervnc

SHIFT = 0xFFE1


@pytest.fixture
def server() -> Iterator[FakeRfbServer]:
    with FakeRfbServer() as server:
        yield server


def connect(server: FakeRfbServer, password: str | None = None, timeout: float = 10) -> RfbClient:
    return RfbClient.connect(DisplayAddress("127.0.0.1", server.port, password), timeout=timeout)


def picture(size: tuple[int, int] = (64, 48), colour: tuple[int, int, int] = (37, 111, 149)) -> Image.Image:
    image = Image.new("RGB", size, colour)
    image.putpixel((3, 5), (1, 2, 3))
    return image


# -- beginning ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "version", [b"RFB 003.003\n", b"RFB 003.007\n", b"RFB 003.008\n", b"RFB 003.889\n", b"RFB 005.000\n"]
)
@pytest.mark.parametrize("password", [None, b"secret"])
@pytest.mark.parametrize("fragment", [False, True])
def test_all_versions_and_both_ways_in(version: bytes, password: bytes | None, fragment: bool) -> None:
    with FakeRfbServer(version=version, password=password, fragment=fragment) as server:
        server.draw(picture())
        with connect(server, password.decode() if password else None) as client:
            assert (client.size, client.name) == ((64, 48), "fake")
            assert client.screenshot().tobytes() == picture().tobytes()


@pytest.mark.parametrize("version", [b"RFB 003.003\n", b"RFB 003.007\n", b"RFB 003.008\n"])
@pytest.mark.parametrize("password", ["wrong", None, "größe€"])
def test_a_wrong_or_missing_password_is_an_authentication_error(version: bytes, password: str | None) -> None:
    with FakeRfbServer(version=version, password=b"secret") as server, pytest.raises(DisplayAuthError):
        connect(server, password)


def test_security_types_we_do_not_speak() -> None:
    with FakeRfbServer(security=b"\x13\x05") as server, pytest.raises(DisplayAuthError, match="5, 19"):
        connect(server)


def test_the_password_is_preferred_to_walking_in() -> None:
    with FakeRfbServer(security=b"\x01\x02", password=b"secret") as server:
        with pytest.raises(DisplayAuthError):
            connect(server, "wrong")
        connect(server, "secret").close()
        connect(server).close()


def test_a_password_is_in_no_text() -> None:
    address = DisplayAddress("h", 1, "hunter2")
    assert "hunter2" not in f"{address} {address!r}"


INIT = b"RFB 003.008\n" + b"\x01\x01" + b"\0\0\0\0"


@pytest.mark.parametrize(
    "script",
    [
        b"HTTP/1.1 400 Bad\r\n\r\n",
        b"RFB 003.008\n" + b"\0" + struct.pack(">I", 0xFFFFFFFF),
        INIT + struct.pack(">HH16xI", 65535, 65535, 4),
        INIT + struct.pack(">HH16xI", 0, 0, 4),
        INIT + struct.pack(">HH16xI", 64, 48, 0x7FFFFFFF),
    ],
)
def test_nonsense_in_the_handshake_is_a_protocol_error(script: bytes) -> None:
    with FakeRfbServer(script=script) as server, pytest.raises(DisplayProtocolError):
        connect(server)


def test_a_server_that_refuses_everybody_gives_its_reason() -> None:
    script = b"RFB 003.008\n\0" + struct.pack(">I", 8) + b"too many"
    with FakeRfbServer(script=script) as server, pytest.raises(DisplayAuthError, match="too many"):
        connect(server)


def test_silence_is_a_timeout_and_an_empty_port_is_closed() -> None:
    with FakeRfbServer(script=b"") as server:
        with pytest.raises(DisplayTimeout):
            connect(server, timeout=0.2)
        port = server.port
    with pytest.raises(DisplayClosed):
        RfbClient.connect(DisplayAddress("127.0.0.1", port))
    with pytest.raises(DisplayClosed):
        RfbClient.connect(DisplayAddress("no.such.host.invalid", 5900))


# -- the screen ---------------------------------------------------------------------------------------------------------


def test_a_resize_alone_is_followed_by_the_picture_in_the_new_size() -> None:
    with FakeRfbServer(size=(72, 40), resize_first=(100, 80)) as server, connect(server) as client:
        assert client.screenshot().size == (100, 80)
        assert client.size == (100, 80)


def test_changes_are_reported_with_their_place(server: FakeRfbServer) -> None:
    with connect(server) as client:
        client.screenshot()
        client.refresh(timeout=0.2)
        assert client.refresh(timeout=0.05) is None
        server.draw(picture((80, 60)))
        assert client.refresh() == (0, 0, 80, 60)
        assert client.image().tobytes() == picture((80, 60)).tobytes()
        assert client.refresh(incremental=False) is not None


def test_copied_rectangles_count_only_if_their_source_was_there(server: FakeRfbServer) -> None:
    whole = struct.pack(">BxHHHHHi", 0, 1, 0, 0, 64, 48, 1) + struct.pack(">HH", 0, 0)  # copies the screen onto itself
    server.behaviour.after_init = whole
    server.draw(picture())
    with connect(server) as client:
        assert client.screenshot().tobytes() == picture().tobytes()
        half = struct.pack(">BxHHHHHi", 0, 1, 32, 0, 32, 48, 1) + struct.pack(">HH", 0, 0)
        server.send(half)
        wait_until(lambda: client.refresh(timeout=0.1) is not None)
        assert client.image().getpixel((35, 5)) == (1, 2, 3)


def test_bell_clipboard_and_colours_are_read_over(server: FakeRfbServer) -> None:
    noise = b"\x02" + b"\x03\0\0\0" + struct.pack(">I", 100_000) + b"x" * 100_000 + b"\x01\0\0\0\0\x02" + bytes(12)
    server.behaviour.after_init = noise
    with connect(server) as client:
        assert client.screenshot().size == (64, 48)


@pytest.mark.parametrize(
    "message",
    [
        b"\x07",
        b"\x03\0\0\0\xff\xff\xff\xff",
        struct.pack(">BxHHHHHi", 0, 1, 60, 0, 5, 1, 0) + bytes(20),
        struct.pack(">BxHHHHHi", 0, 1, 0, 0, 5, 5, 1) + struct.pack(">HH", 60, 0),
        struct.pack(">BxHHHHHi", 0, 1, 0, 0, 65535, 65535, -223),
        struct.pack(">BxHHHHHi", 0, 1, 0, 0, 0, 10, -223),
        struct.pack(">BxHHHHHi", 0, 1, 0, 0, 5, 5, 16),
        struct.pack(">BxHHHHHi", 0, 1, 0, 0, 65535, 65535, 0),
    ],
)
def test_nonsense_from_the_server_ends_the_connection(server: FakeRfbServer, message: bytes) -> None:
    server.behaviour.after_init = message
    with connect(server) as client:
        with pytest.raises(DisplayProtocolError):
            client.screenshot()
        with pytest.raises(DisplayClosed):
            client.press("a")


def test_a_message_that_does_not_end_is_a_timeout(server: FakeRfbServer) -> None:
    server.behaviour.after_init = struct.pack(">BxHHHHHi", 0, 1, 0, 0, 64, 48, 0) + b"few"
    with connect(server) as client:
        with pytest.raises(DisplayTimeout):
            client.screenshot(0.2)
        with pytest.raises(DisplayClosed):
            client.screenshot()


def test_a_server_that_says_nothing_is_a_timeout_and_can_be_asked_again(server: FakeRfbServer) -> None:
    with connect(server) as client:
        server.behaviour.stalled.set()
        client.press("a")
        with pytest.raises(DisplayTimeout):
            client.screenshot(0.2)
        server.behaviour.stalled.clear()
        assert client.screenshot().size == (64, 48)


def test_the_end_of_the_server_and_of_the_client(server: FakeRfbServer) -> None:
    client = connect(server)
    server.drop()
    with pytest.raises(DisplayClosed):
        client.screenshot()
    client.close()
    client.close()
    other = connect(server)
    outcome: list[BaseException] = []

    def watch() -> None:
        try:
            while True:
                other.refresh(timeout=30)
        except DisplayError as error:
            outcome.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    other.screenshot()  # while another thread waits for changes
    other.close()
    thread.join(20)
    assert isinstance(outcome[0], DisplayClosed)


# -- input --------------------------------------------------------------------------------------------------------------


def strokes(server: FakeRfbServer, count: int) -> list[tuple[object, ...]]:
    wait_until(lambda: len(server.inputs) >= count)
    return server.inputs


def test_text_is_typed_with_shift_where_a_us_keyboard_needs_it(server: FakeRfbServer) -> None:
    with connect(server) as client:
        client.type_text("aB!ß€\r\n", interval=0)
        expected: list[tuple[object, ...]] = []
        for shift, keysym in ((0, 0x61), (1, 0x42), (1, 0x21), (0, 0xDF), (0, 0x20AC), (0, 0xFF0D)):
            around = [SHIFT] if shift else []
            pressed = [("key", True, k) for k in [*around, keysym]]
            released = [("key", False, k) for k in [keysym, *around]]
            expected += pressed + released
        assert strokes(server, len(expected)) == expected


def test_what_cannot_be_typed_types_nothing(server: FakeRfbServer) -> None:
    with connect(server) as client:
        with pytest.raises(ValueError, match="no key"):
            client.type_text("ab\0")
        with pytest.raises(ValueError, match="unknown key"):
            client.press("ctrl+nothing")
        client.press("ctrl+s")
        chord = [("key", True, 0xFFE3), ("key", True, 0x73), ("key", False, 0x73), ("key", False, 0xFFE3)]
        assert strokes(server, 4) == chord


def test_pointer(server: FakeRfbServer) -> None:
    with connect(server) as client:
        client.click(5, 6, interval=0)
        client.click(5, 6, button=3, double=True, interval=0)
        client.drag((0, 0), (10, 20), steps=2, interval=0)
        client.scroll(7, 8, -1, interval=0)
        client.scroll(7, 8, 2, interval=0)
        expected = [(0, 5, 6), (1, 5, 6), (0, 5, 6)]
        expected += [(0, 5, 6), (4, 5, 6), (0, 5, 6), (4, 5, 6), (0, 5, 6)]
        expected += [(0, 0, 0), (1, 0, 0), (1, 5, 10), (1, 10, 20), (0, 10, 20)]
        expected += [(0, 7, 8), (8, 7, 8), (0, 7, 8)]
        expected += [(0, 7, 8), (16, 7, 8), (0, 7, 8), (16, 7, 8), (0, 7, 8)]
        assert strokes(server, len(expected)) == [("pointer", *event) for event in expected]
        with pytest.raises(ValueError, match="no such place"):
            client.move(-1, 0)
        with pytest.raises(ValueError, match="no such place"):
            client.move(0, 70000)
        with pytest.raises(ValueError, match="no such button"):
            client.click(1, 1, button=9)


def test_a_server_that_takes_no_input_is_a_timeout(server: FakeRfbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.display.rfb._MESSAGE_SECONDS", 0.2)
    with connect(server) as client:
        server.behaviour.stalled.set()
        with pytest.raises(DisplayTimeout):
            client.cut_text(bytes(64 * 1024 * 1024))


# -- against the real thing, and against chance ---------------------------------------------------------------------------


def test_tigervnc(tmp_path: Path) -> None:
    with tigervnc(tmp_path, "pass1234") as (address, _):
        with pytest.raises(DisplayAuthError):
            RfbClient.connect(DisplayAddress(address.host, address.port, "wrong"))
        with RfbClient.connect(address) as client:
            assert client.size == (1024, 768)
            assert client.screenshot().size == (1024, 768)
            client.type_text("Müller!ß€", interval=0)
            client.click(100, 100)
            assert client.screenshot().size == (1024, 768)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tail=st.one_of(
        st.binary(max_size=200),
        st.lists(
            st.builds(
                lambda box, encoding, data: struct.pack(">BxHHHHHi", 0, 1, *box, encoding) + data,
                st.tuples(*[st.integers(0, 80)] * 4),
                st.sampled_from([0, 1, -223, 16]),
                st.binary(max_size=64),
            ),
            max_size=4,
        ).map(b"".join),
    )
)
def test_whatever_a_server_sends_only_display_errors_come_out(server: FakeRfbServer, tail: bytes) -> None:
    server.behaviour.script = INIT + struct.pack(">HH16xI", 64, 48, 0) + tail
    try:
        with connect(server, timeout=2) as client:
            client.screenshot(0.05)
    except DisplayError:
        pass


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.one_of(st.binary(max_size=100), st.binary(max_size=60).map(lambda tail: b"RFB 003.008\n" + tail)))
def test_whatever_a_handshake_is_only_display_errors_come_out(server: FakeRfbServer, script: bytes) -> None:
    server.behaviour.script = script
    with pytest.raises(DisplayError):
        connect(server, timeout=0.05)
