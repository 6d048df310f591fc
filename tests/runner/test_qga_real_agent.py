"""The guest against QEMU's own agent, with a Wine drive in the guest's part: files, programs, quoting, the user's session."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path, PureWindowsPath

import pytest

from contracts.schema import DbfTable, FileTree, Observable
from runner.capture import take
from runner.guests.base import GuestNotFound, Unreadable
from runner.guests.dialects import WineDialect
from runner.guests.probe import ProbeError, parse
from runner.guests.qga import PROBE, QgaGuest, install_probe
from runner.machines import recipes
from runner.machines.images import FOLDER
from runner.machines.wine import WineCheckpoint
from tests.peers.guest_agent import Meddling, channel_to, content_of, running_agent, wine_dialect
from validators.snapshot import UnreadableState

pytestmark = pytest.mark.machine

USAGE, RESULT_LOST = 0x20000003, 0x20000007


@cache
def built(name: str = "lpprobe") -> Path:
    """A build of the probe, or of the program with windows to look at."""
    return recipes.built(FOLDER / "probe", f"build/x86_64/{name}.exe")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guest")


@pytest.fixture(scope="module")
def dialect(folder: Path, checkpoint: WineCheckpoint) -> Iterator[WineDialect]:
    with wine_dialect(folder, checkpoint.prefix, resident=True) as made:
        yield made


@pytest.fixture(scope="module")
def channel(folder: Path) -> Iterator[Meddling]:
    with running_agent(folder) as socket:
        way = channel_to(socket)
        yield Meddling(way)
        way.close()


@pytest.fixture(scope="module")
def guest(channel: Meddling, dialect: WineDialect) -> Iterator[QgaGuest]:
    """With a probe that stays."""
    made = QgaGuest(channel, dialect)
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain(channel: Meddling, dialect: WineDialect) -> QgaGuest:
    """With a probe that is started for each request."""
    return QgaGuest(channel, replace(dialect, scratch=None))


@pytest.fixture(scope="module")
def drive(dialect: WineDialect) -> Path:
    return Path(dialect.drive)


def test_the_probe_is_put_in_its_place_and_replaced_when_it_is_another(guest: QgaGuest, drive: Path) -> None:
    there = drive / "legacyproof" / "lpprobe.exe"
    there.write_bytes(b"MZ, an old one")
    install_probe(guest, built().read_bytes())
    assert there.read_bytes() == built().read_bytes()
    guest.ping()


NAMES = [
    r"C:\Ablage Ä\mit  zwei Blanks\größe ß.txt",
    "C:\\" + "\\".join(["tief" * 12] * 5) + ".txt",
    r"C:\a;b&c %PATH% '^!.txt",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [0, 1, 65_537, 2_500_000])
def test_files_of_any_name_and_size_come_back(guest: QgaGuest, drive: Path, name: str, size: int) -> None:
    path = PureWindowsPath(name)
    content = random.Random(size).randbytes(size)
    guest.write(path, content)
    assert drive.joinpath(*path.parts[1:]).read_bytes() == content
    assert guest.read(path, limit=size) == content
    assert guest.read(PureWindowsPath(str(path).upper().replace("SS", "ß")), limit=size) == content
    if size:
        with pytest.raises(Unreadable):
            guest.read(path, limit=size - 1)
    assert not list((drive / "legacyproof").glob("put-*"))


def test_overwriting_keeps_nothing_of_the_old(guest: QgaGuest, drive: Path) -> None:
    path = PureWindowsPath(r"C:\alt.txt")
    guest.write(path, b"a long old text")
    guest.write(path, b"new")
    assert (drive / "alt.txt").read_bytes() == b"new"


@pytest.mark.parametrize("path", [r"C:\nichts", r"C:\nichts\x.txt", r"C:\windows\win.ini\x"])
def test_what_is_not_there_is_positively_not_there(guest: QgaGuest, path: str) -> None:
    with pytest.raises(GuestNotFound):
        guest.read(PureWindowsPath(path), limit=10)


def test_what_lies_on_a_drive_that_is_not_there_is_unreadable_and_never_gone(guest: QgaGuest) -> None:
    """A letter that the user has mapped is not there for a service; what is on it may be full of rows."""
    with pytest.raises(Unreadable, match="no such drive"):
        guest.read(PureWindowsPath(r"Q:\DATA\PATIENT.DBF"), limit=10)
    observe: dict[str, Observable] = {"table": DbfTable(dbf=r"Q:\DATA\PATIENT.DBF"), "tree": FileTree(files=r"Q:\DATA")}
    for state in take(guest, observe).values():
        assert isinstance(state, UnreadableState)
        assert "drive" in state.reason or "could not tell" in state.reason


def test_a_folder_is_no_file(guest: QgaGuest) -> None:
    with pytest.raises(Unreadable):
        guest.read(PureWindowsPath(r"C:\windows"), limit=1 << 20)


def test_an_answer_larger_than_a_reply(guest: QgaGuest, plain: QgaGuest, drive: Path) -> None:
    for number in range(4500):
        path = drive / "viele" / f"{number:04}-{'x' * 200}.dat"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    result = plain.probe("files", r"C:\viele")
    assert result.count == 4501
    assert guest.probe("files", r"C:\viele").digest == result.digest
    assert sum(file.stat().st_size for file in (drive / "legacyproof").glob("answer-*")) > 1 << 20


# ---- the probe that stays ------------------------------------------------------------------------------------------------


def test_it_is_started_once_and_answers_the_rest(guest: QgaGuest, channel: Meddling) -> None:
    first = guest.probe("version").header
    channel.sent.clear()
    assert [guest.probe("version").header.pid for _ in range(3)] == [first.pid] * 3
    assert "guest-exec" not in channel.sent


def test_when_it_has_died_another_way_is_taken_and_then_a_new_one(
    guest: QgaGuest, channel: Meddling, dialect: WineDialect
) -> None:
    first = guest.probe("version").header
    resident = guest._resident
    assert resident is not None
    assert resident._running is not None
    os.kill(resident._running.pid, signal.SIGKILL)
    second, third, fourth = (guest.probe("version", timeout=60).header for _ in range(3))
    assert len({first.pid, second.pid, third.pid}) == 3
    assert fourth.pid == third.pid


@pytest.mark.parametrize("lost", ["guest-file-write", "guest-file-flush", "guest-file-read"])
def test_lost_replies_on_its_way_do_not_matter(guest: QgaGuest, channel: Meddling, drive: Path, lost: str) -> None:
    channel.lose(lost)
    assert (
        guest.probe("hash", r"C:\windows\win.ini").files[0].sha256
        == sha256((drive / "windows/win.ini").read_bytes()).hexdigest()
    )
    guest.start(["cmd", "/c", rf"echo x>>C:\{lost}.txt"])
    assert content_of(drive / f"{lost}.txt") == b"x\r\n"


def test_a_program_that_runs_long_keeps_nobody_waiting(guest: QgaGuest, channel: Meddling, drive: Path) -> None:
    guest.probe("version")
    shutil.copy(built("specimen"), drive / "lang.exe")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(guest.run, [r"C:\lang.exe", "hang"], timeout=10)
        while not any(process.name == "lang.exe" for process in guest.probe("processes").processes):
            assert not running.done()
        assert not running.done()
        with pytest.raises(TimeoutError):
            running.result(120)


def test_it_is_ended_with_its_guest(channel: Meddling, dialect: WineDialect) -> None:
    short = QgaGuest(channel, dialect)
    short.probe("version")
    resident = short._resident
    assert resident is not None
    running = resident._running
    assert running is not None
    short.close()
    assert not Path(f"/proc/{running.pid}/cmdline").exists() or not Path(f"/proc/{running.pid}/cmdline").read_bytes()
    assert not Path(resident._folder).exists()


# ---- programs ----------------------------------------------------------------------------------------------------------


def test_exit_statuses_and_both_streams(guest: QgaGuest) -> None:
    done = guest.run(["cmd", "/c", "echo oben& echo unten>&2& exit 7"], timeout=60)
    assert (done.status, done.stdout, done.stderr) == (7, b"oben\r\n", b"unten\r\n")


def test_output_is_bounded_and_the_rest_thrown_away(guest: QgaGuest) -> None:
    done = guest.run([str(PROBE), "files", r"C:\windows\system32"], timeout=60, limit=1000)
    assert (done.status, len(done.stdout)) == (0, 1000)


def test_a_program_is_ended_with_its_children(guest: QgaGuest, drive: Path) -> None:
    shutil.copy(built("specimen"), drive / "specimen.exe")
    inner = [str(PROBE), "run", "--token", "inner", "--", r"C:\specimen.exe", "hang"]
    for program in (["cmd", "/c", r"C:\specimen.exe hang"], inner):
        with pytest.raises(TimeoutError):
            guest.run(program, timeout=3)
    assert (drive / "legacyproof" / "runs" / "inner.claim").exists(), "it did not come so far"
    left = [process.name for process in guest.probe("processes").processes]
    assert "specimen.exe" not in left
    assert left.count("lpprobe.exe") == 2, "the one that keeps Wine up, and the one that answers"


def test_a_program_that_is_not_there_or_is_a_batch_file(guest: QgaGuest) -> None:
    with pytest.raises(ProbeError) as caught:
        guest.run([r"C:\nichts.exe"], timeout=20)
    assert caught.value.code == 2
    with pytest.raises(ProbeError, match=r"cmd\.exe") as caught:
        guest.start([r"C:\x.bat", "a"])
    assert caught.value.code == USAGE


def test_a_started_program_is_not_waited_for_and_has_its_folder(guest: QgaGuest, drive: Path) -> None:
    (drive / "Hier da").mkdir()
    guest.start(["cmd", "/c", "echo x> hier.txt& notepad"], cwd=PureWindowsPath(r"C:\Hier da"))
    assert content_of(drive / "Hier da" / "hier.txt") == b"x\r\n"
    # It holds none of the agent's pipes, else the next call would not end.
    guest.probe("version")


def test_arguments_reach_a_program_as_they_are(guest: QgaGuest) -> None:
    """By Windows' own rules of quoting: the probe joins them, Wine's C library takes them apart, another probe tells them."""
    rng = random.Random(5)
    alphabet = '\\\\\\""" \tabä€😀%^&|<>()!\'*?;,=-/'
    texts = [
        "",
        " ",
        '"',
        "\\",
        '\\"',
        'a\\\\"b',
        "a b\\",
        "a b\\\\",
        '""',
        "%PATH%",
        "\t",
        "C:\\a b\\",
        "\n",
        "--id",
        "*",
    ]
    texts += ["".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 12))) for _ in range(200)]
    # A root key that does not exist is answered with the path as it was given.
    wanted = [f"HKXX\\{number}{text}" for number, text in enumerate(texts)]
    done = guest.run([str(PROBE), "registry", "--", *wanted], timeout=60)
    assert done.status == 0
    assert [root.path for root in parse(done.stdout, expect_id="").roots] == wanted


