"""PDFs and pictures: what they are, and that broken, locked, endless or huge ones are told and do no harm."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from fpdf import FPDF
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from pydantic import TypeAdapter

from contracts.schema import Content
from tests.validators.test_content import file
from validators import documents
from validators.changes import Cell, Change, ContractFault, Kind, Verb
from validators.content import Check, check_content
from validators.documents import BadDocument, difference, is_blank, pdf_date, read_pdf, read_picture
from validators.matchers import RunContext

CONTENT: TypeAdapter[Content] = TypeAdapter(Content)
BERLIN = timezone(timedelta(hours=1))
NEW = Change("patients", Verb.INSERTED, "x", 1, after={"NAME": Cell(Kind.TEXT, "Huber   ")})


def run(**about: Any) -> RunContext:
    started = datetime(2026, 11, 29, 9, tzinfo=BERLIN)
    return RunContext(started, started + timedelta(hours=1), claimed={"new": NEW}, **about)


def checks(rule: Any, data: bytes, **about: Any) -> list[Check]:
    return check_content(CONTENT.validate_python(rule), file(data), run(**about))


def fits(rule: Any, data: bytes, **about: Any) -> bool:
    return all(check.fits for check in checks(rule, data, **about))


# --- PDF --------------------------------------------------------------------------------------------------------------


def pdf(*pages: str, created: datetime | None = None, password: str = "") -> bytes:
    document = FPDF()
    document.set_font("Helvetica", size=12)
    for text in pages:
        document.add_page()
        document.multi_cell(0, text=text)
    if created is not None:
        document.set_creation_date(created)
    if password:
        document.set_encryption("owner", password)
    return bytes(document.output())


LETTER = pdf(
    "Rechnung Nr. 4711\nHuber,   Karl\nSumme 12.50", "Seite zwei", created=datetime(2026, 11, 29, 8, 30, tzinfo=UTC)
)


def test_what_a_pdf_holds() -> None:
    facts = read_pdf(LETTER)
    assert (facts.pages, facts.cut) == (2, False)
    assert "Rechnung Nr. 4711 Huber, Karl Summe 12.50" in facts.text
    assert facts.created == datetime(2026, 11, 29, 8, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({}, True),
        ({"pages": 2, "text": ["Rechnung Nr. 4711", "Seite  zwei"], "created": "run"}, True),
        ({"pages": 1}, False),
        ({"text": "Mahnung"}, False),
        ({"text": {"not": "Mahnung"}}, True),
        ({"text": {"not": "Rechnung"}}, False),
        ({"text": {"regex": r"Nr\. \d{4}"}}, True),
        ({"text": {"field": "new.NAME"}}, True),
        ({"text": {"one_of": ["Mahnung", "Rechnung"]}}, True),
        ({"text": {"text": "RECHNUNG", "normalise": ["case"]}}, True),
        ({"text": Decimal("12.50")}, True),
        ({"text": {"is": "blank"}}, False),
    ],
)
def test_rules_about_pdfs(rule: Any, expected: bool) -> None:
    assert fits({"pdf": rule}, LETTER) is expected


def test_what_misfits_is_told() -> None:
    wrong = [check for check in checks({"pdf": {"pages": 1, "text": "Mahnung"}}, LETTER) if not check.fits]
    assert [(check.expected, check.found[:15]) for check in wrong] == [
        ("pages: 1", "pages: 2"), ("text: Mahnung", "text: Rechnung "),
    ]  # fmt: skip


def test_a_pdf_made_before_the_run() -> None:
    old = pdf("x", created=datetime(2026, 11, 29, 7, 59, tzinfo=UTC))
    (found,) = checks({"pdf": {"created": "run"}}, old)
    assert not found.fits
    assert "2026-11-29 08:59:00" in found.found


def test_a_pdf_without_text_says_so() -> None:
    (found,) = checks({"pdf": {"text": "x"}}, pdf(""))
    assert (found.fits, found.empty) == (False, True)
    assert "no text" in found.hint


def test_a_locked_pdf_does_not_open() -> None:
    (found,) = checks({"pdf": {}}, pdf("secret", password="x"))
    assert (found.fits, found.found) == (False, "it is locked with a password")


@pytest.mark.parametrize("data", [b"", b"text", b"%PDF-1.7\n", b"%PDF-1.7\n%%EOF", LETTER[:200], LETTER[200:]])
def test_what_is_no_pdf_does_not_fit(data: bytes) -> None:
    (found,) = checks({"pdf": {}}, data)
    assert not found.fits
    assert found.found
    assert found.empty is (not data)


def bomb(size: int) -> bytes:
    """A PDF whose page holds so many bytes, packed."""
    packed = zlib.compress(b"BT (x) Tj ET\n" * (size // 13), 9)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(packed), packed),
    ]  # fmt: skip
    body = b"%PDF-1.4\n"
    places = []
    for number, text in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj%s endobj\n" % (number, text)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return body + b"xref\n0 5\n0000000000 65535 f \n%strailer<</Size 5/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (
        table,
        len(body),
    )


def test_a_pdf_that_unpacks_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_WAIT", 60)
    (found,) = checks({"pdf": {"text": "y"}}, bomb(2_000_000_000 // 4))
    assert not found.fits


def test_a_document_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read_pdf(LETTER)
    monkeypatch.setattr(documents, "_in_own_process", lambda _data: pytest.fail("read again"))
    assert read_pdf(LETTER).pages == 2


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("D:20261129143000+01'00'", datetime(2026, 11, 29, 14, 30, tzinfo=BERLIN)),
        ("D:20261129143000Z", datetime(2026, 11, 29, 14, 30, tzinfo=UTC)),
        ("D:20261129143000-0130", datetime(2026, 11, 29, 14, 30, tzinfo=timezone(-timedelta(minutes=90)))),
        ("D:20261129", datetime(2026, 11, 29)),  # noqa: DTZ001
        ("D:2026", datetime(2026, 1, 1)),  # noqa: DTZ001
        ("D:20261329", None),
        ("D:20261129143000+99'00'", datetime(2026, 11, 29, 14, 30)),  # noqa: DTZ001
        ("29.11.2026", None),
        ("", None),
    ],
)
def test_dates_of_pdfs(text: str, moment: datetime | None) -> None:
    assert pdf_date(text) == moment


# --- pictures ---------------------------------------------------------------------------------------------------------


def picture(
    size: tuple[int, int] = (40, 30), mode: str = "RGB", form: str = "PNG", draw: Callable[[Any], None] | None = None
) -> bytes:
    image = Image.new("RGB", size, "white")
    if draw is not None:
        draw(ImageDraw.Draw(image))
    out = io.BytesIO()
    image.convert(mode).save(out, form)
    return out.getvalue()


def cross(canvas: Any) -> None:
    canvas.line((0, 0, 39, 29), "black")


CROSS = picture(draw=cross)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({}, True),
        ({"format": "PNG", "width": 40, "height": {"between": [20, 30]}, "mode": "RGB", "blank": False}, True),
        ({"format": "BMP"}, False),
        ({"width": 41}, False),
        ({"mode": "L"}, False),
        ({"blank": True}, False),
    ],
)
def test_rules_about_pictures(rule: Any, expected: bool) -> None:
    assert fits({"image": rule}, CROSS) is expected


@pytest.mark.parametrize("form", ["PNG", "BMP", "GIF", "TIFF", "JPEG", "PCX", "PPM", "WEBP", "TGA"])
def test_formats(form: str) -> None:
    assert read_picture(picture(form=form)).format == form


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA"])
def test_blank_pictures_in_every_mode(mode: str) -> None:
    assert is_blank(picture(mode=mode))
    assert not is_blank(picture(mode=mode, draw=cross))


def test_likeness() -> None:
    other = picture(draw=lambda canvas: canvas.line((0, 0, 39, 28), "black"))
    assert difference(CROSS, CROSS) == 0
    assert difference(picture(), picture(draw=lambda canvas: canvas.rectangle((0, 0, 40, 30), "black"))) == 1
    apart = difference(CROSS, other)
    assert 0 < apart < Decimal("0.05")
    pictures = {"expected.png": CROSS}
    rule = {"image": {"like": "expected.png"}}
    assert fits(rule, CROSS, pictures=pictures)
    assert fits(rule, picture(draw=cross, form="BMP"), pictures=pictures)
    (found,) = checks(rule, other, pictures=pictures)
    assert (found.fits, found.found) == (False, f"difference {apart.normalize():f}")
    assert fits({"image": {"like": "expected.png", "tolerance": Decimal("0.05")}}, other, pictures=pictures)
    (found,) = checks(rule, picture((41, 30)), pictures=pictures)
    assert found.found == "it is 41 × 30 instead of 40 × 30 pixels"


def test_an_expected_picture_that_is_not_at_hand_or_none_is_a_fault_of_the_contract() -> None:
    for pictures in ({}, {"expected.png": b"no picture"}):
        with pytest.raises(ContractFault, match=r"expected\.png"):
            checks({"image": {"like": "expected.png"}}, CROSS, pictures=pictures)


@pytest.mark.parametrize(
    "data", [b"", b"text", CROSS[:60], b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"BM" + b"\xff" * 60]
)
def test_what_is_no_picture_does_not_fit(data: bytes) -> None:
    (found,) = checks({"image": {"blank": False}}, data)
    assert not found.fits


def test_a_picture_of_very_many_pixels_is_not_decoded() -> None:
    header = zlib.compress(b"\0" * 10_000)
    chunk = b"IHDR" + (60_000).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
    data = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\x0d" + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    body = b"IDAT" + header
    data += len(header).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    with pytest.raises(BadDocument, match="pixels"):
        read_picture(data)


@given(st.integers(0, len(CROSS) - 1), st.binary(min_size=1, max_size=4))
@settings(max_examples=150)
def test_damaged_pictures_never_raise(place: int, junk: bytes) -> None:
    data = CROSS[:place] + junk + CROSS[place + len(junk) :]
    assert all(isinstance(found.fits, bool) for found in checks({"image": {"blank": False, "width": 40}}, data))


@given(st.integers(0, len(LETTER) - 1), st.binary(min_size=1, max_size=6))
@settings(max_examples=4, deadline=None)
def test_damaged_pdfs_never_raise(place: int, junk: bytes) -> None:
    data = LETTER[:place] + junk + LETTER[place + len(junk) :]
    assert all(isinstance(found.fits, bool) for found in checks({"pdf": {"pages": 2, "text": "Rechnung"}}, data))
