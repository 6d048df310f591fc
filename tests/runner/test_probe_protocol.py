"""The reader of the probe's answers: whole answers come out exactly, anything else is a ProbeError."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from runner.guests.base import Unreadable
from runner.guests.probe import (
    AnswerSplitter,
    ControlEntry,
    FaultEntry,
    FileEntry,
    ProbeError,
    ProbeLimits,
    ProbeResult,
    RegistryValue,
    RootEntry,
    StreamEntry,
    encode_request,
    parse,
)

ID = "run-7/3"
Record = dict[str, Any]


def dump(record: Record) -> bytes:
    """One line as the probe writes it: UTF-8, lone surrogates as escapes."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return "".join(rf"\u{ord(c):04x}" if 0xD800 <= ord(c) < 0xE000 else c for c in text).encode() + b"\n"


def header(command: str, **changes: Any) -> bytes:
    return dump(
        {
            "r": "header",
            "probe": "legacyproof",
            "version": 1,
            "cmd": command,
            "id": ID,
            "pid": 312,
            "time": 134404616993567392,
            "tz_bias_min": -60,
            "session": 1,
            "winsta": "WinSta0",
            "desktop": "Default",
            "input_desktop": "Default",
            "os": "10.0.19045",
            "arch": "x86_64",
            "codepage": {"ansi": 1252, "oem": 850},
            "computer": "PRAXIS-1",
            "user": "Müller",
        }
        | changes
    )


def end(body: bytes, **changes: Any) -> bytes:
    return dump(
        {
            "r": "end",
            "id": ID,
            "count": body.count(b"\n"),
            "bytes": len(body),
            "digest": hashlib.sha256(body).hexdigest(),
            "status": "ok",
        }
        | changes
        | {"elapsed_us": 1234}
    )


def answer(command: str, *records: Record) -> bytes:
    body = b"".join(map(dump, records))
    return header(command) + body + end(body)


def read(data: bytes) -> ProbeResult:
    return parse(data, expect_id=ID)


ROOT: Record = {"r": "root", "root": 0, "path": r"C:\DSWIN", "exists": True, "type": "dir"}
FILE: Record = {"r": "file", "root": 0, "path": r"DATA\A.DBF", "size": 3, "mtime": 5, "ctime": 4, "attr": 32}
WINDOW: Record = {
    "r": "window",
    "hwnd": 65630,
    "pid": 304,
    "tid": 308,
    "exe": "dswin.exe",
    "path": r"C:\DSWIN\dswin.exe",
    "class": "TMainForm",
    "title": "Patienten \u2028 \ud800",
    "visible": True,
    "enabled": False,
    "minimised": False,
    "hung": False,
    "owner": 0,
    "rect": [-4, 0, 729, 546],
    "z": 0,
    "style": 349110272,
    "exstyle": 272,
    "foreground": True,
    "focus": 65640,
    "modal": False,
}
CONTROL: Record = {
    "r": "control",
    "window": 65630,
    "hwnd": 65640,
    "id": -1,
    "class": "TEdit",
    "visible": True,
    "enabled": True,
    "rect": [4, 42, 725, 519],
    "text": "Müller\nErika",
}
KEY: Record = {"r": "key", "root": 0, "path": r"HKLM\Software\X", "mtime": 9}
KEY_ROOT: Record = {"r": "root", "root": 0, "path": r"HKLM\Software\X", "exists": True, "type": "key"}
VALUE: Record = {"r": "value", "root": 0, "key": r"HKLM\Software\X", "name": "", "type": 3, "data": "AAH/"}
PROCESS: Record = {"r": "process", "pid": 8, "ppid": 4, "name": "a.exe", "session": 1, "path": None, "started": None}
FAULT: Record = {
    "r": "error",
    "root": 0,
    "path": r"C:\DSWIN\X",
    "op": "open",
    "code": 5,
    "message": "Zugriff verweigert",
}


def piece(offset: int, data: bytes) -> Record:
    return {"r": "data", "offset": offset, "b64": base64.b64encode(data).decode()}


