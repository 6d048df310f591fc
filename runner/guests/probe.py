"""Reads what the native guest probe wrote: JSON lines with a header, records, and an end that proves them whole.

Pure functions of bytes: no guest, no clock, no files. The format is defined in ``vm_images/probe/README.md``. The bytes
come from a machine that an agent had in its hands, so nothing in them is trusted: every bound, type and count is checked,
and whatever does not add up is a :class:`ProbeError`, never a shorter result.

Times are Windows FILETIMEs throughout: 100 ns units since 1601-01-01 UTC. Texts may hold lone UTF-16 surrogates, because
file names and window titles may; encode them with ``surrogatepass`` or ``backslashreplace``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn

from runner.guests.base import Unreadable

__all__ = [
    "AnswerSplitter",
    "ControlEntry",
    "FaultEntry",
    "FileEntry",
    "KeyEntry",
    "ProbeError",
    "ProbeHeader",
    "ProbeLimits",
    "ProbeResult",
    "ProcessEntry",
    "RanEntry",
    "RegistryValue",
    "RootEntry",
    "SkippedKey",
    "SpilledAnswer",
    "StreamEntry",
    "WindowEntry",
    "encode_request",
    "parse",
    "spilled",
]

REQUEST_LINE_LIMIT = 64 * 1024
"""Bytes of one request line of a resident probe, its newline included."""

_END_PREFIX = b'{"r":"end",'
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOT_BELOW = re.compile(r"[/\0]|(?:^|\\)\.{0,2}(?:\\|\Z)")  # an empty component, "." or "..", or what no name can hold
_U16, _U32, _U64 = 2**16 - 1, 2**32 - 1, 2**64 - 1
_I32 = 2**31


class ProbeError(Unreadable):
    """The probe's answer is missing, cut, contradictory, or says itself that it is not whole.

    Attributes:
        reason: What is wrong, for people.
        status: ``"truncated"`` (a bound was reached) or ``"error"`` if a whole, verified answer said so, else ``None``.
        code: The Windows error code, or the probe's own (bit 29 set), that came with the status.
    """

    def __init__(
        self, reason: str, *, status: Literal["truncated", "error"] | None = None, code: int | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class ProbeLimits:
    """What an answer may cost its reader.

    Attributes:
        total_bytes: The whole answer.
        line_bytes: One line; the largest that a probe writes is a registry value of 2 MiB in base64.
        records: Records between header and end.
    """

    total_bytes: int = 1 << 30
    line_bytes: int = 4 << 20
    records: int = 5_000_000


@dataclass(frozen=True, slots=True)
class ProbeHeader:
    """Where and when the probe ran. Not covered by the digest.

    Attributes:
        version: Of the format.
        command: The command that was answered, ``"?"`` for a request that names none.
        id: The caller's request id.
        pid: The probe's process id.
        time: When the answer began, FILETIME.
        tz_bias_min: Minutes to add to local time for UTC, daylight saving included.
        session: Terminal session; 0 is that of services, where no user's windows are. ``None``: unknown.
        winsta: Window station.
        desktop: The probe's desktop.
        input_desktop: The desktop that gets input; another than ``desktop`` or ``None`` means locked or secure.
        os: Version, ``major.minor.build``.
        arch: Of the probe's build, ``x86_64`` or ``i686``.
        os_arch: Of the system, ``None`` if the probe did not say.
        codepage_ansi: The system's ANSI code page.
        codepage_oem: The system's OEM code page.
        computer: Computer name.
        user: User name.
        console_session: The session at the console, ``None`` if none is just now.
        screen: Whose the screen is, seen from the probe: ``user``, ``service`` (the probe is where no user is), ``locked``,
            ``secure`` (a prompt for consent), ``locked_or_secure``, ``screen_saver`` or ``other``; ``None`` if it does not say.
    """

    version: int
    command: str
    id: str
    pid: int
    time: int
    tz_bias_min: int
    session: int | None
    winsta: str | None
    desktop: str | None
    input_desktop: str | None
    os: str
    arch: str
    os_arch: str | None
    codepage_ansi: int
    codepage_oem: int
    computer: str | None
    user: str | None
    console_session: int | None = None
    screen: str | None = None

    @property
    def sees_user_desktop(self) -> bool:
        """Whether windows read here are those on the screen: not a service's session, not behind a lock screen."""
        if self.screen is not None:
            return self.screen == "user"
        return self.session != 0 and self.desktop is not None and self.input_desktop == self.desktop

    @property
    def blindness(self) -> str | None:
        """Why the probe does not see the windows of the user, and what helps; ``None`` if it does see them."""
        if self.sees_user_desktop:
            return None
        where = f"the probe ran in session {self.session} on desktop {self.desktop!r}"
        screen = self.screen or ("service" if self.session == 0 else "locked_or_secure")
        other = (f"the screen shows desktop {self.input_desktop!r}", "see what is there")
        reason, remedy = _BLINDNESS.get(screen, other)
        return f"{where} and does not see the windows of the user: {reason}; {remedy}"


