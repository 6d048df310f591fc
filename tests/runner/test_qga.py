"""The guest behind QEMU's agent: what it asks for, what it asks again, and what it believes."""

from __future__ import annotations

import base64
import hashlib
import time
from pathlib import PureWindowsPath
from typing import Any

import pytest

from runner.guests import agent, qga
from runner.guests.base import Completed, Guest, GuestLost, GuestNotFound, Unreadable
from runner.guests.channel import AgentError, ChannelTimeout
from runner.guests.dialects import WineDialect
from runner.guests.probe import ProbeError
from runner.guests.qga import WINDOWS, QgaGuest, install_probe
from tests.peers.fake_agent import FakeAgent, refused, spoken
from tests.runner.test_probe_protocol import ROOT, dump, piece, read_file

WINE = WineDialect()
TABLE = PureWindowsPath(r"C:\DSWIN\DATA\PATIENT.DBF")
NATIVE = "/mnt/c/DSWIN/DATA/PATIENT.DBF"
PROBE = "/mnt/c/legacyproof/lpprobe.exe"
DEAD = [ChannelTimeout("nobody there")] * 9


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "_FIRST_PAUSE", 0.001)


def wine(fake: FakeAgent) -> QgaGuest:
    return QgaGuest(fake, WINE)


def reading(content: bytes) -> Any:
    """A probe that reads any file as this content."""
    return lambda request: (0, spoken(request, piece(0, content), read_file(content)))


def test_it_is_a_guest() -> None:
    assert isinstance(wine(FakeAgent()), Guest)


# ---- the probe ---------------------------------------------------------------------------------------------------------


def test_requests_go_by_standard_input_so_that_nothing_is_quoted() -> None:
    fake = FakeAgent(lambda request: (0, spoken(request, ROOT)))
    wine(fake).probe("files", "--hash", r'C:\Größe "x" %TEMP% \ ')
    (request,) = fake.ran
    assert request[0] == "files"
    assert request[3:] == ["--hash", r'C:\Größe "x" %TEMP% \ ']
    (arguments,) = [about["arg"] for name, about in fake.sent if name == "guest-exec"]
    assert arguments[3:] == [
        "/legacyproof/windows",
        r"C:\legacyproof\lpprobe.exe",
        "ask",
        r"C:\legacyproof\answer-1.jsonl",
    ]


def test_what_acts_cannot_be_asked_as_if_it_read() -> None:
    with pytest.raises(ValueError, match="acts"):
        wine(FakeAgent()).probe("run", "--token", "x", "--", "format.exe")


@pytest.mark.parametrize("plan", ["lose", "drop"])
@pytest.mark.parametrize("name", ["guest-exec", "guest-exec-status"])
def test_reading_is_asked_again_when_a_reply_was_lost(name: str, plan: str) -> None:
    fake = FakeAgent(script={name: [plan]})
    assert wine(fake).probe("version").header.computer == "PRAXIS-1"
    assert len({request[2] for request in fake.ran}) == len(fake.ran), "an id was used twice"


def test_a_lost_question_whether_it_has_ended_is_asked_again_without_a_second_start() -> None:
    fake = FakeAgent(script={"guest-exec-status": ["drop", {"exited": False}, "drop"]})
    wine(fake).probe("version")
    assert fake.names() == ["guest-exec", *["guest-exec-status"] * 4]


def test_an_answer_to_another_request_is_not_taken() -> None:
    fake = FakeAgent(lambda request: (0, spoken([request[0], "--id", "other"])))
    with pytest.raises(ProbeError, match="another request"):
        wine(fake).probe("version")
    assert len(fake.ran) == 3


def test_what_the_probe_itself_refuses_is_not_asked_again() -> None:
    fake = FakeAgent(lambda request: (1, refused(request, 5)))
    with pytest.raises(ProbeError) as caught:
        wine(fake).probe("registry", "HKLM")
    assert (caught.value.status, caught.value.code, len(fake.ran)) == ("error", 5, 1)


