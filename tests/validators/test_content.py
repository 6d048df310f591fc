"""Rules about what a file holds: JSON, XML, INI, CSV; what is not found says why; hostile files never raise."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import time
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from contracts.places import INI_BLANKS
from contracts.schema import Content, parts
from validators.changes import Cell, Change, ContractFault, KeptFile, Kind, Unreadable, Verb
from validators.content import Check, check_content, value_at
from validators.formats.text import Absent
from validators.matchers import RunContext
from validators.registry import folded_name

CONTENT: TypeAdapter[Content] = TypeAdapter(Content)
NEW = Change("patients", Verb.INSERTED, "x", 1, after={"NAME": Cell(Kind.TEXT, "Huber   ")})
RUN = RunContext(
    datetime(2026, 11, 29, 9), datetime(2026, 11, 29, 10), {"total": 12.5}, {"new": NEW}  # noqa: DTZ001
)  # fmt: skip


def file(data: bytes | None, **about: Any) -> KeptFile:
    size = Cell(Kind.NUMBER, Decimal(len(data or b"")), has_blank=False)
    known: dict[str, Any] = {"name": "disk: x", "path": "x", "kind": "file", "size": size, "sha256": "", "data": data}
    return KeptFile(**(known | about))


def check(rule: Any, data: bytes | None, **about: Any) -> Check:
    (found,) = check_content(CONTENT.validate_python(rule), file(data, **about), RUN)
    return found


def fits(rule: Any, data: bytes) -> bool:
    return check(rule, data).fits


# --- text, hash, size -------------------------------------------------------------------------------------------------


def test_a_folder_where_a_file_is_expected_does_not_fit_and_is_not_unreadable() -> None:
    found = check("text", None, kind="dir")
    assert (found.fits, found.found) == (False, "a folder")


def test_content_that_was_not_kept_is_unreadable_only_where_it_is_needed() -> None:
    with pytest.raises(Unreadable, match="disk: x: larger than"):
        check({"json": "$.a", "is": 1}, None, missing="larger than 16 MiB")
    sha256 = hashlib.sha256(b"x").hexdigest()
    assert check({"sha256": sha256}, None, sha256=sha256).fits
    assert check({"size": 0}, None).fits


def test_utf_16_text_as_declared() -> None:
    assert fits({"text": "Größe", "encoding": "utf-16"}, "Größe".encode("utf-16"))
    assert fits({"text": "Größe", "encoding": "utf-16-le"}, "Größe".encode("utf-16-le"))
    assert "declare its `encoding`" in check("Größe", "Größe".encode("cp1252")).hint


# --- JSON -------------------------------------------------------------------------------------------------------------

EXPORT = (
    '{"nr": "000104", "sum": 12.50, "n": 3, "ok": true, "none": null, "visits": [{"day": "2026-11-29"}, []], "ä ö": 1}'
)


@pytest.mark.parametrize(
    ("path", "matcher", "expected"),
    [
        ("$.nr", "000104", True),
        ("nr", "000105", False),
        ("$.n", 3, True),
        ("$.n", "3", False),
        ("$.nr", 104, False),
        ("$.sum", 12.5, True),
        ("$.sum", {"number": 12, "tolerance": "0.5"}, False),
        ("$.ok", True, True),
        ("$.ok", 1, False),
        ("$.none", {"is": "null"}, True),
        ("$.visits[0].day", {"date": "today"}, True),
        ("$.visits[0].day", {"regex": r"\d{4}-.*"}, True),
        ('$["ä ö"]', {"between": [1, 2]}, True),
        ("$.sum", {"returned": "total"}, True),
        ("$.nr", {"not": "1"}, True),
    ],
)
def test_values_of_json(path: str, matcher: Any, expected: bool) -> None:
    if isinstance(matcher, float):
        matcher = Decimal(str(matcher))
    if isinstance(matcher, dict) and "number" in matcher:
        matcher = {"number": matcher["number"], "tolerance": Decimal(matcher["tolerance"])} | {
            "number": Decimal("12.2")
        }
        expected = True
    assert fits({"json": path, "is": matcher}, EXPORT.encode()) is expected


@pytest.mark.parametrize(
    ("path", "data", "why"),
    [
        ("$.x", EXPORT, "$ has no key “x”; there: “nr”, “sum”"),
        ("$.visits[2]", EXPORT, "$.visits has 2 entries, none of number 2"),
        ("$.visits.day", EXPORT, "$.visits is no object"),
        ("$.nr[0]", EXPORT, "$.nr is no list"),
        ("$.a", '{"a": 1, "a": 2}', "“a” more than once"),
        ("$.a", "{", "no JSON"),
        ("$.a", "", "no JSON"),
        ("$.a", '{"a": NaN}', "no JSON"),
        ("$.a", '{"a": 1} x', "no JSON"),
        ("$.a", '{"a": 1e99999}', "digits"),
        ("$.a", '{"a": ' + "9" * 4_000 + "}", "digits"),
        ("$.a", '{"a": ' + "9" * 9_000 + "}", "no JSON"),
        ("$.a", "[" * 200_000, "no JSON"),
        ("$.a", '{"a":' * 50_000, "no JSON"),
    ],
)
def test_a_json_value_that_is_not_there_says_why(path: str, data: str, why: str) -> None:
    for matcher in ("x", {"is": "any", "because": "present"}, {"not": "x"}, {"is": "empty"}):
        found = check({"json": path, "is": matcher}, data.encode())
        assert not found.fits
        assert why in found.found
        assert len(found.found) <= 300


def test_a_list_or_object_is_no_single_value() -> None:
    found = check({"json": "$.visits", "is": {"not": "x"}}, EXPORT.encode())
    assert not found.fits
    assert "list or an object" in found.hint


def test_other_keys_held_twice_do_not_matter() -> None:
    assert fits({"json": "$.b", "is": 3}, b'{"a": 1, "a": 2, "b": 3}')


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_json_by_its_mark(encoding: str) -> None:
    assert fits({"json": '$["ä ö"]', "is": 1}, EXPORT.encode(encoding))


def test_json_in_a_declared_encoding() -> None:
    data = '{"name": "Größe"}'.encode("cp1252")
    assert fits({"json": "$.name", "is": "Größe", "encoding": "cp1252"}, data)
    assert "not utf-8 text" in check({"json": "$.name", "is": "Größe"}, data).found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.data())
def test_every_single_value_of_json_is_found_by_its_path(value: Any, data: st.DataObject) -> None:
    path, here = "$", value
    while isinstance(here, list | dict) and here:
        key = data.draw(st.sampled_from(range(len(here)) if isinstance(here, list) else sorted(here)))
        path += f"[{key}]" if isinstance(key, int) else "[" + json.dumps(key, ensure_ascii=False) + "]"
        here = here[key]
    if r"\u" in path or r"\n" in path or any(escape in path for escape in (r"\r", r"\t", r"\b", r"\f")):
        return  # json.dumps escapes control characters, paths do not
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "surrogatepass")
    if isinstance(here, list | dict):
        return
    wanted: Any = {"is": "null"} if here is None else here
    if here == "":
        wanted = {"is": "blank"}
    assert fits({"json": path, "is": wanted}, text)


# --- XML --------------------------------------------------------------------------------------------------------------

XML = """<?xml version="1.0"?>
<e:export xmlns:e="urn:x" count="2">
  <patient id="1"><name>Alt</name><visit/></patient>
  <patient id="2"><name>Hu<b>be</b>r</name><visit day="29.11."/><visit day="30.11."/></patient>
  <note><![CDATA[a < b]]></note>
