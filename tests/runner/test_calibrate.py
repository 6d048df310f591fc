"""Noise lists without a machine: narrow rules, what they may not cover, what a contract may rest on them, and hostile names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contracts.document import parse
from contracts.globs import compile_glob
from contracts.load import load_text, read_model
from contracts.noise import NoiseEntry, NoiseError, NoiseList, NoiseRule, list_text, new_id, read_list
from contracts.noise_rules import Sighting, overlap, path_pattern, propose, title_matcher
from contracts.schema import FileTree, TaskContract
from contracts.writing import comment, flow
from runner.calibrate import (
    CalibrationError,
    Measuring,
    Situation,
    check_noise,
    lists_used,
    measure,
    noise_table,
    rules_for,
    situations,
    write_list,
)
from runner.machines.images import Image
from runner.stillness import Stillness
from validators.files import FileItem, TreeState
from validators.snapshot import Snapshot, UnreadableState

CATALOG = Path(__file__).resolve().parents[2] / "contracts/catalog/legacyworld/dswin"
EXAMPLE = (CATALOG / "add-new-patient.yaml").read_text(encoding="utf-8")
HASH = "a" * 64
NAMES = st.text(st.characters(exclude_characters="\\/"), min_size=1, max_size=12).filter(lambda t: t not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("\\".join)


def seen(subject: str, run: int = 1, verb: str = "modified", after: float = 1.0, **more: Any) -> Sighting:
    return replace(Sighting("files", r"C:\DSWIN", subject, verb, run, after), **more)


def rules(sightings: list[Sighting], *contracts: TaskContract) -> list[Any]:
    return [entry.rule.plain if entry.rule else entry.no_rule for entry in propose(sightings, contracts)]


def edited(*changes: tuple[str, str]) -> str:
    text = EXAMPLE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def contract(*changes: tuple[str, str]) -> TaskContract:
    return load_text(edited(*changes), name="c").contract


def noise_list(*entries: NoiseEntry, **more: Any) -> NoiseList:
    about = {
        "schema": 1, "id": "dentadesk-2026-11-29", "image": "dentadesk", "image_hash": HASH, "taken": "2026-11-29T12:00:00+01:00",
        "seconds": Decimal(60), "every": Decimal(1), "repetitions": 3, "watched": [], "runs": [], "entries": list(entries),
    }  # fmt: skip
    return NoiseList.model_validate(about | more)


# --- the narrowest rule ----------------------------------------------------------------------------------------------


def test_the_same_file_each_time_gets_a_rule_for_exactly_itself() -> None:
    assert rules([seen("HEARTBEAT.DAT", 1), seen("HEARTBEAT.DAT", 2)]) == [{"path": "\\HEARTBEAT.DAT"}]
    (entry,) = propose([seen("HEARTBEAT.DAT", 1, after=3), seen("HEARTBEAT.DAT", 2), seen("HEARTBEAT.DAT", 2, after=2)])
    assert (entry.runs, entry.times, entry.first) == (2, 3, Decimal("1.00"))
    assert not compile_glob("\\HEARTBEAT.DAT")("DATA\\HEARTBEAT.DAT")


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["log0001.txt", "log0002.txt"], "\\log*.txt"),
        (["OUT\\scan_2026_7.tmp", "OUT\\scan_2026_12.tmp"], "\\OUT\\scan_2026_*.tmp"),
        (["~DF3A2B4C.tmp", "~DF99FE01.tmp"], None),  # only the extension would be left: any temporary file
        (["run-3f2a9c01.dat", "run-99fe0177.dat"], "\\run-*.dat"),
        (["20261129.LOG", "20261130.LOG"], "\\" + "[0-9]" * 8 + ".LOG"),
        (["1.LOG", "2.LOG"], None),
        (["00000001", "00000002"], "\\" + "[0-9]" * 8),
        (["c1234\\x.dat", "c99\\x.dat"], "\\c*\\x.dat"),
        (["123\\x.dat", "99\\x.dat"], None),  # any folder
        (["a[1].txt", "a[2].txt"], "\\a[[]*].txt"),
        (["a.txt", "b.txt"], None),
    ],
)
def test_where_names_vary_only_what_varies_is_a_wildcard(names: list[str], pattern: str | None) -> None:
    assert path_pattern(names) == pattern


def test_names_that_vary_from_look_to_look_become_one_entry() -> None:
    (entry,) = propose(
        [seen(f"T\\job{number}.spl", run, "created", number) for run in (1, 2) for number in range(run, 9)]
    )
    assert (entry.names, entry.runs, entry.rule) == (8, 2, NoiseRule(path="\\T\\job*.spl"))


def test_names_without_anything_in_common_get_no_rule_but_those_that_come_back_their_own() -> None:
    found = propose([seen("1.LOG", 1), seen("1.LOG", 2), seen("2.LOG", 1), seen("3.LOG", 2)])
    assert [(entry.subject, entry.rule.plain if entry.rule else None) for entry in found] == [
        ("1.LOG", {"path": "\\1.LOG"}), ("2.LOG", None),
    ]  # fmt: skip


def test_a_rename_needs_one_rule_for_both_names() -> None:
    assert rules([seen("app2.log", old="app1.log", verb="renamed")]) == [{"path": "\\app*.log"}]
    assert "too little in common" in rules([seen("b.dat", old="a.tmp", verb="renamed")])[0]


def test_windows_are_told_by_title_class_and_program() -> None:
    def window(title: str, run: int) -> Sighting:
        return Sighting("windows", None, title, "opened", run, 1.0, about={"class": "Tip", "program": "tip.exe"})

    assert rules([window("Tip", 1), window("Tip", 2)]) == [{"title": "Tip", "class": "Tip", "program": "tip.exe"}]
    (rule,) = rules([window("Clock 12:01 (x)", 1), window("Clock 12:02 (x)", 2)])
    assert re.fullmatch(rule["title"]["regex"], "Clock 12:59 (x)")
    assert not re.fullmatch(rule["title"]["regex"], "Clock (x)")
    assert title_matcher(["12:01", "12:02"]) is None


def test_rows_are_allowed_by_verb_key_and_changed_field() -> None:
    def row(value: int, run: int, verb: str = "updated") -> Sighting:
        about = {"NAME": "TICK"}
        return Sighting("dbf", r"C:\D\C.DBF", "NAME=TICK", verb, run, 1.0, about=about, fields={"LAST": Decimal(value)})

    (rule,) = rules([row(1, 1), row(2, 2)])
    assert rule["where"] == {"NAME": "TICK"}
    assert rule["fields"]["LAST"]["is"] == "any"
    assert "declare `key`" in rules([replace(row(1, 1), about={})])[0]
    assert "more than noise" in rules([row(1, 1, "dropped")])[0]


@given(st.lists(PATHS, min_size=1, max_size=6, unique=True), st.integers(1, 3))
@example(["\ud800.tmp"], 1)
def test_a_proposed_rule_fits_what_was_seen_and_never_a_stranger(paths: list[str], runs: int) -> None:
    found = propose([seen(path, run) for path in paths for run in range(1, runs + 1)])
    rules = [entry.rule for entry in found if entry.rule is not None]
    assert all(rule.path is not None and not compile_glob(rule.path)("a stranger\\ÿ.ÿÿ") for rule in rules)
    fits = [compile_glob(rule.path) for rule in rules if rule.path is not None]
    if len(fits) == len(found):
        assert all(any(fit(path) for fit in fits) for path in paths)


# --- what must not be covered ----------------------------------------------------------------------------------------


def test_a_rule_that_covers_what_a_contract_expects_is_refused_with_its_place() -> None:
    expecting = contract(
        ("    - updated: counters", "    - modified: program\n      path: 'HEART*.DAT'\n    - updated: counters")
    )
    (why,) = rules([seen("HEARTBEAT.DAT")], expecting)
    assert why == ("it would cover what dswin.add-new-patient expects: effects.expect[1], modified program")
    assert rules([seen("OTHER.DAT")], expecting) == [{"path": "\\OTHER.DAT"}]


def test_a_forbidden_change_is_not_hidden_either() -> None:
    forbidding = contract(("  allow:", "  forbid:\n    - deleted: program\n      path: '\\DATA\\**'\n  allow:"))
    assert "forbids" in rules([seen("DATA\\X.TMP", verb="created")], forbidding)[0]


def test_a_row_that_a_contract_expects_is_not_allowed_by_noise() -> None:
    counters = r"C:\DSWIN\DATA\COUNTER.DBF"

    def row(key: str) -> Sighting:
        return Sighting("dbf", counters, key, "updated", 1, 1.0, about={"NAME": key}, fields={"LAST": Decimal(5)})

    assert "expects: effects.expect[1]" in rules([row("PATIENT")], contract())[0]
    assert "where" in rules([row("TICK")], contract())[0]


def test_windows_that_a_contract_expects_are_not_ignored() -> None:
    expecting = contract(
        ("    - updated: counters", "    - opened: screen\n      where: {title: Tip}\n    - updated: counters")
    )
    about = {"class": "T", "program": "t.exe"}
    assert "expects" in rules([Sighting("windows", None, "Tip", "opened", 1, 1.0, about=about)], expecting)[0]
    assert "title" in rules([Sighting("windows", None, "Top", "opened", 1, 1.0, about=about)], expecting)[0]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (r"C:\A\B.DAT", r"c:\a\b.dat", True),
        (r"C:\A\B.DAT", r"C:\A\**", True),
        (r"C:\A\B.DAT", r"C:\A\**\B.*", True),
        (r"C:\A\X\B.DAT", r"C:\A\*.DAT", False),
        (r"C:\A\log*.txt", r"C:\A\*1.txt", True),
        (r"C:\A\log*.txt", r"C:\A\*1.dat", False),
        (r"C:\A\[0-9][0-9]", r"C:\A\17", True),
        (r"C:\A\[[]x].txt", r"C:\A\?x].txt", True),
        (r"C:\A", r"C:\B\**", False),
    ],
)
def test_patterns_that_may_fit_the_same_path_are_known(one: str, other: str, expected: bool) -> None:
    assert overlap(one, other) is overlap(other, one) is expected


GLOB_PARTS = st.lists(st.sampled_from(["a", "B", "*", "?", "**", "\\", "[ab]", "1"]), min_size=1, max_size=6)


@given(GLOB_PARTS.map("".join), GLOB_PARTS.map("".join), st.text("aB1\\", min_size=1, max_size=6))
def test_no_shared_path_is_missed(one: str, other: str, path: str) -> None:
    clean = [re.sub(r"\\+", r"\\", text).strip("\\") or "a" for text in (one, other, path)]
    first, second, shared = (f"R\\{text}" for text in clean)
    if compile_glob(first)(shared) and compile_glob(second)(shared):
        assert overlap(first, second)


# --- what is written -------------------------------------------------------------------------------------------------

PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.text(max_size=20) | st.integers(-(10**12), 10**12) | st.booleans() | st.decimals(-1000, 1000, places=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN)
@example(
    {"a: b": ["yes", "0123", "1e5", "null", "- x", "{{a}}", "\x85\u2028\ufeff", "it's", "a #b", "*x", "&y", "!z", ""]}
)
def test_what_is_written_is_read_back_the_same(value: Any) -> None:
    document = parse(f"x: {flow(value)}\n# {comment(str(value))}\n", "t")
    assert not document.problems
    assert document.data == {"x": value}


@given(PATHS, st.sampled_from(["created", "modified"]), st.text(max_size=30))
def test_a_list_with_hostile_names_is_read_back_the_same(path: str, verb: str, title: str) -> None:
    import tempfile

    window = Sighting("windows", None, title, "opened", 1, 1.0, about={"class": title, "program": "x"})
    noise = noise_list(*propose([seen(path, verb=verb), window]))
    with tempfile.TemporaryDirectory() as folder:
        write_list(noise, Path(folder) / f"{noise.id}.yaml")
        assert read_list(noise.id, [Path(folder)]) == noise
    assert noise_table(noise).row_count == 2


def test_lists_are_numbered_within_a_day_and_never_overwritten(tmp_path: Path) -> None:
    day = datetime(2026, 11, 29, tzinfo=UTC)
    assert new_id("dentadesk", day, tmp_path) == "dentadesk-2026-11-29"
    noise = noise_list()
    write_list(noise, tmp_path / f"{noise.id}.yaml")
    assert new_id("dentadesk", day, tmp_path) == "dentadesk-2026-11-29-2"
    with pytest.raises(FileExistsError):
        write_list(noise, tmp_path / f"{noise.id}.yaml")


def test_a_list_under_another_name_or_damaged_is_none(tmp_path: Path) -> None:
    write_list(noise_list(), tmp_path / "other.yaml")
    (tmp_path / "bad.json").write_text('{"schema": 1}')
    for name, why in (("other", "bears its id"), ("bad", "image_hash"), ("..", "no id"), ("none", "calibrate")):
        with pytest.raises(NoiseError, match=why):
            read_list(name, [tmp_path])


# --- what a contract may rest on a list ------------------------------------------------------------------------------


def citing(rule: str) -> TaskContract:
    return contract(("  program: {files: 'C:\\DSWIN'}", f"  program: {{files: 'C:\\DSWIN', ignore: [{rule}]}}"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    entries = propose([seen("HEARTBEAT.DAT"), seen("T\\job1.spl"), seen("T\\job2.spl"), seen("T\\job3.spl", 2)])
    write_list(noise_list(*entries), tmp_path / "dentadesk-2026-11-29.yaml")
    return tmp_path


def problems(rule: str, folder: Path, base: str | None = HASH) -> list[str]:
    return check_noise(citing(rule), base, folders=[folder])


def test_a_rule_of_the_list_or_a_narrower_one_is_founded(folder: Path) -> None:
    for path in (r"\HEARTBEAT.DAT", r"\heartbeat.dat", r"\T\job*.spl", r"T\job7.spl"):
        assert problems(f"{{path: '{path}', noise: dentadesk-2026-11-29}}", folder) == []
    (line,) = lists_used(citing(r"{path: '\HEARTBEAT.DAT', noise: dentadesk-2026-11-29}"), folders=[folder])
    assert "1 rule by noise list dentadesk-2026-11-29" in line


def test_a_wider_rule_than_was_measured_is_not(folder: Path) -> None:
    for path in ("*.DAT", "HEARTBEAT.DAT", "**", r"\T\*", r"\T\job*"):
        (problem,) = problems(f"{{path: '{path}', noise: dentadesk-2026-11-29}}", folder)
        assert problem.startswith("observe.program.ignore[0]: ")
        assert "no rule as wide" in problem


def test_another_hash_makes_a_list_stale_and_another_image_useless(folder: Path) -> None:
    rule = r"{path: '\HEARTBEAT.DAT', noise: dentadesk-2026-11-29}"
    assert "calibrate again" in problems(rule, folder, "b" * 64)[0]
    assert problems(rule, folder, None) == []
    assert "there is no noise list" in problems(rule.replace("-29", "-30"), folder)[0]
    write_list(noise_list(id="elsewhere", image="tomedo"), folder / "elsewhere.yaml")
    assert "measured on tomedo" in problems(rule.replace("dentadesk-2026-11-29", "elsewhere"), folder)[0]


def test_an_allowed_effect_may_rest_on_a_list_too(folder: Path) -> None:
    because = "because: the program's own log"

    def allowing(path: str, verb: str = "modified") -> list[str]:
        change = (f"- modified: program\n      path: 'DSWIN.LOG'\n      {because}", f"- {verb}: program\n      path: '{path}'\n      noise: dentadesk-2026-11-29")  # fmt: skip
        return check_noise(contract(change), HASH, folders=[folder])

    assert allowing(r"\HEARTBEAT.DAT") == []
    assert allowing("*") != []
    assert allowing(r"\HEARTBEAT.DAT", "deleted") != []


def test_windows_and_rows_are_founded_by_the_same_rule_only(tmp_path: Path) -> None:
    about = {"class": "Tip", "program": "tip.exe"}
    counters = r"C:\DSWIN\DATA\COUNTER.DBF"
    tip = Sighting("windows", None, "Tip of the day", "opened", 1, 1.0, about=about)
    row = Sighting("dbf", counters, "NAME=TICK", "updated", 1, 1.0, about={"NAME": "TICK"}, fields={"LAST": Decimal(3)})
    noise = noise_list(*propose([tip, row]))
    write_list(noise, tmp_path / f"{noise.id}.yaml")
    found = rules_for(contract(), noise)

    def judged(screen: dict[str, Any], allowed: dict[str, Any]) -> list[str]:
        windows = flow({"windows": {"ignore": [screen]}})
        given = contract(
            ("  screen: {windows: {}}", f"  screen: {windows}"), ("  allow:\n", f"  allow:\n    - {flow(allowed)}\n")
        )
        return check_noise(given, HASH, folders=[tmp_path])

    (screen,), (allowed,) = found["screen.ignore"], found["allow"]
    assert judged(screen, allowed) == []
    assert "effects.allow[0]" in judged(screen, allowed | {"where": {"NAME": "TOCK"}})[0]
    wider = {name: value for name, value in screen.items() if name != "title"}
    assert "observe.screen.ignore[0]" in judged(wider, allowed)[0]


def test_rules_are_given_as_a_contract_takes_them(folder: Path) -> None:
    noise = read_model(folder / "dentadesk-2026-11-29.yaml", NoiseList)
    row = Sighting(
        "dbf", r"C:\DSWIN\DATA\COUNTER.DBF", "NAME=TICK", "updated", 1, 1.0, about={"NAME": "TICK"}, fields={"LAST": 3}
    )
    found = rules_for(contract(), noise.model_copy(update={"entries": [*noise.entries, *propose([row])]}))
    assert found["program.ignore"][1] == {"path": "\\HEARTBEAT.DAT", "noise": noise.id}
    assert {"updated", "where", "fields", "noise"} == found["allow"][0].keys()
    given = edited(
        (
            "  program: {files: 'C:\\DSWIN'}",
            f"  program: {{files: 'C:\\DSWIN', ignore: {flow(found['program.ignore'])}}}",
        ),
        ("  allow:\n", f"  allow:\n    - {flow(found['allow'][0])}\n"),
    )
    assert check_noise(load_text(given, name="c").contract, HASH, folders=[folder])[0:] == [
        f"effects.allow[0]: the noise list `{noise.id}` has no rule as wide as this one"
    ]  # the row's rule was never written into the list


def test_the_list_reads_as_it_says(folder: Path) -> None:
    text = list_text(noise_list(*propose([seen("HEARTBEAT.DAT")])))
    assert "    rule: {path: '\\HEARTBEAT.DAT'}\n" in text


# --- measuring -------------------------------------------------------------------------------------------------------


@dataclass
class FakeFresh:
    image: str = HASH
    boot: str = "boot"


class FakeMachine:
    """A machine that nobody asks anything: what is read of it comes from a list of snapshots."""

    id = "fake-1"
    guest = None

    def __init__(self) -> None:
        self.freshness = FakeFresh()
        self.discarded = False

    def start(self, programs: object) -> None:
        pass

    def ensure_alive(self) -> None:
        pass

    def discard(self) -> None:
        self.discarded = True


class FakeProvider:
    def __init__(self) -> None:
        self.machines: list[FakeMachine] = []

    def prepare(self, image: Image, setup: object, start: object, *, folder: Path) -> FakeProvider:
        return self

    def clone(self, tag: object) -> FakeMachine:
        self.machines.append(FakeMachine())
        return self.machines[-1]


def tree(**files: str) -> dict[str, TreeState]:
    return {"t": TreeState(True, tuple(FileItem(f"{n}.DAT", "file", 1, 1, 0, sha) for n, sha in files.items()))}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, image: Image) -> Any:
    def run(*looks: Snapshot, repetitions: int = 1) -> NoiseList:
        answers: Iterator[Snapshot] = iter(looks * repetitions)
        monkeypatch.setattr("runner.capture.take", lambda *a, **k: next(answers))
        monkeypatch.setattr("runner.calibrate.wait_until_quiet", lambda *a, **k: Stillness(True, None, 0.0))
        monkeypatch.setattr("runner.calibrate._READABLE_WITHIN", 0.0)
        provider = FakeProvider()
        seconds = 0.01 * (len(looks) - 1)
        try:
            situation = Situation((), Path(), (), {"t": FileTree(files="C:\\T")})
            return measure(image, provider, [situation], Measuring(seconds, 0.01, repetitions), name="x")  # type: ignore[arg-type]
        finally:
            assert all(machine.discarded for machine in provider.machines)

    return run


def test_what_comes_and_goes_between_looks_is_seen(measured: Any) -> None:
    noise = measured(tree(A="1"), tree(A="1", B="2"), tree(A="1"), repetitions=2)
    assert [(e.subject, e.verb, e.runs, e.times) for e in noise.entries] == [
        ("B.DAT", "created", 2, 2), ("B.DAT", "deleted", 2, 2),
    ]  # fmt: skip
    assert [run.looks for run in noise.runs] == [2, 2]


def test_what_a_look_cannot_read_the_next_one_makes_up_for(measured: Any) -> None:
    noise = measured(tree(A="1"), {"t": UnreadableState("locked")}, tree(A="2"))
    assert [(e.subject, e.verb, e.times) for e in noise.entries] == [("A.DAT", "modified", 1)]
    assert noise.runs[0].unreadable == ["C:\\T: locked"]


def test_a_state_that_cannot_be_read_at_first_is_no_start(measured: Any) -> None:
    with pytest.raises(CalibrationError, match="locked"):
        measured({"t": UnreadableState("locked")}, tree())


def test_contracts_that_begin_alike_share_machines_and_what_they_ignore_is_watched(
    image: Image, tmp_path: Path
) -> None:
    one = citing("{path: '*.TMP', because: known}")
    other = contract(("id: dswin.add-new-patient", "id: dswin.other"), ("start: [dswin]", "start: []"))
    same = contract(("id: dswin.add-new-patient", "id: dswin.same"))
    found = situations(
        [(one, tmp_path), (other, tmp_path), (same, tmp_path)], image, registry=["HKCU\\Software\\DSWin"]
    )
    assert [item.contracts for item in found] == [("dswin.add-new-patient", "dswin.same"), ("dswin.other",)]
    trees = [spec for spec in found[0].observe.values() if isinstance(spec, FileTree)]
    assert [(spec.files, spec.ignore) for spec in trees] == [("C:\\DSWIN", [])]
    assert len(found[0].observe) == len(one.observe) + 1


def test_without_contracts_the_programs_folders_are_watched(image: Image) -> None:
    (found,) = situations([], image)
    assert [getattr(spec, "files", "windows") for spec in found.observe.values()] == ["C:\\DSWIN", "windows"]
    assert [item.program for item in found.start] == ["dswin"]
    with pytest.raises(CalibrationError, match="another"):
        situations([(contract(("image: dentadesk", "image: tomedo")), Path())], image)


def test_the_example_names_no_list() -> None:
    assert check_noise(load_text(EXAMPLE, name="c").contract, HASH, folders=[]) == []
