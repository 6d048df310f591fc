"""Redaction: what each field of a record carries is decided for all of them, and no secret leaves in any that can hold one."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import pytest

from runner.bundle import BundleError, export, verify
from runner.record import Part, Reading, RunRecord
from runner.redaction import CARRIES, Carries, without
from runner.rejudge import Kept, runs_at
from runner.store import Campaign
from tests.runner.stored_runs import PICTURE
from tests.secret_search import leaks_below
from validators.dbf.codepages import encoding
from validators.registry import SZ, KeyItem, RegistryState, ValueItem
from validators.sql.form import line_writer

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
SECRET = "Erika Mühlenbach"
SECRETS = {"name": SECRET}
BLOBS = (Carries.EVIDENCE, Carries.OPAQUE, Carries.SCREEN, Carries.STATE)


def parts(root: type[Part] = Part) -> Iterator[type[Part]]:
    for kind in root.__subclasses__():
        if kind.__module__ == "runner.record":
            yield kind
            yield from parts(kind)


FIELDS = [(part, name) for part in parts() for name in part.model_fields]


def test_what_every_field_of_a_record_carries_is_decided() -> None:
    assert {(part, name) for part, fields in CARRIES.items() for name in fields} == set(FIELDS)


@pytest.mark.parametrize(("part", "name"), FIELDS, ids=lambda value: getattr(value, "__name__", value))
def test_a_field_that_can_hold_a_text_is_not_taken_for_one_that_cannot(part: type[Part], name: str) -> None:
    written = str(part.model_fields[name].annotation)
    match CARRIES[part][name]:
        case Carries.FIGURE:
            assert "str" not in written.replace("dict[str, float]", "")
            assert "Any" not in written
        case Carries.WORD:
            assert "Literal" in written or name in part.our_words
        case Carries.PARTS:
            assert "runner.record." in written
        case Carries.SCREEN | Carries.OPAQUE | Carries.EVIDENCE | Carries.SUM:
            assert "str" in written


def test_the_words_of_ours_are_the_same_where_a_run_is_recorded() -> None:
    for part in CARRIES:
        assert all(CARRIES[part][name] is Carries.WORD for name in part.our_words), part


def filled(kind: Any, blob: Callable[[], str], text: str) -> Any:
    """A value of a type with ``text`` wherever a text can stand."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return filled(inner[0], blob, text)
    if origin is Literal:
        return inner[0]
    if origin is list:
        return [filled(inner[0], blob, text)]
    if origin is dict:
        return {text: filled(inner[1], blob, text)}
    if isinstance(kind, type) and issubclass(kind, Part):
        return part_filled(kind, blob, text)
    return {str: text, int: 3, float: 1.5, bool: True, datetime: NOW, Any: {text: [text, 5]}}[kind]


def part_filled(kind: type[Part], blob: Callable[[], str], text: str) -> Part:
    fields: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        carries = CARRIES[kind][name]
        fields[name] = filled(field.annotation, blob, blob() if carries in BLOBS else text)
        if carries is Carries.WORD and "Literal" not in str(field.annotation):
            fields[name] = ["row_added"] if field.annotation == list[str] else "updated"
        elif name in ("version", "timings"):
            fields[name] = {"version": 1, "timings": {"clone": 1.0}}[name]
        elif carries is Carries.NAME:
            fields[name] = f"name-{text.lower().replace(' ', '-').replace('ü', '-')}"
        elif carries in BLOBS and get_origin(field.annotation) is dict:
            fields[name] = {"dbf" if carries is Carries.STATE else text: blob()}
    if kind is Reading:
        fields |= {"kind": "dbf", "about": {"name": text, "count": 3}}
    return kind(**fields)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """A run with the secret in every field and in every blob."""
    campaign = Campaign.create(tmp_path / "runs", "redacted")
    texts = [f"{SECRET}, geb. {SECRET}".encode(name) for name in ("utf-8", "cp852", "cp1250", "utf-16-le")]
    record = part_filled(RunRecord, lambda: campaign.keep(b"\n".join(texts)), f"of {SECRET} in")
    assert isinstance(record, RunRecord)
    campaign.finish(record, campaign.begin(record.run))
    return Kept(campaign, next(campaign.records()))


def test_no_secret_is_left_in_any_field_or_name(kept: Kept, tmp_path: Path) -> None:
    assert len(leaks_below(kept.campaign.folder, SECRETS)) > 1
    bundle = export([kept], tmp_path / "bundle", secrets=[SECRET])
    assert leaks_below(tmp_path / "bundle", {**SECRETS, "slug": "erika-m-hlenbach"}) == []
    assert verify(tmp_path / "bundle") == bundle
    assert bundle.redacted == ("screens", "log of keys", "pictures of contracts", "1 secret values")
    (again,) = runs_at(tmp_path / "bundle")
    assert again.record.before is not None
    again.campaign.snapshot(again.record.before)


