"""A file's attributes as programs in the guest see them: Windows keeps them in the record, Wine on ntfs-3g elsewhere too.

Wine gives every directory 0x10 and every other file 0x20, hidden and system as Samba does: as text in an extended attribute, which
ntfs-3g (option ``streams_interface=xattr``) keeps in an alternate stream named ``DOSATTRIB``. It shows alternate streams to nobody.
"""

from __future__ import annotations

from runner.offline.ntfs.record import DATA
from runner.offline.ntfs.volume import File

READONLY, HIDDEN, SYSTEM, DIRECTORY, ARCHIVE, NORMAL, REPARSE_POINT = 0x1, 0x2, 0x4, 0x10, 0x20, 0x80, 0x400
_KEPT = 0x0FFF_FFFF
"""The two bits above are NTFS' own marks of directories and views."""
_WINE_STREAM = "DOSATTRIB"
_LONGEST = 16


def attributes(file: File, *, by_wine: bool) -> int:
    """The attribute bits that a program in the guest is told.

    Raises:
        Unreadable: The file's record is damaged.
    """
    flags = file.standard.flags & _KEPT
    if not by_wine:
        return (flags & ~NORMAL | (DIRECTORY if file.is_directory else 0)) or NORMAL
    seen = DIRECTORY if file.is_directory else ARCHIVE
    return seen | flags & (READONLY | REPARSE_POINT) | _of_wine(file)


def _of_wine(file: File) -> int:
    found = file.stream(DATA, _WINE_STREAM)
    if found is None or found.size > _LONGEST:
        return 0
    try:
        text = found.read(0, found.size).decode("ascii")
        return int(text, 16) & (HIDDEN | SYSTEM) if text.startswith("0x") else 0
    except ValueError:
        return 0


def streams(file: File, *, by_wine: bool) -> list[str]:
    """Names of the alternate streams that a program in the guest can find."""
    return [] if by_wine else file.stream_names


def keeps_attributes(name: str, *, by_wine: bool) -> bool:
    """Whether an alternate stream is Wine's place for attributes."""
    return by_wine and name == _WINE_STREAM