_UNLOCKED = "have the machine log its user on by itself, and switch off the lock screen and the screen saver's password"
_BLINDNESS = {
    "service": (
        "session 0 is that of services",
        "have the machine log a user on by itself (autologon) and run the guest agent as LocalSystem, or run the probe in the "
        "interactive session",
    ),
    "locked": ("the screen is locked", _UNLOCKED),
    "screen_saver": ("a screen saver is on", _UNLOCKED),
    "secure": (
        "a secure desktop covers the screen, such as a prompt for consent",
        "switch the secure desktop off (PromptOnSecureDesktop = 0) or do without the step that asks",
    ),
    "locked_or_secure": (
        "the screen is locked, or a secure desktop covers it",
        f"{_UNLOCKED}; for prompts for consent switch the secure desktop off (PromptOnSecureDesktop = 0)",
    ),
}
"""By :attr:`ProbeHeader.screen`: the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class RootEntry:
    """One root as asked for. ``exists`` is ``None`` when that could not be found out; a fault then tells why."""

    root: int
    path: str
    exists: bool | None
    type: Literal["dir", "file", "link", "key"] | None


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """A named stream of a file, e.g. ``:zone:$DATA``; ``sha256`` only where hashes were asked for and it was readable."""

    name: str
    size: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class FileEntry:
    r"""A file, a directory or a link.

    Attributes:
        kind: ``file``, ``dir`` or ``link`` (a reparse point that leads elsewhere; never followed).
        root: Index of the root below which it was found; for ``hash`` the index of the path asked for.
        path: With ``\``; relative to the root, ``""`` for a root that is itself a file; absolute for ``hash`` and ``read``.
        size: Bytes; 0 for directories.
        mtime: Last write, FILETIME.
        ctime: Creation, FILETIME.
        attr: Windows file attributes.
        sha256: Hex; ``None`` if not asked for, or not readable (a fault follows).
        streams: Named streams; ``None`` if not asked for or the system cannot tell.
        short: The 8.3 name, where it differs.
        tag: Reparse tag.
        listed: Size and times are the directory's, which may lag behind for files that are open.
    """

    kind: Literal["file", "dir", "link"]
    root: int
    path: str
    size: int
    mtime: int
    ctime: int
    attr: int
    sha256: str | None = None
    streams: tuple[StreamEntry, ...] | None = None
    short: str | None = None
    tag: int | None = None
    listed: bool = False


@dataclass(frozen=True, slots=True)
class ControlEntry:
    """A control within a window.

    Attributes:
        window: Handle of the top-level window.
        hwnd: Its own handle.
        parent: Handle of the window it lies in directly.
        id: Dialog control id.
        class_name: Window class.
        text: Its text, at most 32,767 UTF-16 units; ``None`` if it could not be read or is a password.
        visible: Shown, and all its parents.
        enabled: Its own state.
        rect: Left, top, right, bottom in screen pixels.
        checked: 0, 1 or 2 (undetermined) of check boxes and radio buttons.
        selected: Index chosen in a list or combo box, -1 for none.
        selected_text: Text of the line chosen in a list box.
        password: A password field, whose text is never read.
        text_length: UTF-16 units of the whole text where it was cut.
        error: Windows error code that left ``text`` unread; 1460 is a program that hangs.
        style: Window style bits.
    """

    window: int
    hwnd: int
    parent: int | None
    id: int
    class_name: str
    text: str | None
    visible: bool
    enabled: bool
    rect: tuple[int, int, int, int]
    checked: int | None = None
    selected: int | None = None
    selected_text: str | None = None
    password: bool = False
    text_length: int | None = None
    error: int | None = None
    style: int | None = None


@dataclass(frozen=True, slots=True)
class WindowEntry:
    """A top-level window.

    Attributes:
        hwnd: Handle.
        pid: Process.
        tid: Thread.
        exe: File name of the program, ``None`` if it cannot be learned.
        path: Its full path.
        class_name: Window class.
        title: Title, as the system keeps it.
        visible: Shown (also when minimised).
        enabled: Takes input.
        minimised: Shown as an icon.
        hung: Its program does not answer; the controls' texts are then unread.
        owner: Handle of the owning window or 0.
        rect: Left, top, right, bottom in screen pixels.
        z: Place in the stack, 0 on top.
        style: Window style bits.
        exstyle: Extended style bits.
        foreground: It is the foreground window.
        focus: Handle of the control with the focus of this window's thread, or 0.
        modal: Its owner is disabled.
        controls: Controls at any depth, if asked for.
    """

    hwnd: int
    pid: int
    tid: int
    exe: str | None
    path: str | None
    class_name: str
    title: str
    visible: bool
    enabled: bool
    minimised: bool
    hung: bool
    owner: int
    rect: tuple[int, int, int, int]
    z: int
    style: int
    exstyle: int
    foreground: bool
    focus: int
    modal: bool
    controls: tuple[ControlEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """A process. ``path`` and ``started`` (FILETIME) are ``None`` where it may not be opened."""

    pid: int
    ppid: int
    name: str
    session: int | None
    path: str | None = None
    started: int | None = None


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A registry key; ``volatile`` is ``None`` where the system does not tell."""

    root: int
    path: str
    mtime: int
    volatile: bool | None = None


