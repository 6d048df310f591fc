"""The runner is killed outright: nothing of ours lives on, and what it left can be found and removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.machines.base import home
from runner.machines.folders import processes_of
from runner.machines.wine import WineCheckpoint
from runner.store import Campaign

pytestmark = pytest.mark.machine
ROOT = Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "contracts/catalog/legacyworld/dswin/add-new-patient.yaml"
SCRIPT = ROOT / "recordings/dswin/add-new-patient/golden.yaml"
PHASES = ("prepare", "clone", "start", "before", "agent", "settle", "after", "discard", "verdict")


def runner(runs: Path, script: Path = SCRIPT) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.peers.announcing_runner", str(CONTRACT), str(script), str(runs), "killed"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def legacyproof(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from runner.cli import main; main()", *argv],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def until(line: str, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for said in process.stdout:
        if said.strip() == line:
            return
    raise AssertionError(f"the runner ended before {line!r}")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, checkpoint: WineCheckpoint) -> Path:
    """A campaign with one finished run."""
    folder = tmp_path_factory.mktemp("runs")
    process = runner(folder)
    until("finished valid_success", process)
    assert process.wait(30) == 0
    return folder


@pytest.mark.parametrize(
    ("phase", "delay"), [*((phase, 0.0) for phase in PHASES), ("clone", 0.06), ("clone", 0.4), ("agent", 0.3)]
)
def test_killed_in_a_phase(runs: Path, phase: str, delay: float) -> None:
    finished = {path: path.read_bytes() for path in runs.glob("killed/*/record.json")}
    process = runner(runs)
    until(phase, process)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait(30)

    # The machine dies by itself, before anyone tidies up.
    deadline = time.monotonic() + 20
    while processes_of(home()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(home()) == []
    assert str(home()) not in Path("/proc/mounts").read_text()

    done = legacyproof("machines", "reap")
    assert done.returncode == 0, done.stderr
    assert list((home() / "machines").iterdir()) == []
    assert list((home() / "campaigns").iterdir()) == []
    assert [p.name for p in (runs / "killed").iterdir() if p.name.startswith(".")] == []
    assert "nothing is there" in legacyproof("machines", "list").stdout
    for path, content in finished.items():
        assert path.read_bytes() == content
    for record in Campaign(runs / "killed").records():
        assert record.verdict.outcome == "valid_success"


def test_reap_leaves_machines_of_living_runners_alone(runs: Path, tmp_path: Path) -> None:
    script = tmp_path / "slow.yaml"
    script.write_text(
        "schema: 1\ncontract: dswin.add-new-patient\ntitle: Works for a minute\nintended: {outcome: valid_failure}\n"
        "steps:\n- pause: 60s\n- report: failed\n"
    )
    process = runner(runs, script)
    try:
        until("agent", process)
        done = legacyproof("machines", "reap")
        assert f"in use by the runner {process.pid}" in done.stdout
        assert process.poll() is None
        assert len(list((home() / "machines").iterdir())) == 1
    finally:
        process.kill()
        process.wait(30)
    assert legacyproof("machines", "reap").returncode == 0
    assert list((home() / "machines").iterdir()) == []


def test_reap_removes_only_what_carries_our_tag(runs: Path) -> None:
    stranger = home() / "machines" / "holiday-pictures"
    stranger.mkdir(parents=True)
    unmarked = runs / "killed" / ".someone.unfinished"
    unmarked.mkdir()
    try:
        process = runner(runs)
        until("agent", process)
        process.kill()
        process.wait(30)
        assert legacyproof("machines", "reap").returncode == 0
        assert stranger.is_dir()
        assert unmarked.is_dir()
    finally:
        stranger.rmdir()
        unmarked.rmdir()


def test_sigterm_ends_in_order_and_keeps_what_is_finished(tmp_path: Path, checkpoint: WineCheckpoint) -> None:
    command = [
        sys.executable, "-c", "from runner.cli import main; main()", "run", str(CONTRACT), "--agent", f"scripted:{SCRIPT}",
        "--trials", "30", "--parallel", "1", "--json", "--runs", str(tmp_path), "--name", "stopped",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert '"valid_success"' in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in errors
    records = list(Campaign(tmp_path / "stopped").records())
    assert records[0].verdict.outcome == "valid_success"
    assert len(records) < 30
    assert {r.verdict.cause for r in records if r.verdict.outcome == "unscored"} <= {"cancelled"}
    assert list((home() / "machines").iterdir()) == []
    assert (tmp_path / "stopped" / "report" / "index.html").is_file()
    assert os.listdir(home() / "campaigns") == []


def test_a_runner_killed_while_it_tries_overlays_leaves_what_reap_removes() -> None:
    trying = (
        "import time; from runner.machines import wine;"
        "wine.overlay_works = lambda folder: print('trying', flush=True) or time.sleep(60); wine._overlays()"
    )
    process = subprocess.Popen([sys.executable, "-c", trying], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    until("trying", process)
    process.kill()
    process.wait(30)
    assert list((home() / "machines").iterdir()) != []
    assert legacyproof("machines", "reap").returncode == 0
    assert list((home() / "machines").iterdir()) == []
