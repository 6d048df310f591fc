"""One file of a disk that differs between two states of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

What = Literal["data", "attributes", "times", "stream", "name"]


@dataclass(frozen=True, slots=True)
class DiskChange:
    """One file, folder or alternate stream that differs.

    Attributes:
        kind: What happened to it.
        path: Where it is now, or was if it is gone, as a Windows path with its drive: ``C:\\DSWIN\\DATA\\PATIENT.DBF``.
        old_path: Where it was, if it was renamed or moved.
        what: What of it differs.
        size: Its size in bytes now; ``None`` if it is gone.
        stream: The alternate stream that differs; ``None``: the file itself.
        folder: Whether it is a folder.
        system: Whether it is the system's own book-keeping: the file table and its bitmap, journals, swap, hibernation.
    """

    kind: Literal["created", "modified", "deleted", "renamed"]
    path: str
    old_path: str | None = None
    what: frozenset[What] = frozenset()
    size: int | None = None
    stream: str | None = None
    folder: bool = False
    system: bool = False

    @property
    def only_times_of_folder(self) -> bool:
        """Whether it is a folder of which only the times changed: that follows from a change within it."""
        return self.folder and self.kind == "modified" and self.what <= {"times"}
