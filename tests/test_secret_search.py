"""The tool that looks for secrets finds them in every form; otherwise a test that finds none would say nothing."""

from __future__ import annotations

import base64
import gzip
import io
import json
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin

from runner.spellings import blot, blot_value, spellings
from tests.secret_search import leaks_below, leaks_in

SECRET = 'Qz7+"Üx/K9w'
SECRETS = {"it": SECRET}
RAW = SECRET.encode()


def picture(text: str, *, packed: bool = False) -> bytes:
    about = PngImagePlugin.PngInfo()
    about.add_text("Comment", text, zip=packed)
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG", pnginfo=about)
    return buffer.getvalue()


def archive(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("inner.txt", data)
    return buffer.getvalue()


FORMS: dict[str, Callable[[], bytes]] = {
    "itself": lambda: b"x" + RAW + b"y",
    "latin-1": lambda: SECRET.encode("latin-1"),
    "DOS": lambda: SECRET.encode("cp850"),
    "utf-16": lambda: SECRET.encode("utf-16-le"),
    "utf-16 other way": lambda: SECRET.encode("utf-16-be"),
    "json": lambda: json.dumps({"a": SECRET}).encode(),
    "json without ascii": lambda: json.dumps({"a": SECRET}, ensure_ascii=False).encode(),
    "json in json": lambda: json.dumps(json.dumps({"a": SECRET})).encode(),
    "repr": lambda: repr(RAW).encode(),
    "url": lambda: b"https://x/?k=" + urllib.parse.quote(SECRET, safe="").encode() + b"&z",
    "form": lambda: urllib.parse.urlencode({"k": SECRET}).encode(),
    "hex": lambda: b"<" + RAW.hex().encode() + b">",
    "HEX": lambda: b"a" + RAW.hex().upper().encode() + b"f",
    "base64 0": lambda: b'"' + base64.b64encode(RAW) + b'"',
    "base64 1": lambda: base64.b64encode(b"u" + RAW),
    "base64 2": lambda: base64.b64encode(b"us" + RAW + b":pw"),
    "base64 in words": lambda: b"Basic" + base64.b64encode(RAW),
    "base64url": lambda: base64.urlsafe_b64encode(b"???" + RAW + b"???"),
    "base64 in lines": lambda: base64.encodebytes(b"-" * 60 + RAW + b"-" * 60),
    "base64 of a picture": lambda: json.dumps({"image": base64.b64encode(picture(SECRET)).decode()}).encode(),
    "gzip": lambda: b"head" + gzip.compress(RAW),
    "zlib": lambda: b"head" + zlib.compress(b"text " * 9 + RAW),
    "zip": lambda: archive(RAW),
    "zip in zip": lambda: archive(archive(RAW)),
    "picture": lambda: picture(SECRET),
    "packed text of a picture": lambda: picture(SECRET, packed=True),
    "after a picture": lambda: picture("") + RAW,
    "base64 in gzip": lambda: gzip.compress(base64.b64encode(b"1" + RAW)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_found(form: str) -> None:
    assert leaks_in(FORMS[form](), SECRETS)


@pytest.mark.parametrize("form", FORMS)
def test_other_secrets_are_not_found(form: str) -> None:
    assert leaks_in(FORMS[form](), {"other": 'Qz7+"Üx/K9v'}) == []


def test_files_and_their_names_are_searched(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "pin4711").write_bytes(gzip.compress(b"pin4711"))
    (tmp_path / "left out").write_bytes(b"pin4711")
    found = leaks_below(tmp_path, {"pin": "pin4711"}, but=[tmp_path / "left out"])
    assert found == ["a/pin4711: pin (as it is) (in its name)", "a/pin4711: pin (gzip)"]


# --- and what blots them out leaves none ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "secret", [SECRET, "sk-proj-0123456789abcdef", "4711", "zwei Wörter", "a\nb\\c'd", "😀😀😀😀", "%41%42+ "]
)
@pytest.mark.parametrize("around", ["", "x", "xy", "xyz"])
def test_texts_are_blotted_in_every_spelling(secret: str, around: str) -> None:
    raw = f"{around}{secret}{around}".encode()
    forms = [
        secret, json.dumps(secret), json.dumps(secret, ensure_ascii=False), repr(secret), urllib.parse.quote(secret),
        urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret), raw.hex(), raw.hex().upper(),
    ]  # fmt: skip
    if len(secret.encode()) >= 8:
        forms += [base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()]
    for form in forms:
        assert leaks_in(blot(f"<{form}>", [secret]).encode(), {"it": secret}) == [], form


def test_values_are_blotted_with_their_names_and_numbers() -> None:
    value = {SECRET: [SECRET, 4711, 4711.5, True, None, {"a": ("x", SECRET)}]}
    assert blot_value(value, (SECRET, "4711", "True")) == {
        "•••": ["•••", "•••", 4711.5, True, None, {"a": ["x", "•••"]}]
    }


def test_nothing_else_is_blotted() -> None:
    text = "The list of 4 patients; the 7th."
    assert blot(text, ["", "4711", SECRET]) == text
    assert spellings("") == ()
    assert spellings("ab") == ("ab",)