@dataclass(frozen=True, slots=True)
class RegistryValue:
    """A registry value: type number and raw bytes as stored."""

    root: int
    key: str
    name: str
    type: int
    data: bytes


@dataclass(frozen=True, slots=True)
class SkippedKey:
    """A key that is never read, with the reason (``perflib``: live performance data)."""

    root: int
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class FaultEntry:
    """Something the probe could not read: path, operation, Windows error code and the system's text for it."""

    path: str
    op: str
    code: int
    message: str
    root: int | None = None


@dataclass(frozen=True, slots=True)
class RanEntry:
    """A program that the probe ran to its end.

    Attributes:
        pid: Its process.
        status: Its exit status, 32 bits without a sign.
        timed_out: It was ended, with its children, because its time was over.
        stdout_cut: It wrote more than was kept.
        stderr_cut: The same for standard error.
    """

    pid: int
    status: int
    timed_out: bool
    stdout_cut: bool
    stderr_cut: bool


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """A whole, verified answer. Which members are filled depends on the command; ``faults`` can come with all of them.

    A result with faults is true as far as it goes; whether it will do is the caller's decision.
    """

    header: ProbeHeader
    count: int
    digest: str
    elapsed_us: int
    roots: tuple[RootEntry, ...] = ()
    files: tuple[FileEntry, ...] = ()
    windows: tuple[WindowEntry, ...] = ()
    processes: tuple[ProcessEntry, ...] = ()
    keys: tuple[KeyEntry, ...] = ()
    values: tuple[RegistryValue, ...] = ()
    skipped: tuple[SkippedKey, ...] = ()
    faults: tuple[FaultEntry, ...] = ()
    data: bytes = b""
    ran: RanEntry | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    started: int | None = None


# ---- strict access to one JSON object ----------------------------------------------------------------------------------


