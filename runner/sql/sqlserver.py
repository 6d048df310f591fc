"""SQL Server, through FreeTDS or Microsoft's driver.

Written from Microsoft's documentation and not tested against a server: none can be had for the tests. What it rests on:

* ``SET TRANSACTION ISOLATION LEVEL SNAPSHOT`` before anything is read; it needs ``ALLOW_SNAPSHOT_ISOLATION ON``. Without that a
  reading would either wait for the program's locks or be torn, so it is refused with these words.
* Values spelt by ``CONVERT`` with styles that lose nothing: 3 for ``float`` and ``real`` (SQL Server 2016), 121 for dates and times,
  2 for ``money`` and for bytes in hexadecimal.
* ``sys.dm_tran_*`` for open transactions, which needs ``VIEW SERVER STATE``; without it that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from runner.sql.server import LOCK_SECONDS, CannotRead, FoundColumn, FoundTable, Server, best_keys, matching
from validators.sql.form import Form

_SPELT: dict[str, tuple[Form, str]] = {
    **dict.fromkeys(
        ("tinyint", "smallint", "int", "bigint", "decimal", "numeric"), (Form.NUMBER, "CONVERT(varchar(60), {})")
    ),
    **dict.fromkeys(("money", "smallmoney"), (Form.NUMBER, "CONVERT(varchar(60), {}, 2)")),
    **dict.fromkeys(("float", "real"), (Form.NUMBER, "CONVERT(varchar(60), {}, 3)")),
    "bit": (Form.BOOL, "CONVERT(varchar(1), {})"),
    "date": (Form.DATE, "CONVERT(varchar(40), {}, 23)"),
    "time": (Form.TIME, "CONVERT(varchar(40), {}, 121)"),
    **dict.fromkeys(("datetime", "datetime2", "smalldatetime"), (Form.DATETIME, "CONVERT(varchar(40), {}, 121)")),
    "datetimeoffset": (Form.INSTANT, "CONVERT(varchar(50), {}, 121)"),
    **dict.fromkeys(("char", "nchar"), (Form.CHAR, "CONVERT(nvarchar(max), {})")),
    **dict.fromkeys(
        ("binary", "varbinary", "image"), (Form.BYTES, "CONVERT(varchar(max), CONVERT(varbinary(max), {}), 2)")
    ),
    **dict.fromkeys(("timestamp", "rowversion"), (Form.BYTES, "CONVERT(varchar(40), CONVERT(varbinary(8), {}), 2)")),
    **dict.fromkeys(("geometry", "geography"), (Form.BYTES, "CONVERT(varchar(max), CONVERT(varbinary(max), {}), 2)")),
    "hierarchyid": (Form.TEXT, "{}.ToString()"),
}
_OTHER = (Form.TEXT, "CONVERT(nvarchar(max), {})")


class SqlServer(Server):
    """A SQL Server database."""

    product = "Microsoft SQL Server"
    options: ClassVar[dict[str, str]] = {"ApplicationIntent": "ReadOnly", "APP": "legacyproof"}

    @override
    def begin(self) -> None:
        self.connection.autocommit = True
        ((self.version, state),) = self.rows(
            "SELECT CONVERT(varchar(60), SERVERPROPERTY('ProductVersion')), snapshot_isolation_state "
            "FROM sys.databases WHERE database_id = DB_ID()"
        )
        if int(state) != 1:
            raise CannotRead(
                "the database does not allow snapshot isolation, without which a reading would wait for the program's locks "
                "or be torn: an administrator can run ALTER DATABASE … SET ALLOW_SNAPSHOT_ISOLATION ON"
            )
        self.connection.execute(f"SET LOCK_TIMEOUT {LOCK_SECONDS * 1000}")
        self.connection.execute("SET TEXTSIZE 2147483647")
        self.connection.execute("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
        self.connection.autocommit = False

    @override
    def quoted(self, name: str) -> str:
        return "[" + name.replace("]", "]]") + "]"

    @override
    def find(self, wanted: str) -> FoundTable | None:
        tables = self.rows(
            "SELECT o.object_id, SCHEMA_NAME(o.schema_id), o.name, SCHEMA_NAME() FROM sys.objects o WHERE o.type IN ('U', 'V')"
        )
        default = str(tables[0][3]) if tables else ""
        found = matching(
            [(str(row[1]), str(row[2])) for row in tables], wanted, lambda schema: schema in (default, "dbo")
        )
        if found is None:
            return None
        number = next(int(row[0]) for row in tables if (str(row[1]), str(row[2])) == found)
        table = FoundTable(*found, sql=f"{self.quoted(found[0])}.{self.quoted(found[1])}", handle=number)
        for name, kind, length, precision, scale, nullable, computed, generated in self.rows(
            "SELECT c.name, t.name, c.max_length, c.precision, c.scale, c.is_nullable, c.is_computed, c.generated_always_type "
            "FROM sys.columns c JOIN sys.types t ON t.user_type_id = c.system_type_id AND t.is_user_defined = 0 "
            "WHERE c.object_id = ? ORDER BY c.column_id",
            number,
        ):
            form, expression = _SPELT.get(str(kind), _OTHER)
            made = "row version" if kind in ("timestamp", "rowversion") else "computed" if computed or generated else ""
            spelt = f"{kind}({precision},{scale})" if kind in ("decimal", "numeric") else f"{kind}({length})"
            table.columns.append(
                FoundColumn(str(name), spelt, bool(nullable), form, expression.format(self.quoted(str(name))), made)
            )
        table.keys = self._keys(table)
        return table

    def _keys(self, table: FoundTable) -> list[tuple[tuple[str, ...], str]]:
        primary: list[str] = []
        unique: dict[str, list[str]] = {}
        for index, is_primary, column in self.rows(
            "SELECT i.name, i.is_primary_key, c.name FROM sys.indexes i "
            "JOIN sys.index_columns x ON x.object_id = i.object_id AND x.index_id = i.index_id AND x.is_included_column = 0 "
            "JOIN sys.columns c ON c.object_id = x.object_id AND c.column_id = x.column_id "
            "WHERE i.object_id = ? AND i.is_unique = 1 AND i.has_filter = 0 AND i.is_disabled = 0 "
            "ORDER BY i.index_id, x.key_ordinal",
            table.handle,
        ):
            (primary if is_primary else unique.setdefault(str(index), [])).append(str(column))
        return best_keys(primary, unique, {column.name: column.nullable for column in table.columns})

    @override
    def open_transactions(self, tables: Sequence[FoundTable]) -> list[str]:
        if not tables:
            return []
        try:
            found = self.rows(
                "SELECT s.session_id, s.program_name, s.login_name, CONVERT(varchar(30), a.transaction_begin_time, 121) "
                "FROM sys.dm_tran_session_transactions t JOIN sys.dm_exec_sessions s ON s.session_id = t.session_id "
                "JOIN sys.dm_tran_active_transactions a ON a.transaction_id = t.transaction_id "
                "JOIN sys.dm_tran_database_transactions d ON d.transaction_id = t.transaction_id AND d.database_id = DB_ID() "
                "WHERE t.session_id <> @@SPID AND d.database_transaction_log_record_count > 0"
            )
        except Exception as error:
            if "(300)" in str(error) or "(297)" in str(error):
                return ["open transactions of other sessions cannot be seen: the login lacks VIEW SERVER STATE"]
            raise
        return [
            f"session {row[0]} (program {row[1]}, login {row[2]}), in a transaction since {row[3]}, has changed data without "
            f"having committed: what it did is not in this reading"
            for row in found
        ]

    @override
    def blockers(self, table: FoundTable) -> list[str]:
        found = self.rows(
            "SELECT DISTINCT l.request_session_id, s.program_name, s.login_name FROM sys.dm_tran_locks l "
            "JOIN sys.dm_exec_sessions s ON s.session_id = l.request_session_id "
            "WHERE l.resource_database_id = DB_ID() AND l.resource_associated_entity_id = ? AND l.request_session_id <> @@SPID",
            table.handle,
        )
        return [f"session {row[0]} (program {row[1]}, login {row[2]}) holds locks on it" for row in found]

    @override
    def is_locked(self, error: Exception) -> bool:
        return "(1222)" in str(error)