def read_file(data: bytes) -> Record:
    return FILE | {"path": r"C:\X", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


RAN: Record = {"r": "ran", "pid": 8, "status": 7, "timed_out": False, "stdout_cut": False, "stderr_cut": True}


def output(stream: str, offset: int, data: bytes) -> Record:
    return {"r": "output", "stream": stream, "offset": offset, "b64": base64.b64encode(data).decode()}


SAMPLES = {
    "files": answer(
        "files",
        ROOT,
        {"r": "dir", "root": 0, "path": "DATA", "mtime": 1, "ctime": 1, "attr": 16},
        FILE | {"sha256": "0" * 64, "streams": [{"name": ":zone:$DATA", "size": 4}], "short": "A~1.DBF"},
        FILE | {"path": "\ud83d\ude00\udc00.txt", "listed": True},
        {"r": "link", "root": 0, "path": "J", "size": 0, "mtime": 1, "ctime": 1, "attr": 1040, "tag": 2684354563},
        FAULT,
        {"r": "root", "root": 1, "path": r"C:\X", "exists": False},
        {"r": "root", "root": 2, "path": r"C:\Y", "exists": True, "type": "file"},
        FILE | {"root": 2, "path": ""},
        {"r": "root", "root": 3, "path": r"\\S\T", "exists": None},
        FAULT | {"root": 3},
    ),
    "windows": answer("windows", WINDOW, CONTROL, CONTROL | {"hwnd": 9, "text": None, "password": True}),
    "registry": answer("registry", KEY_ROOT, KEY, VALUE, {"r": "skip", "root": 0, "path": "P", "reason": "perflib"}),
    "processes": answer("processes", PROCESS, PROCESS | {"pid": 9, "path": "C:\\a.exe", "started": 7}),
    "read": answer("read", piece(0, b"abc"), piece(3, b"d"), read_file(b"abcd")),
    "hash": answer("hash", read_file(b""), FAULT | {"root": 1}),
    "version": answer("version"),
    "run": answer("run", RAN, output("stdout", 0, b"ab"), output("stdout", 2, b"\x84"), output("stderr", 0, b"oh")),
    "start": answer("start", {"r": "started", "pid": 9}),
    "put": answer("put", read_file(b"abc")),
}


# ---- whole answers -----------------------------------------------------------------------------------------------------


def test_header() -> None:
    result = read(SAMPLES["version"])
    assert result.header.command == "version"
    assert (result.header.user, result.header.tz_bias_min, result.header.codepage_oem) == ("Müller", -60, 850)
    assert result.header.sees_user_desktop
    assert result.elapsed_us == 1234


@pytest.mark.parametrize(
    "changes", [{"session": 0}, {"input_desktop": None}, {"input_desktop": "Winlogon"}, {"desktop": None}]
)
def test_windows_of_another_desktop_are_told_apart(changes: Record) -> None:
    assert not read(header("windows", **changes) + end(b"")).header.sees_user_desktop


def test_files() -> None:
    result = read(SAMPLES["files"])
    assert result.roots == (
        RootEntry(0, r"C:\DSWIN", True, "dir"),
        RootEntry(1, r"C:\X", False, None),
        RootEntry(2, r"C:\Y", True, "file"),
        RootEntry(3, r"\\S\T", None, None),
    )
    assert [entry.kind for entry in result.files] == ["dir", "file", "file", "link", "file"]
    assert result.files[1] == FileEntry(
        "file", 0, r"DATA\A.DBF", 3, 5, 4, 32, "0" * 64, (StreamEntry(":zone:$DATA", 4),), "A~1.DBF"
    )
    assert result.files[2].path == "\U0001f600\udc00.txt"
    assert result.files[2].listed
    assert result.files[3].tag == 0xA0000003
    assert result.faults[0] == FaultEntry(r"C:\DSWIN\X", "open", 5, "Zugriff verweigert", 0)


def test_windows_carry_their_controls() -> None:
    (window,) = read(SAMPLES["windows"]).windows
    assert window.title == "Patienten \u2028 \ud800"
    assert window.rect == (-4, 0, 729, 546)
    first, second = window.controls
    assert first == ControlEntry(
        65630, 65640, None, -1, "TEdit", "Müller\nErika", visible=True, enabled=True, rect=(4, 42, 725, 519)
    )
    assert (second.text, second.password) == (None, True)


def test_registry_and_processes_and_read() -> None:
    result = read(SAMPLES["registry"])
    assert result.values == (RegistryValue(0, r"HKLM\Software\X", "", 3, b"\x00\x01\xff"),)
    assert (result.keys[0].volatile, result.skipped[0].reason) == (None, "perflib")
    assert [process.started for process in read(SAMPLES["processes"]).processes] == [None, 7]
    assert read(SAMPLES["read"]).data == b"abcd"
    assert read(answer("read", read_file(b""))).data == b""


def test_members_that_are_not_known_are_ignored() -> None:
    assert read(answer("files", ROOT, FILE | {"later": [{"x": 1.5}]})).files[0].path == r"DATA\A.DBF"


names = st.text(st.characters(exclude_characters="/\\\0"), min_size=1, max_size=20).filter(
    lambda n: n not in {".", ".."}
)


@given(st.dictionaries(st.lists(names, min_size=1, max_size=4).map("\\".join), st.integers(0, 2**64 - 1), max_size=8))
def test_files_come_out_as_they_went_in(files: dict[str, int]) -> None:
    result = read(answer("files", ROOT, *(FILE | {"path": path, "size": size} for path, size in files.items())))
    assert {entry.path: entry.size for entry in result.files} == files


@given(st.text(st.characters(categories=None, exclude_categories=()), max_size=60), st.binary(max_size=60))
@example("\ud800\udc00\udfff\ud83d", b"")
def test_texts_and_data_come_out_as_they_went_in(text: str, data: bytes) -> None:
    result = read(answer("windows", WINDOW | {"title": text}, CONTROL | {"text": text}))
    wanted = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert (result.windows[0].title, result.windows[0].controls[0].text) == (wanted, wanted)
    encoded = base64.b64encode(data).decode()
    assert read(answer("registry", KEY_ROOT, KEY, VALUE | {"data": encoded})).values[0].data == data


# ---- damaged answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", SAMPLES)
def test_an_answer_cut_at_any_byte_is_unreadable(command: str) -> None:
    data = SAMPLES[command]
    for size in range(len(data)):
        with pytest.raises(ProbeError):
            read(data[:size])
    for skipped in range(1, len(data), 7):
        with pytest.raises(ProbeError):
            read(data[skipped:])


@pytest.mark.parametrize("command", SAMPLES)
def test_a_line_left_out_or_doubled_is_unreadable(command: str) -> None:
    lines = SAMPLES[command].splitlines(keepends=True)
    for at in range(len(lines)):
        with pytest.raises(ProbeError):
            read(b"".join(lines[:at] + lines[at + 1 :]))
        with pytest.raises(ProbeError):
            read(b"".join([*lines[:at], lines[at], *lines[at:]]))


def content(result: ProbeResult) -> tuple[Any, ...]:
    """What the digest vouches for: all but the header and the time the probe says it took."""
    return (
        result.count,
        result.digest,
        result.roots,
        result.files,
        result.windows,
        result.processes,
        result.keys,
        result.values,
        result.skipped,
        result.faults,
        result.data,
    )


@settings(max_examples=1500)
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_a_changed_byte_never_gives_another_content(command: str, data: st.DataObject) -> None:
    whole = SAMPLES[command]
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != whole[at]))
    damaged = whole[:at] + bytes([byte]) + whole[at + 1 :]
    records = whole.index(b"\n") + 1, whole.rindex(b"\n", 0, -1) + 1
    if records[0] <= at < records[1]:
        with pytest.raises(ProbeError):
            read(damaged)
        return
    try:
        result = read(damaged)
    except ProbeError:
        return
    assert content(result) == content(read(whole))


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_any_bytes_at_all_are_unreadable(data: bytes) -> None:
    with pytest.raises(ProbeError):
        read(data)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["dir", "file", "ok"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=1500, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(
        [
            ("files", (ROOT, FILE, FAULT)),
            ("windows", (WINDOW, CONTROL)),
            ("registry", (KEY_ROOT, KEY, VALUE)),
            ("processes", (PROCESS,)),
            ("read", (piece(0, b"abc"), read_file(b"abc"))),
        ]
    ),
    st.data(),
)
def test_a_hostile_probe_with_the_right_digest_raises_nothing_else(
    sample: tuple[str, tuple[Record, ...]], data: st.DataObject
) -> None:
    command, records = sample
    changed = [dict(record) for record in records]
    for _ in range(data.draw(st.integers(1, 3))):
        record = data.draw(st.sampled_from(changed))
        member = data.draw(st.sampled_from(sorted(record)))
        if data.draw(st.booleans()):
            record[member] = data.draw(json_values)
        elif member != "r":
            del record[member]
            if len(record) == 1:
                break
    try:
        result = read(answer(command, *changed))
    except ProbeError:
        return
    for entry in result.files:
        assert type(entry.size) is int
        assert type(entry.path) is str


