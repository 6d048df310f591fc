"""Checks of a guest: files are read as they are, and reading leaves no trace."""

from __future__ import annotations

import hashlib
from pathlib import PureWindowsPath

from runner.conformance.checks import Collection, Failed, NotApplicable, expect, expect_raised
from runner.conformance.props import cmd, system, until
from runner.conformance.scene import Scene
from runner.guests.base import Guest, GuestNotFound, Unreadable
from runner.guests.probe import FileEntry

GUEST_FILES = Collection()
_check = GUEST_FILES.check
_BYTES = bytes(range(256)) * 300
"""Every byte; longer than the pieces that some channels send."""
_BIG = 50 << 20


def _files(guest: Guest, *argv: str) -> dict[str, FileEntry]:
    return {entry.path: entry for entry in guest.probe("files", *argv, timeout=60).files}


def _mark(guest: Guest, file: PureWindowsPath) -> None:
    """Makes a file read-only and hidden; one after the other, since Wine's attrib.exe takes only the last of two."""
    for attribute in ("+R", "+H"):
        expect(cmd(guest, "attrib", attribute, str(file)).status == 0, "attrib.exe failed")


def _round_trip(guest: Guest, file: PureWindowsPath, data: bytes) -> None:
    guest.write(file, data)
    got = guest.read(file, limit=len(data))
    expect(got == data, f"{file}: {len(data)} bytes written, {len(got)} read, and they differ")


# --- what is not there, or not a file --------------------------------------------------------------------------------


@_check(
    "read-missing",
    proves="A file that is not there is GuestNotFound, in a folder that is there and in one that is not.",
    means="What could not be read would count as not there, and a broken reading would count as a deleted file.",
    remedy="Raise GuestNotFound only for the system's own answer: file not found, path not found.",
)
def _read_missing(scene: Scene) -> None:
    folder = scene.folder("read-missing")
    scene.guest.write(folder / "there.txt", b"x")
    for path in (folder / "missing.txt", folder / "no folder" / "missing.txt"):
        expect_raised(GuestNotFound, lambda p=path: scene.guest.read(p, limit=100), str(path))  # type: ignore[misc]


@_check(
    "read-folder",
    proves="Reading a folder as a file is Unreadable.",
    means="A folder in place of a table would count as an empty or missing table.",
    remedy="Raise Unreadable for everything that is there and is no plain file.",
)
def _read_folder(scene: Scene) -> None:
    scene.guest.write(scene.folder("read-folder") / "x.txt", b"x")
    expect_raised(Unreadable, lambda: scene.guest.read(scene.folder("read-folder"), limit=1 << 20), "a folder")


@_check(
    "read-limit",
    proves="A file beyond the limit is Unreadable, one of just the limit is read.",
    means="A file cut off at the limit would be compared as if it were whole.",
    remedy="Ask for the size first, and stop at one byte more than the limit.",
)
def _read_limit(scene: Scene) -> None:
    file = scene.folder("read-limit") / "1000.bin"
    scene.guest.write(file, b"x" * 1000)
    expect(scene.guest.read(file, limit=1000) == b"x" * 1000, "at the limit it is not read whole")
    expect_raised(Unreadable, lambda: scene.guest.read(file, limit=999), "one byte beyond the limit")


# --- contents --------------------------------------------------------------------------------------------------------


@_check(
    "read-empty",
    proves="A file of no length is read as empty, and listed with size 0.",
    means="Empty files would count as missing or as unreadable.",
    remedy="Let an end mark, not the absence of data, say that the reading is whole.",
)
def _read_empty(scene: Scene) -> None:
    file = scene.folder("read-empty") / "leer.txt"
    _round_trip(scene.guest, file, b"")
    expect(_files(scene.guest, str(file.parent))["leer.txt"].size == 0, "it is not listed with size 0")


@_check(
    "read-binary",
    proves="Every byte is read as it was written.",
    means="Tables would be compared in a changed form: line ends, NUL, 26 (end of file) or bytes beyond ASCII.",
    remedy="Open files in binary mode; carry bytes in base64; turn no encoding into another.",
)
def _read_binary(scene: Scene) -> None:
    _round_trip(scene.guest, scene.folder("read-binary") / "alle.bin", _BYTES)


