"""Looking at an image for lint: what a snapshot says, that the machine goes away again, and the command line around it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from contracts.lint import lint, reference
from contracts.lint_rules.examples import BASE, EXAMPLES, composed
from contracts.load import load_contract, load_text
from contracts.schema import Observable, StartProgram
from runner.guests.base import Guest, GuestLost
from runner.inspect_image import CAMPAIGN, known_from, known_of
from runner.machines.base import Freshness, Tag
from runner.machines.wine import WineProvider
from tests.command_line import Call, caller
from tests.peers.fake_guest import FakeGuest, window
from tests.validators.dbf_files import F, Table
from validators.dbf import TableState
from validators.files import FileItem, TreeState
from validators.registry import SZ, KeyItem, RegistryState, ValueItem
from validators.snapshot import UnreadableState
from validators.sql.form import Form
from validators.sql.table import Column, Key, SqlState
from validators.windows import WindowsState

ROOT = Path(__file__).resolve().parents[2]
CUSTOMERS = Table([F("NR", "C", 4), F("NAME", "C", 5), F("BORN", "D", 8)], [b"0001Huber19640812", b"0002Huber19700101"])


def observe(**specs: dict[str, Any]) -> dict[str, Observable]:
    return TypeAdapter(dict[str, Observable]).validate_python(specs)


def table(data: bytes | None) -> TableState:
    return TableState(data, None, None, "CUSTOMER.DBF")


class FakeMachine:
    """A machine around a guest in memory."""

    id = "fake"
    timings: dict[str, float] = {}  # noqa: RUF012 - as the protocol has it

    def __init__(self, guest: FakeGuest, tag: Tag) -> None:
        self.guest: Guest = guest
        self.tag = tag
        self.started: list[str] = []
        self.discarded = 0

    @property
    def display(self) -> Any:
        raise AssertionError("nobody looks at the screen")

    @property
    def freshness(self) -> Freshness:
        raise AssertionError("nobody asks")

    def start(self, programs: Sequence[StartProgram]) -> None:
        self.started += [program.program for program in programs]

    def ensure_alive(self) -> None:
        """It lives."""

    def discard(self) -> None:
        self.discarded += 1


class FakeCheckpoint:
    """Makes one fake machine."""

    digest = "fake"

    def __init__(self, guest: FakeGuest) -> None:
        self._guest = guest
        self.machines: list[FakeMachine] = []

    def clone(self, tag: Tag) -> FakeMachine:
        self.machines.append(FakeMachine(self._guest, tag))
        return self.machines[-1]


# --- snapshots as plain data ------------------------------------------------------------------------------------------------


def test_a_table_tells_its_fields_and_whether_its_key_is_one() -> None:
    for key, fault in ((["NR"], ""), (["NAME"], "NAME=Huber"), (["GONE"], ""), ([], "")):
        known = known_from(
            observe(it={"dbf": r"C:\SHOP\CUSTOMER.DBF", "key": key}), {"it": table(CUSTOMERS.dbf())}
        ).tables["it"]
        assert known.fields == {"NR": "text", "NAME": "text", "BORN": "date"}
        assert known.key == ()
        assert (fault in known.fault) if fault else not known.fault


def test_what_is_not_there_is_not_what_cannot_be_read() -> None:
    spec = observe(
        absent={"dbf": r"C:\A.DBF"}, broken={"dbf": r"C:\B.DBF"}, locked={"dbf": r"C:\C.DBF"}, unread={"dbf": r"C:\D.DBF"},
        tree={"files": r"C:\T"}, key={"registry": r"HKCU\K"}, sql={"sql": "shop", "table": "T"},
    )  # fmt: skip
    known = known_from(spec, {
        "absent": table(None), "broken": table(b"no table at all"), "locked": UnreadableState("it is locked"),
        "tree": TreeState(exists=False), "key": RegistryState(exists=False), "sql": SqlState("T", exists=False),
    })  # fmt: skip
    assert known.absent == {"absent", "tree", "key", "sql"}
    assert known.unreadable.keys() == {"broken", "locked"}
    assert known.unreadable["locked"] == "it is locked"
    assert (known.tables, known.listings) == ({}, {})


def test_an_sql_table_tells_its_columns_and_the_catalogues_key() -> None:
    columns = (
        Column("ID", "int", False, Form.NUMBER),
        Column("ON", "date", True, Form.DATE),
        Column("X", "", True, Form.DYNAMIC),
    )
    state = SqlState(
        "T", True, columns, (Key(("ID",), "primary key"),), (), b"1\t1964-08-12\ti1\n2\t1964-08-12\ti1\n", 2
    )
    for key, unique in (([], True), (["ID"], True), (["ON"], False)):
        spec = {"sql": "shop", "table": "T", "key": key, "ignore": [{"column": "GONE", "because": "it is not there"}]}
        known = known_from(observe(it=spec), {"it": state}).tables["it"]
        assert known.fields == {"ID": "number", "ON": "date", "X": ""}
        assert known.key == ("ID",)
        assert (not known.fault) == unique


def test_listings_are_as_effects_see_them() -> None:
    tree = TreeState(True, (FileItem("OUT", "dir", 0, 0, 0x10), FileItem(r"OUT\a.txt", "file", 1, 0, 0x20)))
    keys = RegistryState(True, (KeyItem(""), KeyItem("Window")), (ValueItem("Window", "Left", SZ, b"a\0\0\0"),))
    spec = observe(tree={"files": r"C:\T"}, key={"registry": r"HKCU\K"}, screen={"windows": {}})
    known = known_from(spec, {"tree": tree, "key": keys, "screen": WindowsState()})
    assert known.listings == {"tree": ("OUT", r"OUT\a.txt"), "key": (r"HKCU\K", "Window", r"Window\@Left")}
    assert not known.absent


# --- machines ---------------------------------------------------------------------------------------------------------------


def shop() -> FakeGuest:
    guest = FakeGuest(windows=[window("Customers")])
    guest.put(r"C:\SHOP\CUSTOMER.DBF", CUSTOMERS.dbf())
    guest.put(r"C:\SHOP\SHOP.LOG", b"started")
    return guest


def test_a_machine_is_started_read_once_and_removed() -> None:
    checkpoint = FakeCheckpoint(shop())
    loaded = load_text(composed("initial_state: {summary: The list is shown., start: [shop]}\n"), name="c")
    known = known_of(loaded.contract, checkpoint)
    (machine,) = checkpoint.machines
    assert (machine.tag.campaign, machine.started, machine.discarded) == (CAMPAIGN, ["shop"], 1)
    assert set(known.listings["disk"]) == {"CUSTOMER.DBF", "SHOP.LOG"}
    assert lint(loaded, known) == ()


def test_the_machine_is_removed_when_it_is_lost_too() -> None:
    guest = shop()
    guest.lost = True
    checkpoint = FakeCheckpoint(guest)
    with pytest.raises(GuestLost):
        known_of(load_text(BASE, name="c").contract, checkpoint)
    assert checkpoint.machines[0].discarded == 1


# --- the command line -------------------------------------------------------------------------------------------------------


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs the command in this process, in an empty folder; its exit status, standard output and standard error."""
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return caller(monkeypatch, capsys)


