"""Which characters do not arrive is told from what a program holds, whatever happened to the others."""

from __future__ import annotations

import string

import pytest

from runner.doctor.keyboard import LETTERS, SIGNS, arrived, others, told, told_of_others, typed


def through(characters: str, table: dict[str, str]) -> str:
    """What a program holds when each key gives what the table says."""
    return "".join(table.get(character, character) for character in typed(characters))


def test_everything_that_arrives_is_fine() -> None:
    for characters in (SIGNS, LETTERS):
        assert arrived(characters, typed(characters)) == {}
        assert told("keyboard", characters, {}).ok is True


def test_the_characters_are_those_that_go_wrong_elsewhere() -> None:
    assert set(string.ascii_letters + string.digits + "@{}[]\\|~^'\"`<>") <= set(SIGNS)
    assert set("äöüÄÖÜß€") <= set(LETTERS)


def test_swapped_keys_are_told_with_the_layout_to_set() -> None:
    wrong = arrived(SIGNS, through(SIGNS, {"y": "z", "z": "y", "Y": "Z", "Z": "Y", "-": "ß", "[": "ü"}))
    assert wrong == {"y": "z", "z": "y", "Y": "Z", "Z": "Y", "-": "ß", "[": "ü"}
    finding = told("keyboard", SIGNS, wrong)
    assert finding.ok is False
    assert "y arrives as 'z'" in finding.message
    assert "German layout" in finding.remedy


def test_lost_characters_are_told_as_lost() -> None:
    wrong = arrived(LETTERS, through(LETTERS, dict.fromkeys("ä€ß", "")))
    assert wrong == {"ä": "", "€": "", "ß": ""}
    finding = told("keyboard", LETTERS, wrong)
    assert "€ does not arrive" in finding.message
    assert "layout that has them" in finding.remedy


def test_dead_keys_that_take_the_next_letter_are_seen() -> None:
    text = typed(SIGNS).replace("^a", "â").replace("`a", "à")
    wrong = arrived(SIGNS, text)
    assert wrong == {"^": "â", "`": "à"}
    assert "dead keys" in told("keyboard", SIGNS, wrong).remedy


def test_a_layout_where_the_a_lies_elsewhere_does_not_make_all_wrong() -> None:
    wrong = arrived(SIGNS, through(SIGNS, {"a": "q", "q": "a", "w": "z", "z": "w"}))
    assert wrong == {"a": "q", "q": "a", "w": "z", "z": "w"}
    assert "French" in told("keyboard", SIGNS, wrong).remedy


@pytest.mark.parametrize("at", [0, 17, 93])
def test_a_lost_line_end_spoils_its_neighbours_only(at: int) -> None:
    lines = typed(SIGNS).split("\n")
    text = "\n".join([*lines[:at], "".join(lines[at : at + 2]), *lines[at + 2 :]]) if at < 93 else "\n".join(lines[:-1])
    wrong = arrived(SIGNS, text)
    assert wrong
    assert set(wrong) <= set(SIGNS[at : at + 2])


def test_nothing_at_all_is_everything_lost() -> None:
    assert set(arrived(SIGNS, "")) == set(SIGNS)
    assert "94 do not arrive" in told("keyboard", SIGNS, arrived(SIGNS, "")).message


def test_many_wrong_ones_are_told_in_one_line_of_bounded_length() -> None:
    finding = told("keyboard", SIGNS, dict.fromkeys(SIGNS, "x"))
    assert "and 82 more" in finding.message
    assert len(finding.message) < 600


@pytest.mark.parametrize("page", [1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258, 874, 850, 437])
def test_every_printable_character_of_a_code_page_is_tried(page: int) -> None:
    printable = {
        c for byte in range(0x80, 0x100) if (c := bytes([byte]).decode(f"cp{page}", "ignore")) and c.isprintable()
    }
    assert set(others(page)) | (set(LETTERS) & printable) == printable
    assert not set(others(page)) & set(SIGNS + LETTERS)
    assert len(others(page)) == len(set(others(page)))


def test_the_lost_e_with_two_dots_is_among_those_of_western_europe() -> None:
    assert "ë" in others(1252)


@pytest.mark.parametrize("page", [65001, 0, 99999])
def test_of_a_code_page_that_is_not_known_those_of_western_europe_are_tried(page: int) -> None:
    assert others(page) == others(1252)


@pytest.mark.parametrize("page", [932, 936, 949, 950])
def test_of_east_asian_code_pages_no_character_of_two_bytes_is_tried(page: int) -> None:
    assert 0 < len(others(page)) <= 128


def test_characters_that_a_keyboard_need_not_have_are_named_every_one() -> None:
    characters = others(1252)
    finding = told_of_others("keyboard", characters, {**dict.fromkeys(characters[:-1], ""), characters[-1]: "y"})
    assert finding.ok is True  # no keyboard has them all
    assert all(f" {character}" in finding.message for character in characters[:-1])
    assert f"{characters[-1]} as 'y'" in finding.message
    assert "let contracts do without these" in finding.remedy
    assert told_of_others("keyboard", characters, {}).message.startswith(f"all {len(characters)} characters")
