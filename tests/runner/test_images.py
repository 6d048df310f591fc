"""Images: manifests that say what a machine is made of, found by name, told apart by their fingerprint."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contracts.load import ContractError
from runner.machines import base
from runner.machines.base import Freshness, MachineError, MachineProvider, Tag, home, provider
from runner.machines.images import FOLDER, Image, available, find_image, sources

MANIFEST = """\
schema: 1
name: desk
provider: wine
summary: A desk.
programs:
  app: {recipe: apps/app, executable: build/APP.EXE, to: 'C:\\APP', start: 'C:\\APP\\APP.EXE', window: App}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of images that is looked at first, with one image."""
    made = tmp_path / "images"
    (made / "apps" / "app" / "src").mkdir(parents=True)
    (made / "apps" / "app" / "Makefile").write_text("all:\n")
    (made / "apps" / "app" / "src" / "main.c").write_text("int main(void) { return 0; }\n")
    (made / "desk.yaml").write_text(MANIFEST)
    monkeypatch.setenv("LEGACYPROOF_IMAGES", str(made))
    return made


def refused(folder: Path, text: str) -> str:
    (folder / "desk.yaml").write_text(text)
    with pytest.raises(ContractError) as caught:
        find_image("desk")
    return str(caught.value)


# --- finding ----------------------------------------------------------------------------------------------------------


def test_an_image_by_name(folder: Path) -> None:
    image = find_image("desk")
    assert (image.path, image.folder, image.manifest.name) == (folder / "desk.yaml", folder, "desk")
    assert (image.manifest.display.width, image.manifest.display.height) == (1024, 768)
    assert image.manifest.programs["app"].window == "App"


def test_the_images_of_the_house_are_found_and_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEGACYPROOF_IMAGES", raising=False)
    for path in FOLDER.glob("*.yaml"):
        image = find_image(path.stem)
        assert image.manifest.name == path.stem
        for program in image.manifest.programs.values():
            assert program.recipe is None or (image.folder / program.recipe / "Makefile").is_file()
        assert len(image.fingerprint()) == 64


def test_ones_own_folders_come_before_the_house(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = tmp_path / "later"
    later.mkdir()
    (later / "desk.yaml").write_text(MANIFEST.replace("A desk.", "Another desk."))
    (later / "other.yaml").write_text(MANIFEST.replace("name: desk", "name: other"))
    monkeypatch.setenv("LEGACYPROOF_IMAGES", os.pathsep.join([str(folder), "", str(later)]))
    assert find_image("desk").manifest.summary == "A desk."
    assert find_image("other").path == later / "other.yaml"
    assert find_image("dentadesk").folder == FOLDER


def test_an_image_that_there_is_not_names_those_there_are(folder: Path) -> None:
    with pytest.raises(LookupError, match=r"there is no image 'dusk'; there are: .*desk"):
        find_image("dusk")


def test_contracts_and_scripts_beside_an_image_are_no_images(folder: Path) -> None:
    (folder / "contract.yaml").write_text("schema: 1\nid: a.b\nenvironment: {image: desk, provider: wine}\n")
    (folder / "script.yaml").write_text("steps:\n  - type: text\n")
    (folder / "broken-script.yaml").write_text("steps: [\n  provider: wine\n")
    (folder / "list.yaml").write_text("- provider: wine\n")
    (folder / "folder.yaml").mkdir()
    assert [name for name in available() if find_image(name).folder == folder] == ["desk"]
    with pytest.raises(LookupError) as caught:
        find_image("dusk")
    assert "contract" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        MANIFEST.replace("summary", "sumary"),
        "schema: 1\nprovider: wine\nprograms: [\n",
        "{schema: 1, name: bad, provider: wine}\n",
        "provider: wine\n" + "#" * (1 << 20),
    ],
    ids=["model", "syntax", "flow", "too large"],
)
def test_an_image_with_a_fault_is_still_among_those_there_are(folder: Path, text: str) -> None:
    (folder / "bad.yaml").write_text(text)
    assert "bad" in available()
    with pytest.raises(ContractError, match=r"bad\.yaml"):
        find_image("bad")


def test_images_come_in_the_order_in_which_they_are_looked_for(folder: Path) -> None:
    (folder / "zz.yaml").write_text(MANIFEST.replace("name: desk", "name: zz"))
    (folder / "dentadesk.yaml").write_text("id: a contract that bears an image's name\n")
    there = available()
    assert there[:2] == ["desk", "zz"]
    assert there[2:] == sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != "dentadesk")


def test_a_manifest_under_another_name_is_refused(folder: Path) -> None:
    assert "name" in refused(folder, MANIFEST.replace("name: desk", "name: other"))


# --- manifests that are refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("schema: 1", "schema: 2", 1),
        ("name: desk", "name: Desk", 2),
        ("provider: wine", "provider: ../wine", 3),
        ("summary: A desk.", "sumary: A desk.", 4),
        ("summary: A desk.", "summary: A desk.\ndisplay: {width: 10}", 5),
        ("summary: A desk.", "summary: A desk.\ntimezone: 'Europe/Berlin; rm'", 5),
        ("recipe: apps/app", "recipe: ../app", 6),
        ("recipe: apps/app", "recipe: apps/../../app", 6),
        ("recipe: apps/app", "recipe: /apps/app", 6),
        ("recipe: apps/app", "recipe: apps//app", 6),
        ("recipe: apps/app", "recipe: .git/app", 6),
        ("recipe: apps/app", 'recipe: "apps/app\\n"', 6),
        ("executable: build/APP.EXE", "executable: ../APP.EXE", 6),
        ("start: 'C:\\APP\\APP.EXE'", "start: 'APP.EXE'", 6),
        ("to: 'C:\\APP'", "to: 'C:\\..\\APP'", 6),
        ("start: 'C:\\APP\\APP.EXE', ", "", 6),
    ],
)
def test_a_manifest_that_is_wrong_is_told_with_its_line(folder: Path, old: str, new: str, line: int) -> None:
    assert old in MANIFEST
    assert f"desk.yaml:{line}:" in refused(folder, MANIFEST.replace(old, new))


def test_a_manifest_that_cannot_be_read(folder: Path) -> None:
    assert "desk.yaml" in refused(folder, "\0")
    assert "desk.yaml" in refused(folder, "a: [")


# --- fingerprints -----------------------------------------------------------------------------------------------------


def edit(path: Path, text: str) -> Callable[[Path], Any]:
    def write(folder: Path) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)

    return write


APP = Path("apps/app")
COUNTS: dict[str, Callable[[Path], Any]] = {
    "manifest": edit(Path("desk.yaml"), MANIFEST.replace("A desk.", "My desk.")),
    "source": edit(APP / "src/main.c", "int main(void) { return 1; }\n"),
    "new source": edit(APP / "src/new.c", ""),
    "removed source": lambda folder: (folder / APP / "src/main.c").unlink(),
    "renamed source": lambda folder: (folder / APP / "src/main.c").rename(folder / APP / "src/app.c"),
}
DOES_NOT: dict[str, Callable[[Path], Any]] = {
    "built": edit(APP / "build/APP.EXE", "MZ"),
    "built deeper": edit(APP / "src/build/x/main.o", "object"),
    "cache": edit(APP / "__pycache__/seed.pyc", "x"),
    "other recipe": edit(Path("apps/other/Makefile"), "all:\n"),
    "other image": edit(Path("other.yaml"), MANIFEST),
    "empty folder": lambda folder: (folder / APP / "empty").mkdir(),
    "time": lambda folder: os.utime(folder / APP / "Makefile", (1, 1)),
}


@pytest.mark.parametrize("what", COUNTS)
def test_what_an_image_is_made_of_counts(folder: Path, what: str) -> None:
    before = find_image("desk").fingerprint()
    COUNTS[what](folder)
    assert find_image("desk").fingerprint() != before


@pytest.mark.parametrize("what", DOES_NOT)
def test_what_is_built_of_it_or_beside_it_does_not(folder: Path, what: str) -> None:
    before = find_image("desk").fingerprint()
    DOES_NOT[what](folder)
    assert find_image("desk").fingerprint() == before


def test_where_an_image_lies_does_not_count(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    folder_copy = Image(find_image("desk").manifest, elsewhere / "desk.yaml")
    before = find_image("desk").fingerprint()
    folder.rename(elsewhere)
    assert folder_copy.fingerprint() == before


def test_what_else_an_image_depends_on_counts_in_its_order(folder: Path) -> None:
    image = find_image("desk")
    prints = {image.fingerprint(*extra) for extra in ((), ("",), ("a",), ("a", "b"), ("b", "a"), ("ab",))}
    assert len(prints) == 6


def test_bytes_that_move_from_one_file_to_the_next_count(folder: Path) -> None:
    edit(APP / "src/a.c", "xy")(folder)
    edit(APP / "src/b.c", "z")(folder)
    before = find_image("desk").fingerprint()
    edit(APP / "src/a.c", "x")(folder)
    edit(APP / "src/b.c", "yz")(folder)
    assert find_image("desk").fingerprint() != before


def test_sources_come_in_a_fixed_order(folder: Path) -> None:
    assert [path.name for path in sources(folder / APP)] == ["Makefile", "main.c"]


# --- tags, proofs, providers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["", "..", "a/b", "a b", "ä", "a\n", "-x", "x" * 201, "a;b", "$(x)"])
def test_what_is_not_fit_for_a_tag(value: str) -> None:
    with pytest.raises(ValueError, match="not fit for a tag"):
        Tag(value, "run")
    with pytest.raises(ValueError, match="not fit for a tag"):
        Tag("campaign", value)


def test_a_proof_of_freshness_as_plain_data() -> None:
    proof = Freshness("a" * 64, ("b" * 64,), "nonce", "boot", 0.25, 3600, "c" * 64)
    assert proof.as_dict() == {
        "base": "a" * 64, "layers": ["b" * 64], "nonce": "nonce", "boot": "boot", "clock_offset": 0.25, "utc_offset": 3600,
        "image": "c" * 64,
    }  # fmt: skip


def test_where_everything_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LEGACYPROOF_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert home() == tmp_path / "cache" / "legacyproof"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home() == tmp_path / ".cache" / "legacyproof"
    monkeypatch.setenv("LEGACYPROOF_HOME", "mine")
    assert home() == Path("mine").absolute()


class Entry:
    """An entry point that loads what it is told, or fails to."""

    name = "theirs"

    def __init__(self, made: Any) -> None:
        self._made = made

    def load(self) -> Any:
        if isinstance(self._made, BaseException):
            raise self._made
        return self._made


class Theirs:
    """The methods of a provider."""

    def prepare(self, image: Any, setup: Any, start: Any, *, folder: Path) -> Any:
        raise NotImplementedError

    def leftovers(self) -> list[Any]:
        return []

    def reap(self, leftover: Any) -> None:
        raise NotImplementedError


def plugged_in(monkeypatch: pytest.MonkeyPatch, made: Any) -> None:
    monkeypatch.setattr(base, "entry_points", lambda group: [Entry(made)] if group == "legacyproof.machines" else [])


def test_providers_of_the_house_and_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    plugged_in(monkeypatch, Theirs)
    assert isinstance(provider("theirs"), Theirs)
    assert isinstance(provider("wine"), MachineProvider)
    with pytest.raises(MachineError, match="unknown machine provider 'other'; known: libvirt, theirs, wine"):
        provider("other")


def test_a_plug_in_that_is_no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    plugged_in(monkeypatch, object)
    with pytest.raises(MachineError, match="'theirs' is no machine provider"):
        provider("theirs")


@pytest.mark.parametrize(
    "made", [ImportError("no libvirt"), 5, lambda _wanted: None], ids=["import", "number", "signature"]
)
def test_a_plug_in_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch, made: Any) -> None:
    plugged_in(monkeypatch, made)
    with pytest.raises(MachineError, match="theirs"):
        provider("theirs")