def test_a_probe_that_is_not_there_says_what_the_launcher_said() -> None:
    fake = FakeAgent()
    fake.script["guest-exec-status"] = [
        {"exited": True, "exitcode": 127, "err-data": base64.b64encode(b"sh: not found").decode()}
    ] * 3
    with pytest.raises(Unreadable, match="status 127 sh: not found"):
        wine(fake).probe("version")


def test_a_request_too_long_is_refused_with_a_reason() -> None:
    with pytest.raises(Unreadable, match="cannot be asked"):
        wine(FakeAgent()).probe("files", "x" * 70_000)


def test_an_answer_too_large_for_a_reply_is_fetched_in_chunks_of_a_mebibyte() -> None:
    fake = FakeAgent()
    content = bytes(range(256)) * 9000

    def probe(request: list[str]) -> tuple[int, bytes]:
        whole = spoken(request, piece(0, content), read_file(content))
        native = "/mnt/c/legacyproof/answer-1.jsonl"
        fake.files[native] = whole
        note = {"r": "spilled", "path": r"C:\legacyproof\answer-1.jsonl", "bytes": len(whole)}
        return 0, dump(note | {"sha256": hashlib.sha256(whole).hexdigest()})

    fake.probe = probe
    assert wine(fake).probe("read", "--", "C:\\X").data == content
    assert [about["count"] for name, about in fake.sent if name == "guest-file-read"][:2] == [1 << 20, 1 << 20]
    assert fake.open == {}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"path": r"C:\Windows\win.ini"}, "another file"),
        ({"sha256": "0" * 64}, "did not arrive"),
        ({"bytes": 3}, "more than the 3"),
        ({"bytes": 1 << 40}, "bounds"),
        ({"bytes": "many"}, "bounds"),
        ({"sha256": None}, "hash"),
    ],
)
def test_a_false_note_of_a_large_answer_is_not_believed(change: dict[str, Any], reason: str) -> None:
    fake = FakeAgent()

    def probe(request: list[str]) -> tuple[int, bytes]:
        whole = spoken(request)
        number = int(request[2].rpartition("-")[2])
        path = rf"C:\legacyproof\answer-{number % 8}.jsonl"
        fake.files[path.replace("C:", "/mnt/c").replace("\\", "/")] = whole
        note = {"r": "spilled", "path": path, "bytes": len(whole), "sha256": hashlib.sha256(whole).hexdigest()}
        return 0, dump(note | change)

    fake.probe = probe
    with pytest.raises(Unreadable, match=reason):
        wine(fake).probe("version")
    assert fake.open == {}


NONSENSE: list[Any] = [None, 7, "x", [], {}, {"exited": 1}, {"exited": True}, {"exited": True, "exitcode": "0"}]
NONSENSE += [{"exited": True, "exitcode": 0, "out-data": "###"}, {"exited": True, "exitcode": 0, "out-data": 5}]
NONSENSE += [{"exited": True, "exitcode": 1 << 70}, {"exited": True, "exitcode": 0, "out-data": "ü"}]


@pytest.mark.parametrize("reply", NONSENSE, ids=repr)
def test_nonsense_from_the_agent_is_unreadable(reply: object) -> None:
    fake = FakeAgent(script={"guest-exec-status": [reply if reply is not None else False] * 3})
    if reply in ({}, {"exited": False}):  # says that it still runs
        with pytest.raises(Unreadable, match="in time"):
            QgaGuest(FakeAgent(script={"guest-exec-status": [{}] * 500}), WINE).probe("version", timeout=0.2)
        return
    with pytest.raises(Unreadable):
        wine(fake).probe("version")


@pytest.mark.parametrize("reply", [{}, {"pid": "1"}, [], 3, {"pid": True}], ids=repr)
def test_a_start_without_a_process_is_unreadable(reply: object) -> None:
    with pytest.raises(Unreadable, match="guest-exec"):
        wine(FakeAgent(script={"guest-exec": [reply]})).probe("version")


# ---- silence -----------------------------------------------------------------------------------------------------------


def test_an_agent_that_answers_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qga, "_PING", 0.1)
    fake = FakeAgent(script={"guest-exec": list(DEAD), "guest-ping": list(DEAD)})
    with pytest.raises(GuestLost, match="does not answer"):
        wine(fake).probe("version", timeout=1)