def written(name: str, text: str) -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_status_says_what_was_found(call: Call) -> None:
    for text, status in (
        (BASE, 0),
        (composed(EXAMPLES["no-stages"].trips), 0),
        (composed(EXAMPLES["existence-only"].trips), 1),
        (composed(EXAMPLES["cannot-load"].trips), 2),
    ):
        assert call("lint", written("c.yaml", text))[0] == status


def test_every_file_of_a_folder_is_told_of_with_place_and_rule(call: Call) -> None:
    Path("all").mkdir()
    for rule in ("existence-only", "cannot-load", "no-stages"):
        written(f"all/{rule}.yaml", composed(EXAMPLES[rule].trips))
    status, out, err = call("lint", "all")
    assert status == 2
    assert [line.partition(":")[0] for line in out.splitlines()] == [
        "all/cannot-load.yaml", "all/existence-only.yaml", "all/no-stages.yaml",
    ]  # fmt: skip
    assert out.splitlines()[1].startswith("all/existence-only.yaml:18:7: effects.expect[0]: ")
    assert out.splitlines()[1].endswith(" [error: existence-only]")
    assert err == "contracts: 3, errors: 2, warnings: 1\n"


def test_machines_get_one_object_for_each_finding(call: Call) -> None:
    written("c.yaml", composed(EXAMPLES["existence-only"].trips))
    _, out, _ = call("lint", "c.yaml", "--json")
    assert json.loads(out) == {
        "file": "c.yaml", "line": 18, "column": 7, "field": "effects.expect[0]", "rule": "existence-only", "severity": "error",
        "message": "a file must be created, and its content is not looked at",
        "fix": "judge it by `content`, e.g. `content: {text: …}`",
    }  # fmt: skip