class _Record:
    """One line's object, read member by member with strict types. Members nobody asks for are ignored."""

    __slots__ = ("_members", "_where")

    def __init__(self, members: dict[str, Any], where: str | int) -> None:
        self._members = members
        self._where = where

    def fail(self, what: str) -> NoReturn:
        """Raises with the place: a record's number, or a name."""
        raise ProbeError(f"{_place(self._where)}: {what}")

    def has(self, name: str) -> bool:
        """Whether a member is there, be it null."""
        return name in self._members

    def integer(self, name: str, low: int, high: int) -> int:
        """An integer within bounds; a bool is none."""
        value = self._members.get(name)
        if type(value) is not int or not low <= value <= high:
            self.fail(f"{name!r} is not an integer in its bounds")
        return value

    def optional_integer(self, name: str, low: int, high: int) -> int | None:
        """The same, or ``None`` where it is absent or null."""
        return None if self._members.get(name) is None else self.integer(name, low, high)

    def text(self, name: str) -> str:
        """A string."""
        value = self._members.get(name)
        if type(value) is not str:
            self.fail(f"{name!r} is not a string")
        return value

    def nullable_text(self, name: str) -> str | None:
        """A string or null; it must be there."""
        if name not in self._members:
            self.fail(f"{name!r} is missing")
        return None if self._members[name] is None else self.text(name)

    def optional_text(self, name: str) -> str | None:
        """A string, or ``None`` where it is absent or null."""
        return None if self._members.get(name) is None else self.text(name)

    def flag(self, name: str) -> bool:
        """A bool."""
        value = self._members.get(name)
        if type(value) is not bool:
            self.fail(f"{name!r} is not true or false")
        return value

    def optional_flag(self, name: str) -> bool | None:
        """A bool, or ``None`` where it is absent or null."""
        return None if self._members.get(name) is None else self.flag(name)

    def base64(self, name: str) -> bytes:
        """Bytes, in strict base64."""
        try:
            return base64.b64decode(self.text(name).encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            self.fail(f"{name!r} is not base64")

    def sha256(self, name: str) -> str | None:
        """A hash in lower-case hex, or ``None`` where it is absent or null."""
        value = self.optional_text(name)
        if value is not None and not _SHA256.fullmatch(value):
            self.fail(f"{name!r} is not a SHA-256")
        return value

    def rect(self, name: str) -> tuple[int, int, int, int]:
        """Four signed 32-bit integers."""
        value = self._members.get(name)
        if (
            type(value) is not list
            or len(value) != 4
            or not all(type(edge) is int and -_I32 <= edge < _I32 for edge in value)
        ):
            self.fail(f"{name!r} is not a rectangle")
        left, top, right, bottom = value
        return left, top, right, bottom

    def child(self, name: str) -> _Record:
        """An object within."""
        value = self._members.get(name)
        if type(value) is not dict:
            self.fail(f"{name!r} is not an object")
        return _Record(value, self._where)

    def children(self, name: str) -> list[_Record] | None:
        """A list of objects, or ``None`` where it is absent or null."""
        value = self._members.get(name)
        if value is None:
            return None
        if type(value) is not list or not all(type(item) is dict for item in value):
            self.fail(f"{name!r} is not a list of objects")
        return [_Record(item, self._where) for item in value]


def _place(where: str | int) -> str:
    return where if isinstance(where, str) else f"record {where}"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def _decode_line(line: bytes, where: str | int) -> _Record:
    try:
        text = line.decode("utf-8")
        members, end = _decoder.raw_decode(text)
    except (ValueError, RecursionError):  # UnicodeDecodeError and the limit on an integer's digits are ValueErrors
        raise ProbeError(f"{_place(where)}: not JSON in UTF-8") from None
    if type(members) is not dict or end != len(text):
        raise ProbeError(f"{_place(where)}: not one JSON object")
    return _Record(members, where)


# ---- records -----------------------------------------------------------------------------------------------------------


def _header(record: _Record) -> ProbeHeader:
    if record.text("r") != "header" or record.text("probe") != "legacyproof":
        record.fail("not the header of a probe's answer")
    version = record.integer("version", 0, _U32)
    if version != 1:
        record.fail(f"format version {version} is not known")
    codepage = record.child("codepage")
    return ProbeHeader(
        version=version,
        command=record.text("cmd"),
        id=record.text("id"),
        pid=record.integer("pid", 0, _U32),
        time=record.integer("time", 0, _U64),
        tz_bias_min=record.integer("tz_bias_min", -_I32, _I32 - 1),
        session=record.optional_integer("session", 0, _U32),
        winsta=record.nullable_text("winsta"),
        desktop=record.nullable_text("desktop"),
        input_desktop=record.nullable_text("input_desktop"),
        os=record.text("os"),
        arch=record.text("arch"),
        os_arch=record.optional_text("os_arch"),
        codepage_ansi=codepage.integer("ansi", 0, _U32),
        codepage_oem=codepage.integer("oem", 0, _U32),
        computer=record.nullable_text("computer"),
        user=record.nullable_text("user"),
        console_session=record.optional_integer("console_session", 0, _U32),
        screen=record.optional_text("screen"),
    )


def _stream(record: _Record) -> StreamEntry:
    return StreamEntry(record.text("name"), record.integer("size", 0, _U64), record.sha256("sha256"))


@dataclass(slots=True)
class _Answer:
    """What has been read so far, and the rules that span records."""

    roots: list[RootEntry] = field(default_factory=list)
    files: list[FileEntry] = field(default_factory=list)
    windows: list[WindowEntry] = field(default_factory=list)
    controls: list[list[ControlEntry]] = field(default_factory=list)
    processes: list[ProcessEntry] = field(default_factory=list)
    keys: list[KeyEntry] = field(default_factory=list)
    values: list[RegistryValue] = field(default_factory=list)
    skipped: list[SkippedKey] = field(default_factory=list)
    faults: list[FaultEntry] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)
    ran: RanEntry | None = None
    outputs: dict[str, bytearray] = field(default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()})
    started: int | None = None
    seen: set[int | str] = field(default_factory=set)  # paths of the latest root, handles, process ids
    seen_names: set[int | str] = field(default_factory=set)  # of the latest key's values

    def once(self, record: _Record, seen: set[int | str], what: int | str) -> None:
        """Refuses a second record for the same thing: one of the two readings would be lost."""
        if what in seen:
            record.fail("a second record for the same thing")
        seen.add(what)

    def root_of(self, record: _Record, types: tuple[str, ...]) -> int:
        """The record's root, which must be the latest one and be there."""
        root = record.integer("root", 0, _U16)
        if not self.roots or self.roots[-1].root != root or self.roots[-1].type not in types:
            record.fail("belongs to no root")
        return root

    def add_root(self, record: _Record) -> None:
        """The next root; they are numbered in the order of the request."""
        root = record.integer("root", 0, _U16)
        exists = record.optional_flag("exists")
        kind = record.optional_text("type")
        if root != len(self.roots) or (kind is not None) is not bool(exists):
            record.fail("contradicts itself or the roots before it")
        self.seen.clear()
        match kind:
            case None | "dir" | "file" | "link" | "key":
                self.roots.append(RootEntry(root, record.text("path"), exists, kind))
            case _:
                record.fail(f"unknown type of root {kind!r}")

    def file_entry(self, record: _Record, kind: Literal["file", "dir", "link"], root: int, path: str) -> None:
        """Adds a file, directory or link."""
        streams = record.children("streams")
        self.files.append(
            FileEntry(
                kind=kind,
                root=root,
                path=path,
                size=0 if kind == "dir" else record.integer("size", 0, _U64),
                mtime=record.integer("mtime", 0, _U64),
                ctime=record.integer("ctime", 0, _U64),
                attr=record.integer("attr", 0, _U32),
                sha256=record.sha256("sha256"),
                streams=None if streams is None else tuple(_stream(stream) for stream in streams),
                short=record.optional_text("short"),
                tag=record.optional_integer("tag", 0, _U32),
                listed=record.optional_flag("listed") or False,
            )
        )

    def tree_entry(self, record: _Record, kind: Literal["file", "dir", "link"]) -> None:
        """A record of the ``files`` command."""
        root = self.root_of(record, ("dir", kind))
        path = record.text("path")
        if self.roots[-1].type == "dir":
            if _NOT_BELOW.search(path):
                record.fail("the path does not lie below its root")
        elif path:
            record.fail("a path below a root that is no directory")
        self.once(record, self.seen, path)
        self.file_entry(record, kind, root, path)

    def add_file(self, record: _Record) -> None:
        """A file below a root."""
        self.tree_entry(record, "file")

    def add_dir(self, record: _Record) -> None:
        """A directory below a root."""
        self.tree_entry(record, "dir")

    def add_link(self, record: _Record) -> None:
        """A reparse point below a root, or the root itself."""
        self.tree_entry(record, "link")

    def add_hashed(self, record: _Record) -> None:
        """A file of the ``hash`` command: never without its hash."""
        if record.sha256("sha256") is None:
            record.fail("a hashed file without its hash")
        root = record.integer("root", 0, _U32)
        self.once(record, self.seen, root)
        self.file_entry(record, "file", root, record.text("path"))

    def add_data(self, record: _Record) -> None:
        """The next piece of a file that is read."""
        if self.files:
            record.fail("data after the file's own record")
        if record.integer("offset", 0, _U64) != len(self.data):
            record.fail("the offset does not follow the data before it")
        piece = record.base64("b64")
        if not piece:
            record.fail("no data")
        self.data += piece

    def add_read(self, record: _Record) -> None:
        """The file that was read, after its data: size and hash must be theirs."""
        if self.files:
            record.fail("a second file")
        self.add_hashed(record)
        entry = self.files[0]
        if entry.size != len(self.data) or entry.sha256 != hashlib.sha256(self.data).hexdigest():
            record.fail("the data are not those of the file")

    def add_window(self, record: _Record) -> None:
        """A top-level window; its controls follow."""
        hwnd = record.integer("hwnd", 1, _U32)
        self.once(record, self.seen, hwnd)
        self.controls.append([])
        self.windows.append(
            WindowEntry(
                hwnd=hwnd,
                pid=record.integer("pid", 0, _U32),
                tid=record.integer("tid", 0, _U32),
                exe=record.nullable_text("exe"),
                path=record.optional_text("path"),
                class_name=record.text("class"),
                title=record.text("title"),
                visible=record.flag("visible"),
                enabled=record.flag("enabled"),
                minimised=record.flag("minimised"),
                hung=record.flag("hung"),
                owner=record.integer("owner", 0, _U32),
                rect=record.rect("rect"),
                z=record.integer("z", 0, _U32),
                style=record.integer("style", 0, _U32),
                exstyle=record.integer("exstyle", 0, _U32),
                foreground=record.flag("foreground"),
                focus=record.integer("focus", 0, _U32),
                modal=record.flag("modal"),
            )
        )

    def add_control(self, record: _Record) -> None:
        """A control of the latest window."""
        window = record.integer("window", 1, _U32)
        hwnd = record.integer("hwnd", 1, _U32)
        if not self.windows or self.windows[-1].hwnd != window:
            record.fail("belongs to no window")
        self.once(record, self.seen, hwnd)
        text = record.nullable_text("text")
        password = record.optional_flag("password") or False
        error = record.optional_integer("error", 0, _U32)
        if (text is None) is not (password or error is not None):
            record.fail("the text is missing without a reason, or there beside one")
        self.controls[-1].append(
            ControlEntry(
                window=window,
                hwnd=hwnd,
                parent=record.optional_integer("parent", 0, _U32),
                id=record.integer("id", -_I32, _U32),
                class_name=record.text("class"),
                text=text,
                visible=record.flag("visible"),
                enabled=record.flag("enabled"),
                rect=record.rect("rect"),
                checked=record.optional_integer("checked", 0, 2),
                selected=record.optional_integer("selected", -_I32, _I32 - 1),
                selected_text=record.optional_text("selected_text"),
                password=password,
                text_length=record.optional_integer("text_length", 0, _U64),
                error=error,
                style=record.optional_integer("style", 0, _U32),
            )
        )

    def add_process(self, record: _Record) -> None:
        """A process."""
        pid = record.integer("pid", 0, _U32)
        self.once(record, self.seen, pid)
        self.processes.append(
            ProcessEntry(
                pid=pid,
                ppid=record.integer("ppid", 0, _U32),
                name=record.text("name"),
                session=record.optional_integer("session", 0, _U32),
                path=record.optional_text("path"),
                started=record.optional_integer("started", 0, _U64),
            )
        )

    def add_key(self, record: _Record) -> None:
        """A registry key; its values follow."""
        root, path = self.root_of(record, ("key",)), record.text("path")
        self.once(record, self.seen, path)
        self.seen_names.clear()
        self.keys.append(
            KeyEntry(root, path, record.integer("mtime", 0, _U64), record.optional_flag("volatile")),
        )

    def add_value(self, record: _Record) -> None:
        """A registry value of the latest key."""
        root, key, name = self.root_of(record, ("key",)), record.text("key"), record.text("name")
        if not self.keys or (self.keys[-1].root, self.keys[-1].path) != (root, key):
            record.fail("belongs to no key")
        self.once(record, self.seen_names, name)
        self.values.append(
            RegistryValue(root, key, name, record.integer("type", 0, _U32), record.base64("data")),
        )

    def add_skip(self, record: _Record) -> None:
        """A registry key that is never read."""
        self.skipped.append(
            SkippedKey(self.root_of(record, ("key",)), record.text("path"), record.text("reason")),
        )

    def add_fault(self, record: _Record) -> None:
        """Something that could not be read."""
        self.faults.append(
            FaultEntry(
                path=record.text("path"),
                op=record.text("op"),
                code=record.integer("code", 0, _U32),
                message=record.text("message"),
                root=record.optional_integer("root", 0, _U32),
            )
        )

    def add_ran(self, record: _Record) -> None:
        """How a program ended; what it wrote follows."""
        if self.ran is not None:
            record.fail("a second end of the program")
        self.ran = RanEntry(
            pid=record.integer("pid", 0, _U32),
            status=record.integer("status", 0, _U32),
            timed_out=record.flag("timed_out"),
            stdout_cut=record.flag("stdout_cut"),
            stderr_cut=record.flag("stderr_cut"),
        )

    def add_output(self, record: _Record) -> None:
        """The next piece of what a program wrote."""
        output = self.outputs.get(record.text("stream"))
        if output is None or self.ran is None:
            record.fail("output of no stream, or of no program")
        if record.integer("offset", 0, _U64) != len(output):
            record.fail("the offset does not follow the output before it")
        piece = record.base64("b64")
        if not piece:
            record.fail("no output")
        output += piece

    def add_started(self, record: _Record) -> None:
        """The process of a program that was started."""
        if self.started is not None:
            record.fail("a second program")
        self.started = record.integer("pid", 0, _U32)

    def finish(self, command: str) -> None:
        """The rules that only a whole answer can meet."""
        if (command == "run" and self.ran is None) or (command == "start" and self.started is None):
            raise ProbeError("an answer without the program that it is about")
        explained = {fault.root for fault in self.faults}
        if any(root.exists is None and root.root not in explained for root in self.roots):
            raise ProbeError("a root is neither there nor missing, and no fault says why")
        entries = {entry.root for entry in self.files}
        if any(root.type in {"file", "link"} and root.root not in entries | explained for root in self.roots):
            raise ProbeError("a root that is a file has no record of its own")
        if command == "read" and not self.files:
            raise ProbeError("the file that was read has no record of its own")
        if command in {"files", "registry"} and not self.roots:
            raise ProbeError("an answer without a single root")