def test_an_agent_that_is_slow_but_lives_makes_the_reading_unreadable() -> None:
    with pytest.raises(Unreadable, match="in time"):
        wine(FakeAgent(script={"guest-exec": list(DEAD)})).probe("version")


def test_a_machine_that_is_gone_is_lost_at_once() -> None:
    fake = FakeAgent(script={"guest-exec": [GuestLost("gone")]})
    with pytest.raises(GuestLost):
        wine(fake).probe("version")
    assert fake.names() == ["guest-exec"]


def test_ping_needs_an_answer() -> None:
    wine(FakeAgent()).ping()
    with pytest.raises(GuestLost):
        wine(FakeAgent(script={"guest-ping": list(DEAD)})).ping(timeout=0.1)


# ---- reading files -----------------------------------------------------------------------------------------------------


def test_on_windows_files_of_others_are_read_by_the_probe_only() -> None:
    """QEMU's agent opens them so that no program may write them meanwhile, and fails on those that are open for writing."""
    fake = FakeAgent(reading(b"abc"))
    assert QgaGuest(fake, WINDOWS).read(TABLE, limit=10) == b"abc"
    assert not any(name.startswith("guest-file") for name in fake.names())
    assert fake.ran[0][3:] == ["--max-bytes", "10", "--", str(TABLE)]


@pytest.mark.parametrize("code", [2, 3])
def test_on_windows_the_probe_says_that_there_is_none(code: int) -> None:
    with pytest.raises(GuestNotFound):
        QgaGuest(FakeAgent(lambda request: (1, refused(request, code))), WINDOWS).read(TABLE, limit=10)


@pytest.mark.parametrize("code", [5, 21, 32, 0x20000001, 0x20000008])
def test_on_windows_any_other_fault_is_unreadable(code: int) -> None:
    with pytest.raises(Unreadable):
        QgaGuest(FakeAgent(lambda request: (1, refused(request, code))), WINDOWS).read(TABLE, limit=10)


def test_under_wine_a_small_file_is_read_twice_and_its_handles_are_closed() -> None:
    fake = FakeAgent(files={NATIVE: b"x" * 1000})
    assert wine(fake).read(TABLE, limit=1000) == b"x" * 1000
    assert fake.names().count("guest-file-open") == 2
    assert (fake.open, fake.ran) == ({}, [])


def test_under_wine_a_large_file_is_checked_by_the_hash_that_the_guest_takes() -> None:
    content = bytes(range(251)) * 10_000
    fake = FakeAgent(files={NATIVE: content})
    fake.other = lambda path, arguments: (0, hashlib.sha256(fake.files[arguments[-1]]).hexdigest().encode() + b"  x\0")
    assert wine(fake).read(TABLE, limit=1 << 30) == content
    assert [about["count"] for name, about in fake.sent if name == "guest-file-read"] == [
        1 << 20,
        1 << 20,
        len(content) % (1 << 20),
    ]
    fake.other = lambda path, arguments: (0, b"0" * 64 + b"  x\0")
    with pytest.raises(Unreadable, match="changed"):
        wine(fake).read(TABLE, limit=1 << 30)


def test_a_file_that_changes_between_the_two_readings_is_unreadable() -> None:
    other = {"count": 4, "buf-b64": base64.b64encode(b"old!").decode(), "eof": False}
    with pytest.raises(Unreadable, match="changed"):
        wine(FakeAgent(files={NATIVE: b"new!"}, script={"guest-file-read": [other]})).read(TABLE, limit=100)


@pytest.mark.parametrize("plan", ["lose", "drop"])
@pytest.mark.parametrize("name", ["guest-file-open", "guest-file-seek", "guest-file-read", "guest-file-close"])
def test_lost_replies_do_not_shift_what_is_read(monkeypatch: pytest.MonkeyPatch, name: str, plan: str) -> None:
    monkeypatch.setattr(agent, "READ_CHUNK", 100)
    content = bytes(range(256)) * 4
    fake = FakeAgent(files={NATIVE: content}, script={name: [plan]})
    assert wine(fake).read(TABLE, limit=5000) == content


