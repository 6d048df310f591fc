"""The native probe itself, run under Wine against files, windows and a registry that the test made."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from runner.guests.probe import (
    AnswerSplitter,
    ControlEntry,
    ProbeError,
    ProbeResult,
    WindowEntry,
    encode_request,
    parse,
)
from runner.machines.images import FOLDER
from runner.machines.recipes import built
from runner.machines.sandbox import SAME_PLACES
from runner.machines.wine_base import WINE, WINESERVER

pytestmark = pytest.mark.machine

FILETIME_EPOCH = 116_444_736_000_000_000
"""1970-01-01 as FILETIME."""

CHANGED, BOUND, USAGE, NOT_A_FILE, ENCODING = 0x20000001, 0x20000002, 0x20000003, 0x20000004, 0x20000005
NO_DRIVE = 0x20000008


@cache
def program(name: str = "lpprobe", arch: str = "x86_64") -> str:
    """A build of the probe, or of the program with windows to look at; a machine without the compilers fails here."""
    return str(built(FOLDER / "probe", f"build/{arch}/{name}.exe"))


class Machine:
    """A Wine prefix with a display of its own."""

    def __init__(self, folder: Path, display: int) -> None:
        self.prefix = folder / "prefix"
        self.drive = self.prefix / "drive_c"
        home = folder / "home"
        home.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "WINEPREFIX": str(self.prefix),
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "mscoree,mshtml,winemenubuilder.exe=",
            "DISPLAY": f":{display}",
            "LC_ALL": "C.UTF-8",
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def boot(self) -> None:
        """Makes the prefix."""
        talkative = self.environment | {"WINEDEBUG": "fixme-all"}
        done = subprocess.run(
            [*SAME_PLACES, WINE, "wineboot", "-i"], env=talkative, check=False, timeout=180, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]

    def wine(self, *argv: str, data: bytes = b"", limit: float = 60) -> subprocess.CompletedProcess[bytes]:
        """Runs a program to its end."""
        return subprocess.run(
            [*SAME_PLACES, WINE, *argv],
            env=self.environment,
            input=data,
            capture_output=True,
            timeout=limit,
            check=False,
        )

    def probe(self, *argv: str, data: bytes = b"") -> ProbeResult:
        """One answer of the probe that must be whole."""
        done = self.wine(program(), *argv, data=data)
        result = parse(done.stdout, expect_id="")
        assert done.returncode == 0
        return result

    def refused(self, *argv: str, data: bytes = b"") -> tuple[int, ProbeError]:
        """Exit status and fault of an answer that must not be whole."""
        done = self.wine(program(), *argv, data=data)
        with pytest.raises(ProbeError) as caught:
            parse(done.stdout, expect_id=None)
        return done.returncode, caught.value

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        """Starts a program that is ended with the machine at the latest."""
        process = subprocess.Popen(
            [*SAME_PLACES, WINE, *argv],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.started.append(process)
        return process

    def states(self) -> list[str]:
        """The programs of this prefix as the kernel sees them: what runs, sleeps or is stopped."""
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if f"WINEPREFIX={self.prefix}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    name = (folder / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
                    found.append(f"{name} {(folder / 'stat').read_text().rpartition(')')[2].split()[0]}")
        return found

    def stop(self) -> None:
        """Ends what was started, by its ids, and then this prefix's server."""
        for process in self.started:
            end(process)
        subprocess.run([WINESERVER, "-k"], env=self.environment, timeout=30, check=False)


