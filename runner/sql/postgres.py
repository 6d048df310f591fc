"""PostgreSQL.

Every value is spelt by the server's own output function, as ``COPY`` and ``psql`` show it: so ``infinity``, dates before Christ,
NaN, microseconds and the blanks of ``CHAR`` arrive as they are, whatever the driver would make of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import override

from runner.sql.server import LOCK_SECONDS, CannotRead, FoundColumn, FoundTable, Server, best_keys, matching
from validators.sql.form import Form

_FORMS = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric", "float4", "float8", "oid", "money"), Form.NUMBER),
    "bpchar": Form.CHAR,
    "bool": Form.BOOL,
    "date": Form.DATE,
    "time": Form.TIME,
    "timetz": Form.TIME,
    "timestamp": Form.DATETIME,
    "timestamptz": Form.INSTANT,
    "bytea": Form.BYTES,
}
_TEXTS = ("text", "varchar", "bpchar", "name")
SETTINGS = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "xmlbinary": "base64",
    "client_min_messages": "warning",
    "application_name": "legacyproof",
    "row_security": "off",  # rows hidden by a policy are an error, not absent
    "lock_timeout": f"{LOCK_SECONDS}s",
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "on",
}
"""What a session is set to before it reads; the same for every way of reading."""
_WRITES = ("RowExclusiveLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock")


class Postgres(Server):
    """A PostgreSQL database."""

    product = "PostgreSQL"
    as_copy = True
    options: ClassVar[dict[str, str]] = {
        "BoolsAsChar": "0",
        "Protocol": "7.4-1",  # no savepoint around each statement: a snapshot cannot be exported from within one
        "UseDeclareFetch": "1",  # else the driver holds the whole result
        "Fetch": "2000",
        "TextAsLongVarchar": "1",
        "UnknownsAsLongVarchar": "1",
        "MaxLongVarcharSize": "0",
        "MaxVarcharSize": "0",
    }

    @override
    def begin(self) -> None:
        self.connection.autocommit = True
        for name, value in SETTINGS.items():
            self.rows("SELECT set_config(?, ?, false)", name, value)
        self.connection.autocommit = False
        (found,) = self.rows(
            "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'), "
            "current_setting('server_version'), current_setting('server_encoding')"
        )
        isolation, read_only, self.version, self._encoding = (str(item) for item in found)
        if isolation not in ("repeatable read", "serializable") or read_only != "on":
            raise CannotRead(
                f"the session did not become read-only with one view of all tables ({isolation}, {read_only})"
            )

    @override
    def find(self, wanted: str) -> FoundTable | None:
        tables = self.rows(
            "SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text, "
            "pg_catalog.pg_table_is_visible(c.oid)::int, c.relhassubclass::int "
            "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relpersistence <> 't'"
        )
        visible = {(str(row[1]), str(row[2])) for row in tables if row[4]}
        names = [(str(row[1]), str(row[2])) for row in tables]
        found = matching([n for n in names if n in visible], wanted, lambda _: True) or matching(
            names, wanted, lambda _: False
        )
        if found is None:
            return None
        row = next(row for row in tables if (str(row[1]), str(row[2])) == found)
        table = FoundTable(*found, sql=f"{self.quoted(found[0])}.{self.quoted(found[1])}", handle=int(row[0]))
        table.columns = self._columns(table.handle)
        if row[3] == "r" and row[5]:
            table.notes.append("other tables inherit from it and are read with it: its keys are not unique over all")
        else:
            table.keys = self._keys(table)
        return table

    def _columns(self, oid: int) -> list[FoundColumn]:
        types = {int(row[0]): (str(row[1]), int(row[2])) for row in self.rows(
            "SELECT oid::bigint, typname::text, typbasetype::bigint FROM pg_catalog.pg_type"
        )}  # fmt: skip
        columns = []
        for name, spelt, kind, not_null, generated in self.rows(
            "SELECT attname::text, pg_catalog.format_type(atttypid, atttypmod), atttypid::bigint, attnotnull::int, "
            "attgenerated::text FROM pg_catalog.pg_attribute "
            "WHERE attrelid = CAST(CAST(? AS bigint) AS oid) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            oid,
        ):
            base = types.get(int(kind), ("", 0))
            while base[1]:  # a domain
                base = types[base[1]]
            form = _FORMS.get(base[0], Form.TEXT)
            expression = self.quoted(str(name))
            if base[0] == "money":
                expression = f"{expression}::numeric"
            if self._encoding == "SQL_ASCII" and base[0] in _TEXTS:
                form = Form.RAW_TEXT
                expression = rf"encode(decode(replace({expression}::text, E'\\', E'\\\\'), 'escape'), 'hex')"
            made = "computed" if str(generated).strip() else ""
            columns.append(FoundColumn(str(name), str(spelt), not not_null, form, expression, made))
        return columns

    def _keys(self, table: FoundTable) -> list[tuple[tuple[str, ...], str]]:
        numbers = {
            int(row[0]): str(row[1])
            for row in self.rows(
                "SELECT attnum::int, attname::text FROM pg_catalog.pg_attribute "
                "WHERE attrelid = CAST(CAST(? AS bigint) AS oid) AND attnum > 0 AND NOT attisdropped",
                table.handle,
            )
        }
        primary: list[str] = []
        unique: dict[str, list[str]] = {}
        for name, is_primary, columns, size in self.rows(
            "SELECT c.relname::text, i.indisprimary::int, i.indkey::text, i.indnkeyatts::int "
            "FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid "
            "WHERE i.indrelid = CAST(CAST(? AS bigint) AS oid) AND i.indisunique AND i.indisvalid "
            "AND i.indpred IS NULL AND i.indexprs IS NULL",
            table.handle,
        ):
            key = [numbers[int(number)] for number in str(columns).split()[: int(size)]]
            if is_primary:
                primary = key
            else:
                unique[str(name)] = key
        return best_keys(primary, unique, {column.name: column.nullable for column in table.columns})

    @override
    def select(self, table: FoundTable) -> str:
        # concat() gives the text of the type's output function, as COPY does; a cast to text would strip CHAR and
        # spell booleans otherwise. A composite value whose parts are all NULL "is null", and is none: it is `(,)`.
        what = ", ".join(
            f"CASE WHEN {column.expression} IS NOT DISTINCT FROM NULL THEN NULL ELSE concat({column.expression}) END"
            for column in table.columns
        )
        return self._from(table, what or "NULL")

    def copied(self, table: FoundTable) -> str:
        """The statement whose ``COPY`` gives the same lines."""
        return self._from(table, ", ".join(column.expression for column in table.columns))

    def _from(self, table: FoundTable, what: str) -> str:
        order = ", ".join(self.quoted(name) for name in table.order)
        return f"SELECT {what} FROM {table.sql}" + (f" ORDER BY {order}" if order else "")  # noqa: S608

    @override
    def open_transactions(self, tables: Sequence[FoundTable]) -> list[str]:
        found = []
        for pid, modes, table, user, program, state, since in self._locks(tables):
            who = _who(pid, user, program, state, since)
            if any(mode in _WRITES for mode in modes):
                found.append(
                    f"{who} may have changed {table} without having committed: what it did is not in this reading"
                )
            elif "RowShareLock" in modes:
                found.append(f"{who} has locked rows of {table} and is still in its transaction")
            elif state == "idle in transaction":
                found.append(f"{who} has read {table} and is still in its transaction")
        return found

    def _locks(self, tables: Sequence[FoundTable]) -> list[tuple[Any, ...]]:
        if not tables:
            return []
        names = {int(table.handle): f"{table.schema}.{table.name}" for table in tables}
        rows = self.rows(
            "SELECT l.pid, string_agg(DISTINCT l.mode::text, ' '), l.relation::bigint, a.usename::text, "
            "a.application_name::text, a.state::text, a.xact_start::text "
            "FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid "
            "WHERE l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid() "
            "AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) "
            "AND coalesce(a.backend_type, '') <> 'autovacuum worker' AND coalesce(a.application_name, '') <> 'legacyproof' "
            "AND l.relation::bigint = ANY (string_to_array(?, ',')::bigint[]) GROUP BY 1, 3, 4, 5, 6, 7 ORDER BY 1, 3",
            ",".join(map(str, names)),
        )
        return [(row[0], str(row[1]).split(), names[int(row[2])], *row[3:]) for row in rows]

    @override
    def blockers(self, table: FoundTable) -> list[str]:
        return [
            f"{_who(pid, user, program, state, since)} holds it ({', '.join(modes)})"
            for pid, modes, _, user, program, state, since in self._locks([table])
            if "AccessExclusiveLock" in modes
        ]

    @override
    def is_locked(self, error: Exception) -> bool:
        return bool(error.args) and error.args[0] == "55P03"


def _who(pid: Any, user: Any, program: Any, state: Any, since: Any) -> str:
    if pid is None:
        return "a prepared transaction"
    more = ", ".join(str(part) for part in (user and f"user {user}", program and f"program {program}", state) if part)
    return f"session {pid}" + (f" ({more})" if more else "") + (f", in a transaction since {since}," if since else "")