LIES: list[dict[str, Any]] = [
    {"count": 9, "buf-b64": "QUJD"},
    {"count": 3, "buf-b64": "QUJ"},
    {"count": 0, "buf-b64": "", "eof": True},
    {"count": 3},
    {"count": 3000, "buf-b64": base64.b64encode(b"x" * 3000).decode()},
    {"count": -1, "buf-b64": ""},
]


@pytest.mark.parametrize("lie", LIES, ids=repr)
def test_a_lying_read_is_unreadable_and_its_handle_closed(lie: dict[str, Any]) -> None:
    fake = FakeAgent(files={NATIVE: b"x" * 1000}, script={"guest-file-read": [lie]})
    with pytest.raises(Unreadable):
        wine(fake).read(TABLE, limit=5000)
    assert fake.open == {}


def test_a_file_too_large_is_not_transferred() -> None:
    fake = FakeAgent(files={NATIVE: b"x" * 1000})
    with pytest.raises(Unreadable, match="1000 bytes"):
        wine(fake).read(TABLE, limit=999)
    assert "guest-file-read" not in fake.names()
    assert fake.open == {}


def test_a_pipe_is_no_file() -> None:
    fake = FakeAgent(files={NATIVE: b""}, script={"guest-file-seek": [AgentError("GenericError", "Illegal seek")]})
    with pytest.raises(Unreadable, match="Illegal seek"):
        wine(fake).read(TABLE, limit=10)
    assert fake.open == {}


def test_absence_is_understood_behind_a_long_path_and_not_taken_from_a_path() -> None:
    long = PureWindowsPath("C:\\", *["ü" * 200] * 10)
    with pytest.raises(GuestNotFound):
        wine(FakeAgent(lambda request: (1, refused(request, 3)))).read(long, limit=10)
    misleading = AgentError("GenericError", "failed to open file '/mnt/c/No such file or directory': Permission denied")
    with pytest.raises(Unreadable, match="Permission denied"):
        wine(FakeAgent(script={"guest-file-open": [misleading]})).read(TABLE, limit=10)


def test_a_refusal_that_is_not_about_absence_is_unreadable() -> None:
    refusal = AgentError("GenericError", f"failed to open file '{NATIVE}': Permission denied")
    with pytest.raises(Unreadable, match="Permission denied"):
        wine(FakeAgent(script={"guest-file-open": [refusal]})).read(TABLE, limit=10)


@pytest.mark.parametrize("path", [str(TABLE).lower(), r"C:\DSWIN\DATA\PATIEN~1.DBF"])
def test_a_name_that_only_windows_knows_is_the_probes_to_read(path: str) -> None:
    fake = FakeAgent(reading(b"abc"), files={"/mnt/c/Dswin/data/Patient.dbf": b"abc"})
    assert wine(fake).read(PureWindowsPath(path), limit=10) == b"abc"


@pytest.mark.parametrize("code", [2, 3])
def test_absence_is_believed_only_of_windows(code: int) -> None:
    fake = FakeAgent(lambda request: (1, refused(request, code)))
    with pytest.raises(GuestNotFound):
        wine(fake).read(TABLE, limit=10)


@pytest.mark.parametrize("code", [5, 32, 123, 0x20000008])
def test_a_file_that_the_agent_does_not_find_and_windows_cannot_read_is_unreadable(code: int) -> None:
    with pytest.raises(Unreadable):
        wine(FakeAgent(lambda request: (1, refused(request, code)))).read(TABLE, limit=10)


@pytest.mark.parametrize(
    "path", [r"D:\X.DBF", r"\\server\share\X.DBF", r"C:\DATA\..\..\etc\passwd", "C:X.DBF", r"\X.DBF"]
)
def test_what_lies_elsewhere_is_left_to_the_probe(path: str) -> None:
    fake = FakeAgent(reading(b"abc"))
    assert wine(fake).read(PureWindowsPath(path), limit=10) == b"abc"
    assert "guest-file-open" not in fake.names()


# ---- writing -----------------------------------------------------------------------------------------------------------