def end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream:
            stream.close()
    process.kill()
    process.wait(10)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("machine")
    reader, writer = os.pipe()
    # The server chooses a display that is free; without TCP and with its RFB socket in our folder it meets nobody.
    options = f"-displayfd {writer} -SecurityTypes None -rfbport -1 -nolisten tcp -geometry 1024x768 -depth 24"
    server = subprocess.Popen(
        ["Xtigervnc", *options.split(), "-rfbunixpath", str(folder / "rfb")],
        pass_fds=[writer],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(writer)
    try:
        with selectors.DefaultSelector() as selector, os.fdopen(reader, "rb") as pipe:
            selector.register(pipe, selectors.EVENT_READ)
            assert selector.select(20), "the display did not start"
            display = int(pipe.readline())
        machine = Machine(folder, display)
        try:
            machine.boot()
            yield machine
        finally:
            machine.stop()
    finally:
        server.terminate()
        server.wait(10)


class Resident:
    """A probe in resident mode."""

    def __init__(self, machine: Machine) -> None:
        self.process = machine.start(program(), "serve")
        self.splitter = AnswerSplitter()
        self.number = 0

    def send(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def receive(self, count: int = 1, limit: float = 30) -> list[bytes]:
        """The next answers, raw."""
        assert self.process.stdout
        deadline = time.monotonic() + limit
        answers: list[bytes] = []
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while len(answers) < count:
                assert selector.select(deadline - time.monotonic()), f"{len(answers)} of {count} answers in time"
                data = os.read(self.process.stdout.fileno(), 1 << 16)
                assert data, "the probe ended"
                answers += self.splitter.feed(data)
        assert len(answers) == count
        return answers

    def ask(self, command: str, *argv: str) -> ProbeResult:
        self.number += 1
        self.send(encode_request([command, "--id", str(self.number), *argv]))
        (answer,) = self.receive()
        return parse(answer, expect_id=str(self.number))


@pytest.fixture(scope="module")
def resident(machine: Machine) -> Resident:
    return Resident(machine)


def filetime(path: Path) -> int:
    return path.stat().st_mtime_ns // 100 + FILETIME_EPOCH


# ---- the builds --------------------------------------------------------------------------------------------------------

# What Windows XP SP2 has (XP x64 for the 64-bit build), of what the probe and mingw's start-up code use.
XP = {
    "ADVAPI32.dll": """CreateProcessAsUserW DuplicateTokenEx GetTokenInformation GetUserNameW RegCloseKey RegEnumKeyExW
        RegEnumValueW RegOpenKeyExW RegQueryInfoKeyW""",
    "KERNEL32.dll": """AssignProcessToJobObject CancelIo CloseHandle CompareFileTime ConnectNamedPipe CreateDirectoryW
        CreateEventW CreateFileW CreateJobObjectW CreateNamedPipeW CreatePipe CreateProcessW CreateThread
        CreateToolhelp32Snapshot DeleteCriticalSection DeleteFileW EnterCriticalSection FindClose FindFirstFileW FindNextFileW
        FlushFileBuffers FormatMessageW FreeLibrary GetACP GetComputerNameW GetCurrentProcessId GetCurrentThreadId
        GetDriveTypeW GetExitCodeProcess GetFileAttributesExW GetFileAttributesW GetFileSizeEx GetFileTime GetFullPathNameW GetLastError
        GetModuleFileNameW GetModuleHandleA GetModuleHandleW GetNativeSystemInfo GetOEMCP GetOverlappedResult GetProcAddress
        GetProcessTimes GetStartupInfoW GetStdHandle GetSystemTimeAsFileTime GetTickCount GetTimeZoneInformation
        GetVersionExW GetVolumeInformationW GetVolumePathNameW InitializeCriticalSection LeaveCriticalSection LoadLibraryA
        LoadLibraryW LocalFree MoveFileExW OpenProcess Process32FirstW Process32NextW ProcessIdToSessionId
        QueryPerformanceCounter QueryPerformanceFrequency ReadFile ResumeThread SetEndOfFile SetErrorMode SetEvent
        SetFilePointerEx SetHandleInformation SetInformationJobObject SetLastError SetUnhandledExceptionFilter Sleep
        TerminateJobObject TerminateProcess TlsGetValue VirtualProtect VirtualQuery WTSGetActiveConsoleSessionId
        WaitForMultipleObjects WaitForSingleObject WriteFile lstrcmpW lstrcmpiW lstrcpyW lstrcpynW lstrlenW""",
    "USER32.dll": """CharLowerW CloseDesktop CreateWindowExW DefWindowProcW DispatchMessageW EnumChildWindows EnumWindows
        GetAncestor GetClassNameW GetDesktopWindow GetDlgCtrlID GetForegroundWindow GetGUIThreadInfo GetMessageW
        GetProcessWindowStation GetThreadDesktop GetUserObjectInformationW GetWindow GetWindowLongW GetWindowRect
        GetWindowThreadProcessId InternalGetWindowText IsHungAppWindow IsWindow IsWindowEnabled IsWindowVisible
        OpenInputDesktop RealGetWindowClassW RegisterClassW SendMessageTimeoutW wsprintfW""",
    "msvcrt.dll": """__C_specific_handler __iob_func __p__commode __p__fmode __p__wcmdln __set_app_type __setusermatherr
        __wgetmainargs __winitenv _amsg_exit _cexit _commode _fmode _initterm _iob _onexit _wcmdln _wcsnicmp abort calloc
        exit fprintf free fwrite malloc memchr memcmp memcpy memmove memset realloc signal strlen strncmp vfprintf wcschr
        wcsncmp wcspbrk wcsrchr wcsstr""",
}


@pytest.mark.parametrize(("arch", "version"), [("x86_64", (5, 2)), ("i686", (5, 1))])
def test_nothing_newer_than_windows_xp_is_imported(arch: str, version: tuple[int, int]) -> None:
    dump = subprocess.run(
        ["objdump", "-p", program(arch=arch)],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    ).stdout
    imports: dict[str, set[str]] = {}
    for line in dump[dump.index("Import Tables") :].splitlines():
        if "DLL Name:" in line:
            imports[line.split()[-1]] = names = set()
        elif entry := re.fullmatch(r"\s+[0-9a-f]+\s+\d+\s+(\w+)", line):
            names.add(entry[1])
        elif "Export Tables" in line or "PE File Base" in line:
            break
    assert set(imports) == set(XP)
    assert {dll: names - set(XP[dll].split()) for dll, names in imports.items()} == {dll: set() for dll in XP}
    assert all(len(names) > 5 for names in imports.values())
    for which in ("OSystem", "Subsystem"):
        found = tuple(int(re.search(rf"{end}{which}Version\s+(\d+)", dump)[1]) for end in ("Major", "Minor"))  # type: ignore[index]
        assert found == version


# ---- files -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tree(machine: Machine) -> Path:
    """A tree with every awkward name and size."""
    root = machine.drive / "Praxis Müller"
    rng = random.Random(7)
    names = [
        "Größe.txt",
        "mit Leerzeichen  doppelt.dat",
        "leer",
        ".punkt",
        "日本語.dbf",
        "\U0001f600.dat",
        "U+2028 \u2028.txt",
        "a" * 246 + ".dbf",
        "/".join(["tief" * 10] * 9 + ["b" * 200 + ".txt"]),
        "block.bin",
        "genau.bin",
    ]
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        size = {"leer": 0, "block.bin": 1_000_003, "genau.bin": 262_144}.get(name, rng.randrange(1, 300))
        path.write_bytes(rng.randbytes(size))
        # Every time ends in another 100 ns digit: no rounding to the microseconds of Unix or the 2 s of FAT may hide.
        os.utime(path, ns=(0, rng.randrange(10**9, 2 * 10**9) * 10**9 + rng.randrange(10**7) * 100))
    (root / "leerer Ordner").mkdir()
    (root / "verweis").symlink_to(root / ("tief" * 10), target_is_directory=True)
    return root


ROOT = r"C:\Praxis Müller"


@pytest.mark.parametrize("options", [("--hash",), ("--hash", "--exact"), ("--exact",), ("--listing",), ()])
def test_files(resident: Resident, tree: Path, options: tuple[str, ...]) -> None:
    result = resident.ask("files", *options, ROOT)
    assert result.faults == ()
    assert [(root.path, root.exists, root.type) for root in result.roots] == [(ROOT, True, "dir")]
    found = {entry.path.replace("\\", "/"): entry for entry in result.files}
    on_disk = {str(path.relative_to(tree)): path for path in tree.rglob("*")}
    assert set(found) == set(on_disk)
    for name, path in on_disk.items():
        entry = found[name]
        if path.is_symlink():
            assert entry.kind == "link"
            assert entry.tag is not None
            continue
        assert entry.kind == ("dir" if path.is_dir() else "file")
        assert entry.attr & 0x10 == (0x10 if path.is_dir() else 0)
        assert entry.mtime == filetime(path)
        if path.is_file():
            content = path.read_bytes()
            assert entry.size == len(content)
            assert entry.sha256 == (hashlib.sha256(content).hexdigest() if "--hash" in options else None)
            assert entry.listed == ("--listing" in options)


def test_hashes_of_every_length_around_a_block(resident: Resident, machine: Machine) -> None:
    folder = machine.drive / "laengen"
    folder.mkdir()
    for size in range(200):
        (folder / str(size)).write_bytes(bytes(size))
    result = resident.ask("files", "--hash", r"C:\laengen")
    assert {int(entry.path): entry.sha256 for entry in result.files} == {
        size: hashlib.sha256(bytes(size)).hexdigest() for size in range(200)
    }


def test_roots_that_are_files_missing_links_or_no_paths(resident: Resident, tree: Path) -> None:
    refused = (r"\\.\pipe\x", "CON", r"C:\a*b", r"\\?\GLOBALROOT\Device", "")
    result = resident.ask(
        "files",
        "--hash",
        ROOT + r"\leer",
        r"C:\gibt\es\nicht",
        ROOT + r"\verweis",
        "c:/praxis müller/./x/..//leer",
        *refused,
    )
    assert [(root.exists, root.type) for root in result.roots[:4]] == [
        (True, "file"),
        (False, None),
        (True, "link"),
        (True, "file"),
    ]
    assert [root.exists for root in result.roots[4:]] == [None] * len(refused)
    assert [fault.code for fault in result.faults] == [123] * len(refused)
    assert [(entry.root, entry.kind, entry.path) for entry in result.files] == [
        (0, "file", ""),
        (2, "link", ""),
        (3, "file", ""),
    ]
    assert result.files[0].sha256 == hashlib.sha256(b"").hexdigest()


def test_a_root_may_be_a_drive_and_may_end_in_a_backslash(resident: Resident, tree: Path) -> None:
    assert resident.ask("files", ROOT + "\\").digest == resident.ask("files", ROOT).digest
    result = resident.ask("files", "C:\\", "--max-depth", "40")
    assert result.roots[0].path == "C:\\"
    assert {"windows", "windows\\system32"} <= {entry.path for entry in result.files}


@pytest.fixture(scope="module", params=["never there", "not there any more"])
def no_drive(request: pytest.FixtureRequest, resident: Resident, machine: Machine) -> str:
    """A letter without a drive, as one that another logon session has mapped is here."""
    if request.param == "never there":
        return "Q:"
    (machine.drive / "gemappt").mkdir()
    (machine.drive / "gemappt" / "da.dbf").write_bytes(b"abc")
    mapped = machine.prefix / "dosdevices" / "r:"
    mapped.symlink_to(machine.drive / "gemappt")
    assert resident.ask("read", "R:\\da.dbf").data == b"abc"
    assert [root.exists for root in resident.ask("files", "R:\\", "R:\\none").roots] == [True, False]
    mapped.unlink()
    return "R:"


@pytest.mark.parametrize("session", ["here", "user"])
def test_what_lies_on_a_drive_that_is_not_there_is_not_said_to_be_absent(
    resident: Resident, no_drive: str, session: str
) -> None:
    """From session 0 on Windows the drives that the user has mapped look like this."""
    there = ("--in-session", session)
    paths = [f"{no_drive}\\DATA\\X.DBF", f"{no_drive}\\", f"{no_drive.lower()}/DATA"]
    result = resident.ask("files", *there, *paths, r"C:\none")
    assert [root.exists for root in result.roots] == [None, None, None, False]
    assert [(fault.root, fault.op, fault.code) for fault in result.faults] == [(n, "stat", NO_DRIVE) for n in range(3)]
    result = resident.ask("hash", *there, paths[0], r"C:\none")
    assert [(fault.root, fault.code) for fault in result.faults] == [(0, NO_DRIVE), (1, 2)]
    with pytest.raises(ProbeError, match="no such drive") as caught:
        resident.ask("read", *there, paths[0])
    assert (caught.value.status, caught.value.code) == ("error", NO_DRIVE)


def test_streams(resident: Resident, tree: Path) -> None:
    """Wine's volumes say that they hold no named streams, so this is all that can be seen of them here."""
    assert {entry.streams for entry in resident.ask("files", "--streams", ROOT).files if entry.kind != "link"} == {()}


def test_nothing_is_written(resident: Resident, tree: Path) -> None:
    def state() -> dict[str, tuple[int, int, int, int]]:
        return {
            str(path): (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_mode)
            for path in [tree, *tree.rglob("*")]
            for stat in [path.lstat()]
        }

    before = state()
    resident.ask("files", "--hash", "--streams", "--exact", ROOT)
    resident.ask("read", ROOT + r"\block.bin")
    assert state() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-entries", "3"), "max-entries"),
        (("--max-depth", "4"), "max-depth"),
        (("--max-bytes", "500"), "max-bytes"),
        (("--hash", "--max-read", "1000"), "max-read"),
    ],
)
def test_bounds_truncate(machine: Machine, tree: Path, options: tuple[str, ...], message: str) -> None:
    status, fault = machine.refused("files", *options, ROOT)
    assert (status, fault.status, fault.code) == (3, "truncated", BOUND)
    assert message in fault.reason


