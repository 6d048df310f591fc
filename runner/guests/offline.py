r"""The way into a machine that is off: its volumes, read from the disk, told in the words of the native probe.

What a disk can show (files and the registry's hives) is read with :mod:`runner.offline`; windows and processes only a living machine
has. For the same state of a volume the answers are those of the probe (``vm_images/probe/README.md``), except that nobody is there to
deny access, that 8.3 names are those that the volume keeps and not those that Wine makes up, and that on a volume kept by Wine a
symbolic link to a file is a link, not that file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PureWindowsPath
from typing import Any, Literal, NamedTuple

from runner.guests.base import Completed, Guest, GuestNotFound, Unreadable
from runner.guests.offline_tree import (
    NOT_FOUND,
    Answer,
    Mistake,
    Options,
    content_of,
    entry_of,
    in_pieces,
    kind_of,
    options,
    walk,
)
from runner.guests.probe import (
    FaultEntry,
    FileEntry,
    KeyEntry,
    ProbeError,
    ProbeHeader,
    ProbeResult,
    RegistryValue,
    RootEntry,
    SkippedKey,
)
from runner.hives import place_of, read_hive
from runner.offline.ntfs.record import DOS
from runner.offline.ntfs.volume import File, Volume

MAX_HIVE = 1 << 30
"""The largest hive that is read, in bytes."""
_BAD_NAME, _IS_LINK = 123, 4390
"""Codes of Windows: wrong name; it is a reparse point."""
_PROFILES = ("Users", "Documents and Settings")
_NO_PROFILES = frozenset({"DEFAULT", "DEFAULT USER", "PUBLIC", "ALL USERS", "LOCALSERVICE", "NETWORKSERVICE"})
_PROFILE_LIST = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\ProfileList"


class OfflineGuest:
    """A guest (see :class:`runner.guests.base.Guest`) that reads volumes and cannot do anything else."""

    def __init__(self, volumes: Mapping[str, Volume], live: Guest | None = None, *, user: str = "") -> None:
        r"""Takes the volumes.

        Args:
            volumes: By drive: ``C:``. They stay the caller's, who keeps their disks open.
            live: Another way into the same machine, for what a disk does not show; ``None``: that is unreadable.
            user: Name of the profile's folder whose registry is ``HKCU``; empty: the only profile there is.
        """
        self._volumes = {drive.rstrip(":\\").upper(): volume for drive, volume in volumes.items()}
        self._live = live
        self._user = user

    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        """See :meth:`Guest.probe`. Windows and processes are asked of the living machine, where there is one."""
        deadline = time.monotonic() + timeout
        command, *rest = argv
        match command:
            case "files":
                return self._files(options(rest), deadline)
            case "hash":
                return self._hash(options(rest), deadline)
            case "read":
                return self._read(options(rest), deadline)
            case "registry":
                return self._registry(options(rest))
            case "version":
                return _result(command)
            case "windows" | "processes":
                if self._live is None:
                    raise Unreadable(f"a disk does not show {command}: they must be read while the machine runs")
                return self._live.probe(*argv, timeout=timeout)
            case _:
                raise ProbeError(f"the probe knows no command {command!r}", status="error")

    def read(self, path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        """See :meth:`Guest.read`."""
        deadline = time.monotonic() + timeout
        found = self._find(str(path))
        if found is None:
            raise GuestNotFound(str(path))
        try:
            content = content_of(found.volume, found.file, found.stream)
            if content.size > limit:
                raise Unreadable(f"holds {content.size} bytes, more than the {limit} accepted")
            return b"".join(in_pieces(content, deadline))
        except GuestNotFound:
            raise GuestNotFound(str(path)) from None
        except Unreadable as error:
            raise Unreadable(f"{path}: {error.reason}") from None

    def write(self, path: PureWindowsPath, data: bytes, *, timeout: float = 30.0) -> None:  # noqa: ARG002
        """Refuses: a disk is only read.

        Raises:
            Unreadable: Always.
        """
        raise Unreadable(f"{path} cannot be written: the machine is read from its disk, which is never changed")

    def run(self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20) -> Completed:  # noqa: ARG002
        """Refuses: a disk runs nothing.

        Raises:
            Unreadable: Always.
        """
        raise Unreadable(f"{argv[0]} cannot be run: the machine is read from its disk")

    def start(self, argv: Sequence[str], *, cwd: PureWindowsPath | None = None) -> None:  # noqa: ARG002
        """Refuses: a disk runs nothing.

        Raises:
            Unreadable: Always.
        """
        raise Unreadable(f"{argv[0]} cannot be started: the machine is read from its disk")

    # --- finding ---

    def _find(self, path: str) -> _Found | None:
        """The file at an absolute path; ``None``: there is none, positively.

        Raises:
            Unreadable: It is no such path, its drive is not among the volumes, a link lies on the way, or the volume is damaged.
        """
        plain = path.removeprefix("\\\\?\\").replace("/", "\\")
        drive, below = plain[:1].upper(), plain[2:]
        names = [name for name in below.split("\\") if name]
        stream = ""
        if names:
            names[-1], _, stream = names[-1].partition(":")
            stream = stream.removesuffix(":$DATA")
        if plain[1:2] != ":" or below[:1] != "\\" or any(n in {"", ".", ".."} or set(n) & _FORBIDDEN for n in names):
            raise Mistake(f"{path[:200]!r} is no absolute path of a drive", _BAD_NAME)
        volume = self._volumes.get(drive)
        if volume is None:
            raise Unreadable(
                f"the drive {drive}: is on none of the disks that are read (`drive:` in the image's manifest)"
            )
        found = volume.find(names)
        if found is None:
            return None
        file, depth = found
        if depth < len(names):
            way = "\\".join((f"{drive}:", *names[:depth]))
            tag, target = file.reparse or (0, "")
            where = f"to {target}" if target else f"(tag {tag:#x})"
            raise Mistake(f"{way} is a link {where}: name the place that it leads to", _IS_LINK)
        return _Found(volume, file, names[-1] if names else "", stream)

    # --- files ---

    def _files(self, request: Options, deadline: float) -> ProbeResult:
        answer = Answer(request, deadline)
        for number, path in enumerate(request.paths):
            self._root(answer, number, path)
        return _result("files", answer)

    def _root(self, answer: Answer, number: int, path: str) -> None:
        shown = path.removeprefix("\\\\?\\")
        try:
            found = self._find(path)
            kind = None if found is None else kind_of(found.volume, found.file)[0]
        except Unreadable as error:
            answer.roots.append(RootEntry(number, shown, None, None))
            answer.fault(shown, "stat", error, number)
            return
        answer.roots.append(RootEntry(number, shown, found is not None, kind))
        if found is None:
            return
        if kind == "dir":
            walk(found.volume, found.file, number, shown, answer)
            return
        try:
            answer.add(entry_of(found.volume, found.file, number, "", shown, found.short, answer))
        except ProbeError:
            raise
        except Unreadable as error:
            answer.fault(shown, "stat", error, number)

    def _hash(self, request: Options, deadline: float) -> ProbeResult:
        answer = Answer(request, deadline)
        for number, path in enumerate(request.paths):
            try:
                found = self._find(path)
                if found is None:
                    answer.add(FaultEntry(path, "open", NOT_FOUND, "the file is not there", number))
                else:
                    answer.add(_hashed(found, path, number, answer))
            except ProbeError:
                raise
            except (Unreadable, GuestNotFound) as error:
                answer.fault(path, "hash", error, number)
        return _result("hash", answer)

    def _read(self, request: Options, deadline: float) -> ProbeResult:
        if len(request.paths) != 1:
            raise ProbeError("`read` takes one path", status="error")
        path = request.paths[0]
        try:
            data = self.read(
                PureWindowsPath(path), limit=request.numbers["--max-bytes"], timeout=deadline - time.monotonic()
            )
            found = self._find(path)
            assert found is not None
            answer = Answer(request, deadline)
            answer.add(_hashed(found, path, 0, answer))
        except GuestNotFound:
            raise ProbeError(f"{path}: the file is not there", status="error", code=NOT_FOUND) from None
        return replace(_result("read", answer), data=data)

    # --- registry ---

    def _registry(self, request: Options) -> ProbeResult:
        view: Literal[32, 64] | None = {32: 32, 64: 64}.get(request.numbers["--view"])  # type: ignore[assignment]
        roots: list[RootEntry] = []
        keys: list[KeyEntry] = []
        values: list[RegistryValue] = []
        skipped: list[SkippedKey] = []
        for number, root in enumerate(request.paths):
            state = read_hive(self._hive(root, view), root, view=view)
            roots.append(RootEntry(number, root, state.exists, "key" if state.exists else None))
            keys += [KeyEntry(number, _below(root, key.path), key.mtime, key.volatile) for key in state.keys]
            values += [RegistryValue(number, _below(root, v.key), v.name, v.type, v.data) for v in state.values]
            skipped += [SkippedKey(number, _below(root, path), "perflib") for path, _ in state.skipped]
        return _result("registry", roots=tuple(roots), keys=tuple(keys), values=tuple(values), skipped=tuple(skipped))

    def _hive(self, root: str, view: Literal[32, 64] | None) -> bytes:
        """The hive file that holds a key.

        Raises:
            Unreadable: It lies in no single one, or there is none on the disk.
        """
        file = place_of(root, view).file
        folder = "C:" if file.upper().startswith("WINDOWS\\") else self._profile(root)
        try:
            return self.read(PureWindowsPath(f"{folder}\\{file}"), limit=MAX_HIVE, timeout=120.0)
        except GuestNotFound:
            raise Unreadable(
                f"{root}: the disk has no {folder}\\{file}, so this machine keeps its registry elsewhere (Wine does): read it "
                "while the machine runs"
            ) from None

    def _profile(self, root: str) -> str:
        """The folder of the user's profile whose hives hold a key."""
        short, _, rest = root.partition("\\")
        user = rest.split("\\")[0].upper().removesuffix("_CLASSES")
        if short == "HKU" and user.startswith("S-1-5-21-"):
            return self._profile_of(user, root)
        for parent in _PROFILES:
            names = self._profiles_in(f"C:\\{parent}")
            if self._user:
                names = [name for name in names if name.upper() == self._user.upper()]
            if len(names) > 1:
                raise Unreadable(f"{root}: of which user? The disk has profiles of {', '.join(sorted(names)[:20])}")
            if names:
                return f"C:\\{parent}\\{names[0]}"
        whose = f" of {self._user}" if self._user else ""
        raise Unreadable(
            f"{root}: the disk has no profile{whose} with a registry (NTUSER.DAT), so this machine keeps it elsewhere (Wine "
            "does): read it while the machine runs"
        )

    def _profiles_in(self, parent: str) -> list[str]:
        found = self._find(parent)
        if found is None or kind_of(found.volume, found.file)[0] != "dir":
            return []
        return [
            entry.name.name
            for entry in found.volume.entries(found.file)
            if entry.name.namespace != DOS
            and entry.name.name.upper() not in _NO_PROFILES
            and self._has_hive(f"{parent}\\{entry.name.name}")
        ]

    def _has_hive(self, profile: str) -> bool:
        try:
            return self._find(f"{profile}\\NTUSER.DAT") is not None
        except Mistake:
            return False  # a link to another profile, such as `All Users`

    def _profile_of(self, sid: str, root: str) -> str:
        """The folder of a profile by its owner's identifier, as Windows notes it."""
        key = f"{_PROFILE_LIST}\\{sid}"
        for value in read_hive(self._hive(key, None), key).values:
            if not value.key and value.name.upper() == "PROFILEIMAGEPATH":
                path = value.data.decode("utf-16-le", "replace").rstrip("\0")
                return "C:" + path[len("%SystemDrive%") :] if path.upper().startswith("%SYSTEMDRIVE%") else path
        raise Unreadable(f"{root}: the disk knows no profile of {sid}")