def putting(fake: FakeAgent) -> Any:
    """A probe that puts files, as the real one does."""

    def probe(request: list[str]) -> tuple[int, bytes]:
        source, target = request[-2:]
        content = fake.files[source.replace("C:", "/mnt/c").replace("\\", "/")]
        fake.files[target] = content
        return 0, spoken(request, read_file(content))

    return probe


@pytest.mark.parametrize("plan", [None, "lose", "drop"])
def test_writing_goes_in_chunks_of_64_kib_each_at_its_own_place(plan: str | None) -> None:
    content = bytes(range(256)) * 600
    fake = FakeAgent(script={"guest-file-write": [None, plan]})
    fake.probe = putting(fake)
    wine(fake).write(TABLE, content)
    assert fake.files[str(TABLE)] == content
    sizes = [len(base64.b64decode(about["buf-b64"])) for name, about in fake.sent if name == "guest-file-write"]
    assert sizes[:2] == [1 << 16, 1 << 16]
    assert fake.open == {}


def test_what_does_not_arrive_whole_is_unreadable() -> None:
    fake = FakeAgent(script={"guest-file-write": [{"count": 2, "eof": False}]})
    with pytest.raises(Unreadable, match="less"):
        wine(fake).write(TABLE, b"abc")
    assert fake.open == {}
    fake = FakeAgent(lambda request: (0, spoken(request, read_file(b"other"))))
    with pytest.raises(Unreadable, match="read back"):
        wine(fake).write(TABLE, b"abc")


# ---- programs ----------------------------------------------------------------------------------------------------------


def ran(status: int = 0, **changes: Any) -> dict[str, Any]:
    about = {"r": "ran", "pid": 5, "status": status, "timed_out": False, "stdout_cut": False, "stderr_cut": False}
    return about | changes


def output(stream: str, data: bytes, offset: int = 0) -> dict[str, Any]:
    return {"r": "output", "stream": stream, "offset": offset, "b64": base64.b64encode(data).decode()}


def test_exit_status_and_both_streams() -> None:
    records = [ran(0xC0000005), output("stdout", b"\x84\xe9"), output("stdout", b"x", 2), output("stderr", b"oh")]
    fake = FakeAgent(lambda request: (0, spoken(request, *records)))
    assert wine(fake).run(["a.exe", "b c"], timeout=5) == Completed(0xC0000005, b"\x84\xe9x", b"oh")
    assert fake.ran[0][5:] == ["--wait-ms", "5000", "--limit", "1048576", "--", "a.exe", "b c"]


def test_a_program_that_took_too_long_is_a_time_out() -> None:
    fake = FakeAgent(lambda request: (0, spoken(request, ran(1, timed_out=True))))
    with pytest.raises(TimeoutError):
        wine(fake).run(["a.exe"], timeout=5)


@pytest.mark.parametrize(
    "records",
    [
        [],
        [ran(), ran()],
        [output("stdout", b"x"), ran()],
        [ran(), output("stdin", b"x")],
        [ran(), output("stdout", b"x", 1)],
        [ran(status=-1)],
        [ran(timed_out=None)],
        [ran(), output("stdout", b"")],
    ],
)
def test_an_account_that_does_not_add_up_is_unreadable(records: list[dict[str, Any]]) -> None:
    with pytest.raises(Unreadable):
        wine(FakeAgent(lambda request: (0, spoken(request, *records)))).run(["a.exe"], timeout=5)


def test_a_program_is_asked_for_again_with_the_same_token_and_another_id() -> None:
    fake = FakeAgent(lambda request: (0, spoken(request, ran())), script={"guest-exec": ["lose"]})
    wine(fake).run(["a.exe"], timeout=5)
    first, second = fake.ran
    assert first[2] != second[2]
    assert first[3:] == second[3:]
    assert first[3] == "--token"


def test_a_start_names_folder_and_arguments() -> None:
    fake = FakeAgent(lambda request: (0, spoken(request, {"r": "started", "pid": 9})))
    wine(fake).start(["a.exe", ""], cwd=PureWindowsPath("C:\\D"))
    assert fake.ran[0][5:] == ["--cwd", "C:\\D", "--", "a.exe", ""]
    with pytest.raises(Unreadable, match="without the program"):
        wine(FakeAgent(lambda request: (0, spoken(request)))).start(["a.exe"])