_Add = Callable[[_Answer, _Record], None]

_KINDS: dict[str, dict[str, _Add]] = {
    "files": {
        "root": _Answer.add_root,
        "file": _Answer.add_file,
        "dir": _Answer.add_dir,
        "link": _Answer.add_link,
        "error": _Answer.add_fault,
    },
    "hash": {"file": _Answer.add_hashed, "error": _Answer.add_fault},
    "read": {"data": _Answer.add_data, "file": _Answer.add_read},
    "windows": {"window": _Answer.add_window, "control": _Answer.add_control, "error": _Answer.add_fault},
    "processes": {"process": _Answer.add_process, "error": _Answer.add_fault},
    "registry": {
        "root": _Answer.add_root,
        "key": _Answer.add_key,
        "value": _Answer.add_value,
        "skip": _Answer.add_skip,
        "error": _Answer.add_fault,
    },
    "version": {},
    "run": {"ran": _Answer.add_ran, "output": _Answer.add_output},
    "start": {"started": _Answer.add_started},
    "put": {"file": _Answer.add_hashed, "error": _Answer.add_fault},
    "?": {},
}
"""Which records a command may answer with; anything else is contradictory."""


# ---- the whole answer --------------------------------------------------------------------------------------------------


def _lines(data: bytes, limit: int) -> Iterator[tuple[int, int]]:
    r"""Begin and end of each line without its newline. Only ``\n`` ends a line: texts may hold U+2028 and the like."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start, start + limit + 1)
        if end < 0:
            raise ProbeError("a line is too long, or the last one is cut")
        yield start, end
        start = end + 1


def _verify_end(record: _Record, header: ProbeHeader, count: int, size: int, digest: str) -> int:
    """Checks the end against what was received; answers the microseconds that the probe took."""
    if record.text("r") != "end":
        record.fail("the last line is not an end record")
    if record.text("id") != header.id:
        record.fail("the end has another id than the header")
    if record.integer("count", 0, _U64) != count or record.integer("bytes", 0, _U64) != size:
        record.fail("not as many records as the end counts")
    if record.text("digest") != digest:
        record.fail("the records do not have the digest that the end states")
    elapsed = record.integer("elapsed_us", 0, _U64)
    status = record.text("status")
    if status == "ok":
        if record.has("error"):
            record.fail("status ok beside an error")
        return elapsed
    if status not in {"truncated", "error"}:
        record.fail("unknown status")
    error = record.child("error")
    code, message = error.integer("code", 0, _U32), error.text("message")
    raise ProbeError(
        f"the probe's answer to {header.command!r} is not whole: {message} ({code:#x})",
        status="truncated" if status == "truncated" else "error",
        code=code,
    )


def parse(data: bytes, *, expect_id: str | None, limits: ProbeLimits | None = None) -> ProbeResult:
    """Verifies and reads one answer of the probe.

    Args:
        data: The answer, from the first byte of its header to the newline of its end.
        expect_id: The request id that the answer must carry; ``None`` if none was given to the probe.
        limits: Bounds; the defaults are those of the probe.

    Returns:
        The result: header, end, id, count, byte count, digest and status have been checked.

    Raises:
        ProbeError: Anything is missing, cut, of a wrong type, contradictory or unknown, or the probe itself says that
            the answer is not whole; ``status`` tells these apart.
    """
    limits = limits or ProbeLimits()
    if len(data) > limits.total_bytes:
        raise ProbeError(f"more than {limits.total_bytes} bytes")
    # The end first: an answer that was cut is found out without reading its records.
    if not data.endswith(b"\n"):
        raise ProbeError("no end mark: the answer is empty or cut")
    end_start = data.rfind(b"\n", 0, len(data) - 1) + 1
    if not data.startswith(_END_PREFIX, end_start) or end_start == 0:
        raise ProbeError("no end mark: the answer is cut, or something follows it")
    if len(data) - end_start > limits.line_bytes:
        raise ProbeError("the end record is too long")
    lines = _lines(data[:end_start], limits.line_bytes)
    start, stop = next(lines)
    header = _header(_decode_line(data[start:stop], "header"))
    if expect_id is not None and header.id != expect_id:
        raise ProbeError("the answer belongs to another request")
    kinds = _KINDS.get(header.command)
    if kinds is None:
        raise ProbeError(f"unknown command {header.command[:40]!r} in the header")
    body = memoryview(data)[stop + 1 : end_start]
    count = data.count(b"\n", stop + 1, end_start)
    if count > limits.records:
        raise ProbeError(f"more than {limits.records} records")
    digest = hashlib.sha256(body).hexdigest()
    elapsed = _verify_end(_decode_line(data[end_start:-1], "end"), header, count, len(body), digest)

    answer = _Answer()
    for number, (start, stop) in enumerate(lines, 1):
        record = _decode_line(data[start:stop], number)
        add = kinds.get(record.text("r"))
        if add is None:
            record.fail("unknown kind of record for this command")
        add(answer, record)
    answer.finish(header.command)
    return ProbeResult(
        header=header,
        count=count,
        digest=digest,
        elapsed_us=elapsed,
        roots=tuple(answer.roots),
        files=tuple(answer.files),
        windows=tuple(
            replace(window, controls=tuple(controls)) if controls else window
            for window, controls in zip(answer.windows, answer.controls, strict=True)
        ),
        processes=tuple(answer.processes),
        keys=tuple(answer.keys),
        values=tuple(answer.values),
        skipped=tuple(answer.skipped),
        faults=tuple(answer.faults),
        data=bytes(answer.data),
        ran=answer.ran,
        stdout=bytes(answer.outputs["stdout"]),
        stderr=bytes(answer.outputs["stderr"]),
        started=answer.started,
    )


@dataclass(frozen=True, slots=True)
class SpilledAnswer:
    """Where a probe left an answer that was too large for the way back: path as asked for, bytes, SHA-256 in hex."""

    path: str
    bytes: int
    sha256: str


def spilled(data: bytes, limits: ProbeLimits | None = None) -> SpilledAnswer | None:
    """What ``lpprobe ask FILE`` wrote in the answer's place, or ``None`` if it is something else.

    Raises:
        ProbeError: It is damaged, or tells of more than the limits allow.
    """
    if not data.startswith(b'{"r":"spilled",'):
        return None
    limits = limits or ProbeLimits()
    if not data.endswith(b"\n") or len(data) > limits.line_bytes:
        raise ProbeError("the note of a spilled answer is cut")
    record = _decode_line(data[:-1], "spilled")
    digest = record.sha256("sha256")
    if digest is None:
        record.fail("no hash")
    return SpilledAnswer(record.text("path"), record.integer("bytes", 0, limits.total_bytes), digest)


# ---- talking to a resident probe ---------------------------------------------------------------------------------------


def encode_request(argv: Sequence[str]) -> bytes:
    """One request line for ``lpprobe serve``.

    Args:
        argv: Command and arguments; ``--id`` must be among them.

    Returns:
        The line, newline included.

    Raises:
        ValueError: It is longer than the probe accepts, or an argument holds NUL.
    """
    if any("\0" in argument for argument in argv):
        raise ValueError("an argument holds NUL")
    line = json.dumps(list(argv)).encode("ascii") + b"\n"
    if len(line) > REQUEST_LINE_LIMIT:
        raise ValueError(f"the request takes {len(line)} bytes, more than {REQUEST_LINE_LIMIT}")
    return line


class AnswerSplitter:
    """Cuts the output stream of a resident probe into answers, each to be given to :func:`parse`."""

    def __init__(self, limits: ProbeLimits | None = None) -> None:
        self._limits = limits or ProbeLimits()
        self._waiting = bytearray()
        self._line = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Takes what has arrived and returns the answers that are now complete.

        Raises:
            ProbeError: An answer or a line grows beyond its limit; the stream is of no more use.
        """
        answers = []
        look_from = len(self._waiting)
        self._waiting += data
        while (newline := self._waiting.find(b"\n", look_from)) >= 0:
            is_end = self._waiting.startswith(_END_PREFIX, self._line)
            self._line = look_from = newline + 1
            if is_end:
                answers.append(bytes(self._waiting[: newline + 1]))
                del self._waiting[: newline + 1]
                self._line = look_from = 0
        if len(self._waiting) > self._limits.total_bytes or len(self._waiting) - self._line > self._limits.line_bytes:
            raise ProbeError("the probe's answer grows beyond its limit")
        return answers
