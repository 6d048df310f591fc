"""Recipes are built in the home: from sources that nobody may write to, once, whoever asks for them and how many at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.machines.base import MachineError, home
from runner.machines.recipes import built

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = """\
build/%.txt: in.txt sub/more.txt
\t@mkdir -p build
\t@echo $* >>$(COUNTER)
\t@sleep $(PAUSE)
\t@cat $^ >$@
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A recipe that notes in the file ``counter`` each time something is built, and in which nothing may be written."""
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COUNTER", str(tmp_path / "counter"))
    monkeypatch.setenv("PAUSE", "0")
    folder = tmp_path / "recipe"
    (folder / "sub").mkdir(parents=True)
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "in.txt").write_text("in\n")
    (folder / "sub" / "more.txt").write_text("more\n")
    for path in [*folder.rglob("*"), folder]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in [folder, folder / "sub"]:
        path.chmod(0o755)


def counted(recipe: Path) -> list[str]:
    return recipe.with_name("counter").read_text().split()


def test_it_is_built_in_the_home_and_nothing_beside_its_sources(recipe: Path) -> None:
    before = sorted(recipe.rglob("*"))
    made = built(recipe, "build/one.txt")
    assert made.read_text() == "in\nmore\n"
    assert home() in made.parents
    assert sorted(recipe.rglob("*")) == before


def test_it_is_built_once_for_each_target_and_each_state_of_its_sources(recipe: Path) -> None:
    first = built(recipe, "build/one.txt")
    assert built(recipe, "build/one.txt") == first
    built(recipe, "build/two.txt")
    assert counted(recipe) == ["one", "two"]
    (recipe / "in.txt").chmod(0o644)
    (recipe / "in.txt").write_text("other\n")
    assert built(recipe, "build/one.txt").read_text() == "other\nmore\n"
    assert first.read_text() == "in\nmore\n", "what others use stays as it is"


def test_what_somebody_built_beside_the_sources_is_not_taken(recipe: Path) -> None:
    recipe.chmod(0o755)
    (recipe / "build").mkdir()
    (recipe / "build" / "one.txt").write_text("stale")
    assert built(recipe, "build/one.txt").read_text() == "in\nmore\n"


def test_several_runners_at_once_build_it_once(recipe: Path) -> None:
    program = "import sys; from pathlib import Path; from runner.machines.recipes import built\n"
    program += "print(built(Path(sys.argv[1]), 'build/one.txt').read_text(), end='')"
    environment = {**os.environ, "PAUSE": "1", "PYTHONPATH": str(ROOT)}
    runners = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(recipe)], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    assert [runner.communicate(timeout=120)[0] for runner in runners] == ["in\nmore\n"] * 4
    assert counted(recipe) == ["one"]


@pytest.mark.parametrize(
    ("makefile", "words"),
    [
        ("build/one.txt:\n\t@echo the compiler is unhappy >&2; mkdir build; echo half >$@; false\n", "unhappy"),
        ("build/one.txt:\n\t@true\n", "made no such file"),
    ],
)
def test_what_cannot_be_built_is_told_and_leaves_nothing(recipe: Path, makefile: str, words: str) -> None:
    (recipe / "Makefile").chmod(0o644)
    (recipe / "Makefile").write_text(makefile)
    for _ in range(2):
        with pytest.raises(MachineError, match=words):
            built(recipe, "build/one.txt")
    assert [path for path in (home() / "recipes").iterdir() if path.is_dir()] == []


def test_a_host_without_make_is_told_so(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MachineError, match="make is not installed"):
        built(recipe, "build/one.txt")


def test_what_was_built_and_then_altered_is_not_used(recipe: Path) -> None:
    made = built(recipe, "build/one.txt")
    made.write_text("altered")
    with pytest.raises(MachineError, match="changed after it was sealed"):
        built(recipe, "build/one.txt")
