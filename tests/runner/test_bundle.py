"""Evidence bundles: whole when they are moved, refused when anything in them was touched, silent about what was redacted."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import zipfile
from pathlib import Path

import pytest

from runner import bundle as bundles
from runner.bundle import MANIFEST, SEAL, BundleError, export, opened, verify
from runner.record import Reading
from runner.rejudge import rejudge, runs_at
from runner.store import Campaign
from tests.command_line import Call
from tests.runner.stored_runs import PICTURE, campaign_in, without
from validators.registry import SZ, KeyItem, RegistryState, ValueItem


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return campaign_in(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, campaign: Campaign) -> tuple[Path, Path]:
    """A bundle as a folder and as an archive."""
    folder = tmp_path_factory.mktemp("made")
    runs = runs_at(campaign.folder)
    one, two = export(runs, folder / "bundle"), export(runs, folder / "bundle.zip")
    assert one == two
    assert len(one.runs) == 6
    return folder / "bundle", folder / "bundle.zip"


@pytest.fixture
def copy(tmp_path: Path, made: tuple[Path, Path]) -> Path:
    shutil.copytree(made[0], tmp_path / "moved")
    return tmp_path / "moved"


# --- whole ------------------------------------------------------------------------------------------------------------


def test_a_moved_bundle_is_whole_and_gives_the_same_verdicts(copy: Path, made: tuple[Path, Path]) -> None:
    assert verify(copy) == verify(made[0]) == verify(made[1])
    assert not any(again.changes or again.why_not for again in rejudge(runs_at(copy), None))


def test_an_archive_can_be_judged_as_it_is(made: tuple[Path, Path]) -> None:
    with opened(made[1]) as folder:
        found = list(rejudge(runs_at(folder), None))
        assert len(found) == 6
        assert not any(again.changes or again.why_not for again in found)
    assert not folder.exists()


def test_an_archive_depends_on_nothing_but_the_evidence(
    tmp_path: Path, campaign: Campaign, made: tuple[Path, Path]
) -> None:
    export(runs_at(campaign.folder), tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == made[1].read_bytes()


def test_only_the_evidence_of_the_chosen_runs_goes_along(
    tmp_path: Path, campaign: Campaign, made: tuple[Path, Path]
) -> None:
    run = campaign.folder / "dswin.add-billing-code.good"
    bundle = export(runs_at(run), tmp_path / "one")
    assert bundle.runs == (run.name,)
    assert bundle.size < verify(made[0]).size
    assert not any(again.changes or again.why_not for again in rejudge(runs_at(tmp_path / "one"), None))


def test_what_is_there_is_not_written_over(tmp_path: Path, campaign: Campaign) -> None:
    with pytest.raises(BundleError, match="is there already"):
        export(runs_at(campaign.folder), tmp_path)
    with pytest.raises(BundleError, match="two runs have the name"):
        export([*runs_at(campaign.folder)] * 2, tmp_path / "b")
    with pytest.raises(BundleError, match="cannot be written"):
        export(runs_at(campaign.folder), tmp_path / "no" / "such" / "b")
    assert list(tmp_path.iterdir()) == []


# --- touched: folders -------------------------------------------------------------------------------------------------


def test_one_changed_byte_in_any_file_is_found_and_named(copy: Path) -> None:
    chance = random.Random(1)
    for path in sorted(p for p in copy.rglob("*") if p.is_file()):
        data = path.read_bytes()
        at = chance.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(BundleError, match=path.name):
            verify(copy)
        path.write_bytes(data)
    verify(copy)


def test_every_byte_of_the_manifest_counts(copy: Path) -> None:
    for name in (MANIFEST, SEAL):
        data = (copy / name).read_bytes()
        for at in range(0, len(data), max(1, len(data) // 150)):
            (copy / name).write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
            with pytest.raises(BundleError, match=r"manifest\."):
                verify(copy)
        (copy / name).write_bytes(data)


def test_a_missing_file_is_named(copy: Path) -> None:
    path = next(p for p in sorted(copy.rglob("*")) if p.parent.parent.name == "blobs")
    path.unlink()
    with pytest.raises(BundleError, match=f"{path.name}: missing"):
        verify(copy)


@pytest.mark.parametrize("name", ["more.txt", "blobs/aa/more", ".hidden", "report/index.html"])
def test_a_file_that_was_added_is_named(copy: Path, name: str) -> None:
    (copy / name).parent.mkdir(parents=True, exist_ok=True)
    (copy / name).write_text("x")
    with pytest.raises(BundleError, match=f"{name}: not in the manifest"):
        verify(copy)


def test_links_are_no_files_of_a_bundle(copy: Path) -> None:
    path = next(p for p in sorted(copy.rglob("*")) if p.parent.parent.name == "blobs")
    path.rename(copy.parent / "elsewhere")
    path.symlink_to(copy.parent / "elsewhere")
    with pytest.raises(BundleError, match="is no plain file"):
        verify(copy)
    path.unlink()
    (copy / "more").symlink_to(copy.parent)
    with pytest.raises(BundleError, match="more is a link"):
        verify(copy)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "null", "[" * 100_000, '{"files": {}, "redacted": [], "legacyproof_bundle": 2}',
        '{"files": {"../up": {"size": 1, "sha256": "' + "0" * 64 + '"}}, "redacted": [], "legacyproof_bundle": 1}',
        '{"files": {"blobs/aa/x": {}}, "redacted": [], "legacyproof_bundle": 1}',
        '{"files": [], "redacted": [], "legacyproof_bundle": 1}',
        '{"files": {"r/record.json": {"size": true, "sha256": "' + "0" * 64 + '"}}, "redacted": [], "legacyproof_bundle": 1}',
        '{"files": {}, "redacted": [5], "legacyproof_bundle": 1}',
    ],
)  # fmt: skip
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    (tmp_path / SEAL).write_text(hashlib.sha256(text.encode()).hexdigest() + "\n")
    with pytest.raises(BundleError):
        verify(tmp_path)


def test_a_folder_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"no manifest\.json"):
        verify(tmp_path)


def test_a_sealed_lie_about_a_blob_is_refused(copy: Path) -> None:
    path = next(p for p in sorted(copy.rglob("*")) if p.parent.parent.name == "blobs")
    name = path.relative_to(copy).as_posix()
    path.write_bytes(b"something else")
    manifest = json.loads((copy / MANIFEST).read_text())
    manifest["files"][name] = {"sha256": hashlib.sha256(b"something else").hexdigest(), "size": 14}
    text = json.dumps(manifest)
    (copy / MANIFEST).write_text(text)
    (copy / SEAL).write_text(hashlib.sha256(text.encode()).hexdigest() + "\n")
    with pytest.raises(BundleError, match="does not hold what its name says"):
        verify(copy)


# --- touched: archives ------------------------------------------------------------------------------------------------


def test_one_changed_byte_anywhere_in_an_archive_is_refused(tmp_path: Path, made: tuple[Path, Path]) -> None:
    data = made[1].read_bytes()
    chance = random.Random(2)
    places = [*range(60), *(chance.randrange(len(data)) for _ in range(60)), *range(len(data) - 120, len(data))]
    path = tmp_path / "b.zip"
    for at in places:
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(BundleError):
            verify(path)


@pytest.mark.parametrize("more", [b"x", b"PK\x05\x06" + bytes(18)])
def test_bytes_before_and_after_an_archive_are_refused(tmp_path: Path, made: tuple[Path, Path], more: bytes) -> None:
    for data in (more + made[1].read_bytes(), made[1].read_bytes() + more, made[1].read_bytes()[:-1], b"", more):
        path = tmp_path / "b.zip"
        path.write_bytes(data)
        with pytest.raises(BundleError):
            verify(path)


@pytest.mark.parametrize(
    "name",
    [
        "../up",
        "/etc/passwd",
        "a/../../b",
        "blobs/aa/..",
        "C:\\x",
        "blobs\\aa\\b",
        "run/record.json/../x",
        "x\x00y",
        "é",
    ],
)
def test_names_that_lead_elsewhere_are_refused_before_anything_is_written(
    tmp_path: Path, made: tuple[Path, Path], name: str
) -> None:
    path = tmp_path / "b.zip"
    shutil.copy(made[1], path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, "x")
    for use in (verify, lambda where: opened(where).__enter__()):
        with pytest.raises(BundleError):
            use(path)
    assert [p.name for p in tmp_path.iterdir()] == ["b.zip"]


def test_a_packed_archive_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, bytes(50 << 20))
        archive.writestr(SEAL, "0")
    with pytest.raises(BundleError, match="packed or encrypted"):
        verify(path)


def test_sizes_are_bounded(tmp_path: Path, made: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_ARCHIVE", "MAX_FILES", "MAX_MANIFEST"):
        with monkeypatch.context() as patch:
            patch.setattr(bundles, name, 3)
            with pytest.raises(BundleError):
                verify(made[1])


# --- redacted ---------------------------------------------------------------------------------------------------------


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_screens_can_stay_behind(tmp_path: Path, campaign: Campaign) -> None:
    bundle = export(runs_at(campaign.folder), tmp_path / "b", screens=False)
    assert bundle.redacted == ("screens",)
    assert PICTURE not in everything(tmp_path / "b")
    assert PICTURE in everything(campaign.folder)
    found = list(rejudge(runs_at(tmp_path / "b"), None))
    assert not any(again.changes or again.why_not for again in found)
    assert all(not again.kept.record.recording.frames for again in found)


def test_secret_values_are_blotted_out_of_everything(tmp_path: Path, campaign: Campaign) -> None:
    secrets = ("1234567890", "Müller", "4212505")
    bundle = export(runs_at(campaign.folder), tmp_path / "b", secrets=secrets)
    data = everything(tmp_path / "b")
    for secret in secrets:
        assert not any(secret.encode(name) in data for name in ("utf-8", "cp850", "cp1252", "utf-16-le"))
    assert PICTURE not in data
    assert bundle.redacted == ("screens", "log of keys", "3 secret values")
    assert "1234567890" not in repr(bundle)
    assert verify(tmp_path / "b") == bundle
    for kept in runs_at(tmp_path / "b"):  # the evidence stays readable
        assert kept.record.before is not None
        kept.campaign.snapshot(kept.record.before)


def test_secrets_in_the_registry_are_found_in_their_packing(tmp_path: Path, campaign: Campaign) -> None:
    text = "geheim123".encode("utf-16-le") + b"\0\0"
    state = RegistryState(True, (KeyItem(""),), (ValueItem("", "Password", SZ, text),))
    kept = runs_at(campaign.folder)[0]
    ref = kept.campaign.keep_snapshot({"settings": state}, settled=True)
    export([without(kept, before=ref)], tmp_path / "b", secrets=["geheim123"])
    (again,) = runs_at(tmp_path / "b")
    assert again.record.before is not None
    found = again.campaign.snapshot(again.record.before)["settings"]
    assert isinstance(found, RegistryState)
    assert found.values[0].data == b"x\0" * 9 + b"\0\0"


def test_short_secrets_are_refused_not_half_redacted(tmp_path: Path, campaign: Campaign) -> None:
    with pytest.raises(BundleError, match="fewer than 4 characters"):
        export(runs_at(campaign.folder), tmp_path / "b", secrets=["abc", "long enough"])
    assert not (tmp_path / "b").exists()


def test_an_unreadable_reading_goes_along(tmp_path: Path, campaign: Campaign) -> None:
    kept = runs_at(campaign.folder)[0]
    assert kept.record.before is not None
    reading = Reading(kind="unreadable", unreadable="locked")
    before = kept.record.before.model_copy(update={"readings": {**kept.record.before.readings, "notes": reading}})
    export([without(kept, before=before)], tmp_path / "b", secrets=["1234567890"])
    found = runs_at(tmp_path / "b")[0].record.before
    assert found is not None
    assert found.readings["notes"] == reading
    verify(tmp_path / "b")


# --- the command line -------------------------------------------------------------------------------------------------


def test_the_commands_export_verify_and_refuse(call: Call, campaign: Campaign, tmp_path: Path) -> None:
    target = tmp_path / "b.zip"
    status, out, _ = call("export", campaign.folder, target, "--run", "dswin.add-new-patient.wrong", "--no-screens")
    assert status == 0
    assert "1 runs in" in out
    assert "without screens" in out
    seal = out.split("seal: ")[1].strip()
    status, out, _ = call("verify", target)
    assert (status, out.split("seal: ")[1].strip()) == (0, seal)
    status, _, err = call("rejudge", target)
    assert (status, "1 as before, 0 differ" in err) == (0, True)
    data = target.read_bytes()
    target.write_bytes(data.replace(b"4212505", b"1234567", 1))
    status, out, err = call("verify", target)
    assert (status, out) == (1, "")
    assert "is not what it was" in err
    assert call("verify", tmp_path / "none")[0] == 2
    assert call("export", campaign.folder, tmp_path / "x", "--run", "no.such.run")[0] == 2
    assert call("rejudge", target)[0] == 2