# ---- freezing and the clock --------------------------------------------------------------------------------------------


def test_freezing_and_thawing_tell_how_many_file_systems() -> None:
    fake = FakeAgent()
    assert wine(fake).freeze() == fake.frozen == 2
    assert (wine(fake).thaw(), fake.frozen) == (2, 0)


@pytest.mark.parametrize("name", ["guest-fsfreeze-freeze", "guest-fsfreeze-thaw", "guest-fsfreeze-status"])
def test_lost_replies_of_a_freeze_are_settled_by_its_state(name: str) -> None:
    fake = FakeAgent(script={name: ["lose"]})
    assert wine(fake).freeze() >= 1
    assert fake.frozen == 2
    assert wine(fake).thaw() >= 1
    assert (fake.frozen, fake.script) == (0, {name: []})


def test_a_thaw_that_did_not_reach_the_agent_is_sent_again() -> None:
    fake = FakeAgent(script={"guest-fsfreeze-thaw": ["drop"]})
    wine(fake).freeze()
    assert wine(fake).thaw() == 2
    assert fake.frozen == 0


def test_a_freeze_that_froze_nothing_is_no_freeze() -> None:
    for reply in (0, "2", None, -1, True):
        fake = FakeAgent(script={"guest-fsfreeze-freeze": [reply if reply is not None else []]})
        with pytest.raises(Unreadable):
            wine(fake).freeze()
        assert "guest-fsfreeze-thaw" in fake.names()


def test_a_freeze_that_the_guest_ended_by_itself_is_seen_at_the_thaw() -> None:
    """Windows thaws after ten seconds, whoever still copies."""
    fake = FakeAgent()
    wine(fake).freeze()
    fake.frozen = 0
    assert wine(fake).thaw() == 0


def test_the_clock_is_set_and_a_lost_reply_does_not_set_it_back() -> None:
    fake = FakeAgent(script={"guest-set-time": ["lose"]})
    now = time.time_ns()
    wine(fake).set_time(now)
    times = [about["time"] for name, about in fake.sent if name == "guest-set-time"]
    assert len(times) == 2
    assert now <= times[0] < times[1]


def test_a_refusal_matters_only_if_the_clock_is_wrong() -> None:
    refusal = AgentError("GenericError", "hwclock failed to set hardware clock to system time")
    fake = FakeAgent(script={"guest-set-time": [refusal]}, clock=5_000_000_000_000)
    wine(fake).set_time(5_000_000_000_000)
    fake = FakeAgent(script={"guest-set-time": [refusal]}, clock=0)
    with pytest.raises(Unreadable, match="hwclock"):
        wine(fake).set_time(5_000_000_000_000)


# ---- putting the probe there -------------------------------------------------------------------------------------------


def installed(fake: FakeAgent) -> Any:
    return lambda request: (0, spoken(request, read_file(fake.files[PROBE])))


def test_the_probe_is_put_there_once() -> None:
    fake = FakeAgent()
    fake.probe, fake.other = installed(fake), lambda path, arguments: (0, b"")
    program = b"MZ" + bytes(200_000)
    install_probe(wine(fake), program)
    assert fake.files[PROBE] == program
    written = fake.names().count("guest-file-write")
    install_probe(wine(fake), program)
    assert fake.names().count("guest-file-write") == written == 4


def test_a_probe_that_is_another_is_not_accepted() -> None:
    fake = FakeAgent(lambda request: (0, spoken(request, read_file(b"other"))), files={PROBE: b"MZ"})
    with pytest.raises(Unreadable, match="another program"):
        install_probe(wine(fake), b"MZ")


def test_the_folder_on_windows() -> None:
    command = WINDOWS.folder(PureWindowsPath(r"C:\legacyproof"))
    assert command.path == "cmd.exe"
    assert command.arguments[2:] == ("if", "not", "exist", "C:\\legacyproof\\", "mkdir", "C:\\legacyproof")
