"""Checks of a guest: programs run to their end, and what they say comes back whole."""

from __future__ import annotations

from pathlib import PureWindowsPath

from runner.conformance.checks import Collection, Failed, NotApplicable, expect, expect_raised
from runner.conformance.props import cmd, end, system, until
from runner.conformance.scene import Scene
from runner.guests.base import Guest, GuestNotFound, Unreadable
from runner.guests.probe import ProcessEntry, parse

GUEST_PROGRAMS = Collection()
_check = GUEST_PROGRAMS.check
_CMD = system("cmd.exe")
_LINES, _LINE = 300, "0123456789" * 40
"""More on each stream than a pipe holds."""


def _processes(guest: Guest, *names: str) -> dict[int, ProcessEntry]:
    there = guest.probe("processes").processes
    return {process.pid: process for process in there if process.name.casefold() in names}


@_check(
    "run-status",
    proves="The exit statuses 0, 1, 3 and 255 come back as they are.",
    means="A set-up step that failed would count as done, or the other way round.",
    remedy="Hand on the program's own status, not that of a shell or of the transport.",
)
def _run_status(scene: Scene) -> None:
    for status in (0, 1, 3, 255):
        got = cmd(scene.guest, f"exit {status}").status
        expect(got == status, f"ended with {status}, came back as {got}")


@_check(
    "run-status-not-zero",
    proves="A status whose low bytes are zero (256, 65536) does not come back as 0.",
    means="A failure would count as success.",
    remedy="Where the channel carries eight bits only, make every other status than 0 something else than 0.",
)
def _run_status_not_zero(scene: Scene) -> None:
    for status in (256, 65536):
        expect(cmd(scene.guest, f"exit {status}").status != 0, f"{status} came back as 0")


@_check(
    "run-status-large",
    proves="Large statuses (1000, and 0xC0000005 of a crash) come back whole.",
    means="A program's own error numbers, and what it crashed with, could not be told.",
    remedy="Hand on 32 bits.",
)
def _run_status_large(scene: Scene) -> None:
    got = [cmd(scene.guest, f"exit {status}").status for status in (1000, -1073741819)]
    whole = got[0] == 1000 and got[1] & 0xFFFFFFFF == 0xC0000005
    if not whole and all(0 < status < 256 for status in got):
        raise NotApplicable(f"the channel carries eight bits of a status, as POSIX does: {got[0]} for 1000")
    expect(whole, f"came back as {got}")


@_check(
    "run-missing",
    proves="A program that is not there is no success.",
    means="A set-up step with a wrong path would count as done.",
    remedy="Raise Unreadable when a program cannot be started, or give a status other than 0.",
)
def _run_missing(scene: Scene) -> None:
    try:
        done = scene.guest.run([str(scene.folder("run-missing") / "none.exe")], timeout=30)
    except Unreadable:
        return
    expect(done.status != 0, "it is said to have ended with 0")


@_check(
    "run-streams",
    proves="Standard output and standard error come back apart, as bytes, and empty where nothing was said.",
    means="What a program says could not be told from its complaints.",
    remedy="Give the program two pipes; add nothing to what it writes.",
)
def _run_streams(scene: Scene) -> None:
    done = cmd(scene.guest, "echo out& echo err>&2")
    got = (done.stdout.split(), done.stderr.split())
    expect(got == ([b"out"], [b"err"]), f"came back as {done.stdout!r} and {done.stderr!r}")
    done = cmd(scene.guest, "cmd /c exit 0")
    expect((done.stdout, done.stderr) == (b"", b""), f"nothing was said, but {done.stdout!r} and {done.stderr!r} came")


@_check(
    "run-folder",
    proves="run() starts a program in a folder that is there.",
    means="Programs that write beside themselves, or start others, would fail or complain.",
    remedy="Set the working folder of the new process to one of Windows' own.",
)
def _run_folder(scene: Scene) -> None:
    said = cmd(scene.guest, "cd").stdout.decode("cp850").strip()
    place = PureWindowsPath(said)
    expect(place.is_absolute(), f"it is started in {said!r}, which is no folder")


@_check(
    "run-output-large",
    proves="More than a pipe holds comes back whole from both streams, whichever is filled first.",
    means="Programs that say much would hang for ever, or be cut off without a word.",
    remedy="Read both streams at the same time, to their ends.",
    seconds=300,
)
def _run_output_large(scene: Scene) -> None:
    script = scene.folder("run-output-large") / "viel.cmd"
    loop = f"for /L %%i in (1,1,{_LINES}) do echo {_LINE}"
    scene.guest.write(script, f"@echo off\r\n{loop} 1>&2\r\n{loop}\r\nexit /b 7\r\n".encode())
    done = cmd(scene.guest, str(script), timeout=240)
    expect(done.status == 7, f"it ended with {done.status} instead of 7")
    for name, stream in (("output", done.stdout), ("error", done.stderr)):
        lines = [line.rstrip() for line in stream.splitlines()]
        expect(lines == [_LINE.encode()] * _LINES, f"standard {name}: {len(stream)} bytes in {len(lines)} lines")


