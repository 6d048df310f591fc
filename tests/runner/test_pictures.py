"""Pictures are kept with their pixels alone."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from runner import pictures
from runner.pictures import bare_png, redrawn


def png(mode: str = "RGB", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image = Image.effect_mandelbrot((40, 30), (-2, -1, 1, 1), 20).convert(mode)
    image.save(buffer, "PNG", **options)
    return buffer.getvalue()


def with_texts() -> bytes:
    about = PngImagePlugin.PngInfo()
    about.add_text("Comment", "a secret")
    about.add_text("Packed", "a secret " * 50, zip=True)
    about.add_itxt("Wide", "a secret", zip=True)
    return png(pnginfo=about, dpi=(300, 300), icc_profile=b"a secret profile", exif=b"Exif\0\0a secret")


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "L", "1"])
def test_the_pixels_stay(mode: str) -> None:
    data = png(mode)
    bare = bare_png(data)
    assert bare is not None
    with Image.open(io.BytesIO(data)) as before, Image.open(io.BytesIO(bare)) as after:
        assert before.convert("RGBA").tobytes() == after.convert("RGBA").tobytes()


def test_everything_else_goes() -> None:
    bare = bare_png(with_texts() + b"a secret at the end")
    assert bare is not None
    assert b"secret" not in bare
    assert len(bare) < len(with_texts())
    with Image.open(io.BytesIO(bare)) as image:
        image.load()
        assert {"icc_profile", "exif", "dpi"}.isdisjoint(image.info)
        assert image.size == (40, 30)


@pytest.mark.parametrize(
    "data", [b"", b"png", b"\x89PNG\r\n\x1a\n", png()[:-1], b"\xff\xd8\xff\xe0" + bytes(50), b"GIF89a"]
)
def test_what_is_no_whole_png_is_none(data: bytes) -> None:
    assert bare_png(data) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_taken(tail: bytes) -> None:
    found = bare_png(b"\x89PNG\r\n\x1a\n" + tail)
    assert found is None or len(found) <= len(tail) + 8


# --- made anew --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "L", "1"])
def test_a_picture_made_anew_looks_the_same(mode: str) -> None:
    data = png(mode)
    with Image.open(io.BytesIO(data)) as before, Image.open(io.BytesIO(redrawn(data, "PNG"))) as after:
        assert (after.format, after.mode) == ("PNG", "RGB")
        assert before.convert("RGB").tobytes() == after.tobytes()


def test_a_picture_made_anew_holds_nothing_else() -> None:
    made = redrawn(with_texts() + b"a secret at the end", "PNG")
    assert b"secret" not in made
    with Image.open(io.BytesIO(made)) as image:
        image.load()
        assert image.info == {}


def test_what_a_picture_may_be_is_said() -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(buffer, "JPEG", comment=b"a secret")
    made = redrawn(buffer.getvalue(), "PNG", "JPEG")
    assert made.startswith(b"\x89PNG")
    assert b"secret" not in made
    with pytest.raises(ValueError, match="is no PNG picture"):
        redrawn(buffer.getvalue(), "PNG")


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb(width: int, height: int) -> bytes:
    """A PNG that says it has so many pixels, and holds none."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(b""))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(4097, 4096), (9_000, 9_000), (60_000, 60_000)])
def test_a_picture_of_too_many_pixels_is_not_unpacked(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[object] = []
    monkeypatch.setattr(Image.Image, "convert", lambda image, mode: unpacked.append(image))
    with pytest.raises(ValueError, match=r"has more than 16777216 pixels|exceeds limit of"):
        redrawn(bomb(*size), "PNG")
    assert not unpacked


def test_the_largest_picture_is_still_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MAX_PIXELS", 40 * 30)
    assert redrawn(png(), "PNG")
    monkeypatch.setattr(pictures, "MAX_PIXELS", 40 * 30 - 1)
    with pytest.raises(ValueError, match="has more than 1199 pixels"):
        redrawn(png(), "PNG")


@pytest.mark.parametrize(
    "data", [b"", b"png", png()[:40], png()[:-60], b"\x89PNG\r\n\x1a\n" * 9, b"GIF89a", bomb(4, 3)]
)
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="is no PNG or JPEG picture"):
        redrawn(data, "PNG", "JPEG")


@given(st.integers(0, len(with_texts())), st.binary(max_size=60))
def test_a_damaged_picture_is_a_picture_or_none(at: int, damage: bytes) -> None:
    data = with_texts()
    try:
        made = redrawn(data[:at] + damage + data[at + len(damage) :], "PNG", "JPEG")
    except ValueError:
        return
    assert made.startswith(b"\x89PNG")
