"""Which files belong to a table, so that a file tree does not report them a second time (CONTRACT.md section 3)."""

from __future__ import annotations

from functools import lru_cache
from ntpath import normpath, split, splitext

from contracts.globs import compile_glob, fold
from contracts.schema import DbfTable
from validators.changes import Verb

MEMO_EXTENSIONS = frozenset({".dbt", ".fpt", ".smt"})
INDEX_EXTENSIONS = frozenset({".cdx", ".mdx", ".ntx", ".ndx", ".idx"})


def _folded(path: str) -> str:
    return fold(normpath(path))


@lru_cache(maxsize=256)
def _table(path: str) -> tuple[str, str, str]:
    """Folder, name and stem of a table, folded."""
    folder, name = split(_folded(path))
    return folder, name, splitext(name)[0]


def is_owned(spec: DbfTable, path: str, verb: Verb) -> bool:
    """Whether a change to a file is told by the table, not by a file tree.

    Everything that happens to the table's own file and to its memo file is. Of an index file (of the same stem, or named
    in ``owns``) only modification is: creating or deleting one is a change to the files.

    Args:
        spec: The table.
        path: The file's absolute path in the guest.
        verb: What happened to it.
    """
    folder, table, stem = _table(spec.dbf)
    path = _folded(path)
    inside = path[len(folder) :].lstrip("\\") if path.startswith(folder.rstrip("\\") + "\\") else None
    if inside is None:
        return False
    base, extension = splitext(inside)
    extension = extension.lower()
    if inside == table or (base == stem and extension in MEMO_EXTENSIONS):
        return True
    if verb is not Verb.MODIFIED:
        return False
    if base == stem and extension in INDEX_EXTENSIONS:
        return True
    return any(compile_glob(pattern)(inside) for pattern in spec.owns)
