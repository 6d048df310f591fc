"""Folders that others have filled are removed whatever these have done to them, and nothing but them."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner import removal
from runner.removal import RemovalError, empty, remove

IS_ROOT = os.geteuid() == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "filled"
    (made / "deep" / "deeper").mkdir(parents=True)
    for name in ("mark", "file", "deep/file", "deep/deeper/file"):
        (made / name).write_text("x")
    return made


def test_everything_goes_but_what_is_to_stay(folder: Path) -> None:
    empty(folder, but=["mark"])
    assert os.listdir(folder) == ["mark"]
    remove(folder, last=["mark"])
    assert not folder.exists()
    remove(folder)  # what is not there is no matter


def test_links_are_removed_and_not_followed(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "dear").write_text("x")
    (folder / "link").symlink_to(other)
    (folder / "deep" / "link").symlink_to(other / "dear")
    (folder / "loop").symlink_to(folder)
    remove(folder)
    assert (other / "dear").read_text() == "x"
    assert not folder.exists()


@pytest.mark.skipif(IS_ROOT, reason="root needs no rights")
def test_rights_that_were_taken_away(folder: Path) -> None:
    for each in (folder / "deep" / "deeper", folder / "deep", folder):
        each.chmod(0)
    remove(folder)
    assert not folder.exists()


def _flag(path: Path, flag: str) -> None:
    if subprocess.run(["chattr", f"+{flag}", path], capture_output=True, check=False).returncode != 0:
        pytest.skip("files cannot be locked here")


@pytest.mark.parametrize("flag", ["i", "a"])
@pytest.mark.parametrize("place", ["file", "deep", "deep/deeper/file", "."])
def test_files_and_folders_that_must_not_be_changed(folder: Path, flag: str, place: str) -> None:
    _flag(folder / place, flag)
    remove(folder, last=["mark"])
    assert not folder.exists()


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_removal_that_is_cut_short_leaves_what_tells_whose_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    class Killed(BaseException):
        pass

    calls = iter(range(1, 100))

    def until(function: Callable[..., object]) -> Callable[..., object]:
        def called(*arguments: object, **named: object) -> object:
            if next(calls) == cut:
                raise Killed
            return function(*arguments, **named)

        return called

    for name in ("unlink", "rmdir"):
        monkeypatch.setattr(Path, name, until(getattr(Path, name)))
    monkeypatch.setattr(shutil, "rmtree", until(shutil.rmtree))
    with pytest.raises(Killed):
        remove(folder, last=["mark"])
    left = set(os.listdir(folder))
    assert not left or "mark" in left


@pytest.fixture
def mounted(folder: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder of somebody else's, bound into the folder in two places."""
    dear = tmp_path / "dear"
    dear.mkdir()
    (dear / "file").write_text("x")
    for name in ("deep/a b", "on top"):
        (folder / name).mkdir()
        if subprocess.run(["mount", "--bind", dear, folder / name], capture_output=True, check=False).returncode != 0:
            pytest.skip("nothing can be mounted here")
    yield dear
    for place in removal.mounts_in(folder):
        subprocess.run(["umount", "-l", place], check=False)


def test_what_is_mounted_is_detached_and_not_entered(folder: Path, mounted: Path) -> None:
    assert {place.name for place in removal.mounts_in(folder)} == {"a b", "on top"}
    remove(folder)
    assert not folder.exists()
    assert (mounted / "file").read_text() == "x"


def test_what_cannot_be_detached_is_told_and_left_alone(
    folder: Path, mounted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Library:
        def umount2(self, *_: object) -> int:
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Library())
    with pytest.raises(RemovalError, match="something is mounted there"):
        remove(folder)
    assert (mounted / "file").read_text() == "x"
    assert (folder / "file").exists()


def test_what_cannot_be_removed_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted", str(self))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(RemovalError, match=r"filled/file: Operation not permitted"):
        remove(folder)