def test_the_rules_are_printed(call: Call) -> None:
    assert call("lint", "--rules") == (0, reference(), "")


def test_nothing_to_lint_is_a_mistake(call: Call) -> None:
    assert call("lint") == (2, "", "name a contract, or a folder of contracts\n")
    assert call("lint", "gone.yaml")[0] == 2


def test_a_parameter_given_outside_is_looked_at(call: Call) -> None:
    written("c.yaml", BASE)
    status, out, _ = call("lint", "c.yaml", "--param", "name=Hu\u00adber")
    assert status == 0
    assert "look-alike" in out


def test_errors_refuse_a_run_before_anything_is_made(call: Call) -> None:
    written("c.yaml", composed(EXAMPLES["existence-only"].trips))
    status, out, err = call("run", "c.yaml", "--agent", "noop")
    assert (status, out) == (2, "")
    assert "[error: existence-only]" in err
    assert not Path("runs").exists()


def test_a_run_may_go_on_with_errors_and_says_so(call: Call) -> None:
    written("c.yaml", composed(EXAMPLES["existence-only"].trips))
    status, _, err = call("run", "c.yaml", "--agent", "noop", "--no-lint")
    assert status == 2  # the example's image does not exist, which comes next
    assert "counter" in err
    assert "error: c.yaml:18:7" in err
    assert "--no-lint: running although lint finds errors: 1" in err


def test_warnings_are_told_before_a_run_once(call: Call) -> None:
    written("c.yaml", composed(EXAMPLES["no-stages"].trips + EXAMPLES["odd-value"].trips))
    status, _, err = call("run", "c.yaml", "--agent", "noop")
    assert status == 2  # the example's image does not exist
    assert err.count("[warning: no-stages]") == 1
    assert err.count("SHOPPR~1") == 1


@pytest.mark.machine
@pytest.mark.timeout(300)
def test_the_catalogue_agrees_with_its_image(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, checkpoint: object
) -> None:
    status, out, _ = caller(monkeypatch, capsys)("lint", ROOT / "contracts/catalog", "--image")
    assert (status, out) == (0, "")
    assert not [
        item for item in WineProvider().leftovers() if item.campaign == CAMPAIGN and item.runner_pid == os.getpid()
    ]


@pytest.mark.machine
@pytest.mark.timeout(300)
def test_what_does_not_agree_with_the_image_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, checkpoint: object
) -> None:
    text = (ROOT / "contracts/catalog/legacyworld/dswin/add-new-patient.yaml").read_text(encoding="utf-8")
    for old, new in (
        ("DBF', key: [PATNR]", "DBF', key: [NAME]"),
        ('GEBDAT: "{{birth_date}}"', 'GEBDATE: "{{birth_date}}"'),
        ('birth_date: "1964-08-12"', "birth_date: 12.08.1964"),
        ("ANGELEGT: {date: today}", "ANGELEGT: 12.08.1964"),
        ("path: 'DSWIN.LOG'", "path: 'DSWIN.LGO'"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    load_contract(path)
    status, out, _ = caller(monkeypatch, capsys)("lint", path, "--image", "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert status == 1
    assert {item["rule"] for item in told} == {"key-not-unique", "unknown-field", "date-not-iso", "idle-rule"}
    assert any("did you mean `GEBDAT`?" in item["fix"] for item in told)