def test_a_bound_that_is_just_met_does_not_truncate(resident: Resident, tree: Path) -> None:
    whole = resident.ask("files", "--hash", ROOT)
    content = sum(entry.size for entry in whole.files)
    again = resident.ask(
        "files", "--hash", "--max-entries", str(whole.count), "--max-depth", "10", "--max-read", str(content), ROOT
    )
    assert again.digest == whole.digest
    with pytest.raises(ProbeError):
        resident.ask("files", "--max-depth", "9", ROOT)


def test_a_flat_listing_holds_a_folders_own_entries_and_is_whole(resident: Resident, tree: Path) -> None:
    whole, flat = resident.ask("files", "--streams", ROOT), resident.ask("files", "--flat", "--streams", ROOT)
    assert flat.files == tuple(entry for entry in whole.files if "\\" not in entry.path)
    assert any(entry.kind == "dir" for entry in flat.files)
    assert len(flat.files) < len(whole.files)


def test_a_file_that_nobody_may_open(resident: Resident, machine: Machine) -> None:
    path = machine.drive / "gesperrt" / "a.dbf"
    path.parent.mkdir()
    path.write_bytes(b"abc")
    holder = machine.start(program("specimen"), "lock", r"C:\gesperrt\a.dbf")
    try:
        wait_ready(holder)
        result = resident.ask("files", "--hash", "--exact", r"C:\gesperrt")
        assert [(entry.path, entry.size, entry.sha256) for entry in result.files] == [("a.dbf", 3, None)]
        assert [(fault.path, fault.op, fault.code) for fault in result.faults] == [(r"C:\gesperrt\a.dbf", "hash", 32)]
        result = resident.ask("hash", r"C:\gesperrt\a.dbf")
        assert (result.files, [fault.code for fault in result.faults]) == ((), [32])
        with pytest.raises(ProbeError) as caught:
            resident.ask("read", r"C:\gesperrt\a.dbf")
        assert (caught.value.status, caught.value.code) == ("error", 32)
    finally:
        end(holder)


