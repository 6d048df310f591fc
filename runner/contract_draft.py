"""The first draft of a contract, from what was seen while somebody did the task. Pure, no I/O.

Every change that was seen becomes an expected effect; values that were typed become parameters, numbers that the program counts up
``{generated: next}``, values that repeat another new row's references. What only the author can know is not made up: a comment says
what to write and where.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from ntpath import basename, splitext
from typing import Any

from pydantic import ValidationError

from contracts.globs import escape
from contracts.parameters import literal
from contracts.schema import FieldOf, Name
from contracts.writing import comment, flow, scalar
from runner.calibrate import matcher_of
from validators.changes import Cell, CellState, Change, Comparison, ContractFault, Kind, Row, Unreadable, Verb
from validators.dbf import KeyIndex, TableState, load_table
from validators.matchers import RunContext, Subject, highest_before, matches
from validators.values import is_empty, number_of, series_number

__all__ = [
    "Answers",
    "Demonstration",
    "FoundTable",
    "Name",
    "describe_table",
    "draft",
    "names_for",
    "slug",
    "typed_parts",
]

UNSPECIFIED = "unspecified"
"""The domain of a contract whose author has not said it yet."""
_KEY_TYPES = frozenset("CNIF+")
_KEY_FIELDS = 12
"""How many fields of a table, from the first, are tried as its key; of pairs half as many."""
_MOST_EFFECTS = 30
"""Changes that become effects; a task that makes more is better described by counts, which its author knows."""
_LONGEST_LITERAL = 200
_LONGEST_LINE = 200
_DATE_FORMS = ("%d.%m.%Y", "%d.%m.%y", "%d%m%Y", "%Y-%m-%d", "%m/%d/%Y", "%d/%m/%Y", "%Y%m%d")
_KEYS = re.compile(r"[⏎⇥]|\[[^\[\]]{1,40}\]")
_FOREVER = RunContext(datetime(1900, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table of the image.

    Attributes:
        path: Absolute path in the guest.
        fields: Names with their types, such as ``("PATNR", "C(6)")``.
        rows: Live rows.
        key: Fields that tell its live rows apart, probably; empty where none do or too few rows are there to tell.
        encoding: What the header declares; empty: nothing.
        fault: Why it cannot be used, if so.
    """

    path: str
    fields: tuple[tuple[str, str], ...] = ()
    rows: int = 0
    key: tuple[str, ...] = ()
    encoding: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Answers:
    """What the author says.

    Attributes:
        id: The contract's id.
        title: Its title.
        application: The program's name for people.
        domain: The field it is used in.
        image: The image.
        program: The program to start, as the image names it.
        window: The title of its first window, if the image says it.
        instruction: What the agent is told; empty: made of title and parameters.
        files: Folders to watch.
    """

    id: str
    title: str
    application: str
    domain: str
    image: str
    program: str
    window: str = ""
    instruction: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Demonstration:
    """What happened while the task was done.

    Attributes:
        comparisons: The changes, by the names that :func:`names_for` gives.
        typed: Texts that were typed, in order.
        given: Parameters that the author named, with their values.
        returned: What a script returned.
        today: The guest's date.
    """

    comparisons: tuple[Comparison, ...]
    typed: tuple[str, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    returned: Mapping[str, Any] = field(default_factory=dict)
    today: date | None = None


def describe_table(path: str, state: TableState) -> FoundTable:
    """What a table's own bytes say: fields, code page, and which fields tell its live rows apart."""
    try:
        table = load_table(state)
    except Unreadable as error:
        return FoundTable(path, fault=error.reason)
    except ContractFault as error:
        return FoundTable(path, fault=error.reason)
    rows = sum(table.live(index) for index in range(len(table)))
    fields = tuple((item.name, item.describe()) for item in table.fields)
    usable = [item.name for item in table.fields if item.type in _KEY_TYPES][:_KEY_FIELDS]
    key: tuple[str, ...] = ()
    if rows > 1:
        tried = itertools.chain(((name,) for name in usable), itertools.combinations(usable[: _KEY_FIELDS // 2], 2))
        key = next((names for names in tried if _is_unique(state, names)), ())
    return FoundTable(path, fields, rows, key, table.declared)


def _is_unique(state: TableState, names: tuple[str, ...]) -> bool:
    try:
        KeyIndex.build(state, names)
    except (ContractFault, Unreadable):
        return False
    return True


def names_for(tables: Sequence[str], files: Sequence[str]) -> dict[str, str]:
    """Names of observables by path: a table's own name, ``files`` or the folder's; ``screen`` stays free for the windows."""
    taken = {"screen"}
    names = {}
    for path in tables:
        names[path] = _unused(slug(splitext(basename(path))[0], "_") or "table", taken)
    for path in files:
        names[path] = _unused("program" if path == files[0] else slug(basename(path), "_") or "files", taken)
    return names


def slug(text: str, join: str = "-") -> str:
    """A text in small letters, digits and ``join``, beginning with a letter; empty if nothing is left."""
    plain = text.lower()
    for letter, spelt in (("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("ß", "ss")):
        plain = plain.replace(letter, spelt)
    words = re.sub(r"[^a-z0-9]+", join, plain).strip(join)
    return re.sub(r"^[0-9]", lambda digit: f"n{digit[0]}", words)[:60].strip(join)


def _unused(name: str, taken: set[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def typed_parts(pieces: Iterable[str]) -> tuple[str, ...]:
    """The single texts in what was typed, as :func:`runner.display.events.typed_text` tells it, without keys and corrections."""
    found: dict[str, None] = {}
    for piece in pieces:
        for part in _KEYS.split(piece):
            text = ""
            for char in part:
                text = text[:-1] if char == "⌫" else text + char
            if text.strip():
                found[text] = None
    return tuple(found)


# --- parameters ------------------------------------------------------------------------------------------------------


class _Parameters:
    """The parameters that the draft comes to use: those given, and typed texts that are found in a change."""

    def __init__(self, seen: Demonstration) -> None:
        self.values: dict[str, str] = dict(seen.given)
        self.used: dict[str, None] = {}
        self._typed = seen.typed
        self._taken = set(seen.given)

    def for_cell(self, cell: Cell, name: str) -> str | None:
        """A reference to the parameter whose value stands in the field, or ``None``."""
        if cell.state is not CellState.VALUE or isinstance(cell.value, bool):
            return None
        for known, value in self.values.items():
            if matches(value, Subject(cell), _FOREVER) is True:
                return self._use(known)
        for text in self._typed:
            stored = _as_stored(text, cell)
            if stored is not None and matches(stored, Subject(cell), _FOREVER):
                known = _unused(slug(name, "_") or "value", self._taken)
                self.values[known] = stored
                return self._use(known)
        return None

    def for_text(self, text: str) -> str:
        """A text for a contract, with the values of parameters in it replaced by references."""
        return "".join(literal(part) if name is None else self._use(name) for part, name in self.split(text))

    def for_line(self, line: str) -> str:
        """A regular expression for a line: parameters are references, numbers may be any."""
        found = ""
        for part, name in self.split(line):
            if name is not None:
                found += self._use(name)
                continue
            for piece in re.split(r"([0-9]+)", part):
                found += r"\d+" if piece.isdecimal() else literal(re.escape(piece).replace(r"\ ", " "))
        return found

    def split(self, text: str) -> Iterator[tuple[str, str | None]]:
        """A text in parts, with the name of the parameter whose value a part is; short values are not looked for."""
        by_value = {value: name for name, value in self.values.items() if len(value) > 2}
        if not by_value:
            yield text, None
            return
        wanted = sorted(by_value, key=len, reverse=True)
        for part in re.split("(" + "|".join(map(re.escape, wanted)) + ")", text):
            yield part, by_value.get(part)

    def _use(self, name: str) -> str:
        self.used[name] = None
        return "{{" + name + "}}"


def _as_stored(text: str, cell: Cell) -> str | None:
    """A typed text in the form in which a contract compares it with the field."""
    match cell.kind:
        case Kind.DATE | Kind.DATETIME:
            for form in _DATE_FORMS:
                try:
                    moment = datetime.strptime(text.strip(), form).date()  # noqa: DTZ007 - a date has no zone
                except ValueError:
                    continue
                if isinstance(cell.value, date) and cell.value.isoformat().startswith(moment.isoformat()):
                    return moment.isoformat()
            return None
        case Kind.NUMBER:
            number = text.strip().replace(",", ".")
            return number if number_of(number) is not None else None
        case _:
            return text if len(text) > 1 else None


# --- effects ---------------------------------------------------------------------------------------------------------


@dataclass
class _Effect:
    """One expected effect, ready to be written."""

    head: dict[str, Any]
    where: dict[str, tuple[Any, str]] = field(default_factory=dict)
    fields: dict[str, tuple[Any, str]] = field(default_factory=dict)
    tail: dict[str, Any] = field(default_factory=dict)
    remark: str = ""

    def lines(self) -> Iterator[str]:
        """As YAML, below ``expect:``."""
        if self.remark:
            yield f"    # {comment(self.remark)}"
        marks = itertools.chain("-", itertools.repeat(" "))
        for name, value in self.head.items():
            yield f"    {next(marks)} {name}: {flow(value)}"
        for part, values in (("where", self.where), ("fields", self.fields)):
            if values:
                yield f"      {part}:"
            for name, (value, why) in values.items():
                yield f"        {scalar(name)}: {flow(value)}" + (f"   # {comment(why)}" if why else "")
        for name, value in self.tail.items():
            yield f"      {name}: {flow(value)}"


class _Effects:
    """Turns the changes of a demonstration into effects."""

    def __init__(self, seen: Demonstration, keys: Mapping[str, tuple[str, ...]], parameters: _Parameters) -> None:
        self._seen = seen
        self._keys = keys
        self._parameters = parameters
        self._context = _FOREVER.with_rows({c.observable: c.rows for c in seen.comparisons if c.rows is not None})
        self._named: dict[str, Change] = {}
        self.left_out = 0

    def make(self) -> list[_Effect]:
        """The effects: new rows first, since others refer to them."""
        changes = [change for comparison in self._seen.comparisons for change in comparison.changes]
        changes.sort(key=lambda change: change.verb is not Verb.INSERTED)
        self.left_out = max(0, len(changes) - _MOST_EFFECTS)
        return [self._effect(change) for change in changes[:_MOST_EFFECTS]]

    def reference_to(self, value: Any) -> str | None:
        """``effect.FIELD`` of a new row that holds a value."""
        for name, change in self._named.items():
            for column, cell in (change.after or {}).items():
                if cell.state is CellState.VALUE and not is_empty(cell) and isinstance(value, str | int | Decimal):
                    text = str(cell.value).strip() if isinstance(cell.value, str | Decimal) else ""
                    found = _reference(name, column)
                    if len(text) > 1 and str(value) == text and found is not None:
                        return found
        return None

    def _effect(self, change: Change) -> _Effect:
        head: dict[str, Any] = {str(change.verb): change.observable}
        if change.observable == "screen":
            return self._window(change, head)
        if change.observable not in self._keys:
            return _file(change, head, self._parameters)
        match change.verb:
            case Verb.INSERTED:
                name = _unused(f"new_{change.observable}"[:60], set(self._named))
                fields = dict(self._inserted(change))
                self._named[name] = change
                return _Effect(head | {"name": name}, fields=fields | {"*": ({"is": "empty"}, "every field not named")})
            case Verb.UPDATED | Verb.UNDELETED:
                return _Effect(head, self._which(change), dict(self._updated(change)))
            case Verb.DELETED | Verb.PURGED:
                return _Effect(head, self._which(change))
            case _:
                return _Effect(head)

    def _inserted(self, change: Change) -> Iterator[tuple[str, tuple[Any, str]]]:
        for name, cell in (change.after or {}).items():
            if not is_empty(cell):
                is_key = name in self._keys[change.observable]
                yield name, self._value(change.observable, name, cell, counts=is_key)

    def _updated(self, change: Change) -> Iterator[tuple[str, tuple[Any, str]]]:
        for name in change.changed:
            cell = (change.after or {}).get(name)
            if cell is not None:
                yield name, self._value(change.observable, name, cell, counts=False)

    def _which(self, change: Change) -> dict[str, tuple[Any, str]]:
        """What tells the row: its key, or what of it is filled in."""
        row: Row = change.before or {}
        filled = [name for name, cell in row.items() if not is_empty(cell) and name not in change.changed]
        found = {}
        for name in self._keys[change.observable] or filled[:3]:
            cell = row.get(name)
            told = None if cell is None else self._parameters.for_cell(cell, name) or _plain(cell)
            if told is not None:
                found[name] = (told, "")
        return found

    def _value(self, observable: str, name: str, cell: Cell, *, counts: bool) -> tuple[Any, str]:
        """The matcher of one field, and a remark for the author."""
        number = series_number(cell)
        if counts and number is not None and number == highest_before(observable, name, self._context)[0] + 1:
            return {"generated": "next"}, "the program counts it up"
        parameter = self._parameters.for_cell(cell, name)
        if parameter is not None:
            return parameter, ""
        for effect, other in self._named.items():
            for key in self._keys[other.observable]:
                there = (other.after or {}).get(key)
                if number is not None and there is not None and series_number(there) == number:
                    found = _reference(effect, key)
                    if found is not None:
                        return {"field": found}, ""
        if cell.kind is Kind.DATE and self._seen.today is not None and cell.value == self._seen.today:
            return {"date": "today"}, ""
        if cell.kind in (Kind.TIME, Kind.DATETIME) and self._is_of_run(cell):
            return {"time": "run"}, ""
        if is_empty(cell):
            return {"is": "empty"}, ""
        value = _plain(cell)
        if value is None:
            return {"not": {"is": "blank"}}, "its bytes are no text: declare the table's `encoding`"
        if isinstance(value, str) and len(value) > _LONGEST_LITERAL:
            return {"not": {"is": "blank"}}, "a long text: say what it must hold"
        return value, "" if isinstance(value, bool) else "as it was seen: is it always so?"

    def _is_of_run(self, cell: Cell) -> bool:
        today = self._seen.today
        return today is not None and isinstance(cell.value, datetime) and abs(cell.value.date() - today) < timedelta(2)

    def _window(self, change: Change, head: dict[str, Any]) -> _Effect:
        def told(row: Row | None) -> dict[str, tuple[Any, str]]:
            title = (row or {}).get("title")
            if title is not None and isinstance(title.value, str):
                return {"title": (self._parameters.for_text(title.value), "")}
            kind = (row or {}).get("class")
            return {"class": (literal(str(kind.value)), "it has no title")} if kind is not None else {}

        if change.verb is Verb.RETITLED:
            return _Effect(head, told(change.before), told(change.after))
        return _Effect(head, told(change.after or change.before))


def _plain(cell: Cell) -> Any:
    value = matcher_of(cell)
    return literal(value) if isinstance(value, str) else value


def _file(change: Change, head: dict[str, Any], parameters: _Parameters) -> _Effect:
    r"""A file's effect: exactly this path, and of a text file what its last line looks like."""
    tail: dict[str, Any] = {}
    if change.verb is Verb.RENAMED and change.before is not None:
        tail["from"] = "\\" + literal(escape(str(change.before["path"].value)))
    tail["path"] = "\\" + literal(escape(change.subject))
    remark = ""
    if change.verb in (Verb.CREATED, Verb.MODIFIED) and change.how != "folder":
        remark = "seen with every success? What may happen but need not belongs to `allow`, with `because: <why>`."
        rule = _last_line(change.content or b"", parameters)
        if rule is not None:
            tail["content"] = rule
        else:
            remark += " Else say by `content` what it must hold."
    return _Effect(head, tail=tail, remark=remark)


def _last_line(content: bytes, parameters: _Parameters) -> dict[str, Any] | None:
    """A rule for a text file: its last line, whatever the numbers in it; ``None`` for other files."""
    for encoding in ("utf-8", "cp1252"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        line = text.rstrip().rpartition("\n")[2].strip("\r\ufeff ")
        if len(line) > _LONGEST_LINE or not line.isprintable() or not any(char.isalpha() for char in line):
            return None
        regex = {"regex": rf"(?s)(?:.*\n)?\W*{parameters.for_line(line)}\s*"}
        return regex if encoding == "utf-8" else {"text": regex, "encoding": encoding}
    return None


# --- the text --------------------------------------------------------------------------------------------------------


def draft(answers: Answers, tables: Sequence[FoundTable], seen: Demonstration | None) -> str:
    """The contract as YAML, with comments that say what it means and what is left to the author.

    Args:
        answers: What the author says.
        tables: The tables to observe; those with a fault are left to the file tree, with a remark.
        seen: What happened while the task was done; ``None``: nobody did it.
    """
    usable = [table for table in tables if not table.fault]
    names = names_for([table.path for table in usable], answers.files)
    keys = {names[table.path]: table.key for table in usable}
    seen = seen or Demonstration(())
    parameters = _Parameters(seen)
    maker = _Effects(seen, keys, parameters)
    effects = maker.make()
    returns = _returns(seen, maker, parameters)
    changing = any("screen" not in effect.head.values() for effect in effects)
    lines = [
        "# A task contract, drafted by `legacyproof new`. `legacyproof lint` says what is still wrong with it; what stands behind",
        "# a `#` is for you: read it, decide, and take it away.",
        "schema: 1",
        *(f"{name}: {flow(value)}" for name, value in (
            ("id", answers.id), ("title", literal(answers.title)), ("application", literal(answers.application)),
            ("domain", literal(answers.domain)),
        )),
        *(["# ^ the field it is used in, such as dental/healthcare; reports group by it"] if answers.domain == UNSPECIFIED else []),
        f"state_changing: {flow(changing)}   # whether a success changes data; a task that only looks something up must leave no trace",
        f"image: {flow(answers.image)}",
        "# What the agent is told, in whole sentences; every parameter stands in it as {{name}}.",
        f"instruction: {flow(answers.instruction or _instruction(answers, parameters, seen.returned))}",
        *_parameter_lines(parameters),
        "initial_state:",
        "  # In words, for people: what the screen shows and what there is, or is not, before the task.",
        f"  summary: {flow(literal(f'{answers.application} is open.'))}",
        f"  start: [{flow(answers.program)}]",
        *_requirements(seen, keys, parameters, answers),
        "goal_state:",
        "  # In words, for people; the effects say it exactly.",
        f"  summary: {flow(literal(answers.title))}",
        "observe:   # everything here is compared before and after; what no effect accounts for is a violation",
        *_observe(answers, tables, names),
        *_effect_lines(effects, maker.left_out),
        *returns,
        *_stages(effects, keys, seen, parameters),
        "limits: {timeout: 900s}   # how long the agent may work",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _instruction(answers: Answers, parameters: _Parameters, returned: Iterable[str]) -> str:
    told = ", ".join(f"{name.replace('_', ' ')} {{{{{name}}}}}" for name in parameters.values)
    text = literal(answers.title.rstrip(".")) + (f": {told}" if told else "")
    return text + (f", and return {literal(', '.join(map(str, returned)))}." if returned else ".")


def _parameter_lines(parameters: _Parameters) -> Iterator[str]:
    if not parameters.values:
        yield "# parameters:   # values that may differ from run to run, used as {{name}} in the instruction and the effects"
        return
    yield "parameters:   # `--param name=value` replaces one; a password is written {value: …, secret: true}"
    for name, value in parameters.values.items():
        unused = name not in parameters.used
        why = "   # no rule looks at it: use it in an effect, or write {value: …, unchecked: <why>}" if unused else ""
        yield f"  {name}: {flow(value)}{why}"


def _observe(answers: Answers, tables: Sequence[FoundTable], names: Mapping[str, str]) -> Iterator[str]:
    for table in tables:
        if table.fault:
            yield f"  # {comment(table.path)} is watched as a file only: {comment(table.fault)}"
            continue
        spec: dict[str, Any] = {"dbf": table.path}
        remarks = []
        if table.key:
            spec["key"] = list(table.key)
        else:
            remarks.append("no field tells its rows apart: add `key: [...]` if you know one")
        if table.encoding:
            spec["encoding"] = table.encoding
        else:
            remarks.append("the header tells no code page: add `encoding: cp850` or the like")
        yield f"  {names[table.path]}: {flow(spec)}" + (f"   # {'; '.join(remarks)}" if remarks else "")
    for folder in answers.files:
        yield f"  {names[folder]}: {flow({'files': folder})}"
    yield "  screen: {windows: {}}"
    yield "  # What changes by itself is measured by `legacyproof calibrate` and left out by `ignore: [{path: …, noise: <list id>}]`."


def _requirements(
    seen: Demonstration, keys: Mapping[str, tuple[str, ...]], parameters: _Parameters, answers: Answers
) -> Iterator[str]:
    needs: list[dict[str, Any]] = []
    for comparison in seen.comparisons:
        if comparison.observable not in keys or comparison.rows is None:
            continue
        for change in comparison.changes[:_MOST_EFFECTS]:
            if change.verb is not Verb.INSERTED:
                continue
            told = {name: parameters.for_cell(cell, name) for name, cell in (change.after or {}).items()}
            where = {name: value for name, value in told.items() if value is not None}
            after = change.after or {}
            before = comparison.rows.before()
            if where and not any(
                live and all(n in row and row[n].same_value(after[n]) for n in where) for row, live in before
            ):
                needs.append({"rows": comparison.observable, "where": where, "count": 0})
    if answers.window:
        needs.append({"windows": "screen", "where": {"title": literal(answers.window)}, "count": 1})
    if needs:
        yield "  require:   # checked before the agent begins; where it does not hold the run is not scored"
        yield from (f"    - {flow(need)}" for need in needs)


def _effect_lines(effects: Sequence[_Effect], left_out: int) -> Iterator[str]:
    if not effects:
        yield "# What must happen, field by field, for example:"
        yield "# effects:"
        yield "#   expect:"
        yield '#     - {inserted: <table>, fields: {NAME: "{{name}}", "*": {is: empty}}}'
        return
    yield "effects:"
    yield "  expect:   # exactly this must have happened, each once (`count: …` for more)"
    for effect in effects:
        yield from effect.lines()
    if left_out:
        yield f"  # {left_out} more changes were seen: describe what is alike in one effect with `count: …`"
    yield "  # allow:   # what may happen besides, each with `because: <why>`"


def _reference(effect: str, column: str) -> str | None:
    """``effect.COLUMN``; ``None`` where a contract could not say it: files of anybody's making can name columns as they like."""
    try:
        return FieldOf(field=f"{effect}.{column}").field
    except ValidationError:
        return None


def _returns(seen: Demonstration, effects: _Effects, parameters: _Parameters) -> list[str]:
    if not seen.returned:
        return ["# returns: {schema: {…}, expect: {…}}   # what the agent must answer, if it is asked for something"]
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    types = {name: kinds[type(value)] for name, value in seen.returned.items() if type(value) in kinds}
    schema = {
        "type": "object", "required": list(types), "properties": {name: {"type": kind} for name, kind in types.items()},
    }  # fmt: skip
    expect: dict[str, Any] = {}
    for name in types:
        value = seen.returned[name]
        found = effects.reference_to(value) if not isinstance(value, float | bool) else None
        if found is not None:
            expect[name] = {"field": found}
        elif isinstance(value, str):
            expect[name] = parameters.for_text(value)
        elif isinstance(value, bool | int):
            expect[name] = value
    lines = ["returns:   # what the agent must answer", f"  schema: {flow(schema)}"]
    return [*lines, f"  expect: {flow(expect)}"] if expect else lines


def _stages(
    effects: Sequence[_Effect], keys: Mapping[str, tuple[str, ...]], seen: Demonstration, parameters: _Parameters
) -> Iterator[str]:
    stages: dict[str, Any] = {}
    typed = [name for name in parameters.used if parameters.values[name] in seen.typed]
    if typed:
        stages["interaction"] = {"typed": "{{" + typed[-1] + "}}"}
    changed = [name for effect in effects for name in effect.head.values() if name != "screen"]
    first = next((name for name in changed if name in keys), next(iter(changed), None))
    if first is not None:
        stages["commit"] = {"changed": first}
    if stages:
        yield "stages:   # how far a run came before it went wrong, for the report"
        yield from (f"  {name}: {flow(value)}" for name, value in stages.items())