</e:export>"""


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/export/@count", "2"),
        ("export/patient[2]/name", "Huber"),
        ("export/patient[@id='1']/name", "Alt"),
        ("export/patient[2]/visit[2]/@day", "30.11."),
        ("export/patient[1]/visit", {"is": "blank"}),
        ("export/note", "a < b"),
    ],
)
def test_values_of_xml(path: str, text: Any) -> None:
    assert fits({"xml": path, "is": text}, XML.encode())


@pytest.mark.parametrize(
    ("path", "data", "why"),
    [
        ("export/patient/name", XML, "several"),
        ("export/name", XML, "no such element"),
        ("patient", XML, "no such element"),
        ("export/patient[1]/visit/@day", XML, "no such attribute"),
        ("a", "<a>", "no XML"),
        ("a", "", "no XML"),
        ("a", "<a/><a/>", "no XML"),
        ("a", "<?xml version='1.0' encoding='nonsense'?><a/>", "no XML"),
        ("a", "<?xml version='1.0' encoding='zlib'?><a/>", "no XML"),
        ("a", "<a>&lol;</a>", "no XML"),
        ("a", '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "document type declaration"),
        ("a", '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "document type declaration"),
        ("a/b", "<a>" * 2_000 + "</a>" * 2_000, "nested deeper"),
        ("a", "<a>" + "x" * ((1 << 20) + 1) + "</a>", "longer than"),
    ],
)
def test_an_xml_value_that_is_not_there_says_why(path: str, data: str, why: str) -> None:
    found = check({"xml": path, "is": {"not": "x"}}, data.encode())
    assert not found.fits
    assert why in found.found


def test_entities_without_end_are_refused_at_once() -> None:
    lines = ['<!ENTITY a "aaaaaaaaaa">', *(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(12))]
    data = f"<!DOCTYPE x [{''.join(lines)}]><x>&m;</x>".encode()
    begun = time.monotonic()
    assert "document type" in check({"xml": "x", "is": "a"}, data).found
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "cp1252"])
def test_xml_in_the_encoding_it_declares(encoding: str) -> None:
    data = f"<?xml version='1.0' encoding='{encoding}'?><a>Größe</a>".encode(encoding)
    assert fits({"xml": "a", "is": "Größe"}, data)


def test_xml_in_a_declared_encoding() -> None:
    assert fits({"xml": "a", "is": "Größe", "encoding": "cp850"}, "<a>Größe</a>".encode("cp850"))


# --- INI --------------------------------------------------------------------------------------------------------------

INI = "\r\n".join(
    [
        "first=0",
        "; comment=1",
        "[Printer]",
        "Port = LPT1",
        'Name="HP  4"',
        "Empty=",
        "noequals",
        "[Übersicht]",
        "Größe=1",
    ]
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("Printer/Port", "LPT1"),
        ("PRINTER/port", "LPT1"),
        ("Printer/Name", "HP  4"),
        ("Printer/Empty", {"is": "blank"}),
        ("/first", "0"),
        ("Übersicht/größe", "1"),
        ("Printer/Port", {"one_of": ["LPT1", "LPT2"]}),
    ],
)
def test_values_of_ini(path: str, value: Any) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert fits({"ini": path, "is": value}, INI.encode(encoding))
    assert fits({"ini": path, "is": value, "encoding": "cp1252"}, INI.encode("cp1252"))


@pytest.mark.parametrize(
    ("path", "data", "why"),
    [
        ("Printer/Paper", INI, "[Printer] has no key Paper; there: “Port”"),
        ("Drucker/Port", INI, "no section [Drucker]"),
        ("Printer/comment", INI, "no key"),
        ("Printer/noequals", INI, "without `=`"),
        ("A/k", "[A\nk=1", "no section"),
        ("A/k", "\0" * 100, "no section"),
    ],
)
def test_an_ini_value_that_is_not_there_says_why(path: str, data: str, why: str | None) -> None:
    found = check({"ini": path, "is": {"not": "x"}}, data.encode())
    assert found.fits is (why is None)
    assert why is None or why in found.found


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("A/k", "[A]\nk=1\nK=2", "1"),
        ("a/K", "[A]\nk=1\n[B]\nk=2\n[A]\nk=3\n", "1"),
        ("A/z", "[A]\nk=1\n[a]\nz=3\n", None),
        ("A/k", "[A]\nk\nk=2\n", None),
        ("A/k", "[A]\nk=\u00a0v\u00a0", "\u00a0v\u00a0"),
        ("A/\u00a0k", "[A]\n\u00a0k=1", "1"),
        ("A/k", "[A]\n\u00a0k=1", None),
        ("A/k", "[A]\nk=\u2003\x85v\u3000", "\u2003\x85v\u3000"),
        ("A/k", "[A]\n\x1a k\t =\v\f v \x1a", "v"),
        ("A/k", "[A]\nk=a\0b\n", "a"),
        ("A/k", "[A\0B]\nk\0x=1\n", "1"),
        ("A/k", "[ A ]\rk=1\r\rl=2", "1"),
        ("A/l", "[A] rest\rk=1\n\rl=2", "2"),
        ("B]/k", "[B]]\nk=1", "1"),
        ("/k", "[A\nk=1", "1"),
        ("/k", "x=1\n[]\nk=1", None),
        ("A/k", "[A]\nk==a=b=", "=a=b="),
        ("A/k", "[A]\nk=;x ; y", ";x ; y"),
        ("A/k", "[A]\n;k=1", None),
        ("A/k", "[A]\nk=' \"a\" '", ' "a" '),
        ("A/k", "[A]\nk='a\"", "'a\""),
        ("A/k", '[A]\nk="', '"'),
        ("A/k", '[A]\nk=""', ""),
        ("A/Größe", "[A]\nGRÖSSE=1\ngrÖße=2", "2"),
    ],
)
def test_ini_files_are_read_as_windows_reads_them(path: str, text: str, value: str | None) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        place = CONTENT.validate_python({"ini": path, "is": {"is": "any", "because": "test"}})
        try:
            found = value_at(place, file(text.encode(encoding)), RUN)  # type: ignore[arg-type]
        except Absent:
            assert value is None
        else:
            assert (found.value or "") == value


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n=;[]/\0\"'"), min_size=1, max_size=8).filter(
    lambda name: name == name.strip(INI_BLANKS)
)
LINES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=10)


@given(st.dictionaries(NAMES, LINES, min_size=1, max_size=6), st.data())
def test_every_ini_value_is_found(values: dict[str, str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(values)))
    text = "[S]\n" + "\n".join(f"{key}={value}" for key, value in values.items())
    first = next(value for key, value in values.items() if folded_name(key) == folded_name(name))
    wanted: Any = first.strip(INI_BLANKS)
    if len(wanted) > 1 and wanted[0] == wanted[-1] and wanted[0] in "\"'":
        wanted = wanted[1:-1]
    assert fits({"ini": f"S/{name}", "is": wanted or {"is": "blank"}}, text.encode())


# --- CSV --------------------------------------------------------------------------------------------------------------

CSV = 'Nr;Name;Betrag\r\n000104;"Huber; Karl";12.50\r\n\r\n000105;"Muster ""M""";3\r\n000106;"two\nlines";\r\n'