# ---- each rule ---------------------------------------------------------------------------------------------------------

BAD_RECORDS: dict[str, tuple[str, list[Record]]] = {
    "unknown kind": ("files", [ROOT, {"r": "surprise"}]),
    "kind of another command": ("files", [ROOT, WINDOW]),
    "records for version": ("version", [ROOT]),
    "no root": ("files", []),
    "file before its root": ("files", [FILE, ROOT]),
    "file of an earlier root": ("files", [ROOT, ROOT | {"root": 1}, FILE]),
    "file below a missing root": ("files", [{"r": "root", "root": 0, "path": "C:\\X", "exists": False}, FILE]),
    "roots out of order": ("files", [ROOT | {"root": 1}]),
    "missing root with a type": ("files", [ROOT | {"exists": False}]),
    "root without a type": ("files", [{"r": "root", "root": 0, "path": "C:\\X", "exists": True}]),
    "unread root unexplained": ("files", [{"r": "root", "root": 0, "path": "C:\\X", "exists": None}]),
    "file root without its file": ("files", [ROOT | {"type": "file"}]),
    "path leaves its root": ("files", [ROOT, FILE | {"path": r"..\X"}]),
    "path leaves its root within": ("files", [ROOT, FILE | {"path": r"a\..\..\X"}]),
    "absolute path": ("files", [ROOT, FILE | {"path": r"\X"}]),
    "empty component": ("files", [ROOT, FILE | {"path": "a\\\\b"}]),
    "empty path": ("files", [ROOT, FILE | {"path": ""}]),
    "slash": ("files", [ROOT, FILE | {"path": "a/b"}]),
    "same path twice": ("files", [ROOT, FILE, FILE]),
    "bool as number": ("files", [ROOT, FILE | {"size": True}]),
    "float as number": ("files", [ROOT, FILE | {"size": 3.0}]),
    "negative size": ("files", [ROOT, FILE | {"size": -1}]),
    "huge size": ("files", [ROOT, FILE | {"size": 2**64}]),
    "size missing": ("files", [ROOT, {k: v for k, v in FILE.items() if k != "size"}]),
    "wrong hash": ("files", [ROOT, FILE | {"sha256": "A" * 64}]),
    "short hash": ("files", [ROOT, FILE | {"sha256": "a" * 63}]),
    "streams no list": ("files", [ROOT, FILE | {"streams": {}}]),
    "control without window": ("windows", [CONTROL]),
    "control of another window": ("windows", [WINDOW, CONTROL | {"window": 7}]),
    "control twice": ("windows", [WINDOW, CONTROL, CONTROL]),
    "window twice": ("windows", [WINDOW, WINDOW]),
    "text null without reason": ("windows", [WINDOW, CONTROL | {"text": None}]),
    "text of a password": ("windows", [WINDOW, CONTROL | {"password": True}]),
    "rect of three": ("windows", [WINDOW | {"rect": [1, 2, 3]}]),
    "rect of floats": ("windows", [WINDOW | {"rect": [1, 2, 3, 4.0]}]),
    "checked 3": ("windows", [WINDOW, CONTROL | {"checked": 3}]),
    "value without key": ("registry", [KEY_ROOT, VALUE]),
    "value of another key": ("registry", [KEY_ROOT, KEY, VALUE | {"key": "HKLM"}]),
    "value twice": ("registry", [KEY_ROOT, KEY, VALUE, VALUE]),
    "bad base64": ("registry", [KEY_ROOT, KEY, VALUE | {"data": "AAH"}]),
    "base64 with blanks": ("registry", [KEY_ROOT, KEY, VALUE | {"data": "AA H/"}]),
    "process twice": ("processes", [PROCESS, PROCESS]),
    "hashed file without hash": ("hash", [FILE]),
    "data with a gap": ("read", [piece(0, b"ab"), piece(3, b"d"), read_file(b"abd")]),
    "data without file": ("read", [piece(0, b"ab")]),
    "file with other data": ("read", [piece(0, b"ab"), read_file(b"ac")]),
    "data after file": ("read", [read_file(b""), piece(0, b"ab")]),
    "nothing read": ("read", []),
}


