"""The draft of a contract: what is made of changes, what is left to the author, and that it always loads."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import dbf
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from contracts.lint import lint
from contracts.load import load_contract, load_text
from contracts.schema import TaskContract
from runner import new_contract
from runner.contract_draft import (
    Answers,
    Demonstration,
    FoundTable,
    describe_table,
    draft,
    names_for,
    slug,
    typed_parts,
)
from runner.display.handshake import DisplayAddress
from runner.machines.images import Image
from runner.machines.wine import WineCheckpoint
from runner.new_contract import NewContractError, Options, author, changes_table, tables_table, write_draft
from validators.changes import Cell, CellState, Change, Comparison, Kind, Row, Verb
from validators.dbf import TableState

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = Answers("dswin.add", "Add a patient", "DSWin", "dental", "dentadesk", "dswin", files=(r"C:\DSWIN",))
PATIENTS = FoundTable(r"C:\DSWIN\PATIENT.DBF", (("NR", "C(6)"), ("NAME", "C(30)")), 2, ("NR",), "cp850")
COUNTER = FoundTable(r"C:\DSWIN\COUNTER.DBF", (("NAME", "C(10)"), ("LAST", "N(8)")), 2, ("NAME",), "cp850")
TODAY = date(2026, 11, 29)


@dataclass
class FakeRows:
    rows: list[Row]

    def before(self) -> Iterable[tuple[Row, bool]]:
        return [(row, True) for row in self.rows]

    def after(self) -> Iterable[tuple[Row, bool]]:
        return self.before()


def text(value: str) -> Cell:
    return Cell(Kind.TEXT, value) if value else Cell(Kind.TEXT, None, CellState.BLANK)


def number(value: int | str) -> Cell:
    return Cell(Kind.NUMBER, Decimal(value))


def comparison(name: str, change: Change, *before: Row) -> Comparison:
    return Comparison(name, (change,), rows=FakeRows(list(before)))


def inserted(row: Row, *before: Row) -> Comparison:
    return comparison("patient", Change("patient", Verb.INSERTED, "x", 1, None, row), *before)


def loaded(seen: Demonstration | None, *tables: FoundTable, answers: Answers = ANSWERS) -> TaskContract:
    return load_text(draft(answers, tables or (PATIENTS, COUNTER), seen), name="draft").contract


def expected(seen: Demonstration, *tables: FoundTable) -> list[dict[str, Any]]:
    contract = loaded(seen, *tables)
    return [effect.model_dump(by_alias=True, exclude_unset=True) for effect in contract.effects.expect]


# --- from changes to effects -----------------------------------------------------------------------------------------


def test_a_new_row_has_its_number_its_parameters_and_nothing_else() -> None:
    row = {
        "NR": text("000104"), "NAME": text("Muster"), "BORN": Cell(Kind.DATE, date(1964, 8, 12)), "MADE": Cell(Kind.DATE, TODAY),
        "LIVE": Cell(Kind.LOGICAL, True), "NOTE": text(""), "SUM": number(0), "KIND": text("A"),
    }  # fmt: skip
    (effect,) = expected(Demonstration((inserted(row, {"NR": text("000103")}),), ("Muster", "12.08.1964"), today=TODAY))
    assert effect["name"] == "new_patient"
    assert effect["fields"] == {
        "NR": {"generated": "next"}, "NAME": "Muster", "BORN": "1964-08-12", "MADE": {"date": "today"}, "LIVE": True, "KIND": "A",
        "*": {"is": "empty"},
    }  # fmt: skip
    contract = loaded(Demonstration((inserted(row, {"NR": text("000103")}),), ("Muster", "12.08.1964"), today=TODAY))
    assert contract.parameters == {"name": "Muster", "born": "1964-08-12"}
    assert contract.state_changing


def test_parameters_that_the_author_named_keep_their_names() -> None:
    row = {"NR": text("7"), "NAME": text("Muster")}
    seen = Demonstration((inserted(row),), ("Muster",), {"last_name": "Muster", "colour": "red"})
    written = draft(ANSWERS, [PATIENTS], seen)
    assert "NAME: '{{last_name}}'" in written
    assert re.search(r"colour: red +# no rule looks at it", written)
    assert [finding.rule.id for finding in lint(load_text(written, name="c"))] == ["unchecked-parameter"]


def test_a_counter_follows_the_new_row_and_is_told_by_its_key() -> None:
    row = {"NR": text("000104"), "NAME": text("Muster")}
    was, now = ({"NAME": text("PATIENT"), "LAST": number(n)} for n in (103, 104))
    counter = comparison("counter", Change("counter", Verb.UPDATED, "x", 1, was, now, ("LAST",)), was)
    seen = Demonstration((counter, inserted(row, {"NR": text("000103")})), returned={"number": "000104", "ok": True})
    first, second = expected(seen)
    assert "inserted" in first
    assert second == {
        "updated": "counter", "where": {"NAME": "PATIENT"}, "fields": {"LAST": {"field": "new_patient.NR"}},
    }  # fmt: skip
    returns = loaded(seen).returns
    assert returns is not None
    assert returns.model_dump(by_alias=True)["expect"] == {"number": {"field": "new_patient.NR"}, "ok": True}


def test_what_must_not_be_there_before_is_required_only_if_it_was_not() -> None:
    row = {"NR": text("2"), "NAME": text("Muster")}
    for before, count in (("Huber", 1), ("Muster", 0)):
        seen = Demonstration((inserted(row, {"NR": text("1"), "NAME": text(before)}),), ("Muster",))
        assert len(loaded(seen).initial_state.require) == count


def test_bytes_that_are_no_text_are_not_written_as_one() -> None:
    row = {"NR": text("1"), "NAME": Cell(Kind.TEXT, None, CellState.UNDECODABLE, b"\x81")}
    (effect,) = expected(Demonstration((inserted(row),)))
    assert effect["fields"]["NAME"] == {"not": {"is": "blank"}}


def a_file(verb: Verb, path: str, content: bytes | None = None, old: str = "") -> Demonstration:
    cells = {"path": Cell(Kind.VARTEXT, old or path)}
    return Demonstration((Comparison("program", (Change("program", verb, path, 1, cells, cells, content=content),)),))


def test_a_log_is_expected_by_its_last_line_with_any_numbers() -> None:
    (effect,) = expected(a_file(Verb.MODIFIED, "DSWIN.LOG", b"2026-11-29 Start\r\n2026-11-29 Patient 000104 (neu)\r\n"))
    assert effect["path"] == "\\DSWIN.LOG"
    pattern = effect["content"]["regex"]
    assert re.fullmatch(pattern, "2027-01-01 Start\r\n2027-01-01 Patient 000777 (neu)\r\n")
    assert not re.fullmatch(pattern, "2027-01-01 Patient 000777 (neu)\r\nmore\r\n")


def test_other_files_leave_their_content_to_the_author() -> None:
    written = draft(ANSWERS, [], a_file(Verb.CREATED, "a[1].bin", bytes(range(256))))
    assert "path: '\\a[[]1].bin'" in written
    assert "say by `content`" in written
    (effect,) = expected(a_file(Verb.RENAMED, "b.txt", old="a.txt"))
    assert (effect["from"], effect["path"]) == ("\\a.txt", "\\b.txt")
    umlaut = expected(a_file(Verb.CREATED, "x.txt", "Müller\r\n".encode("cp1252")))[0]["content"]
    assert umlaut["encoding"] == "cp1252"


def test_windows_that_stay_are_effects_with_parameters_in_their_titles() -> None:
    window = {"title": Cell(Kind.VARTEXT, "Patient Muster {{x}}"), "class": Cell(Kind.VARTEXT, "C")}
    opened = Comparison("screen", (Change("screen", Verb.OPENED, "x", 1, None, window),))
    seen = Demonstration((opened,), given={"name": "Muster"})
    assert "{title: " not in draft(ANSWERS, [], seen)
    assert expected(seen)[0]["where"] == {"title": "Patient Muster {{x}}"}
    assert not loaded(seen).state_changing


def test_without_a_demonstration_there_is_an_example_and_nothing_is_expected() -> None:
    written = draft(ANSWERS, [PATIENTS, FoundTable(r"C:\DSWIN\BAD.DBF", fault="the header\nis none")], None)
    contract = load_text(written, name="c").contract
    assert list(contract.observe) == ["patient", "program", "screen"]
    assert not contract.effects.expect
    assert "# C:\\DSWIN\\BAD.DBF is watched as a file only: the header·is none" in written


CELLS = st.one_of(
    st.text(max_size=12).map(text),
    st.decimals(-1000, 1000, places=2).map(lambda value: Cell(Kind.NUMBER, value)),
    st.dates().map(lambda value: Cell(Kind.DATE, value)),
    st.booleans().map(lambda value: Cell(Kind.LOGICAL, value)),
    st.binary(max_size=4).map(lambda raw: Cell(Kind.TEXT, None, CellState.UNDECODABLE, raw)),
    st.just(Cell(Kind.NUMBER, None, CellState.NULL)),
)
FIELDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(lambda name: name != "*")
ROWS: st.SearchStrategy[Mapping[str, Cell]] = st.dictionaries(FIELDS, CELLS, min_size=1, max_size=4)
TEXT = Cell(Kind.TEXT, "x")
NAMES = st.text(st.characters(exclude_characters="\\/"), min_size=1, max_size=12).filter(lambda t: t not in (".", ".."))


@example({"0": TEXT}, {"Z": TEXT}, ":", b"", "", [])
@example({"\n": Cell(Kind.NUMBER, Decimal("0.00"))}, {"8": Cell(Kind.NUMBER, None, CellState.NULL)}, "0", b"", "", [])
@settings(max_examples=150)
@given(ROWS, ROWS, NAMES, st.binary(max_size=40), st.text(max_size=12), st.lists(st.text(max_size=12), max_size=3))
def test_whatever_was_seen_the_draft_loads(
    row: Row, was: Row, path: str, content: bytes, title: str, typed: list[str]
) -> None:
    table = FoundTable(r"C:\DSWIN\PATIENT.DBF", (), 2, (next(iter(row)),), "cp850")
    changed = Change("patient", Verb.UPDATED, "x", 1, was, {**was, **row}, tuple(row))
    name = {"title": Cell(Kind.VARTEXT, title), "class": Cell(Kind.VARTEXT, "C")}
    seen = Demonstration(
        (
            Comparison("patient", (Change("patient", Verb.INSERTED, "x", 1, None, row), changed), rows=FakeRows([was])),
            Comparison("program", (Change("program", Verb.CREATED, path, 1, None, {}, content=content),)),
            Comparison("screen", (Change("screen", Verb.OPENED, "x", 1, None, name),)),
        ),
        tuple(typed), {"given": title or "x"}, {"r": title, path: 1}, TODAY,
    )  # fmt: skip
    answers = Answers("a.b", title or "t", title or "t", "d", "dentadesk", "dswin", title, "", (r"C:\DSWIN",))
    load_text(draft(answers, [table], seen), name="draft")


# --- tables, names, typed texts --------------------------------------------------------------------------------------


def table_state(tmp_path: Path, fields: str, rows: list[tuple[Any, ...]], codepage: str = "cp850") -> TableState:
    made = dbf.Table(str(tmp_path / "t.dbf"), fields, codepage=codepage, dbf_type="db3")
    made.open(dbf.READ_WRITE)
    for row in rows:
        made.append(row)
    made.close()
    return TableState((tmp_path / "t.dbf").read_bytes(), None, None, "t.dbf")


def test_a_tables_key_is_the_first_field_or_pair_that_tells_its_rows_apart(tmp_path: Path) -> None:
    state = table_state(tmp_path, "a C(3); b C(3); c C(3)", [("x", "1", "p"), ("x", "2", "q"), ("y", "1", "q")])
    found = describe_table("C:\\T.DBF", state)
    assert (found.rows, found.key) == (3, ("A", "B"))
    assert found.fields[0] == ("A", "C(3)")


def test_one_row_tells_no_key_and_broken_bytes_no_table(tmp_path: Path) -> None:
    assert describe_table("C:\\T.DBF", table_state(tmp_path, "a C(3)", [("x",)])).key == ()
    assert describe_table("C:\\T.DBF", TableState(b"\x03nonsense", None, None, "t")).fault


def test_names_are_unique_and_the_screen_stays_free() -> None:
    names = names_for(["C:\\A\\SCREEN.DBF", "C:\\B\\Program.dbf", "C:\\B\\3x.dbf", "C:\\C\\3X.DBF"], ["C:\\A", "C:\\B"])
    assert list(names.values()) == ["screen_2", "program", "n3x", "n3x_2", "program_2", "b"]
    assert slug("Über-Größe 9!", "_") == "ueber_groesse_9"


def test_typed_texts_are_told_from_keys_and_corrections() -> None:
    pieces = ["[F2]Mustex⌫r⇥Erika⇥12.08.1964[ctrl+Page_Down]", "BARMER⇥", "⏎  ⇥Erika"]
    assert typed_parts(pieces) == ("Muster", "Erika", "12.08.1964", "BARMER")


# --- the dialogue ----------------------------------------------------------------------------------------------------


def test_a_draft_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("mine")
    with pytest.raises(NewContractError, match="File exists"):
        write_draft("x", tmp_path / "c.yaml")


def options(**more: Any) -> Options:
    return replace(Options(image="dentadesk", program="dswin", title="T", yes=True), **more)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"title": ""}, "say it by an option"),
        ({"program": "excel"}, "it has: dswin"),
        ({"path": Path(__file__)}, "not overwritten"),
    ],
)
def test_mistakes_are_told_before_a_machine_is_made(said: dict[str, Any], why: str) -> None:
    def no_machine(_image: Image) -> Any:
        raise AssertionError("a machine was asked for")

    with pytest.raises(NewContractError, match=why):
        author(options(**said), Console(file=io.StringIO()), no_machine)


def test_a_person_is_told_where_to_connect_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("typer.prompt", lambda question, **_: asked.append(question))
    told = io.StringIO()
    perform = new_contract._person(Console(file=told))
    assert perform(None, DisplayAddress("127.0.0.1", 5901, "geheim")) == {}  # type: ignore[arg-type]
    assert "127.0.0.1:5901 (password geheim)" in told.getvalue()
    assert asked == ["Press Enter when it is done"]


def test_tables_for_the_terminal_hold_hostile_names() -> None:
    bad = FoundTable("C:\\\x1b[2J[red].DBF", fault="\n")
    shown = io.StringIO()
    Console(file=shown, width=100).print(tables_table([bad, PATIENTS]), changes_table(a_file(Verb.CREATED, "\x1b]0;x")))
    assert "\x1b" not in shown.getvalue()
    assert "[red]" in shown.getvalue()
    assert changes_table(Demonstration(())).row_count == tables_table([]).row_count == 1


# --- on the embedded machine -----------------------------------------------------------------------------------------


def legacyproof(*argv: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from runner.cli import main; main()", *map(str, argv)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.machine
def test_the_golden_script_makes_a_contract_that_knows_right_from_wrong(
    tmp_path: Path, checkpoint: WineCheckpoint
) -> None:
    scripts = ROOT / "recordings/dswin/add-new-patient"
    values = {
        "last_name": "Muster", "first_name": "Erika", "birth_date": "1964-08-12", "insurer": "BARMER",
        "insurance_number": "1234567890",
    }  # fmt: skip
    path = tmp_path / "new.yaml"
    given = [item for name, value in values.items() for item in ("--param", f"{name}={value}")]
    done = legacyproof(
        "new", path, "--image", "dentadesk", "--id", "dswin.add-new-patient", "--title", "Add a new patient",
        "--domain", "dental/healthcare", "--application", "DSWin", "--yes", *given, "--demonstration", scripts / "golden.yaml",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    contract = load_contract(path)
    assert lint(contract) == ()
    assert contract.contract.observe.keys() == {
        "counter",
        "doku",
        "katalog",
        "leistung",
        "patient",
        "program",
        "screen",
    }

    outcomes = {}
    for script in ("golden.yaml", "misdeeds/wrong-number.yaml"):
        ran = legacyproof("run", path, "--agent", f"scripted:{scripts / script}", "--json", "--runs", tmp_path / "runs")
        line = json.loads(ran.stdout)
        outcomes[script] = line["outcome"]
    assert outcomes == {"golden.yaml": "valid_success", "misdeeds/wrong-number.yaml": "invalid_success"}


@pytest.mark.machine
def test_a_failed_demonstration_makes_no_contract(tmp_path: Path, checkpoint: WineCheckpoint) -> None:
    script = tmp_path / "s.yaml"
    script.write_text(
        "schema: 1\ncontract: c\ntitle: t\nintended: {outcome: valid_success}\nsteps:\n"
        "  - wait: {window: Nowhere, timeout: 100ms}\n  - report: success\n"
    )
    done = legacyproof(
        "new", tmp_path / "c.yaml", "--image", "dentadesk", "--title", "T", "--yes", "--demonstration", script
    )  # fmt: skip
    assert done.returncode == 2
    assert "the demonstration did not succeed" in done.stderr
    assert not (tmp_path / "c.yaml").exists()
