"""The screen as a model sees it: scaled down where it is large, and places on it turned back into pixels."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass

from PIL import Image

Point = tuple[int, int]
"""Pixels from the left and from the top of the real screen."""

MAX_PIXELS = 1_100_000
"""The area that all vendors take without scaling it down themselves, which would make coordinates wrong."""


class OutOfBounds(Exception):
    """A place that is not on the screen."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One screenshot as it is sent.

    Attributes:
        png: The PNG file, without any metadata.
    """

    png: bytes


@dataclass(frozen=True, slots=True)
class View:
    """How the model's coordinates lie on the screen.

    Attributes:
        screen: Width and height of the real screen, in pixels.
        seen: Width and height of the picture that the model gets.
        grid: The model counts places from 0 to this number, exclusive, in both directions; ``None``: in pixels of its picture.
    """

    screen: tuple[int, int]
    seen: tuple[int, int]
    grid: int | None = None

    @classmethod
    def of(cls, screen: tuple[int, int], *, longest: int, grid: int | None = None) -> View:
        """The view of a screen whose picture's longer edge is at most ``longest``."""
        width, height = screen
        factor = min(1.0, longest / max(width, height), math.sqrt(MAX_PIXELS / (width * height)))
        return cls(screen, (max(1, round(width * factor)), max(1, round(height * factor))), grid)

    def picture(self, shot: Image.Image) -> Picture:
        """The screenshot in the size that the model sees."""
        if shot.size != self.seen:
            shot = shot.resize(self.seen, Image.Resampling.LANCZOS)
        file = io.BytesIO()
        shot.save(file, "PNG", compress_level=3)
        return Picture(file.getvalue())

    def point(self, x: float, y: float) -> tuple[Point, bool]:
        """The pixel of the screen that a place of the model means, and whether it was moved onto the last row or column.

        A place exactly one step beyond the right or lower edge is taken as the edge: models count to the width inclusive.

        Raises:
            OutOfBounds: It is not on the screen.
        """
        width, height = (self.grid, self.grid) if self.grid else self.seen
        if not (0 <= x <= width and 0 <= y <= height):
            raise OutOfBounds(f"the place {_short(x)}, {_short(y)} is not on the screen of {width} x {height}")
        moved = x == width or y == height
        x, y = min(x, width - 1), min(y, height - 1)
        # The middle of the model's pixel, so that a scaled click does not drift to the upper left.
        across = int((x + 0.5) * self.screen[0] / width) if self.grid is None else int(x * self.screen[0] / width)
        down = int((y + 0.5) * self.screen[1] / height) if self.grid is None else int(y * self.screen[1] / height)
        return (min(across, self.screen[0] - 1), min(down, self.screen[1] - 1)), moved

    def told(self, point: Point) -> Point:
        """A pixel of the screen in the model's own coordinates."""
        width, height = (self.grid, self.grid) if self.grid else self.seen
        return point[0] * width // self.screen[0], point[1] * height // self.screen[1]


def _short(number: float) -> str:
    return f"{number:.6g}"