@pytest.mark.parametrize("case", BAD_RECORDS)
def test_contradictions_are_unreadable(case: str) -> None:
    command, records = BAD_RECORDS[case]
    with pytest.raises(ProbeError):
        read(answer(command, *records))


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"version": "1"},
        {"probe": "other"},
        {"r": "end"},
        {"cmd": "format"},
        {"cmd": None},
        {"id": "another"},
        {"codepage": None},
        {"codepage": {"ansi": 1252}},
        {"time": -1},
        {"session": "1"},
    ],
)
def test_wrong_headers(changes: Record) -> None:
    with pytest.raises(ProbeError):
        read(header("version", **changes) + end(b""))


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 1},
        {"bytes": 1},
        {"digest": "0" * 64},
        {"digest": hashlib.sha256(b"").hexdigest().upper()},
        {"id": "another"},
        {"status": "fine"},
        {"status": None},
        {"error": {"code": 5, "message": "x"}},
        {"r": "header"},
    ],
)
def test_wrong_ends(changes: Record) -> None:
    with pytest.raises(ProbeError) as caught:
        read(header("version") + end(b"", **changes))
    assert caught.value.status is None


@pytest.mark.parametrize("status", ["truncated", "error"])
def test_an_answer_that_says_it_is_not_whole(status: str) -> None:
    with pytest.raises(ProbeError, match="max-depth reached") as caught:
        read(header("files") + end(b"", status=status, error={"code": 0x20000002, "message": "max-depth reached"}))
    assert (caught.value.status, caught.value.code) == (status, 0x20000002)
    assert isinstance(caught.value, Unreadable)
    assert "max-depth reached" in caught.value.reason


