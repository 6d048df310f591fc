"""Folders of the home that are filled once: others wait and are told for what, and what cannot be written is told as that."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runner.machines import room
from runner.machines.base import HomeError, MachineError, home
from runner.machines.sealing import sealed
from tests.command_line import Call


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def filled(place: Path) -> None:
    place.mkdir()
    (place / "file").write_text("content")


def test_who_waits_for_another_runner_is_told_once(own_home: Path) -> None:
    folder = own_home / "images" / "key"
    folder.parent.mkdir(parents=True)
    other = (folder.with_suffix(".lock")).open("a")  # a lock of its own, as another process would have
    fcntl.flock(other, fcntl.LOCK_EX)
    told: list[str] = []

    def waiting() -> None:
        told.append("waiting")
        other.close()

    place, _ = sealed(folder, "part", filled, about={}, waiting=waiting)
    assert (place / "file").read_text() == "content"
    sealed(folder, "part", filled, about={}, waiting=waiting)
    assert told == ["waiting"]


def test_threads_of_one_runner_fill_it_once_and_are_told_nothing(own_home: Path) -> None:
    both = threading.Barrier(2)
    times: list[int] = []

    def fill(place: Path) -> None:
        times.append(1)
        filled(place)

    def one(_: int) -> Path:
        both.wait(60)
        return sealed(own_home / "images" / "key", "part", fill, about={}, waiting=lambda: times.append(100))[0]

    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(one, range(2)))) == 1
    assert times == [1]


def failing(error: Exception) -> Callable[[Path], None]:
    def fill(place: Path) -> None:
        filled(place)
        raise error

    return fill


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "disk is full.* left.*machines reap"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "may not write there"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_program_that_fails_since_nothing_can_be_written_is_not_blamed(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(MachineError, match=words) as caught:
        sealed(own_home / "images" / "key", "part", failing(MachineError("ended with c0000135")), about={})
    assert "c0000135" not in str(caught.value)
    assert str(own_home) in str(caught.value)
    assert [path.name for path in (own_home / "images").iterdir()] == ["key.lock"]


def test_a_program_that_fails_for_another_reason_is(own_home: Path) -> None:
    with pytest.raises(MachineError, match="c0000135"):
        sealed(own_home / "images" / "key", "part", failing(MachineError("ended with c0000135")), about={})
    with pytest.raises(FileNotFoundError, match="nowhere"):
        sealed(own_home / "images" / "key", "part", lambda _: Path("/nowhere").rmdir(), about={})


def test_an_error_that_names_a_place_in_the_home_is_told_with_it(own_home: Path) -> None:
    own_home.mkdir()
    (own_home / "images").write_text("no folder")
    with pytest.raises(MachineError, match=r"images.* cannot be written"):
        sealed(own_home / "images" / "key", "part", filled, about={})


def test_room_is_tried_where_a_folder_would_be_made(own_home: Path) -> None:
    assert room.no_room(own_home / "not" / "yet" / "there") is None
    assert not own_home.exists()


def test_a_home_that_is_no_folder_is_the_users_mistake(own_home: Path, call: Call) -> None:
    own_home.write_text("")
    with pytest.raises(HomeError, match="no folder"):
        home()
    status, _, errors = call("machines", "list")
    assert status == 2
    assert "LEGACYPROOF_HOME" in errors