@_check(
    "read-large",
    proves="A file of 50 MB is written and read whole.",
    means="Large tables could not be observed.",
    remedy="Send it in pieces, each with length and hash; let the caller's time-out hold for all of them together.",
    slow=True,
    seconds=900,
)
def _read_large(scene: Scene) -> None:
    file = scene.folder("read-large") / "gross.bin"
    block = b"".join(hashlib.sha256(number.to_bytes(4)).digest() for number in range(1 << 15))
    data = (block * (_BIG // len(block)))[:_BIG]
    scene.guest.write(file, data, timeout=420)
    expect(scene.guest.read(file, limit=_BIG, timeout=420) == data, "what was read differs from what was written")
    cmd(scene.guest, "del", str(file))


@_check(
    "read-case",
    proves="Paths are found whatever their case, umlauts included.",
    means="A table would be missing because a contract writes its name in another case.",
    remedy="Let Windows resolve paths, or compare as NTFS does.",
)
def _read_case(scene: Scene) -> None:
    folder = scene.folder("read-case")
    scene.guest.write(folder / "Übung" / "Größe.DAT", b"x")
    for path in (
        folder / "übung" / "grÖSSe.dat".replace("SS", "ß"),
        PureWindowsPath(str(folder).upper()) / "ÜBUNG" / "größe.dat",
    ):
        expect(scene.guest.read(path, limit=10) == b"x", f"{path} does not hold what was written")


@_check(
    "write-again",
    proves="Writing replaces what was there, also by less; folders are made.",
    means="Set-up steps would leave rests of older files.",
    remedy="Cut the file to length when it is opened for writing.",
)
def _write_again(scene: Scene) -> None:
    file = scene.folder("write-again") / "neu" / "tiefer" / "x.txt"
    for data in (b"a long first text", b"short", b""):
        _round_trip(scene.guest, file, data)


# --- names -----------------------------------------------------------------------------------------------------------


@_check(
    "path-umlauts",
    proves="Names with umlauts, ß, € and other letters are written, read and listed.",
    means="Folders such as `C:\\Büro` could not be observed.",
    remedy="Carry paths in UTF-8 or UTF-16 all the way; no step may use the ANSI code page.",
)
def _path_umlauts(scene: Scene) -> None:
    _names(scene, "path-umlauts", ["äöüÄÖÜß.txt", "20 € Łódź ñandú.txt", "Ελλάδα кириллица 日本.txt"])


@_check(
    "path-signs",
    proves="Names with blanks and the signs that Windows allows are written, read and listed.",
    means="Files with such names would be missing, or commands would be run that nobody meant.",
    remedy="Quote by Windows' own rules, and let no shell see a path.",
)
def _path_signs(scene: Scene) -> None:
    _names(
        scene,
        "path-signs",
        [
            "a b  c.txt",
            " begins with a blank.txt",
            "100% %PATH% (1) [2] {3}.txt",
            "a&b^c!d'e`f,g;h=i+j@k#l$m~n.txt",
            "-x",
            "no ending",
        ],
    )


@_check(
    "path-long",
    proves="A path of 250 characters is written, read and listed.",
    means="Files deep in a tree would be missing.",
    remedy="Hand paths on without a bound of your own; prefix `\\\\?\\` where Windows has one.",
)
def _path_long(scene: Scene) -> None:
    folder = scene.folder("path-long")
    rest = 250 - len(str(folder)) - 1
    file = folder / ("o" * 60) / ("l" * 60) / ("n" * (rest - 122))
    expect(len(str(file)) == 250, f"the path has {len(str(file))} characters")
    _round_trip(scene.guest, file, b"deep")
    expect(any(path.endswith(file.name) for path in _files(scene.guest, str(folder))), "it is not listed")


@_check(
    "path-short",
    proves="A file is found by its 8.3 name where it has one.",
    means="Old programs store such paths; a contract that names one would find nothing there.",
    remedy="Let Windows resolve paths; never look names up in a list of long names alone.",
)
def _path_short(scene: Scene) -> None:
    folder = scene.folder("path-short")
    scene.guest.write(folder / "Ein langer Name.text", b"x")
    short = _files(scene.guest, str(folder))["Ein langer Name.text"].short
    if short is None:
        raise NotApplicable("the volume makes no 8.3 names")
    try:
        got = scene.guest.read(folder / short, limit=10)
    except GuestNotFound:
        raise Failed(f"{short} is said not to be there, but it is the 8.3 name of a file that is") from None
    expect(got == b"x", f"{short} does not hold what the file holds")


@_check(
    "path-reserved",
    proves="Names of devices (CON, NUL, AUX) are never read from the device: they are a file's, or not there.",
    means="A reading could wait for a console for ever, or be empty without saying so.",
    remedy="Open paths with the prefix `\\\\?\\`, which makes such names ordinary, or refuse them.",
)
def _path_reserved(scene: Scene) -> None:
    folder = scene.folder("path-reserved")
    for name in ("CON", "NUL", "aux.txt"):
        data = f"file {name}".encode()
        try:
            scene.guest.write(folder / name, data)
        except Unreadable:
            expect_raised((GuestNotFound, Unreadable), lambda n=name: scene.guest.read(folder / n, limit=100), name)  # type: ignore[misc]
        else:
            expect(scene.guest.read(folder / name, limit=100) == data, f"{name} does not hold what was written")


def _names(scene: Scene, check: str, names: list[str]) -> None:
    folder = scene.folder(check)
    for name in names:
        _round_trip(scene.guest, folder / name, name.encode())
    missing = set(names) - set(_files(scene.guest, str(folder)))
    expect(not missing, f"not listed: {', '.join(sorted(missing))}")


# --- files in use ----------------------------------------------------------------------------------------------------


@_check(
    "read-in-use",
    proves="A file that a program holds open for writing is read.",
    means="The tables of a running program could not be observed.",
    remedy="Open with sharing for reading, writing and deleting.",
)
def _read_in_use(scene: Scene) -> None:
    folder = scene.folder("read-in-use")
    script, file = folder / "halten.cmd", folder / "offen.txt"
    scene.guest.write(script, b"@echo off\r\necho first\r\nping -n 8 127.0.0.1 >nul\r\n")
    scene.guest.start([system("cmd.exe"), "/c", f"{script} > {file}"])

    def content() -> bytes:
        try:
            return scene.guest.read(file, limit=1000)
        except (GuestNotFound, Unreadable):  # it is being written just now
            return b""

    until(lambda: content() == b"first\r\n", "its content cannot be read")
    answer = scene.guest.probe("files", "--hash", str(file))
    expect(not answer.faults, f"the probe cannot read it: {answer.faults[:1]}")
    expect(answer.files[0].sha256 == hashlib.sha256(b"first\r\n").hexdigest(), "the probe's hash is another")


@_check(
    "read-growing",
    proves="A file that grows while it is read gives a whole beginning of it, or Unreadable.",
    means="A torn state would be compared as if it had ever been there.",
    remedy="Compare size and time before and after the reading; say Unreadable when they differ.",
)
def _read_growing(scene: Scene) -> None:
    folder = scene.folder("read-growing")
    file = folder / "waechst.txt"
    scene.guest.write(folder / "x.txt", b"")
    lines = 400
    whole = b"".join(b"line %d\r\n" % number for number in range(1, lines + 1))
    scene.guest.start([system("cmd.exe"), "/c", f"for /L %i in (1,1,{lines}) do @echo line %i>>{file}"])

    def grown() -> bool:
        try:
            got = scene.guest.read(file, limit=1 << 20)
        except (Unreadable, GuestNotFound):
            return False
        expect(whole.startswith(got), f"{len(got)} bytes were read that the file never began with")
        return len(got) == len(whole)

    until(grown, "it does not reach its full length", 180)


@_check(
    "read-locked",
    proves="A file that the system holds for itself is Unreadable, not missing and not empty.",
    means="A table that a program has locked would count as deleted or emptied.",
    remedy="Tell a sharing violation from 'not found'.",
)
def _read_locked(scene: Scene) -> None:
    held = [r"C:\windows\system32\config\SAM", r"C:\pagefile.sys", r"C:\swapfile.sys"]
    there = [root.path for root in scene.guest.probe("files", *held).roots if root.exists is not False]
    if not there:
        raise NotApplicable("the system holds no file that way: none of those that Windows locks is there")
    for path in there:
        try:
            got = scene.guest.read(PureWindowsPath(path), limit=4 << 30, timeout=10)
        except Unreadable:
            continue
        except GuestNotFound:
            raise Failed(f"{path} is said not to be there") from None
        expect(got, f"{path} is said to be empty")


@_check(
    "read-no-trace",
    proves="Reading, listing and hashing change neither times nor attributes.",
    means="The observation itself would be reported as a side effect.",
    remedy="Open for reading only; never set attributes or times back, but leave them alone.",
)
def _read_no_trace(scene: Scene) -> None:
    folder = scene.folder("read-no-trace")
    file = folder / "spur.txt"
    scene.guest.write(file, b"untouched")
    _mark(scene.guest, file)
    before = _files(scene.guest, "--exact", str(folder))["spur.txt"]
    until(lambda: scene.guest.probe("version").header.time > before.mtime + 20_000_000, "the clock stands still")
    scene.guest.read(file, limit=100)
    scene.guest.probe("read", str(file))
    scene.guest.probe("files", "--hash", "--streams", str(folder))
    after = _files(scene.guest, "--exact", str(folder))["spur.txt"]
    for what in ("mtime", "ctime", "attr", "size"):
        expect(
            getattr(before, what) == getattr(after, what),
            f"{what}: {getattr(before, what)}, then {getattr(after, what)}",
        )


# --- listings --------------------------------------------------------------------------------------------------------


@_check(
    "list-missing",
    proves="A root that is not there is listed as not there, beside one that is.",
    means="A missing folder would be an empty one, or make the whole reading fail.",
    remedy="Pass the probe's answer on whole.",
)
def _list_missing(scene: Scene) -> None:
    folder = scene.folder("list-missing")
    scene.guest.write(folder / "x.txt", b"x")
    answer = scene.guest.probe("files", str(folder / "missing"), str(folder))
    expect([root.exists for root in answer.roots] == [False, True], f"{[root.exists for root in answer.roots]}")
    expect([entry.path for entry in answer.files] == ["x.txt"], "the other root is not listed")


@_check(
    "list-complete",
    proves="A hundred files are listed with their sizes, none missing and none twice.",
    means="Files that are left out of a listing would count as deleted, or never be seen.",
    remedy="Check the probe's count and digest; refuse answers without an end.",
)
def _list_complete(scene: Scene) -> None:
    folder = scene.folder("list-complete")
    scene.guest.write(folder / "x.txt", b"x")
    done = cmd(scene.guest, f"for /L %i in (101,1,200) do @echo %i>{folder}\\%i.txt", timeout=90)
    expect(done.status == 0, f"cmd.exe ended with {done.status}")
    answer = scene.guest.probe("files", str(folder))
    got = sorted((entry.path, entry.size) for entry in answer.files)
    expect(got == [*((f"{number}.txt", 5) for number in range(101, 201)), ("x.txt", 1)], f"{len(got)} files are listed")


@_check(
    "list-hash",
    proves="The hash in a listing is that of the bytes that are read.",
    means="A change would be missed, or one be seen that is none.",
    remedy="Hash in the guest over the whole content, of the same file that is read.",
)
def _list_hash(scene: Scene) -> None:
    file = scene.folder("list-hash") / "alle.bin"
    scene.guest.write(file, _BYTES)
    wanted = hashlib.sha256(_BYTES).hexdigest()
    expect(
        _files(scene.guest, "--hash", str(file.parent))["alle.bin"].sha256 == wanted, "the listing's hash is another"
    )
    answer = scene.guest.probe("read", str(file))
    expect(answer.data == _BYTES, "the probe reads other bytes than were written")


@_check(
    "list-attributes",
    proves="Attributes and times that a program sets are listed.",
    means="A file made read-only or hidden would not be seen.",
    remedy="List what the file itself says, not what a copy of it says.",
)
def _list_attributes(scene: Scene) -> None:
    file = scene.folder("list-attributes") / "x.txt"
    scene.guest.write(file, b"x")
    before = scene.guest.probe("version").header.time
    expect(cmd(scene.guest, f"echo later>{file}").status == 0, "cmd.exe could not write to it")
    _mark(scene.guest, file)
    entry = _files(scene.guest, "--exact", str(file.parent))["x.txt"]
    expect(entry.attr & 3 == 3, f"the attributes are {entry.attr:#x}, without read-only and hidden")
    # FAT keeps times to two seconds.
    expect(entry.mtime >= before - 20_000_000, "the time of the last write is older than the write")