@_check(
    "run-output-limit",
    proves="Not more than the limit is kept of an output stream, and the program ends all the same.",
    means="A program that never stops talking would fill the runner's memory, or hang because nobody listens.",
    remedy="Go on reading beyond the limit, and throw it away.",
    seconds=300,
)
def _run_output_limit(scene: Scene) -> None:
    done = cmd(scene.guest, f"for /L %i in (1,1,{_LINES}) do @echo {_LINE}", timeout=240, limit=1000)
    expect(done.status == 0, f"it ended with {done.status}")
    expect(len(done.stdout) == 1000, f"{len(done.stdout)} bytes were kept of a limit of 1000")


@_check(
    "run-input",
    proves="A program that asks for input gets the end of it, and goes on.",
    means="`pause`, or a question, in a set-up step would use up its whole time.",
    remedy="Give programs an empty standard input.",
)
def _run_input(scene: Scene) -> None:
    try:
        cmd(scene.guest, "pause", timeout=30)
    except TimeoutError:
        raise Failed("`pause` still waits after 30 s") from None


@_check(
    "run-arguments",
    proves="Arguments with blanks, quotes, backslashes, umlauts, percent signs, and empty ones arrive as they are.",
    means="Set-up steps would do something else than the contract says.",
    remedy="Quote by the rules of CommandLineToArgvW; use no shell on the way.",
)
def _run_arguments(scene: Scene) -> None:
    answer = scene.guest.probe("processes")
    probe = next((process.path for process in answer.processes if process.pid == answer.header.pid), None)
    if probe is None:
        raise NotApplicable("the probe does not tell its own path, and no other program says what it is given")
    words = ["a b", 'a"b', "a\\", "a b\\", 'a\\"b', '"', "\\\\server\\x y\\", "äöüß €", "100%", "%PATH%", "^&|<>()", ""]
    for word in words:
        done = scene.guest.run([probe, "version", "--id", word], timeout=30)
        got = parse(done.stdout, expect_id=None).header.id if done.status == 0 else None
        expect(got == word, f"{word!r} arrived as {got!r}")


@_check(
    "run-timeout",
    proves="A program that does not end in time is a TimeoutError, and the next one runs.",
    means="One hanging program would hold up a whole campaign.",
    remedy="Keep to the deadline on the runner's side, whatever the guest says.",
)
def _run_timeout(scene: Scene) -> None:
    expect_raised(TimeoutError, lambda: cmd(scene.guest, "ping -n 60 127.0.0.1", timeout=2), "a program of a minute")
    expect(cmd(scene.guest, "exit 3").status == 3, "the next program does not run")


@_check(
    "run-timeout-kills",
    proves="A program that does not end in time is ended, and so are the programs that it waits for.",
    means="It would go on changing the machine after its step was given up.",
    remedy="End the whole tree of processes (a job object, or taskkill /T).",
)
def _run_timeout_kills(scene: Scene) -> None:
    names = ("cmd.exe", "ping.exe")
    before = _processes(scene.guest, *names)
    expect_raised(TimeoutError, lambda: cmd(scene.guest, "cmd /c ping -n 90 127.0.0.1", timeout=4), "a program of 90 s")

    def left() -> dict[int, ProcessEntry]:
        return {pid: found for pid, found in _processes(scene.guest, *names).items() if pid not in before}

    try:
        until(lambda: not left(), f"still there: {', '.join(found.name for found in left().values())}", 15)
    finally:
        for pid in left():
            end(scene.guest, pid)


@_check(
    "start-returns",
    proves="start() returns while the program runs, and the program goes on.",
    means="The runner would wait for a program that is meant to stay open.",
    remedy="Do not wait for the program, and do not hold what ends it.",
)
def _start_returns(scene: Scene) -> None:
    before = _processes(scene.guest, "ping.exe")
    scene.guest.start([_CMD, "/c", "ping -n 30 127.0.0.1"])

    def running() -> dict[int, ProcessEntry]:
        return {pid: found for pid, found in _processes(scene.guest, "ping.exe").items() if pid not in before}

    there = until(running, "the program does not run once start() has returned", 15)
    for pid in there:
        end(scene.guest, pid)


@_check(
    "start-folder",
    proves="start() starts a program in the folder that it is given.",
    means="Old programs look for their data in the folder they are started in, and would find none.",
    remedy="Set the working folder of the new process.",
)
def _start_folder(scene: Scene) -> None:
    folder = scene.folder("start-folder") / "hier"
    scene.guest.write(folder / "x.txt", b"x")
    scene.guest.start([_CMD, "/c", "cd > wo.txt"], cwd=folder)

    def place() -> str:
        try:
            return scene.guest.read(folder / "wo.txt", limit=1000).decode("cp850").strip()
        except (GuestNotFound, Unreadable):
            return ""

    got = until(place, "the program did not write into the folder it was to be started in")
    expect(PureWindowsPath(got) == folder, f"it was started in {got}")
