"""A disk that is full or read-only, at every moment of a campaign: told with path and remedy, what is finished kept, nothing half."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runner.bundle import verify
from runner.rejudge import runs_at
from runner.store import Campaign
from tests.command_line import ROOT
from tests.runner.stored_runs import campaign_in

CONTRACT = ROOT / "contracts/catalog/legacyworld/dswin/add-new-patient.yaml"
FILL = "dd if=/dev/zero of={disk}/filler bs=64k conv=fsync; dd if=/dev/zero of={disk}/filler2 bs=1"
"""Takes all that a disk has left, to the last byte."""
AWAIT_OTHER = "while ! test -e {disk}/../other; do sleep 0.1; done"
"""Waits until the other run has kept its evidence."""
MIB = 1 << 20

pytestmark = pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode != 0,
    reason="no mount namespaces",
)


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str
    copy: Path
    """What was on the disk in the end."""

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", self.err)

    def campaign(self, name: str = "demo") -> Campaign:
        return Campaign(self.copy / name)

    def runs(self) -> list[str]:
        return sorted(record.run for record in self.campaign().records())


class Host:
    """A host with a small disk: a tmpfs that exists in a mount namespace of its own, where the command runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = folder / "disk"
        self.disk.mkdir()
        self.home = folder / "home"
        self.home.mkdir()

    def call(
        self, *arguments: object, size: int = 32 * MIB, plan: dict[str, Any] | None = None, first: str = ""
    ) -> Done:
        """Runs the command line.

        Args:
            arguments: For it.
            size: Of the disk, in bytes.
            plan: What the pretended runs do.
            first: A shell command that prepares the disk.
        """
        copy = self.folder / "copy"
        script = (
            f"mount -t tmpfs -o size={size} tmpfs {self.disk}; {first or ':'}; "
            f'"$@"; status=$?; cp -a {self.disk} {copy}; exit $status'
        )
        told = json.dumps(plan or {}).replace("{disk}", str(self.disk))
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-m", "tests.peers.pretended_runs", told,
             *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": str(ROOT), "LEGACYPROOF_HOME": str(self.home)}, cwd=ROOT, capture_output=True,
            text=True, encoding="utf-8", timeout=600, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr, copy)

    def run(self, trials: int, **how: Any) -> Done:
        return self.call(
            "run", CONTRACT, "--agent", "noop", "--trials", trials, "--parallel", how.pop("parallel", 1), "--reruns", 0,
            "--runs", how.pop("runs", self.disk), "--name", "demo", **how,
        )  # fmt: skip

    def left_behind(self) -> list[str]:
        """What is noted of campaigns that were not closed."""
        return [path.read_text() for path in (self.home / "campaigns").glob("*.json")]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def whole(campaign: Campaign) -> None:
    """Nothing half written, and every record's evidence is there."""
    assert not list(campaign.folder.glob(".*"))
    assert not list((campaign.folder / "blobs").glob("*/.*"))
    for kept in campaign.records():
        campaign.blob(kept.contract.source)
        campaign.blob(kept.agent.prompt_text)


# --- before the first run ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "status", "words"),
    [
        (
            "mount -o remount,ro {disk}",
            2,
            "the host's file system is read-only ({disk} is mounted so); name another folder",
        ),
        (
            "mkdir -p {disk}/demo/blobs; mount -o remount,ro {disk}",
            2,
            "the host's file system is read-only ({disk} is mounted so)",
        ),
        (
            FILL,
            3,
            "the host's disk is full (the file system at {disk} has 0 bytes left, 1 MiB are needed); free some room",
        ),
    ],
    ids=["read-only", "read-only, the campaign is there", "full"],
)
def test_a_place_for_campaigns_that_takes_nothing(host: Host, first: str, status: int, words: str) -> None:
    done = host.run(2, first=first.replace("{disk}", str(host.disk)))
    assert done.status == status, done.err
    assert f"{host.disk}/demo cannot be written: {words.replace('{disk}', str(host.disk))}" in done.words
    assert "--runs" in done.words
    assert done.out == ""
    assert host.left_behind() == []


@pytest.mark.parametrize(("first", "status"), [("mount -o remount,ro {disk}", 2), (FILL, 3)], ids=["read-only", "full"])
def test_a_home_that_takes_nothing(host: Host, tmp_path: Path, first: str, status: int) -> None:
    host.home = host.disk
    done = host.run(2, first=first.replace("{disk}", str(host.disk)), runs=tmp_path / "runs")
    assert done.status == status, done.err
    assert f"{host.disk}/campaigns cannot be written" in done.words
    assert "LEGACYPROOF_HOME" in done.words
    assert not list((tmp_path / "runs" / "demo").glob("run-*"))


# --- during a run -----------------------------------------------------------------------------------------------------


def test_evidence_that_finds_no_room_makes_the_run_unscored_and_the_campaign_goes_on_when_there_is_some(
    host: Host,
) -> None:
    done = host.run(
        3, plan={"evidence": 2 * MIB, "before": {"2": FILL}, "after": {"2": "rm {disk}/filler {disk}/filler2"}}
    )
    assert done.status == 1, done.err
    assert done.runs() == ["run-1", "run-2", "run-3"]
    outcomes = {record.run: (record.verdict.outcome, record.verdict.cause) for record in done.campaign().records()}
    assert outcomes == {
        "run-1": ("valid_success", None), "run-2": ("unscored", "machine"), "run-3": ("valid_success", None),
    }  # fmt: skip
    (reason,) = [record.verdict.reason for record in done.campaign().records() if record.verdict.cause]
    assert "the host's disk is full" in reason
    assert "2 MiB are needed" in reason
    assert "free some room" in reason
    assert "3 runs" in done.out
    assert (done.campaign().folder / "report/index.html").is_file()
    whole(done.campaign())
    assert host.left_behind() == []