def test_what_carries_no_secret_stays_as_it_was(kept: Kept, tmp_path: Path) -> None:
    export([kept], tmp_path / "other", secrets=["not there"])
    (again,) = runs_at(tmp_path / "other")
    expected = kept.record.model_copy(
        update={
            "contract": kept.record.contract.model_copy(update={"sha256": "", "pictures": {}}),
            "agent": kept.record.agent.model_copy(
                update={
                    "timeline": [entry.model_copy(update={"screenshot": None}) for entry in kept.record.agent.timeline]
                }
            ),
            "recording": kept.record.recording.model_copy(update={"events": None, "frames": []}),
        }
    )
    assert again.record == expected


def test_without_secrets_a_record_goes_along_as_it_is(kept: Kept, tmp_path: Path) -> None:
    export([kept], tmp_path / "whole")
    assert runs_at(tmp_path / "whole")[0].record == kept.record


def test_evidence_is_searched_in_the_encodings_of_tables_and_in_the_lines_of_databases(tmp_path: Path) -> None:
    campaign = Campaign.create(tmp_path / "runs", "redacted")
    secret = 'Čeněk "\t\\ Žák'
    letters = {encoding("kamenicky").decode(bytes([byte])): byte for byte in range(256)}
    spelt = {
        "cp852": secret.encode("cp852"),
        "kamenicky": bytes(letters[char] for char in secret),
        "line": line_writer(2, as_copy=True)([secret, "x"]).encode(),
        "hex": secret.encode().hex().upper().encode(),
        "json": b'"\\u010cen\\u011bk \\"\\t\\\\ \\u017d\\u00e1k"',
    }
    record = part_filled(RunRecord, lambda: campaign.keep(b"plain"), "text")
    assert isinstance(record, RunRecord)
    assert record.before is not None
    readings = {name: Reading(kind="dbf", blobs={"dbf": campaign.keep(data)}, about={}) for name, data in spelt.items()}
    one = record.model_copy(update={"before": record.before.model_copy(update={"readings": readings})})
    export([Kept(campaign, one)], tmp_path / "bundle", secrets=[secret])
    left = {path.read_bytes() for path in (tmp_path / "bundle" / "blobs").rglob("*") if path.is_file()}
    assert not left & set(spelt.values())
    assert {len(data) for data in spelt.values()} <= {len(data) for data in left}, "tables stay readable"


def test_names_in_the_registry_are_searched(tmp_path: Path) -> None:
    campaign = Campaign.create(tmp_path / "runs", "redacted")
    key = f"Patients\\{SECRET}"
    state = RegistryState(True, (KeyItem(key),), (ValueItem(key, SECRET, SZ, b"x\0"),), ((key, f"{SECRET} locked"),))
    record = part_filled(RunRecord, lambda: campaign.keep(PICTURE), "text")
    assert isinstance(record, RunRecord)
    one = record.model_copy(update={"before": campaign.keep_snapshot({"settings": state}, settled=True)})
    export([Kept(campaign, one)], tmp_path / "bundle", secrets=[SECRET])
    assert leaks_below(tmp_path / "bundle", SECRETS) == []


def test_two_runs_whose_names_differ_by_a_secret_only_are_refused(tmp_path: Path) -> None:
    campaign = Campaign.create(tmp_path / "runs", "redacted")
    record = part_filled(RunRecord, lambda: campaign.keep(b"plain"), "text")
    assert isinstance(record, RunRecord)
    both = [Kept(campaign, record.model_copy(update={"run": f"run.{name}"})) for name in ("secret-a", "secret-b")]
    with pytest.raises(BundleError, match="export them apart"):
        export(both, tmp_path / "bundle", secrets=["secret-a", "secret-b"])
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("name", "secrets", "left"),
    [
        ("dswin.add.erika-muster.expert.1-ab", ["Erika Muster"], "dswin.add.xxxxxxxxxxxx.expert.1-ab"),
        ("dswin.4711.x", ["4711"], "dswin.xxxx.x"), ("plain", ["4711"], "plain"), ("a-b-c", ["ü ?"], "a-b-c"),
        ("M.MUELLER", ["Mueller"], "M.xxxxxxx"),
    ],
)  # fmt: skip
def test_names_stay_names(name: str, secrets: list[str], left: str) -> None:
    assert without(name, secrets) == left
