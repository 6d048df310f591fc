"""The flight recorder between raw clients and a stand-in machine: what passes, what is recorded, what the cut guarantees."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.display import session
from runner.display.keeping import BOUNDS, Bounds
from runner.display.messages import MAX_CUT_TEXT, MAX_ENCODINGS
from runner.display.recorder import MAX_CLIENTS, FlightRecorder, InputEvent, typed_text
from runner.display.rfb import DisplayAddress, DisplayAuthError, DisplayClosed, DisplayError, RfbClient
from tests.peers.rfb_server import FakeRfbServer, wait_until
from tests.runner.display_helpers import RawClient, cut_text, key, pointer, tigervnc

PASSWORD = "agent-pw"
SetUp = Callable[..., tuple[FlightRecorder, DisplayAddress]]


@pytest.fixture
def server() -> Iterator[FakeRfbServer]:
    with FakeRfbServer(password=b"machine") as server:
        yield server


@pytest.fixture
def set_up(server: FakeRfbServer, tmp_path: Path) -> Iterator[SetUp]:
    running: list[FlightRecorder] = []

    def start(**options: object) -> tuple[FlightRecorder, DisplayAddress]:
        upstream = DisplayAddress("127.0.0.1", server.port, "machine")
        path = tmp_path / f"input-{len(running)}.jsonl"
        recorder = FlightRecorder(upstream, log_path=path, password=PASSWORD, **options)  # type: ignore[arg-type]
        running.append(recorder)
        return recorder, recorder.start()

    yield start
    server.behaviour.stalled.clear()
    server.behaviour.hang_open = False
    for recorder in running:
        recorder.stop()


@pytest.fixture
def recorder(set_up: SetUp) -> FlightRecorder:
    return set_up()[0]


@pytest.fixture
def address(recorder: FlightRecorder) -> DisplayAddress:
    assert recorder._listener is not None
    return DisplayAddress("127.0.0.1", recorder._listener.getsockname()[1], PASSWORD)


def of_kind(recorder: FlightRecorder, kind: str) -> list[InputEvent]:
    return [event for event in recorder.events if event.kind == kind]


def log_of(tmp_path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (tmp_path / "input-0.jsonl").read_text("utf-8").splitlines()]


def test_it_listens_where_it_is_told(set_up: SetUp) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    _, address = set_up(listen_host="127.0.0.1", listen_port=port)
    assert (address.host, address.port) == ("127.0.0.1", port)
    with pytest.raises(OSError, match="in use"):
        set_up(listen_port=port)


# -- letting clients in -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "version", [b"RFB 003.003\n", b"RFB 003.005\n", b"RFB 003.007\n", b"RFB 003.008\n", b"RFB 003.889\n"]
)
def test_clients_of_every_version_get_the_machines_own_greeting(
    server: FakeRfbServer, address: DisplayAddress, version: bytes
) -> None:
    with RawClient(address, version) as client:
        assert client.result == 0
        assert (client.name, struct.unpack(">HH", client.init[:4])) == (b"fake", (64, 48))
        client.send(key(0x61))
        wait_until(lambda: server.inputs == [("key", True, 0x61)])


@pytest.mark.parametrize("version", [b"RFB 003.003\n", b"RFB 003.008\n"])
def test_a_wrong_password_never_reaches_the_machine(
    server: FakeRfbServer, recorder: FlightRecorder, address: DisplayAddress, version: bytes
) -> None:
    before = server.accepted
    with RawClient(DisplayAddress(address.host, address.port, "wrong"), version) as client:
        assert client.result == 1
        assert client.reason == (b"authentication failed" if version.endswith(b"8\n") else b"")
        assert client.is_closed()
    wait_until(lambda: of_kind(recorder, "authentication_failed"))
    assert server.accepted == before
    assert recorder.upstream_lost is None


def test_a_machine_that_refuses_our_password(server: FakeRfbServer, tmp_path: Path) -> None:
    wrong = FlightRecorder(DisplayAddress("127.0.0.1", server.port, "wrong"), log_path=tmp_path / "x", password="p")
    with pytest.raises(DisplayAuthError):
        wrong.start()
    wrong.stop()


@pytest.mark.parametrize("password", ["", "ninechars", "€"])
def test_passwords_the_protocol_cannot_hold_are_refused(tmp_path: Path, password: str) -> None:
    with pytest.raises(ValueError, match="1 to 8"):
        FlightRecorder(DisplayAddress("h", 1), log_path=tmp_path / "x", password=password)


def test_a_log_is_never_overwritten_and_the_start_leaves_nothing_behind(server: FakeRfbServer, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("evidence")
    recorder = FlightRecorder(
        DisplayAddress("127.0.0.1", server.port, "machine"), log_path=tmp_path / "x", password="p"
    )
    with pytest.raises(FileExistsError):
        recorder.start()
    wait_until(lambda: server.open_connections == 0)
    assert (tmp_path / "x").read_text() == "evidence"


def test_too_many_clients_are_turned_away(recorder: FlightRecorder, address: DisplayAddress) -> None:
    waiting = [socket.create_connection((address.host, address.port)) for _ in range(MAX_CLIENTS)]
    wait_until(lambda: len(recorder._sessions) == MAX_CLIENTS)
    with socket.create_connection((address.host, address.port)) as one_more:
        one_more.settimeout(10)
        assert one_more.recv(1) == b""
    wait_until(lambda: [event.reason for event in of_kind(recorder, "refused")] == ["too many clients"])
    for sock in waiting:
        sock.close()
    wait_until(lambda: not recorder._sessions)
    with RawClient(address) as client:
        assert client.result == 0


# -- what passes ----------------------------------------------------------------------------------------------------------


def test_a_client_that_sends_byte_by_byte(
    server: FakeRfbServer, recorder: FlightRecorder, address: DisplayAddress
) -> None:
    with RawClient(address, byte_by_byte=True) as client:
        client.send(
            key(0x61) + key(0x61, False) + pointer(1, 10, 20) + pointer(0, 11, 21) + cut_text("für".encode("latin-1"))
        )
        wait_until(lambda: len(server.inputs) == 5)
    assert server.inputs == [
        ("key", True, 0x61),
        ("key", False, 0x61),
        ("pointer", 1, 10, 20),
        ("pointer", 0, 11, 21),
        ("cut", b"f\xfcr"),
    ]
    wait_until(lambda: of_kind(recorder, "disconnected"))
    assert [event.kind for event in recorder.events] == [
        "connected", "key", "key", "pointer", "pointer", "clipboard", "disconnected",
    ]  # fmt: skip
    assert of_kind(recorder, "clipboard")[0].text == "für"


def test_only_encodings_that_keep_the_client_parseable_are_asked_for(
    server: FakeRfbServer, address: DisplayAddress
) -> None:
    asked = [
        7,
        16,
        5,
        1,
        0,
        -223,
        -239,
        -308,
        -312,
        -313,
        -258,
        -257,
        -316,
        -305,
        -309,
        0xC0A1E5CE - (1 << 32),
        12345,
        -32,
        -247,
    ]
    with RawClient(address) as client:
        client.send(struct.pack(f">BxH{len(asked)}i", 2, len(asked), *asked))
        client.send(struct.pack(">BxHi", 2, 1, -312))
        wait_until(lambda: () in server.encodings)
    assert server.encodings[-2:] == [(7, 16, 5, 1, 0, -223, -239, -32, -247), ()]


def test_the_screen_passes_untouched(server: FakeRfbServer, address: DisplayAddress) -> None:
    blob = bytes(range(256)) * 40_000
    with RawClient(address) as client:
        wait_until(lambda: server.open_connections == 2)
        sender = threading.Thread(target=server.send, args=[blob])
        sender.start()
        assert client.read(len(blob)) == blob
        sender.join(20)


def test_a_client_that_does_not_read_holds_the_machine_up_and_nothing_else(
    server: FakeRfbServer, recorder: FlightRecorder, address: DisplayAddress
) -> None:
    with RawClient(address) as lazy, RawClient(address) as other:
        wait_until(lambda: server.open_connections == 3)
        flood = 64 * 1024 * 1024
        sent = threading.Event()
        numbers = sorted(server._connections)
        to_lazy = server._connections[numbers[-2]]

        def flood_lazy() -> None:
            to_lazy.send(bytes(flood))
            sent.set()

        threading.Thread(target=flood_lazy, daemon=True).start()
        assert not sent.wait(0.5)  # back pressure: 64 MiB do not vanish into buffers
        other.send(key(0x62))
        lazy.send(key(0x61))
        wait_until(lambda: len(server.inputs) == 2)
        assert recorder.screenshot().size == (64, 48)
        recorder.cut()  # although the lazy client's screen thread is waiting
        assert sent.wait(20)
    assert recorder.upstream_lost is None


def test_two_clients_at_once(server: FakeRfbServer, recorder: FlightRecorder, address: DisplayAddress) -> None:
    with RawClient(address) as first, RawClient(address) as second:
        first.send(key(0x61))
        wait_until(lambda: len(server.inputs) == 1)
        second.send(key(0x62))
        wait_until(lambda: len(server.inputs) == 2)
        connections = {message.connection for message in server.received if message.input}
        assert len(connections) == 2
        wait_until(lambda: len(of_kind(recorder, "key")) == 2)
        assert [event.client for event in of_kind(recorder, "key")] == [1, 2]


def test_what_a_client_held_is_released_when_it_goes(
    server: FakeRfbServer, recorder: FlightRecorder, address: DisplayAddress
) -> None:
    with RawClient(address) as client:
        client.send(
            key(0xFFE3) + key(0x73) + pointer(1, 30, 40) + key(0x73, False) + key(0x78) + b"\x04\x01"
        )  # half a message
        wait_until(lambda: len(server.inputs) == 5)
    wait_until(lambda: of_kind(recorder, "disconnected"))
    released = [("key", False, 0x78), ("key", False, 0xFFE3), ("pointer", 0, 30, 40)]
    assert server.inputs[5:] == released
    assert [event.released for event in recorder.events[1:-1]] == [False] * 5 + [True] * 3


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\xf8" + bytes(20), "unknown client message type 248"),  # fence
        (b"\xff\0\0\1" + bytes(8), "unknown client message type 255"),  # QEMU
        (b"\x06\0\0\0" + struct.pack(">i", -12) + bytes(12), "clipboard"),  # extended clipboard
        (b"\x06\0\0\0" + struct.pack(">I", MAX_CUT_TEXT + 1), "clipboard"),
        (b"\x02\0" + struct.pack(">H", MAX_ENCODINGS + 1), "encodings"),
        (b"\0\0\0\0" + struct.pack(">BBBBHHHBBBxxx", 24, 24, 0, 1, 255, 255, 255, 16, 8, 0), "pixel format"),
        (b"\0\0\0\0" + struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 0, 255, 16, 8, 0), "pixel format"),
        (b"".join(key(0x1000000 + n) for n in range(0x100, 0x100 + session.MAX_HELD_KEYS + 1)), "held"),
    ],
)
def test_a_malformed_message_ends_that_client_only(
    server: FakeRfbServer, recorder: FlightRecorder, address: DisplayAddress, message: bytes, reason: str
) -> None:
    with RawClient(address) as good, RawClient(address) as bad:
        bad.send(key(0x61) + message + key(0x62))
        assert bad.is_closed()
        good.send(key(0x63))
        wait_until(lambda: ("key", True, 0x63) in server.inputs)
        assert ("key", True, 0x62) not in server.inputs
        wait_until(lambda: ("key", False, 0x61) in server.inputs)
        wait_until(lambda: of_kind(recorder, "disconnected"))
        assert reason in (of_kind(recorder, "disconnected")[0].reason or "")
    assert recorder.upstream_lost is None


def test_the_largest_clipboard_text_passes_whole_and_is_recorded_in_part(
    server: FakeRfbServer, recorder: FlightRecorder, address: DisplayAddress
) -> None:
    with RawClient(address) as client:
        client.send(cut_text(b"x" * MAX_CUT_TEXT))
        wait_until(lambda: server.inputs)
    assert server.inputs == [("cut", b"x" * MAX_CUT_TEXT)]
    wait_until(lambda: of_kind(recorder, "clipboard"))
    event = of_kind(recorder, "clipboard")[0]
    assert event.length == MAX_CUT_TEXT
    assert len(event.text or "") == 4096


def test_a_gate_sees_input_first_and_may_drop_it(server: FakeRfbServer, set_up: SetUp) -> None:
    seen: list[InputEvent] = []

    def gate(event: InputEvent) -> bool:
        seen.append(event)
        return event.name != "x"

    recorder, address = set_up(gate=gate)
    with RawClient(address) as client:
        client.send(key(0x78) + key(0x79))
        wait_until(lambda: server.inputs)
    assert server.inputs[0] == ("key", True, 0x79)
    assert [event.name for event in seen] == ["x", "y"]
    assert [event.name for event in of_kind(recorder, "key")][:1] == ["y"]


# -- the cut --------------------------------------------------------------------------------------------------------------


def test_nothing_arrives_after_the_cut_while_clients_keep_sending(
    server: FakeRfbServer, recorder: FlightRecorder, address: DisplayAddress
) -> None:
    stop = threading.Event()

    def hammer(client: RawClient) -> None:
        with client:
            try:
                while not stop.is_set():
                    client.send((key(0x61) + key(0x61, False) + pointer(1, 5, 5)) * 20)
            except OSError:
                pass

    threads = [threading.Thread(target=hammer, args=[RawClient(address)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(server.inputs) > 2000)
    recorder.cut()
    after = time.perf_counter()
    count = len(server.received)
    stop.set()
    time.sleep(0.3)
    inputs = [message for message in server.received[count:] if message.input]
    assert inputs == []
    assert all(message.t <= after for message in server.received if message.input)
    assert recorder.upstream_lost is None
    for connection in {message.connection for message in server.received if message.input}:
        mine = [message.input for message in server.received if message.connection == connection and message.input]
        buttons = [event[1] for event in mine if event[0] == "pointer"]
        keys = [event[1] for event in mine if event[0] == "key"]
        assert (buttons[-1], keys[-1]) == (0, False)  # released
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((address.host, address.port))
    assert recorder.events[-1].kind == "cut"
    assert recorder.screenshot().size == (64, 48)  # seeing goes on
    recorder.cut()
    for thread in threads:
        thread.join(20)


def test_an_event_the_gate_still_holds_is_lost_with_the_cut(server: FakeRfbServer, set_up: SetUp) -> None:
    holding, released = threading.Event(), threading.Event()

    def gate(_: InputEvent) -> bool:
        holding.set()
        return released.wait(20)

    recorder, address = set_up(gate=gate)
    client = RawClient(address)
    client.send(key(0x61))
    assert holding.wait(20)
    cutting = threading.Thread(target=recorder.cut)
    cutting.start()
    wait_until(lambda: recorder.is_cutting)
    released.set()
    cutting.join(20)
    assert (server.inputs, of_kind(recorder, "key"), recorder.upstream_lost) == ([], [], None)
    client.sock.close()


def test_what_is_recorded_is_what_arrived(
    server: FakeRfbServer, recorder: FlightRecorder, address: DisplayAddress
) -> None:
    client = RawClient(address)
    client.send(b"".join(pointer(n % 2, n, n) for n in range(3000)))
    wait_until(lambda: server.inputs)
    recorder.cut()
    recorded = [("pointer", event.buttons, event.x, event.y) for event in of_kind(recorder, "pointer")]
    assert recorded == server.inputs
    assert recorder.recorded().pointer == len(server.inputs)
    client.sock.close()


def test_a_client_in_the_middle_of_its_handshake_does_not_hold_the_cut_up(
    recorder: FlightRecorder, address: DisplayAddress
) -> None:
    with socket.create_connection((address.host, address.port)):
        wait_until(lambda: recorder._sessions)
        recorder.cut()
    assert not recorder._sessions
    assert recorder.upstream_lost is None


def test_a_machine_that_confirms_nothing_makes_the_run_unusable(
    server: FakeRfbServer, recorder: FlightRecorder, address: DisplayAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_END_SECONDS", 0.3)
    with RawClient(address) as client:
        client.send(key(0x61))
        wait_until(lambda: server.inputs)
        server.behaviour.stalled.set()
        client.send(key(0x62))
        recorder.cut()
    assert "confirm" in (recorder.upstream_lost or "")
    assert [event.kind for event in recorder.events if event.kind in ("cut", "upstream_lost")] == [
        "upstream_lost",
        "cut",
    ]


def test_a_machine_that_takes_nothing_more_does_not_hold_the_cut_up(
    server: FakeRfbServer, recorder: FlightRecorder, address: DisplayAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_END_SECONDS", "_INPUT_SECONDS", "_RELEASE_SECONDS"):
        monkeypatch.setattr(session, name, 0.3)
    server.behaviour.stalled.set()
    client = RawClient(address)
    client.sock.settimeout(0.5)
    with pytest.raises(OSError, match=r"timed out|reset|pipe"):
        client.send(cut_text(bytes(MAX_CUT_TEXT)) * 64)
    recorder.cut()
    assert recorder.upstream_lost is not None
    client.sock.close()


def test_cut_and_stop_without_start_and_again(server: FakeRfbServer, tmp_path: Path) -> None:
    never = FlightRecorder(DisplayAddress("127.0.0.1", server.port, "machine"), log_path=tmp_path / "x", password="p")
    never.cut()
    never.stop()
    assert (never.events, never.frames(), never.upstream_lost, never.log_error) == ([], [], None, None)
    with pytest.raises(DisplayClosed):
        never.screenshot()
    with pytest.raises(RuntimeError):
        never.start()
    with FlightRecorder(
        DisplayAddress("127.0.0.1", server.port, "machine"), log_path=tmp_path / "y", password="p"
    ) as used:
        used.start()
        with pytest.raises(RuntimeError):
            used.start()
    used.stop()
    with pytest.raises(DisplayClosed):
        used.screenshot()


def test_no_thread_stays(server: FakeRfbServer, set_up: SetUp) -> None:
    recorder, address = set_up()
    client = RawClient(address)
    client.send(key(0x61))
    recorder.stop()
    client.sock.close()
    names = ("display-", "frames", "input-log")
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith(names)]


# -- the machine dies -----------------------------------------------------------------------------------------------------


def test_the_death_of_the_machine_is_noticed_without_any_client(
    server: FakeRfbServer, recorder: FlightRecorder
) -> None:
    server.close()
    wait_until(lambda: recorder.upstream_lost)
    wait_until(lambda: of_kind(recorder, "upstream_lost"))
    with pytest.raises(DisplayError):
        recorder.screenshot()


def test_the_death_of_the_machine_ends_its_clients(
    server: FakeRfbServer, recorder: FlightRecorder, address: DisplayAddress
) -> None:
    with RawClient(address) as client:
        client.send(key(0x61))
        wait_until(lambda: server.inputs)
        server.close()
        assert client.is_closed()
    wait_until(lambda: recorder.upstream_lost)
    wait_until(lambda: of_kind(recorder, "disconnected"))
    assert "machine" in (of_kind(recorder, "disconnected")[0].reason or "")
    late = RawClient(address)
    assert late.result == 1
    assert b"machine" in late.reason


def test_a_lost_connection_to_a_living_machine_is_not_its_death(
    server: FakeRfbServer, recorder: FlightRecorder, address: DisplayAddress
) -> None:
    with RawClient(address) as client:
        wait_until(lambda: server.open_connections == 2)
        server.drop()
        assert client.is_closed()
    wait_until(lambda: of_kind(recorder, "disconnected"))
    wait_until(lambda: server.open_connections == 1)  # the watcher is back
    with RawClient(address) as client:
        client.send(key(0x61))
        wait_until(lambda: server.inputs)
    assert recorder.upstream_lost is None


# -- the log --------------------------------------------------------------------------------------------------------------


def test_the_log_file(server: FakeRfbServer, set_up: SetUp, tmp_path: Path) -> None:
    recorder, address = set_up()
    with RawClient(address) as client:
        client.send(key(0xE4) + key(0xE4, False) + pointer(5, 1, 2) + cut_text(b"hi"))
        wait_until(lambda: len(server.inputs) == 4)
        wait_until(
            lambda: len((tmp_path / "input-0.jsonl").read_text("utf-8").splitlines()) == 6
        )  # written as it happens
    recorder.stop()
    start, *records, end = log_of(tmp_path)
    assert start["record"] == "start"
    assert str(start["began"]).endswith("+00:00")
    assert [record["kind"] for record in records] == [
        "connected", "key", "key", "pointer", "clipboard", "pointer", "disconnected", "cut",
    ]  # fmt: skip
    assert {k: v for k, v in records[1].items() if k != "t"} == {
        "kind": "key", "client": 1, "down": True, "keysym": 0xE4, "name": "ä",
    }  # fmt: skip
    assert records[2]["down"] is False
    assert records[5]["released"] is True
    assert (end["record"], end["dropped"]) == ("end", 0)
    assert (tmp_path / "input-0.jsonl").stat().st_mode & 0o077 == 0


def test_the_log_is_bounded_and_says_so(
    server: FakeRfbServer, set_up: SetUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.display.inputlog.Bounds", lambda: Bounds({**BOUNDS, "button": 50}))
    recorder, address = set_up()
    with RawClient(address) as client:
        client.send(b"".join(pointer(n % 2, n, n) for n in range(1, 201)) + key(0x61))
        wait_until(lambda: len(server.inputs) == 201)
    recorder.stop()
    records = log_of(tmp_path)
    kinds = [record.get("kind") for record in records]
    assert (kinds.count("pointer"), kinds.count("log_full"), kinds.count("key")) == (50, 1, 2)
    assert kinds[-2] == "cut"
    assert (records[-1]["dropped"], records[-1]["not_kept"]) == (150, {"pointer": 150})
    recorded = recorder.recorded()
    assert (recorded.keys, recorded.pointer, recorded.not_kept) == (1, 200, {"pointer": 150})


def test_secrets_are_not_stored(server: FakeRfbServer, set_up: SetUp, tmp_path: Path) -> None:
    secret = "Pa$$wörd1"
    recorder, address = set_up(secrets=[secret, ""])
    with RfbClient.connect(address) as client:
        client.type_text(f"user{secret}\nafter", interval=0)
        client.cut_text(f"x{secret}y".encode("latin-1"))
        client.cut_text(f"x{secret}y".encode())
        wait_until(lambda: len([event for event in server.inputs if event[0] == "cut"]) == 2)
    recorder.stop()
    assert "".join(text for _, _, text in typed_text(recorder.events)) == f"user{'•' * len(secret)}⏎after"
    assert [event.text for event in of_kind(recorder, "clipboard")] == ["x•y", "x•y"]
    raw = (tmp_path / "input-0.jsonl").read_bytes()
    assert secret.encode() not in raw
    names = [str(record.get("name")) for record in log_of(tmp_path) if record.get("down")]
    assert set(names) & set(secret) <= set("user") | set("after")
    assert "".join(name for name in names if len(name) == 1) == f"user{'•' * len(secret)}after"
    typed = [event for event in server.inputs if event[:2] == ("key", True)]
    assert ("key", True, ord("$")) in typed  # the machine got it


def test_with_secrets_the_log_lags_no_more_than_two_seconds(
    set_up: SetUp, tmp_path: Path, server: FakeRfbServer
) -> None:
    moment = [100.0]
    recorder, address = set_up(secrets=["hunter2"], now=lambda: moment[0])
    with RawClient(address) as client:
        client.send(key(0x61))
        wait_until(lambda: server.inputs)
        time.sleep(0.3)
        assert not of_kind(recorder, "key")
        moment[0] += 1.9
        wait_until(lambda: of_kind(recorder, "key"))


# -- against the real thing, and against chance ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def typing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FlightRecorder, RfbClient]]:
    path = tmp_path_factory.mktemp("typing") / "input.jsonl"
    with FakeRfbServer() as server:
        recorder = FlightRecorder(DisplayAddress("127.0.0.1", server.port), log_path=path, password=PASSWORD)
        with recorder, RfbClient.connect(recorder.start()) as client:
            yield recorder, client


@settings(max_examples=60, deadline=None)
@given(
    text=st.text(st.one_of(st.characters(exclude_categories=("Cc", "Cs")), st.sampled_from("\n\tA!€ß")), max_size=40)
)
def test_any_typed_text_is_reconstructed(typing: tuple[FlightRecorder, RfbClient], text: str) -> None:
    recorder, client = typing
    before = len(recorder.events)
    client.type_text(text, interval=0)
    client.press("F12")
    wait_until(
        lambda: recorder.events[before:] and recorder.events[-1].name == "F12" and recorder.events[-1].down is False
    )
    pieces = typed_text(recorder.events[before:])
    assert "".join(piece for _, _, piece in pieces) == text.replace("\n", "⏎").replace("\t", "⇥") + "[F12]"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200), after=st.booleans())
def test_whatever_a_client_sends_the_recorder_goes_on(
    recorder: FlightRecorder, address: DisplayAddress, data: bytes, after: bool
) -> None:
    if after:
        with RawClient(address) as client, contextlib.suppress(OSError):
            client.send(data)
    else:
        with socket.create_connection((address.host, address.port)) as sock:
            sock.sendall(data)
    wait_until(lambda: not recorder._sessions)
    assert recorder.upstream_lost is None


def test_tigervnc_behind_the_recorder(tmp_path: Path) -> None:
    with tigervnc(tmp_path, "machine1") as (upstream, _):
        recorder = FlightRecorder(upstream, log_path=tmp_path / "input.jsonl", password=PASSWORD)
        with recorder:
            address = recorder.start()
            with pytest.raises(DisplayAuthError):
                RfbClient.connect(DisplayAddress(address.host, address.port, "wrong"))
            with RfbClient.connect(address) as client, RfbClient.connect(address, shared=False) as other:
                assert client.screenshot().size == other.screenshot().size == (1024, 768)
                client.type_text("Müller, Jürgen!\n", interval=0)
                wait_until(lambda: len(of_kind(recorder, "key")) == 2 * len("Müller, Jürgen!\n") + 2 * len("MJ!"))
                other.key(0xFFE3, True)
                assert other.screenshot().size == (1024, 768)
                recorder.cut()
                with pytest.raises(DisplayClosed):
                    client.screenshot()
            assert recorder.screenshot().size == (1024, 768)
        assert recorder.upstream_lost is None
        assert "".join(text for _, _, text in typed_text(recorder.events)) == "Müller, Jürgen!⏎"
        assert [event.keysym for event in recorder.events if event.released] == [0xFFE3]
        assert [frame.reason for frame in recorder.frames()] == ["first"]
