"""Output that cannot be written: no traceback, nothing lost but the output itself, and a status that still tells the outcome."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runner.commands.streams import Stream
from runner.store import Campaign
from tests.command_line import ROOT
from tests.runner.stored_runs import campaign_in

CONTRACT = ROOT / "contracts/catalog/legacyworld/dswin/add-new-patient.yaml"
PLAIN = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@dataclass(frozen=True)
class Damage:
    """What becomes of each standard stream (``closed``, ``full``, ``gone``: nobody reads the pipe), and the environment."""

    streams: Mapping[int, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


DAMAGES = {
    "latin-1": Damage(environment={"PYTHONIOENCODING": "latin-1"}),
    "ascii": Damage(environment={"PYTHONIOENCODING": "ascii"}),
    "no locale": Damage(environment={"LC_ALL": "C", "LANG": "", **PLAIN}),
    **{
        f"{name} {what}": Damage({number: what})
        for number, name in ((1, "output"), (2, "errors"))
        for what in ("closed", "full", "gone")
    },
    "both gone": Damage({1: "gone", 2: "gone"}),
    "all closed": Damage({0: "closed", 1: "closed", 2: "closed"}),
}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return campaign_in(tmp_path_factory.mktemp("kept"))


@dataclass(frozen=True)
class Command:
    """A command, the status that it has with whole streams, whether it says anything on standard output, and keeps it in files."""

    arguments: Sequence[object]
    status: int = 0
    tells: bool = True
    keeps: bool = False

    def expected(self, damage: Damage) -> int:
        return (
            3 if self.status == 0 and self.tells and not self.keeps and damage.streams.get(1) == "full" else self.status
        )


RUN = ("run", CONTRACT, "--agent", "noop", "--trials", 2, "--parallel", 2, "--runs", "runs")


def commands(campaign: Campaign) -> list[Command]:
    """One of each command that needs no machine."""
    return [
        Command([*RUN, "--name", "table"], keeps=True),
        Command([*RUN, "--name", "json", "--json"], keeps=True),
        Command(["--help"]),
        Command(["run"], 2),
        Command(["lint", "a·b – „c“ ß"], 2),
        Command(["lint", CONTRACT], tells=False),
        Command(["lint", "--rules"]),
        Command(["schema"]),
        Command(["explain", campaign.folder]),
        Command(["rejudge", campaign.folder / "dswin.add-billing-code.good"], tells=False),
        Command(["report", campaign.folder]),
        Command(["machines", "list"]),
        Command(["image", "list"]),
        Command(["prompts", "render", CONTRACT]),
        Command(["conformance", "checks"]),
    ]


def damaged(damage: Damage, home: Path, wanted: Sequence[Command]) -> tuple[list[int], str]:
    """The statuses of commands under damaged streams, and what can be read of both."""
    redirections = {"closed": "{}>&-", "full": "{}>/dev/full", "gone": "{}>&9"}
    shell = " ".join(['exec "$@"', *(redirections[what].format(number) for number, what in damage.streams.items())])
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "PYTHON"))}
    environment |= {"LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT), "LEGACYPROOF_HOME": str(home), "COLUMNS": "100"}
    told = json.dumps([[str(part) for part in command.arguments] for command in wanted])
    with ExitStack() as stack:
        reading, writing = os.pipe()
        os.close(reading)
        stack.callback(os.close, writing)
        done = subprocess.run(
            ["bash", "-c", f"exec 9>&{writing}; {shell}", "sh", sys.executable, "-m", "tests.peers.forked_commands",
             home / "statuses", told],
            cwd=home, env={**environment, **damage.environment}, pass_fds=[writing], capture_output=True, timeout=600, check=False,
        )  # fmt: skip
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert done.returncode == 0, text
    return json.loads((home / "statuses").read_text()), text


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_every_command_lives_with_every_kind_of_damage(damage: Damage, campaign: Campaign, tmp_path: Path) -> None:
    wanted = commands(campaign)
    statuses, told = damaged(damage, tmp_path, wanted)
    assert "Traceback" not in told
    assert "Exception ignored" not in told
    expected = [(command.arguments, command.expected(damage)) for command in wanted]
    assert [(command.arguments, status) for command, status in zip(wanted, statuses, strict=True)] == expected, told
    losses = sum(command.status == 0 and command.tells for command in wanted) if damage.streams == {1: "full"} else 0
    assert told.count("standard output cannot be written: No space left") == losses
    if set(damage.streams.values()) <= {"gone", "closed"}:
        assert "cannot be written" not in told, "who has gone has had enough"
    for name in ("table", "json"):
        kept = Campaign(tmp_path / "runs" / name)
        assert sorted(record.run for record in kept.records()) == ["run-1", "run-2"]
        assert (kept.folder / "report" / "index.html").is_file()
        assert sorted(path.name for path in kept.folder.iterdir()) == ["blobs", "report", "run-1", "run-2"]
    if damage is DAMAGES["ascii"]:
        assert 'there is no contract at a-b - "c" \\xdf' in told


class Strict:
    """A stream that fails from a certain text on."""

    encoding = "utf-8"

    def __init__(self, failing: str, error: Exception) -> None:
        self.failing, self.error = failing, error
        self.taken: list[str] = []

    def write(self, text: str) -> int:
        if text == self.failing:
            raise self.error
        self.taken.append(text)
        return len(text)

    def flush(self) -> None:
        return

    def fileno(self) -> int:
        raise OSError("it has none")


ERRORS = [OSError(28, "No space left on device"), BrokenPipeError(32, "Broken pipe"), ValueError("closed")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_after_what_was_lost_nothing_is_written_for_output_with_holes_misleads(error: Exception) -> None:
    under = Strict("two", error)
    stream = Stream(under)  # type: ignore[arg-type]
    assert [stream.write(text) for text in ("one", "two", "three", "\ud800")] == [3, 3, 5, 6]
    assert under.taken == ["one"]
    assert stream.lost is error
    assert bool(stream.unwritten) == (not isinstance(error, BrokenPipeError))


def test_half_of_a_surrogate_pair_is_written_as_an_escape() -> None:
    under = Strict("", ValueError())
    Stream(under).write("name \udcff")  # type: ignore[arg-type]
    assert under.taken == ["name \\udcff"]
