"""Drawing for all views: an anti-aliased canvas, one set of colours, a title strip."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wolpertinger.imports import needs_extra

if TYPE_CHECKING:
    from PIL import Image, ImageFont

Frame = npt.NDArray[np.uint8]  # (height, width, 3)
Point = tuple[float, float]
Colour = tuple[int, int, int]

WIDTH, HEIGHT = 640, 480  # even: H.264 takes no odd sizes
TITLE = 48  # height of the title strip

PAPER: Colour = (252, 252, 250)
STRIP: Colour = (33, 41, 54)
WHITE: Colour = (255, 255, 255)
INK: Colour = (33, 41, 54)
FAINT: Colour = (122, 132, 145)
GOOD: Colour = (22, 140, 82)
BAD: Colour = (208, 56, 52)
# Those that stand on the dark title strip.
NOTE_ON_STRIP: Colour = (198, 206, 216)
GOOD_ON_STRIP: Colour = (94, 214, 148)
BAD_ON_STRIP: Colour = (255, 128, 118)


class Canvas:
    """Draws at twice the size and halves it at the end, for anti-aliasing; all sizes are final pixels."""

    FINER = 2

    def __init__(self, width: int = WIDTH, height: int = HEIGHT, image: "Image.Image | None" = None) -> None:
        with needs_extra("control", "drawing an environment"):
            from PIL import Image, ImageDraw
        self.width, self.height = width, height
        self._image = image or Image.new("RGB", (width * self.FINER, height * self.FINER), PAPER)
        self._draw = ImageDraw.Draw(self._image)

    def copy(self) -> "Canvas":
        """Return a copy to draw on, so that the background is drawn once."""
        return Canvas(self.width, self.height, self._image.copy())

    def dot(
        self, at: Point, radius: float, fill: Colour | None, outline: Colour | None = None, width: float = 0
    ) -> None:
        x, y = at
        box = self._finer([(x - radius, y - radius), (x + radius, y + radius)])
        self._draw.ellipse(box, fill, outline, self._width(width) if outline else 0)

    def box(
        self, corner: Point, opposite: Point, fill: Colour | None, outline: Colour | None = None, width: float = 1
    ) -> None:
        self._draw.rectangle(self._finer([corner, opposite]), fill, outline, self._width(width))

    def line(self, points: Sequence[Point], colour: Colour, width: float) -> None:
        self._draw.line(self._finer(points), colour, self._width(width), joint="curve")

    def polygon(self, points: Sequence[Point], fill: Colour, outline: Colour | None = None) -> None:
        self._draw.polygon(self._finer(points), fill, outline)

    def dashes(self, start: Point, end: Point, colour: Colour, width: float, dash: float = 5) -> None:
        """A dashed line."""
        a, b = np.array(start), np.array(end)
        count = max(1, round(float(np.linalg.norm(b - a)) / dash / 2))
        for i in range(count):
            first, last = (a + (b - a) * (i + part) / count for part in (0.0, 0.5))
            self.line([_point(first), _point(last)], colour, width)

    def arrow(self, start: Point, end: Point, colour: Colour, width: float) -> None:
        """A line with a head at its end; nothing if it has no length."""
        a, b = np.array(start), np.array(end)
        length = float(np.linalg.norm(b - a))
        if length < 1:
            return
        along = (b - a) / length
        across = np.array([-along[1], along[0]])
        head = min(4.5 * width, length)
        neck = b - head * along
        self.line([_point(a), _point(neck)], colour, width)
        self.polygon([_point(b), _point(neck + 0.45 * head * across), _point(neck - 0.45 * head * across)], colour)

    def text(self, at: Point, text: str, size: float, colour: Colour, anchor: str = "lm") -> None:
        """Text at a point; `anchor` is Pillow's: "lm" starts there, "rm" ends there, "mm" is centred on it."""
        self._draw.text(self._finer([at])[0], text, colour, _font(size * self.FINER), anchor)

    def text_width(self, text: str, size: float) -> float:
        return _font(size * self.FINER).getlength(text) / self.FINER

    def shorten(self, text: str, size: float, room: float) -> str:
        """As much of a text as fits, with dots for the rest."""
        if self.text_width(text, size) <= room:
            return text
        while text and self.text_width(text + "...", size) > room:
            text = text[:-1]
        return text.rstrip() + "..."

    def title(self, name: str, score: str, note: str = "", outcome: str = "", colour: Colour = WHITE) -> None:
        """Draw the strip on top: name and score, below them a note and the outcome in `colour`."""
        self.box((0, 0), (self.width, TITLE - 1), STRIP)
        right = self.width - 12
        self.text((12, 15), name, 15, WHITE)
        self.text((right, 15), score, 15, WHITE, "rm")
        self.text((right, 35), outcome, 13, colour, "rm")
        room = right - 24 - self.text_width(outcome, 13)
        self.text((12, 35), self.shorten(note, 13, room), 13, NOTE_ON_STRIP)

    def frame(self) -> Frame:
        """The picture as an array (height, width, 3)."""
        return np.array(self._image.reduce(self.FINER), dtype=np.uint8)

    def _finer(self, points: Sequence[Point]) -> list[Point]:
        return [(x * self.FINER, y * self.FINER) for x, y in points]

    def _width(self, width: float) -> int:
        return max(1, round(width * self.FINER))


def blend(first: Colour, second: Colour, share: float) -> Colour:
    """`share` of the second colour in the first."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue


def _point(vector: npt.NDArray[np.floating]) -> Point:
    return float(vector[0]), float(vector[1])


@lru_cache(maxsize=32)
def _font(size: float) -> "ImageFont.FreeTypeFont":
    from PIL import ImageFont

    font = ImageFont.load_default(size)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise ImportError("this build of Pillow lacks FreeType: install its wheel (pip install -U pillow)")
    return font