def test_a_file_that_changes_while_it_is_read(resident: Resident, machine: Machine) -> None:
    path = machine.drive / "waechst.bin"
    with path.open("wb") as file:
        file.truncate(300_000_000)
    resident.send(encode_request(["hash", "--id", "x", r"C:\waechst.bin"]))
    time.sleep(0.2)
    with path.open("ab") as file:
        file.write(b"more")
    (answer,) = resident.receive()
    result = parse(answer, expect_id="x")
    assert (result.files, [fault.code for fault in result.faults]) == ((), [CHANGED])
    path.unlink()


def test_listing_800_files_takes_less_time_than_hashing_them(resident: Resident, machine: Machine) -> None:
    for number in range(800):
        path = machine.drive / "viele" / str(number // 40) / f"datei{number}.dat"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 4_000)
    listed = [resident.ask("files", r"C:\viele") for _ in range(5)]
    hashed = [resident.ask("files", "--hash", r"C:\viele") for _ in range(5)]
    assert {result.count for result in listed + hashed} == {821}
    assert min(result.elapsed_us for result in listed) < min(result.elapsed_us for result in hashed)


# ---- hash and read -----------------------------------------------------------------------------------------------------


def test_hash_reads_a_list(machine: Machine, tree: Path) -> None:
    lines = [
        b"\xef\xbb\xbf" + f"{ROOT}\\Größe.txt\r\n".encode(),
        f"{ROOT}\\leer\n\n".encode(),
        b"C:\\\xff\n",
        b"C:\\" + b"x" * 200_000 + b"\n",
        b"C:\\windows\n",
        "C:\\\ud800\n".encode("utf-8", "surrogatepass"),
        f"{ROOT}\\block.bin".encode(),
    ]
    result = machine.probe("hash", "--list", "-", data=b"".join(lines))
    assert [(entry.root, entry.path, entry.sha256) for entry in result.files] == [
        (root, f"{ROOT}\\{name}", hashlib.sha256((tree / name).read_bytes()).hexdigest())
        for root, name in ((0, "Größe.txt"), (1, "leer"), (6, "block.bin"))
    ]
    assert [(fault.root, fault.code) for fault in result.faults] == [(2, ENCODING), (3, 206), (4, NOT_A_FILE), (5, 2)]
    assert result.faults[3].path == "C:\\\ud800"
    (machine.drive / "liste.txt").write_bytes(b"".join(lines))
    assert machine.probe("hash", "--list", r"C:\liste.txt").digest == result.digest


def test_read(resident: Resident, tree: Path) -> None:
    for name in ("block.bin", "leer", "genau.bin", "Größe.txt"):
        result = resident.ask("read", f"{ROOT}\\{name}")
        assert result.data == (tree / name).read_bytes()
        assert result.files[0].mtime == filetime(tree / name)
        assert result.files[0].attr == resident.ask("files", f"{ROOT}\\{name}").files[0].attr != 0
    assert resident.ask("read", "--max-bytes", "1000003", ROOT + r"\block.bin").files[0].size == 1_000_003
    with pytest.raises(ProbeError) as caught:
        resident.ask("read", "--max-bytes", "1000002", ROOT + r"\block.bin")
    assert caught.value.status == "truncated"
    for path, code in ((r"C:\nirgends", 2), (r"C:\windows", 5), ("NUL", 123)):
        with pytest.raises(ProbeError) as caught:
            resident.ask("read", path)
        assert (caught.value.status, caught.value.code) == ("error", code)


# ---- windows -----------------------------------------------------------------------------------------------------------


def wait_ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        assert selector.select(30), "the program did not start"
    assert process.stdout.readline() == b"ready\n"


def show(
    machine: Machine, resident: Resident, program: str, argument: str, fits: Callable[[WindowEntry], bool]
) -> tuple[subprocess.Popen[bytes], WindowEntry]:
    """Starts a program, again if it ended without a window, and waits for its window.

    The program is named by its whole path: `wine notepad` would be `start.exe`, which starts Notepad and is no more
    told what becomes of it.
    """
    deadline = time.monotonic() + 90
    ended: list[int] = []
    process = machine.start(program, argument)
    while time.monotonic() < deadline:
        for window in resident.ask("windows", "--children").windows:
            if fits(window):
                return process, window
        if (status := process.poll()) is not None and len(ended) < 3:
            ended.append(status)
            process = machine.start(program, argument)
        time.sleep(0.1)
    end(process)
    windows = [(window.exe, window.class_name, window.title) for window in resident.ask("windows").windows]
    raise AssertionError(
        f"{program} showed no window; it had ended with {ended}; programs: {machine.states()}; windows: {windows}; load: "
        f"{os.getloadavg()}. Windows wait for the desktop's explorer.exe: is it there, and not stopped (state T or D)?"
    )


@pytest.fixture(scope="module")
def specimen(machine: Machine) -> Iterator[None]:
    process = machine.start(program("specimen"))
    wait_ready(process)
    yield
    end(process)


def test_notepad_and_its_text(machine: Machine, resident: Resident) -> None:
    (machine.drive / "notiz.txt").write_text("Guten Tag, Welt", encoding="ascii")
    notepad, window = show(
        machine,
        resident,
        r"C:\windows\system32\notepad.exe",
        r"C:\notiz.txt",
        lambda window: window.class_name == "Notepad" and window.title.startswith("notiz"),
    )
    try:
        assert (window.exe, window.visible, window.hung, window.owner) == ("notepad.exe", True, False, 0)
        assert window.path == r"C:\windows\system32\notepad.exe"
        (edit,) = [control for control in window.controls if control.class_name == "Edit"]
        assert edit.text == "Guten Tag, Welt"
        assert window.rect[0] <= edit.rect[0] < edit.rect[2] <= window.rect[2]
        (process,) = [entry for entry in resident.ask("processes").processes if entry.name == "notepad.exe"]
        assert (process.pid, process.path) == (window.pid, window.path)
    finally:
        end(notepad)


def test_every_kind_of_control(specimen: None, resident: Resident) -> None:
    result = resident.ask("windows", "--children")
    window = next(window for window in result.windows if window.title == "Patient \ud800 ü")
    dialog = next(window for window in result.windows if window.title == "Frage")
    assert (window.enabled, window.modal, dialog.owner, dialog.modal) == (False, False, window.hwnd, True)
    assert dialog.z < window.z
    assert window.rect == (50, 60, 450, 480)
    by_id = {control.id: control for control in window.controls if control.parent == window.hwnd}

    def control(number: int) -> ControlEntry:
        return by_id[number]

    assert control(100).text == "Müller \U0001f600"
    assert (control(101).text, control(101).password) == (None, True)
    assert [control(number).checked for number in (102, 103, 104)] == [1, 2, None]
    assert (control(102).text, control(104).enabled, control(100).enabled) == ("Privat", False, True)
    assert (control(105).selected, control(105).selected_text) == (1, "Zwei")
    assert (control(106).selected, control(106).text) == (2, "Drei")
    long_text = "".join({78: "\r", 79: "\n"}.get(i % 80, chr(ord("a") + i % 26)) for i in range(40000))
    assert control(107).text == long_text[:32767]
    assert control(107).text_length == 40000
    assert (control(108).text, control(108).visible) == ("verborgen", False)
    assert all(b"geheim" not in repr(window).encode() for window in result.windows)


def test_without_children_there_are_no_controls(specimen: None, resident: Resident) -> None:
    result = resident.ask("windows")
    assert any(window.title == "Frage" for window in result.windows)
    assert all(not window.controls for window in result.windows)


def test_a_program_that_hangs_holds_nobody_up(machine: Machine, resident: Resident, specimen: None) -> None:
    process = machine.start(program("specimen"), "hang")
    try:
        wait_ready(process)
        began = time.monotonic()
        result = resident.ask("windows", "--children", "--timeout-ms", "200")
        assert time.monotonic() - began < 20, "each of its controls was waited for"
        hung = next(window for window in result.windows if window.hung)
        assert hung.title == "Patient \ud800 ü"
        assert len(hung.controls) >= 9
        assert all(control.text is None for control in hung.controls)
        assert {control.error for control in hung.controls if not control.password} == {1460}
        other = next(window for window in result.windows if window.title == "Patient \ud800 ü" and not window.hung)
        assert any(control.text == "Privat" for control in other.controls)
    finally:
        end(process)


def test_the_probes_own_windows_are_left_out(machine: Machine, resident: Resident) -> None:
    own = resident.ask("version").header.pid
    seen = resident.ask("windows").windows
    assert all(window.pid != own for window in seen)
    # Another probe sees the window of the resident one, so there is something to leave out.
    others = machine.probe("windows").windows
    assert [window.class_name for window in others if window.pid == own and window.class_name != "IME"] == [
        "LegacyproofProbe"
    ]
    assert all(not window.visible for window in others if window.pid == own)


def test_windows_are_bounded(machine: Machine, specimen: None) -> None:
    status, fault = machine.refused("windows", "--max", "1")
    assert (status, fault.status, fault.code) == (3, "truncated", BOUND)


# ---- registry ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def registry(machine: Machine) -> dict[tuple[str, str], tuple[int, bytes]]:
    """Values of every type below HKCU\\Software\\LP Test, as type number and raw bytes."""
    values = {
        ("", "text"): (1, "Grüße \U0001f600\0".encode("utf-16-le")),
        ("", "expand"): (2, "%TEMP%\\x\0".encode("utf-16-le")),
        ("", "binary"): (3, bytes(range(256))),
        ("", "empty"): (3, b""),
        ("", "one"): (3, b"\xaa"),
        ("", "dword"): (4, b"\x01\x02\x03\x04"),
        ("", "big endian"): (5, b"\x04\x03\x02\x01"),
        ("", "multi"): (7, "a\0b\0\0".encode("utf-16-le")),
        ("", "qword"): (11, bytes(range(8))),
        ("", "none"): (0, b"\x01"),
        ("", "own type"): (0x1234, b"xyz"),
        ("", "large"): (3, b"0123456789abcdef" * 4096),
        ("", ""): (1, "default\0".encode("utf-16-le")),
        ("Unter Schlüssel\\tief", "ß \\ \u2028"): (3, b"x"),
    }
    lines = ["Windows Registry Editor Version 5.00", ""]
    for (key, name), (kind, data) in values.items():
        quoted = '"' + name.replace("\\", "\\\\") + '"' if name else "@"
        lines += [_key_line(key)]
        lines += [f"{quoted}=hex({kind:x}):" + ",".join(f"{byte:02x}" for byte in data)]
    path = machine.drive / "test.reg"
    path.write_bytes("\r\n".join([*lines, ""]).encode("utf-16"))
    assert machine.wine("reg", "import", r"C:\test.reg").returncode == 0
    return values


def _key_line(key: str) -> str:
    return "[" + "\\".join(filter(None, [r"HKEY_CURRENT_USER\Software\LP Test", key])) + "]"


KEY = r"HKCU\Software\LP Test"


def test_registry_values_of_every_type(resident: Resident, registry: dict[tuple[str, str], tuple[int, bytes]]) -> None:
    result = resident.ask("registry", r"HKEY_CURRENT_USER\Software\LP Test" + "\\", r"HKCU\Software\LP None", "HKXX\\a")
    assert [(root.path, root.exists) for root in result.roots] == [
        (KEY, True),
        (r"HKCU\Software\LP None", False),
        ("HKXX\\a", None),
    ]
    assert {(value.key[len(KEY) + 1 :], value.name): (value.type, value.data) for value in result.values} == registry
    assert [key.path for key in result.keys] == [KEY, KEY + "\\Unter Schlüssel", KEY + "\\Unter Schlüssel\\tief"]
    assert all(abs(key.mtime - result.header.time) < 3600 * 10**7 for key in result.keys)
    assert [fault.root for fault in result.faults] == [2]


def test_registry_bounds_and_views(
    machine: Machine, resident: Resident, registry: dict[tuple[str, str], tuple[int, bytes]]
) -> None:
    for options in (("--max-entries", "5"), ("--max-depth", "1"), ("--max-bytes", "2000")):
        status, fault = machine.refused("registry", *options, KEY)
        assert (status, fault.code) == (3, BOUND)
    assert machine.wine("reg", "add", r"HKLM\Software\LP64", "/v", "x", "/d", "1", "/reg:64").returncode == 0
    for view, exists in (("64", True), ("32", False)):
        assert resident.ask("registry", "--view", view, r"HKLM\Software\LP64").roots[0].exists is exists
    assert resident.ask("registry", r"HKLM\Software\LP64").roots[0].exists is True


def test_the_whole_software_hive_comes_to_an_end(resident: Resident) -> None:
    result = resident.ask("registry", r"HKLM\Software", "HKCU")
    assert len(result.keys) > 1000
    assert any(skipped.path.endswith(r"\Perflib") for skipped in result.skipped)
    assert not any("perflib" in key.path.lower() for key in result.keys)


def test_a_value_too_large_is_a_fault(machine: Machine, resident: Resident) -> None:
    lines = ["Windows Registry Editor Version 5.00", "", r"[HKEY_CURRENT_USER\Software\LP Large]", '"a"=dword:00000001']
    lines += ['"big"=hex:' + ",".join(["41"] * (2**21 + 1)), '"z"=dword:00000002', ""]
    (machine.drive / "large.reg").write_bytes("\r\n".join(lines).encode("utf-16"))
    assert machine.wine("reg", "import", r"C:\large.reg").returncode == 0
    result = resident.ask("registry", r"HKCU\Software\LP Large")
    assert sorted(value.name for value in result.values) == ["a", "z"]
    assert [fault.code for fault in result.faults] == [BOUND]


# ---- requests ----------------------------------------------------------------------------------------------------------


def test_header(resident: Resident, machine: Machine) -> None:
    header = machine.probe("version").header
    now = time.time_ns() // 100 + FILETIME_EPOCH
    assert abs(header.time - now) < 20 * 10**7
    assert (header.winsta, header.desktop, header.input_desktop) == ("WinSta0", "Default", "Default")
    assert (header.arch, header.os_arch, header.codepage_ansi) == ("x86_64", "x86_64", 1252)
    assert re.fullmatch(r"\d+\.\d+\.\d+", header.os)
    # Wine knows no session 0: that a service sees other windows can be tested on Windows only.
    assert header.sees_user_desktop


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("format", "C:"),
        ("files",),
        ("files", "--max-entries", "5000001", "C:\\"),
        ("files", "--max-entries", "-1", "C:\\"),
        ("files", "--max-entries", "1x", "C:\\"),
        ("files", "--max-depth", "0", "C:\\"),
        ("files", "--children", "C:\\"),
        ("files", "C:\\", "--id"),
        ("files", "--id", "x" * 129, "C:\\"),
        ("hash",),
        ("read",),
        ("read", "a", "b"),
        ("registry", "--view", "33", "HKCU"),
        ("windows", "extra"),
        ("serve", "extra"),
    ],
)
def test_wrong_usage(machine: Machine, argv: tuple[str, ...]) -> None:
    status, fault = machine.refused(*argv)
    assert (status, fault.status, fault.code) == (2, "error", USAGE)


