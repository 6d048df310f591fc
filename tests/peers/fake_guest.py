r"""A stand-in for the way into a machine: a guest in memory that can be slow, torn, lost, or change under the reader's eyes.

It proves what the runner makes of a guest's answers: what it asks for and how often, that it never takes "could not read" for
"nothing there", and that it copes with a state that changes while it is read. Its answers have the types of verified probe
answers and follow the probe's documented habits (paths of entries relative to the root, those of faults absolute, links never
followed, a root that is a file listed with the path ``""``). It does not prove that a real guest channel gives such answers: the
probe's bytes, its parser, Wine and Windows are not its subject.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PureWindowsPath

from contracts.globs import fold
from runner.guests.base import Completed, GuestLost, GuestNotFound, Unreadable
from runner.guests.probe import (
    ControlEntry,
    FaultEntry,
    FileEntry,
    ProbeError,
    ProbeHeader,
    ProbeResult,
    RootEntry,
    StreamEntry,
    WindowEntry,
)

DIRECTORY, ARCHIVE, REPARSE = 0x10, 0x20, 0x400
DESKTOP = 0x10010


@dataclass
class Node:
    """One entry of the fake's disk."""

    path: str
    kind: str = "file"
    data: bytes = b""
    mtime: int = 0
    attributes: int = ARCHIVE
    streams: tuple[tuple[str, int], ...] | None = ()


def window(title: str, **about: object) -> WindowEntry:
    """A visible, idle window; whatever else matters is given by name."""
    entry = WindowEntry(
        hwnd=0x20000, pid=100, tid=1, exe="APP.EXE", path=r"C:\APP\APP.EXE", class_name="App", title=title, visible=True,
        enabled=True, minimised=False, hung=False, owner=0, rect=(0, 0, 640, 480), z=0, style=0, exstyle=0,
        foreground=True, focus=0, modal=False,
    )  # fmt: skip
    return replace(entry, **about)  # type: ignore[arg-type]


def control(text: str | None, **about: object) -> ControlEntry:
    """A visible, usable control of the window 0x20000; whatever else matters is given by name."""
    entry = ControlEntry(
        window=0x20000, hwnd=0x30000, parent=0x20000, id=1, class_name="Edit", text=text, visible=True, enabled=True,
        rect=(0, 0, 100, 20),
    )  # fmt: skip
    return replace(entry, **about)  # type: ignore[arg-type]


HEADER = ProbeHeader(
    version=1, command="files", id="", pid=1, time=0, tz_bias_min=0, session=1, winsta="WinSta0", desktop="Default",
    input_desktop="Default", os="10.0.19045", arch="x86_64", os_arch="x86_64", codepage_ansi=1252, codepage_oem=850,
    computer="FAKE", user="user",
)  # fmt: skip


