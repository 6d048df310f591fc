"""Contracts named on the command line, loaded and told about."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from contracts.lint import Finding, Known, lint
from contracts.load import ContractError, LoadedContract, load_contract
from runner.calibrate import (
    check_noise,
    lists_used,
    noise_folders,
)
from runner.commands.terminal import Refused, err
from runner.delays import proposed_quiet
from runner.machines.images import ImageError, find_image


def contract_files(paths: Sequence[Path]) -> list[Path]:
    """The files that paths stand for: folders for every ``*.yaml`` below them.

    Raises:
        Refused: There is none.
    """
    if not paths:
        raise Refused("name a contract, or a folder of contracts")
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(path.rglob("*.yaml"))
        elif path.is_file():
            files.append(path)
        else:
            raise Refused(f"there is no contract at {path}")
    if not files:
        raise Refused(f"there are no contracts (*.yaml) in {', '.join(map(str, paths))}")
    return files


def load(paths: Sequence[Path], overrides: dict[str, str]) -> list[LoadedContract]:
    """Loads contracts, and says what is to be said of them.

    Args:
        paths: Files and folders.
        overrides: Parameters given on the command line.

    Raises:
        Refused: A contract is not valid, or two have the same id.
    """
    loaded, problems = [], []
    for file in contract_files(paths):
        try:
            loaded.append(load_contract(file, parameters=overrides))
        except ContractError as error:
            problems.append(str(error))
    if problems:
        raise Refused("\n".join(problems))
    seen: dict[str, LoadedContract] = {}
    for item in loaded:
        other = seen.setdefault(item.contract.id, item)
        if other is not item:
            raise Refused(f"{item.path} and {other.path} have the same id {item.contract.id!r}")
        for warning in item.warnings:
            err.print(f"warning: {warning!s}", soft_wrap=True)
        tell_noise(item)
    return loaded


def tell_noise(item: LoadedContract) -> None:
    """Says which noise lists a contract rests on, and what of them does not hold; whether they are stale the run tells."""
    with contextlib.suppress(ImageError, ContractError):
        folders = noise_folders(find_image(item.contract.image), item.path.parent if item.path else Path.cwd())
        for line in lists_used(item.contract, folders=folders):
            err.print(line, soft_wrap=True)
        for problem in check_noise(item.contract, None, folders=folders):
            err.print(f"warning: {item.path}: {problem}", soft_wrap=True)


def linted(item: LoadedContract, known: Known | None = None) -> tuple[Finding, ...]:
    """What lint finds, with what was measured for the contract."""
    quiet = None
    with contextlib.suppress(ImageError, ContractError):
        folders = noise_folders(find_image(item.contract.image), item.path.parent if item.path else Path.cwd())
        quiet = proposed_quiet(item.contract.id, item.contract.image, folders=folders)
    return lint(item, known, measured_quiet=quiet)


def parameters_given(given: Sequence[str]) -> dict[str, str]:
    """What ``--param name=value`` says.

    Raises:
        Refused: It is not of that form.
    """
    overrides = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise Refused(f"--param {item!r}: write name=value")
        overrides[key] = value
    return overrides


def by_id(paths: Sequence[Path]) -> dict[str, Path]:
    """Contract files by the ids of the contracts."""
    return {item.contract.id: item.path for item in load(paths, {}) if item.path is not None}


def lint_before(loaded: Sequence[LoadedContract], *, go_on: bool) -> None:
    """Lint as a step before runs: warnings are told, errors refuse them."""
    told = [finding for item in loaded for finding in linted(item) if finding.problem not in item.warnings]
    errors = [str(finding) for finding in told if finding.severity == "error"]
    for finding in told:
        if finding.severity == "warning" or go_on:
            err.print(f"{finding.severity}: {finding!s}", soft_wrap=True)
    if errors and go_on:
        err.print(f"warning: --no-lint: running although lint finds errors: {len(errors)}")
    elif errors:
        raise Refused("\n".join(errors))
