"""``make bare`` runs what the README promises, and every target that sets something up."""

from __future__ import annotations

import re

from tests.bare.__main__ import SHORT, SOURCE, WHOLE

MAKEFILE = (SOURCE / "Makefile").read_text()


def targets(commands: tuple[str, ...]) -> set[str]:
    return {command.split()[1] for command in commands}


def test_the_whole_form_runs_the_readmes_commands_and_every_target_for_developers() -> None:
    promised = re.findall(r"^\$ make (\w+)", (SOURCE / "README.md").read_text(), re.MULTILINE)
    assert promised[:2] == ["demo", "test"]
    assert {*promised, "lint", "bench", "fuzz"} <= targets(WHOLE)


def test_the_short_form_sets_up_everything() -> None:
    needed = set(re.findall(r"^(setup[\w-]*):", MAKEFILE, re.MULTILINE)) | {".venv/.ready-test"}
    ran = targets(SHORT)
    assert needed - ran == {"setup"}
    assert re.search(r"^demo: setup$", MAKEFILE, re.MULTILINE), "which sets up what is needed for it"
    assert "demo" in ran


def test_every_target_exists() -> None:
    for target in targets(WHOLE) | targets(SHORT):
        name = target.replace(".venv", "$(VENV)")
        assert re.search(rf"^{re.escape(name)}:", MAKEFILE, re.MULTILINE), target