def csv_rule(row: Any, column: Any, **about: Any) -> dict[str, Any]:
    return {"csv": {"row": row, "column": column, "delimiter": ";", **about}}


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        ({"Nr": "000104"}, "Name", "Huber; Karl"),
        ({"Nr": "000104"}, "Betrag", {"number": Decimal("12.5")}),
        (2, "Name", 'Muster "M"'),
        (2, 1, "000105"),
        ({"Nr": {"regex": ".*6"}, "Betrag": {"is": "blank"}}, 2, "two\nlines"),
        ({"Betrag": {"between": [Decimal("12.4"), 13]}}, "Nr", "000104"),
    ],
)
def test_values_of_csv(row: Any, column: Any, value: Any) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert fits({**csv_rule(row, column), "is": value}, CSV.encode(encoding))


def test_csv_without_a_header() -> None:
    assert fits({**csv_rule(1, 2, header=False), "is": "Name"}, CSV.encode())


@pytest.mark.parametrize(
    ("row", "column", "data", "why"),
    [
        ({"Nr": "1"}, "Name", CSV, "no row fits"),
        ({"Name": {"not": "x"}}, "Nr", CSV, "several rows fit"),
        ({"Nummer": "1"}, "Name", CSV, "no column “Nummer”; there: “Nr”, “Name”"),
        (9, "Name", CSV, "no row 9"),
        (1, 4, CSV, "has 3 columns"),
        (1, "Nr", "Nr;Nr\n1;2", "2 columns are named"),
        (1, "Nr", "", "no line that names"),
        (1, "Nr", 'Nr\n"open', "no CSV"),
        (1, "Nr", 'sep=;\nNr;Name\n"a"b;c', "line 3 is no CSV"),
        (1, "Nr", "Nr,Name\n1,x", "declare `delimiter`"),
        (1, "Name", "Nr;Name\n1", "has 1 columns"),
    ],
)
def test_a_csv_cell_that_is_not_there_says_why(row: Any, column: Any, data: str, why: str) -> None:
    found = check({**csv_rule(row, column), "is": {"not": "x"}}, data.encode())
    assert not found.fits
    assert why in found.found