def test_what_follows_two_dashes_is_no_option(resident: Resident) -> None:
    assert resident.ask("registry", "--", r"HKCU\--id").roots[0].exists is False


WRONG_LINES: list[bytes] = [
    b"\n",
    b"[]\n",
    b"{}\n",
    b"[1]\n",
    b'["version"]\n',
    b'["version","--id",""]\n',
    b'["version" "--id","a"]\n',
    b'["version","--id","a"] x\n',
    b'["version","--id","a",]\n',
    b'["version","--id","a\n',
    b'["version","--id","\\x"]\n',
    b'["version","--id","\\u00"]\n',
    b'["version","--id","\\u0000"]\n',
    b'["version","--id","\xff"]\n',
    b'["version","--id","\xc0\x80"]\n',
    b'["serve","--id","a"]\n',
    b'["hash","--id","a","--list","-"]\n',
    b"[" * 60000 + b"\n",
    b"[" + b'"",' * 20000 + b'""]\n',
    b"x" * 70000 + b"\n",
    b"x" * 300000 + b"\n",
]


@pytest.mark.parametrize("line", WRONG_LINES, ids=lambda line: repr(line[:24]))
def test_a_wrong_request_is_answered_and_the_next_one_too(resident: Resident, line: bytes) -> None:
    resident.send(line)
    with pytest.raises(ProbeError) as caught:
        parse(resident.receive()[0], expect_id=None)
    assert (caught.value.status, caught.value.code) == ("error", USAGE)
    assert resident.ask("version").count == 0