# ---- at most once ------------------------------------------------------------------------------------------------------


def test_a_token_runs_once_and_tells_the_same_ever_after(guest: QgaGuest, drive: Path) -> None:
    request = ["run", "--token", "einmal", "--", "cmd", "/c", r"echo x>>C:\einmal.txt& echo da& exit 3"]
    first, second = (guest._ask(request, time.monotonic() + 60) for _ in range(2))
    assert first.ran == second.ran
    assert (first.stdout, second.stdout) == (b"da\r\n", b"da\r\n")
    assert (drive / "einmal.txt").read_bytes() == b"x\r\n"


def test_a_token_whose_result_was_damaged_or_lost_is_never_run_again(guest: QgaGuest, drive: Path) -> None:
    runs = drive / "legacyproof" / "runs"
    request = ["start", "--token", "kaputt", "--", "cmd", "/c", r"echo x>>C:\kaputt.txt"]
    runs.mkdir(exist_ok=True)
    (runs / "kaputt.claim").touch()
    (runs / "kaputt.done").write_bytes(b"lprun-1\0 nonsense")
    with pytest.raises(ProbeError) as caught:
        guest._ask(request, time.monotonic() + 60)
    assert (caught.value.status, caught.value.code) == ("error", RESULT_LOST)
    assert not (drive / "kaputt.txt").exists()