@pytest.mark.parametrize("length", [131_072, 131_073, 3_000_000])
@pytest.mark.parametrize("quote", ['"', ""])
def test_a_csv_field_may_be_as_long_as_the_file(length: int, quote: str) -> None:
    limit = csv.field_size_limit()
    text = f"Nr;Name\n1;{quote}{'x' * length}{quote}\n2;Weber\n"
    assert fits({**csv_rule({"Nr": "2"}, "Name"), "is": "Weber"}, text.encode())
    assert fits({**csv_rule({"Nr": "1"}, "Name"), "is": "x" * length}, text.encode())
    assert csv.field_size_limit() == limit  # the process's own, which others rely on
    with pytest.raises(csv.Error, match="field limit"):
        next(csv.reader(["x" * (limit + 1)]))


@pytest.mark.parametrize("sign", list(",;|\t^ x~§"))
@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
def test_a_first_line_may_name_the_delimiter_of_csv(sign: str, end: str) -> None:
    lines = [f"Nr{sign}Name", f"1{sign}Huber", f"2{sign}Weber"]
    for first in (f"sep={sign}", f"SEP={sign}"):
        text = end.join([first, *lines, ""])
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            for declared in (";", ",", sign):
                rule = csv_rule({"Nr": "2"}, "Name", delimiter=declared)
                assert fits({**rule, "is": "Weber"}, text.encode(encoding))
                assert fits({**csv_rule(1, 2, delimiter=declared, header=False), "is": "Name"}, text.encode(encoding))