def test_the_id_may_be_unknown_but_not_contradictory() -> None:
    assert parse(SAMPLES["version"], expect_id=None).header.id == ID
    with pytest.raises(ProbeError):
        parse(SAMPLES["version"], expect_id="")


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000 + b"\n",
        b'{"r":' * 50_000 + b"\n",
        b'{"r":"file","size":' + b"9" * 5000 + b"}\n",
        b'{"r":"file","size":NaN}\n',
        b'{"r":"root"} {}\n',
        b"\xff\xfe\n",
        b'{"r":"\xed\xa0\x80"}\n',
        b"\n",
        b"null\n",
        b'{"r":{}}\n',
        b'{"r":"error","path":"\n',
    ],
    ids=lambda body: repr(body[:12]),
)
def test_lines_that_are_no_records(body: bytes) -> None:
    with pytest.raises(ProbeError):
        read(header("files") + body + end(body))


def test_limits() -> None:
    data = SAMPLES["files"]
    assert parse(data, expect_id=ID, limits=ProbeLimits(total_bytes=len(data), records=11)).count == 11
    for limits in (
        ProbeLimits(total_bytes=len(data) - 1),
        ProbeLimits(line_bytes=100),
        ProbeLimits(records=10),
    ):
        with pytest.raises(ProbeError):
            parse(data, expect_id=ID, limits=limits)
    with pytest.raises(ProbeError):
        read(data + SAMPLES["version"])


# ---- resident probe ----------------------------------------------------------------------------------------------------


def test_requests_are_one_bounded_line() -> None:
    line = encode_request(["files", "--id", "ü\ud800\n", "C:\\"])
    assert line.count(b"\n") == 1
    assert json.loads(line) == ["files", "--id", "ü\ud800\n", "C:\\"]
    with pytest.raises(ValueError, match="more than"):
        encode_request(["files", "x" * 65536])
    with pytest.raises(ValueError, match="NUL"):
        encode_request(["files", "a\0b"])


@given(st.lists(st.sampled_from(sorted(SAMPLES)), max_size=4), st.integers(1, 3000))
def test_the_splitter_finds_the_answers_however_they_arrive(commands: list[str], step: int) -> None:
    stream = b"".join(SAMPLES[command] for command in commands) + SAMPLES["version"][:-1]
    splitter = AnswerSplitter()
    found = []
    for at in range(0, len(stream), step):
        found += splitter.feed(stream[at : at + step])
    assert found == [SAMPLES[command] for command in commands]
    assert splitter.feed(b"\n") == [SAMPLES["version"]]


def test_the_splitter_is_bounded() -> None:
    with pytest.raises(ProbeError):
        AnswerSplitter(ProbeLimits(line_bytes=100)).feed(b"x" * 101)
    splitter = AnswerSplitter(ProbeLimits(total_bytes=1000))
    splitter.feed(b"x\n" * 500)
    with pytest.raises(ProbeError):
        splitter.feed(b"x\n")
