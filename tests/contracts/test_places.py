"""Paths into JSON, XML and INI files: what they mean, and that nothing else is accepted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.places import MAX_STEPS, PlaceError, XmlPlace, XmlStep, ini_place, json_place, xml_place


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$", ()),
        ("$.a", ("a",)),
        ("a.b[0][12].c-d", ("a", "b", 0, 12, "c-d")),
        ("$[3]", (3,)),
        ('$["any name"].x', ("any name", "x")),
        ("$['it''s']", None),
        (r'$["say \"x\" and \\"]', ('say "x" and \\',)),
        ("$.straße", ("straße",)),
        ("$['']", ("",)),
    ],
)
def test_json_paths(path: str, steps: tuple[str | int, ...] | None) -> None:
    if steps is None:
        with pytest.raises(PlaceError):
            json_place(path)
    else:
        assert json_place(path) == steps


@pytest.mark.parametrize(
    "path",
    ["$x", "$.", "$..a", "$.a[*]", "$.a[-1]", "$.a[?(@.b)]", "a b", "$[", "$[01x]", "$.a[]", "$.1a", '$["a]', "x" * 3 + "[9999999999]"],
)  # fmt: skip
def test_what_is_no_json_path(path: str) -> None:
    with pytest.raises(PlaceError):
        json_place(path)


@given(st.lists(st.text(max_size=20) | st.integers(0, 999_999_999), max_size=20))
def test_every_name_can_be_written(steps: list[str | int]) -> None:
    def written(step: str | int) -> str:
        if isinstance(step, int):
            return f"[{step}]"
        return '["' + step.replace("\\", "\\\\").replace('"', '\\"') + '"]'

    assert json_place("$" + "".join(map(written, steps))) == tuple(steps)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/a/b", XmlPlace((XmlStep("a"), XmlStep("b")))),
        ("a/b[2]/@id", XmlPlace((XmlStep("a"), XmlStep("b", None, 2)), "id")),
        ("a[@x='1']/b-c.d", XmlPlace((XmlStep("a", ("x", "1")), XmlStep("b-c.d")))),
        ('a[@x="it\'s"][3]', XmlPlace((XmlStep("a", ("x", "it's"), 3),))),
    ],
)
def test_xml_paths(path: str, place: XmlPlace) -> None:
    assert xml_place(path) == place


@pytest.mark.parametrize(
    "path", ["", "/", "//a", "a//b", "a/", "@id", "a/@id/b", "a[0]", "a[x]", "a[@x]", "*", "a/..", "a[1]b", "a/text()"]
)
def test_what_is_no_xml_path(path: str) -> None:
    with pytest.raises(PlaceError):
        xml_place(path)


def test_ini_paths() -> None:
    assert ini_place("Printer/Port") == ("Printer", "Port")
    assert ini_place("Software/Paths/Data") == ("Software/Paths", "Data")
    assert ini_place("/Key") == ("", "Key")
    for path in ("Key", "Section/", ""):
        with pytest.raises(PlaceError):
            ini_place(path)


def test_paths_are_bounded() -> None:
    with pytest.raises(PlaceError):
        json_place("[0]" * (MAX_STEPS + 1))
    with pytest.raises(PlaceError):
        xml_place("a/" * MAX_STEPS + "a")


@given(st.text(max_size=60))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    for parse in (json_place, xml_place, ini_place):
        try:
            parse(text)
        except PlaceError:
            continue