@pytest.mark.parametrize("first", ["sep=", "sep=;;", "sep= ;", " sep=;", "sep=;x", "x\nsep=;"])
def test_a_line_that_only_looks_like_one_that_names_the_delimiter_is_a_row(first: str) -> None:
    text = f"{first}\nNr,Name\n"
    assert not fits({**csv_rule(1, 1, delimiter=",", header=False), "is": "Nr"}, text.encode())


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=10)


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=6), st.data())
def test_every_cell_of_csv_is_found(rows: list[list[str]], data: st.DataObject) -> None:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=";", quoting=csv.QUOTE_ALL)
    writer.writerows([["a", "b", "c"], *rows])
    row = data.draw(st.integers(1, len(rows)))
    column = data.draw(st.integers(1, 3))
    wanted: Any = rows[row - 1][column - 1] or {"is": "blank"}
    rule = {**csv_rule(row, data.draw(st.sampled_from([column, "abc"[column - 1]]))), "is": wanted}
    assert fits(rule, out.getvalue().encode())


# --- hostile ----------------------------------------------------------------------------------------------------------

RULES: list[dict[str, Any]] = [
    {"json": "$.a.b[0]", "is": "x"}, {"xml": "a/b[1]/@c", "is": "x"}, {"ini": "a/b", "is": "x"}, {"text": "x"},
    {"csv": {"row": {"a": "1"}, "column": 2}, "is": "x"}, {"image": {"width": 1, "blank": False}},
]  # fmt: skip
FRAGMENTS = st.sampled_from(
    [b"{", b'"a":', b"[", b"]", b"}", b"<a>", b"</a>", b"<b c='x'/>", b"<!DOCTYPE a>", b"&x;", b"[a]", b"\n", b"b=x", b"\xff\xfe",
     b"\xef\xbb\xbf", b"\0", b'"', b",", b"a,b\n1,x", b"\xed\xa0\x80", b"\x89PNG\r\n\x1a\n", b"BM", b"GIF89a", b"II*\0"]
)  # fmt: skip


@given(st.lists(FRAGMENTS | st.binary(max_size=12), max_size=12).map(b"".join))
@settings(max_examples=300)
def test_no_file_makes_a_rule_raise(data: bytes) -> None:
    for rule in RULES:
        found = check_content(CONTENT.validate_python(rule), file(data), RUN)
        assert all(isinstance(one.fits, bool) and len(one.found) < 1_000 for one in found)


def test_what_was_found_is_told() -> None:
    found = check({"json": "$.sum", "is": 13}, EXPORT.encode())
    assert (found.expected, found.found) == ("$.sum: 13", "$.sum: 12.50")
    found = check({**csv_rule({"Nr": "000104"}, "Name"), "is": {"field": "new.NAME"}}, CSV.encode())
    assert found.expected == "row with Nr 000104, column Name: the NAME of new (Huber   )"
    assert found.found.endswith("column Name: Huber; Karl")


def test_an_unknown_encoding_is_a_fault_of_the_contract() -> None:
    with pytest.raises(ContractFault):
        check({"ini": "a/b", "is": "x", "encoding": "no-such"}, b"[a]")


def test_values_for_other_rules() -> None:
    rule: Any = CONTENT.validate_python({"json": "$.sum", "is": 1})
    assert value_at(rule, file(EXPORT.encode()), RUN).value == Decimal("12.50")
    with pytest.raises(Absent):
        value_at(rule, file(b"{}"), RUN)


def test_the_matchers_within_a_rule_are_found_by_their_places() -> None:
    rules: Mapping[str, Any] = {
        "csv": {"csv": {"row": {"Nr": "1"}, "column": 2}, "is": "x"},
        "pdf": {"pdf": {"pages": 1, "text": ["a", "b"]}},
        "image": {"image": {"width": 1, "height": 2}},
        "ini": {"ini": "a/b", "is": {"not": "x"}},
    }
    found = {name: [place for place, _ in parts(CONTENT.validate_python(rule))] for name, rule in rules.items()}
    assert found == {
        "csv": [("csv", "row", "Nr"), ("is",)],
        "pdf": [("pdf", "pages"), ("pdf", "text", 0), ("pdf", "text", 1)],
        "image": [("image", "width"), ("image", "height")],
        "ini": [("is",)],
    }
