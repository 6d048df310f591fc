"""What Windows' own functions make of INI files and registry values, asked inside an embedded machine, is what rules see."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from contracts.schema import IniAt
from runner.machines.base import Tag
from runner.machines.wine import WineCheckpoint
from tests.peers.windows_functions import WindowsFunctions
from validators.changes import CellState
from validators.formats.ini_file import ini_value
from validators.formats.text import Absent
from validators.registry import EXPAND_SZ, MULTI_SZ, SZ, data_cell

pytestmark = pytest.mark.machine
FILES = 300


@pytest.fixture(scope="module")
def windows(checkpoint: WineCheckpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WindowsFunctions]:
    machine = checkpoint.clone(Tag("tests", "functions"))
    yield WindowsFunctions(machine.guest, tmp_path_factory.mktemp("oracle"))
    machine.discard()


# --- INI files --------------------------------------------------------------------------------------------------------

SECTIONS = ["A", "a", "B", "Ab c", "ä", "A]", "\u00a0A", ""]
KEYS = ["k", "K", "key two", "ö", "[k", "\u00a0k", "k\u00a0", "#k", "k;", '"k"', "\u3000"]
VALUES = ["", "1", "two words", "a=b", "=", '"q"', "'q'", "\"q'", '"', "''", '""', '" q "', "'\"q\"'", "; no comment", "v ; c", "ü€", "\u00a0v\u00a0", "\u2003v\x85",
          "[A]", "]", "x" * 3000, "\u2028", "\ufeffv", "%PATH%", "\\", "\x01"]  # fmt: skip
BLANKS = ["", "", "", " ", "\t", " \t ", "\v", "\f", "\x1a", "\u00a0", "\u3000", "\x85"]
ENDS = ["\r\n", "\r\n", "\n", "\r", "\r\r\n", "\n\r\n"]
RUBBISH = [
    "",
    " ",
    ";k=9",
    "; [A]",
    "no equals",
    "=",
    "=x",
    "[",
    "[A",
    "]",
    "[]",
    "\0",
    "\x1a",
    "k",
    "K ",
    "\ufeff",
    "//",
    "[A]k=1",
]


def some_file(pick: random.Random, sections: list[str], keys: list[str]) -> str:
    def blank() -> str:
        return pick.choice(BLANKS)

    lines = []
    for _ in range(pick.randint(0, 14)):
        match pick.randint(0, 9):
            case 0 | 1:
                header = f"[{blank()}{pick.choice(sections)}{blank()}]"
                lines.append(blank() + header + blank() + pick.choice(["", "", "x", "]"]))
            case 2:
                lines.append(pick.choice(RUBBISH))
            case 3:
                line = f"{pick.choice(keys)}={pick.choice(VALUES)}"
                at = pick.randint(0, len(line))
                lines.append(line[:at] + "\0" + line[at:])
            case _:
                lines.append(f"{blank()}{pick.choice(keys)}{blank()}={blank()}{pick.choice(VALUES)}{blank()}")
    return "".join(line + pick.choice(ENDS) for line in lines[:-1]) + "".join(lines[-1:]) + pick.choice(["", "\r\n"])


def read(data: bytes, section: str, key: str, encoding: str | None) -> str | None:
    at = IniAt.model_validate({"ini": f"{section}/{key}", "encoding": encoding})
    try:
        return ini_value(at, data)
    except Absent:
        return None


@pytest.mark.parametrize("mark", ["utf-16-le", "utf-16-be", "utf-8-sig", "ansi"])
def test_ini_files_are_read_as_windows_reads_them(windows: WindowsFunctions, mark: str) -> None:
    """Not asked here, since Wine and Windows differ: names that are equal but for the case of letters beyond ASCII."""
    pick = random.Random(mark)
    cases: list[tuple[bytes, list[tuple[str, str]]]] = []
    for _ in range(FILES):
        sections, keys = pick.sample(SECTIONS, 2), pick.sample(KEYS, 3)
        text = some_file(pick, sections, keys)
        if mark == "ansi":
            data = text.encode("cp1252", "replace")
        elif mark == "utf-8-sig":
            data = text.encode(mark)
        else:
            data = ("\ufeff" + text).encode(mark)
        cases.append((data, [(section, key) for section in dict.fromkeys([*sections, ""]) for key in keys]))
    encoding, answers = windows.ini(cases)
    assert encoding == "cp1252"
    declared = encoding if mark == "ansi" else None
    found = 0
    for (data, asked), values in zip(cases, answers, strict=True):
        for (section, key), value in zip(asked, values, strict=True):
            assert read(data, section, key, declared) == value, (data, section, key)
            found += value is not None
    assert found > FILES  # the files hold what was asked for often enough


def test_every_character_around_names_and_values(windows: WindowsFunctions) -> None:
    """Each character of the basic plane that might be taken for a blank, a quote or an end."""
    codes = [*range(0x180), *range(0x2000, 0x2070), 0x1680, 0x180E, 0x3000, 0xFEFF, 0xFFFD]
    cases = []
    for code in codes:
        sign = chr(code)
        body = f"\ufeff[{sign}A{sign}]\r\n{sign}k{sign}={sign}v{sign}\r\n[A]\r\nk=2\r\n"
        cases.append((body.encode("utf-16-le"), [("A", "k"), ("A", "v"), ("", "k")]))
    _, answers = windows.ini(cases)
    for (data, asked), values in zip(cases, answers, strict=True):
        assert [read(data, *pair, None) for pair in asked] == values, data.decode("utf-16")


# --- registry values --------------------------------------------------------------------------------------------------


def program_sees(kind: int, given: bytes) -> Any:
    """What a program makes of the bytes that ``RegGetValueW`` gave it: C strings."""
    text = given.decode("utf-16-le")
    return text.rstrip("\0").replace("\0", "\n") if kind == MULTI_SZ else text.partition("\0")[0]


def test_strings_of_the_registry_are_what_programs_get(windows: WindowsFunctions) -> None:
    pick = random.Random(7)
    parts = ["a", "Grüße", "\0", "\0", "\0\0", "x y", "%TEMP%", "\U0001f600"]
    cases = []
    for _ in range(600):
        text = "".join(pick.choices(parts, k=pick.randint(0, 7)))
        cases.append((pick.choice([SZ, EXPAND_SZ, MULTI_SZ]), text.encode("utf-16-le")))
    for (kind, data), given in zip(cases, windows.registry(cases), strict=True):
        assert given is not None
        cell = data_cell(kind, data)
        assert cell.state in (CellState.VALUE, CellState.BLANK), data
        assert cell.raw == data
        assert (cell.value or "") == program_sees(kind, given), data