@pytest.mark.parametrize("token", ["", "../x", "a" * 65, "a b", "ä"])
def test_a_token_is_a_plain_name(guest: QgaGuest, token: str) -> None:
    with pytest.raises(ProbeError) as caught:
        guest._ask(["run", "--token", token, "--", "cmd"], time.monotonic() + 60)
    assert caught.value.code == USAGE


# ---- the probe on its own ----------------------------------------------------------------------------------------------


def test_putting_a_file_that_is_not_what_was_sent_leaves_the_old_one(guest: QgaGuest, drive: Path) -> None:
    (drive / "ziel.txt").write_bytes(b"old")
    (drive / "quelle.txt").write_bytes(b"new")
    with pytest.raises(ProbeError, match="not what it should be"):
        guest._ask(["put", "--sha256", "0" * 64, "--", r"C:\quelle.txt", r"C:\ziel.txt"], time.monotonic() + 60)
    assert (drive / "ziel.txt").read_bytes() == b"old"


@pytest.mark.parametrize(
    "line", [b"", b"no json\n", b"[]\n", b'["version"]\n', b'["version","--id","a"]', b"x" * 70_000]
)
def test_a_wrong_request_to_ask_is_answered(guest: QgaGuest, dialect: WineDialect, line: bytes) -> None:
    command = dialect.program([str(PROBE), "ask"])
    done = guest._agent.execute(command, data=line or b"\n", deadline=time.monotonic() + 60)
    with pytest.raises(ProbeError) as caught:
        guest._answer(done, "", "", time.monotonic() + 10)
    assert done.status == 2
    assert "(0x20000003)" in caught.value.reason or caught.value.code == USAGE