@dataclass
class FakeGuest:
    r"""A guest in memory (see :class:`runner.guests.base.Guest`). Everything may be changed while it is in use.

    Attributes:
        windows: What ``windows`` answers; a hidden desktop window is always added unless ``blind``.
        header: What the answers say about where the probe runs.
        faults: Added to every listing whose root they lie below.
        torn: How many of the next probe calls answer with a torn answer.
        answers_after: Seconds that every call takes; one that takes longer than its time-out is unreadable. No time passes.
        lost: Whether the machine is gone.
        blind: Whether no window at all is listed.
        reads: How often each file was read, by folded path.
        probes: The arguments of every probe call.
        on_read: Called with the path before each reading; may change everything.
        on_probe: Called with the command before each answer.
        uncertain: Roots of which the probe cannot tell whether they exist.
    """

    windows: list[WindowEntry] = field(default_factory=list)
    header: ProbeHeader = HEADER
    faults: list[FaultEntry] = field(default_factory=list)
    torn: int = 0
    answers_after: float = 0.0
    lost: bool = False
    blind: bool = False
    reads: Counter[str] = field(default_factory=Counter)
    probes: list[tuple[str, ...]] = field(default_factory=list)
    on_read: Callable[[str], None] = lambda _path: None
    on_probe: Callable[[str], None] = lambda _command: None
    uncertain: set[str] = field(default_factory=set)
    _nodes: dict[str, Node] = field(default_factory=dict)
    _locked: set[str] = field(default_factory=set)
    _clock: int = 133_000_000_000_000_000

    # --- what a test does to the machine ---

    def put(self, path: str, data: bytes = b"", *, keep_time: bool = False, **about: object) -> None:
        """Writes a file, making its folders; ``keep_time`` puts back the time it had, as some programs do."""
        for parent in PureWindowsPath(path).parents:
            if len(str(parent)) > len(parent.anchor):
                self.folder(str(parent))
        old = self._nodes.get(self._key(path))
        node = Node(old.path if old else path, "file", data, self._tick())
        if keep_time and old is not None:
            node.mtime = old.mtime
        for name, value in about.items():
            setattr(node, name, value)
        self._nodes[self._key(path)] = node

    def folder(self, path: str) -> None:
        """Makes a folder."""
        if self._key(path) not in self._nodes:
            self._nodes[self._key(path)] = Node(path, "dir", b"", self._tick(), DIRECTORY)

    def link(self, path: str) -> None:
        """Makes a link; where it leads nobody asks."""
        self._nodes[self._key(path)] = Node(path, "link", b"", self._tick(), DIRECTORY | REPARSE)

    def remove(self, path: str) -> None:
        """Removes a file, or a folder with what is in it."""
        key = self._key(path)
        for inside in [name for name in self._nodes if name == key or name.startswith(key + "\\")]:
            del self._nodes[inside]

    def lock(self, path: str) -> None:
        """Holds a file open so that nobody else may read it."""
        self._locked.add(self._key(path))

    def unlock(self, path: str) -> None:
        """Lets go of it."""
        self._locked.discard(self._key(path))

    def node(self, path: str) -> Node:
        """An entry, to look at or change."""
        return self._nodes[self._key(path)]

    # --- the protocol ---

    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        """See :meth:`runner.guests.base.Guest.probe`; answers ``files`` and ``windows``."""
        self.probes.append(argv)
        self._answer(timeout)
        if self.torn:
            self.torn -= 1
            raise ProbeError("the answer has no end record")
        self.on_probe(argv[0])
        options = {word for word in argv[1:] if word.startswith("--")}
        roots = [word for word in argv[1:] if not word.startswith("--")]
        match argv[0]:
            case "files":
                return self._files(roots, streams="--streams" in options)
            case "windows":
                return self._windows(controls="--children" in options)
        raise AssertionError(f"the fake does not know {argv}")

    def read(self, path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        """See :meth:`runner.guests.base.Guest.read`."""
        key = self._key(str(path))
        self.reads[key] += 1
        self._answer(timeout)
        self.on_read(str(path))
        node = self._nodes.get(key)
        if node is None:
            raise GuestNotFound(str(path))
        if node.kind != "file" or key in self._locked:
            raise Unreadable(f"{path}: access denied")
        if len(node.data) > limit:
            raise Unreadable(f"{path} holds {len(node.data)} bytes, more than the {limit} accepted")
        return node.data

    def write(self, path: PureWindowsPath, data: bytes, *, timeout: float = 30.0) -> None:
        """See :meth:`runner.guests.base.Guest.write`."""
        self._answer(timeout)
        self.put(str(path), data)

    def run(self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20) -> Completed:
        """See :meth:`runner.guests.base.Guest.run`; every program does nothing and ends well."""
        self._answer(timeout)
        return Completed(0, b"", b"")

    def start(self, argv: Sequence[str], *, cwd: PureWindowsPath | None = None) -> None:
        """See :meth:`runner.guests.base.Guest.start`; nothing happens."""
        self._answer(30.0)

    # --- answers ---

    def _answer(self, timeout: float) -> None:
        if self.lost:
            raise GuestLost("the machine does not answer")
        if self.answers_after > timeout:
            raise Unreadable(f"no answer within {timeout:g} s")

    def _files(self, roots: Iterable[str], *, streams: bool) -> ProbeResult:
        found_roots: list[RootEntry] = []
        files: list[FileEntry] = []
        faults: list[FaultEntry] = []
        for number, root in enumerate(roots):
            key = self._key(root)
            node = self._nodes.get(key)
            exists = None if root in self.uncertain else node is not None
            kind = None if node is None or exists is None else node.kind
            found_roots.append(RootEntry(number, root, exists, kind))  # type: ignore[arg-type]
            faults += [replace(f, root=number) for f in self.faults if self._key(f.path).startswith(key)]
            if node is not None and node.kind != "dir":
                files.append(self._entry(node, number, "", streams=streams))
            elif exists:
                files += [
                    self._entry(inside, number, inside.path[len(key) + 1 :], streams=streams)
                    for name, inside in sorted(self._nodes.items())
                    if name.startswith(key + "\\") and not self._below_link(name)
                ]
        return ProbeResult(
            self.header, len(files), "", 0, roots=tuple(found_roots), files=tuple(files), faults=tuple(faults)
        )

    def _below_link(self, key: str) -> bool:
        return any(
            str(parent) in self._nodes and self._nodes[str(parent)].kind == "link"
            for parent in PureWindowsPath(key).parents
        )

    def _entry(self, node: Node, root: int, path: str, *, streams: bool) -> FileEntry:
        named = None if not streams or node.streams is None else tuple(StreamEntry(*about) for about in node.streams)
        size = len(node.data) if node.kind == "file" else 0
        return FileEntry(node.kind, root, path, size, node.mtime, 0, node.attributes, streams=named)  # type: ignore[arg-type]

    def _windows(self, *, controls: bool) -> ProbeResult:
        shown = [one if controls else replace(one, controls=()) for one in self.windows]
        if not self.blind:
            shown.append(window("", hwnd=DESKTOP, visible=False, class_name="#32769"))
        return ProbeResult(replace(self.header, command="windows"), len(shown), "", 0, windows=tuple(shown))

    def _tick(self) -> int:
        self._clock += 10_000_000
        return self._clock

    @staticmethod
    def _key(path: str) -> str:
        # As NTFS does it: case does not matter, the Unicode normal form does.
        return "".join(fold(char) if len(fold(char)) == 1 else char for char in path).rstrip("\\")
