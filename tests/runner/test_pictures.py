"""Pictures are kept with their pixels alone."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from runner.pictures import bare_png


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