_FORBIDDEN = frozenset(':\0*?"<>|')


class _Found(NamedTuple):
    """A file, the name that led to it, and the stream that the path names."""

    volume: Volume
    file: File
    name: str
    stream: str

    @property
    def short(self) -> str | None:
        """The 8.3 alias of the name that led to it, where it has one."""
        folded = self.volume.fold(self.name)
        link = next((name for name in self.file.links if self.volume.fold(name.name) == folded), None)
        if link is None:
            return None
        return next((n.name for n in self.file.names if n.namespace == DOS and n.parent == link.parent), None)


def _hashed(found: _Found, path: str, number: int, answer: Answer) -> FileEntry:
    content = content_of(found.volume, found.file, found.stream)
    digest = answer.hash(content)
    plain = Answer(options(()), answer.deadline)
    entry = entry_of(found.volume, found.file, number, path, path, None, plain)
    return replace(entry, size=content.size, sha256=digest)


def _below(root: str, path: str) -> str:
    return f"{root}\\{path}" if path else root


def _result(command: str, answer: Answer | None = None, **parts: Any) -> ProbeResult:
    header = ProbeHeader(
        version=1, command=command, id="", pid=0, time=0, tz_bias_min=0, session=None, winsta=None, desktop=None,
        input_desktop=None, os="", arch="", os_arch=None, codepage_ansi=0, codepage_oem=0, computer=None, user=None,
    )  # fmt: skip
    if answer is not None:
        parts = {"roots": tuple(answer.roots), "files": tuple(answer.files), "faults": tuple(answer.faults)}
    return ProbeResult(header, sum(map(len, parts.values())), "", 0, **parts)