def test_no_request_ends_the_resident_probe(resident: Resident) -> None:
    rng = random.Random(11)
    good = encode_request(["files", "--id", "fuzz", "--hash", r"C:\windows\win.ini"])[:-1]
    for _ in range(40):
        lines = []
        for _ in range(10):
            line = bytearray(good)
            for _ in range(rng.randrange(1, 6)):
                line[rng.randrange(len(line))] = rng.choice([*b'\\"[],u0d8\xc3\x00', rng.randrange(256)])
            lines.append(bytes(line).replace(b"\n", b" ") + b"\n")
        resident.send(b"".join(lines))
        resident.receive(10)
    assert resident.ask("version").count == 0


def test_requests_may_come_in_pieces_or_all_at_once(machine: Machine, tree: Path) -> None:
    probe = Resident(machine)
    request = json.dumps(["read", "--id", "ä\ud800", ROOT + r"\Größe.txt"], ensure_ascii=True).encode()
    probe.send(request[:20])
    time.sleep(0.2)
    probe.send(request[20:] + b"\n" + (request + b"\r\n") * 20)
    for answer in probe.receive(21):
        assert parse(answer, expect_id="ä\ud800").data == (tree / "Größe.txt").read_bytes()
    assert probe.process.stdin
    probe.process.stdin.close()
    assert probe.process.wait(10) == 0


def test_answers_are_plain_lines(machine: Machine, tree: Path) -> None:
    data = machine.wine(program(), "files", "--hash", ROOT).stdout
    assert b"\r" not in data
    for line in data.split(b"\n")[:-1]:
        record: dict[str, Any] = json.loads(line)
        assert next(iter(record)) == "r"


def test_tools_are_there() -> None:
    """The probe cannot be trusted unseen: without these programs its tests fail, they are not skipped."""
    for tool in ("x86_64-w64-mingw32-gcc", "i686-w64-mingw32-gcc", "make", "objdump", "Xtigervnc", WINE, WINESERVER):
        assert shutil.which(tool), tool