def test_a_campaign_without_room_stops_in_order_and_keeps_what_is_finished(host: Host) -> None:
    done = host.run(5, plan={"before": {"3": FILL}})
    assert done.status == 3
    assert done.runs() == ["run-1", "run-2", "run-3"], "the room for its record was set aside"
    assert "runs that were not made for want of room: 2" in done.words
    assert f"{host.disk}/demo cannot be written: the host's disk is full" in done.words
    assert "3 runs: VS 2" in done.out
    assert (done.campaign().folder / "report/index.html").is_file(), "so was room for it"
    whole(done.campaign())
    assert host.left_behind() == []


def test_runs_wait_for_the_room_that_others_leave(host: Host) -> None:
    """The first run holds all room until it ends; the second begins meanwhile and must neither fail nor stop the campaign."""
    hold = f"{AWAIT_OTHER}; {FILL}; touch {{disk}}/../held; while test -e {{disk}}/../held; do sleep 0.1; done; rm {{disk}}/filler*"
    release = (
        "touch {disk}/../other; while ! test -e {disk}/../held; do sleep 0.1; done; "
        "(sleep 1; rm {disk}/../held) >/dev/null 2>&1 &"
    )
    done = host.run(4, parallel=2, plan={"after": {"1": hold, "2": release}})
    assert done.status == 0, done.err
    assert len(done.runs()) == 4
    whole(done.campaign())


# --- while a record is finished ---------------------------------------------------------------------------------------


def test_a_record_is_written_on_a_full_disk(host: Host) -> None:
    done = host.run(1, plan={"after": {"1": FILL}})
    assert done.runs() == ["run-1"]
    whole(done.campaign())


def test_a_record_that_cannot_be_written_is_told_and_not_half_there(host: Host) -> None:
    done = host.run(3, plan={"after": {"2": "mount -o remount,ro {disk}"}})
    assert done.status == 3
    assert done.runs() == ["run-1"]
    assert "run-2: dswin.add-new-patient · noop failed: valid success: its record could not be written" in done.words
    assert "runs that were not made for want of room: 1" in done.words
    assert "2 runs: VS 2" in done.out
    assert "there is no report" in done.words
    assert f"`legacyproof report {host.disk}/demo` writes it later" in done.words
    (note,) = host.left_behind()
    assert str(host.disk / "demo") in note, "what could not be removed is listed"


def test_a_record_that_could_not_be_written_at_first_is_written_as_soon_as_it_can_be(host: Host) -> None:
    done = host.run(
        2, parallel=2,
        plan={
            "after": {
                "1": f"{AWAIT_OTHER}; mount -o remount,ro {{disk}}; touch {{disk}}/../refused",
                "2": "touch {disk}/../other; while ! test -e {disk}/../refused; do sleep 0.1; done; sleep 2; mount -o remount,rw {disk}",
            }
        },
    )  # fmt: skip
    assert done.status == 0, done.err
    assert done.runs() == ["run-1", "run-2"]
    whole(done.campaign())


# --- reports and bundles ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "status"), [("mount -o remount,ro {disk}", 2), (FILL, 3)], ids=["read-only", "full"])
def test_a_report_that_finds_no_room(host: Host, tmp_path: Path, first: str, status: int) -> None:
    made = campaign_in(tmp_path)
    prepare = (
        f"cp -a {made.folder} {host.disk}; mkdir {host.disk}/demo/report; {first.replace('{disk}', str(host.disk))}"
    )
    done = host.call("report", host.disk / "demo", first=prepare)
    assert done.status == status, done.err
    assert f"{host.disk}/demo/report cannot be written" in done.words
    assert not list(done.campaign().folder.glob(".*"))
    assert list((done.campaign().folder / "report").iterdir()) == [], "what was there stays"


@pytest.mark.parametrize("target", ["bundle", "bundle.zip"])
@pytest.mark.parametrize(("first", "status"), [("mount -o remount,ro {disk}", 2), (FILL, 3)], ids=["read-only", "full"])
def test_an_export_that_finds_no_room(host: Host, tmp_path: Path, first: str, status: int, target: str) -> None:
    made = campaign_in(tmp_path)
    done = host.call("export", made.folder, host.disk / target, first=first.replace("{disk}", str(host.disk)))
    assert done.status == status, done.err
    assert f"{host.disk}/{target} cannot be written" in done.words
    assert {path.name for path in done.copy.iterdir()} <= {"filler", "filler2"}


def test_an_archive_that_cannot_be_proven_for_want_of_room_is_not_called_changed(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = campaign_in(tmp_path)
    host.call("export", made.folder, tmp_path / "bundle.zip")
    shutil.rmtree(host.folder / "copy")
    assert verify(tmp_path / "bundle.zip")
    monkeypatch.setenv("TMPDIR", str(host.disk))
    for command in ("verify", "rejudge", "explain"):
        shutil.rmtree(host.folder / "copy", ignore_errors=True)
        done = host.call(command, tmp_path / "bundle.zip", size=8 * 4096)
        assert done.status == 3, done.err
        assert "is not what it was" not in done.words
        assert f"{host.disk} cannot be written: the host's disk is full" in done.words
        assert "TMPDIR" in done.words
    assert runs_at(made.folder)
