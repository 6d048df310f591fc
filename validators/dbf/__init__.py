"""The DBF observable: tables of dBASE, Clipper, FoxPro and Visual FoxPro, from bytes to changes. Pure, no I/O."""

from validators.dbf.diff import TableRows, diff_tables
from validators.dbf.index import KeyIndex
from validators.dbf.layout import Dialect, Field
from validators.dbf.memo import Buffer, MemoKind
from validators.dbf.owned import INDEX_EXTENSIONS, MEMO_EXTENSIONS, is_owned
from validators.dbf.table import RowView, Table, TableState, load_table

__all__ = [
    "INDEX_EXTENSIONS",
    "MEMO_EXTENSIONS",
    "Buffer",
    "Dialect",
    "Field",
    "KeyIndex",
    "MemoKind",
    "RowView",
    "Table",
    "TableRows",
    "TableState",
    "diff_tables",
    "is_owned",
    "load_table",
]
