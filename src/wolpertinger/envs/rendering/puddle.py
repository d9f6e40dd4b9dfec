"""The puddle world from above: the map, the path so far, the last plan, the agent's window."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from wolpertinger.envs.rendering import canvas
from wolpertinger.envs.rendering.canvas import HEIGHT, TITLE, WIDTH, Canvas, Colour, Frame, Point

Cell = tuple[int, int]  # row and column

EMPTY: Colour = (238, 236, 226)
PUDDLE: Colour = (116, 169, 214)
START: Colour = (104, 112, 124)
GOAL: Colour = canvas.GOOD
PATH: Colour = (96, 80, 66)
PLAN: Colour = (235, 92, 24)
OUTSIDE: Colour = (205, 208, 213)
MARGIN = 14
LEGEND = 150  # width of the column on the right


@dataclass(frozen=True)
class Trip:
    """The part of an episode that is drawn: the cells visited, and how many of them by the last plan."""

    path: Sequence[Cell]
    planned: int
    seen: int
    """Side of the square window that the agent sees."""
    plans: int
    total: float
    outcome: str


class PuddleView:
    """Draws trips over one map of cells: 0 empty, 1 puddle, 2 start, 3 goal."""

    def __init__(self, cells: npt.NDArray[np.uint8]) -> None:
        self.cells = cells
        rows, cols = cells.shape
        self.side = min((HEIGHT - TITLE - 2 * MARGIN) / rows, (WIDTH - LEGEND - 2 * MARGIN) / cols)
        self.mark = min(max(5.0, 0.6 * self.side), 9.0)  # radius of start, goal and agent
        self.left = (WIDTH - LEGEND - cols * self.side) / 2
        self.top = TITLE + (HEIGHT - TITLE - rows * self.side) / 2

    def draw(self, trip: Trip) -> Frame:
        """The map, the path walked, over it the last plan, and the agent in its window."""
        picture = self._map.copy()
        thick = min(max(2.0, 0.45 * self.side), 7.0)
        ways = [self._middle(cell) for cell in trip.path]
        if len(ways) > 1:
            picture.line(ways, PATH, 0.5 * thick)
        if trip.planned:
            self._draw_plan(picture, ways[-trip.planned - 1 :], thick)
        self._draw_agent(picture, trip)
        score = f"plan {trip.plans}    score {trip.total:.0f}"
        moves = len(trip.path) - 1
        rows, cols = self.cells.shape
        colour = canvas.GOOD_ON_STRIP if trip.outcome == "goal" else canvas.BAD_ON_STRIP
        picture.title(f"Puddle world: {rows} x {cols}", score, f"{moves} moves", trip.outcome, colour)
        return picture.frame()

    @cached_property
    def _map(self) -> Canvas:
        """The background: the cells and the legend."""
        picture = Canvas()
        rows, cols = self.cells.shape
        picture.box(self._corner(0, 0), self._corner(rows, cols), EMPTY)
        for row, col in np.argwhere(self.cells == 1):
            picture.box(self._corner(row, col), self._corner(row + 1, col + 1), PUDDLE, width=0)
        for kind, colour in ((2, START), (3, GOAL)):
            for row, col in np.argwhere(self.cells == kind):
                picture.dot(self._middle((row, col)), self.mark, colour, canvas.WHITE, 1.5)
        picture.box(self._corner(0, 0), self._corner(rows, cols), None, OUTSIDE, 1)
        _draw_legend(picture)
        return picture

    def _draw_plan(self, picture: Canvas, ways: list[Point], thick: float) -> None:
        for colour, width in ((canvas.WHITE, thick + 2), (PLAN, thick)):
            picture.line(ways, colour, width)
            for end in (ways[0], ways[-1]):
                picture.dot(end, width / 2, colour)

    def _draw_agent(self, picture: Canvas, trip: Trip) -> None:
        """Draw the agent, and the outline of its window, clipped to the picture."""
        row, col = trip.path[-1]
        half = trip.seen // 2
        left, top = self._corner(row - half, col - half)
        right, bottom = self._corner(row + half + 1, col + half + 1)
        corners = (max(left, 2), max(top, TITLE + 2)), (min(right, WIDTH - LEGEND), min(bottom, HEIGHT - 3))
        picture.box(*corners, None, canvas.INK, 1.5)
        picture.dot(self._middle((row, col)), 0.9 * self.mark, canvas.INK, canvas.WHITE, 1.5)

    def _corner(self, row: float, col: float) -> Point:
        return self.left + col * self.side, self.top + row * self.side

    def _middle(self, cell: Cell) -> Point:
        return self._corner(cell[0] + 0.5, cell[1] + 0.5)


def _draw_legend(picture: Canvas) -> None:
    x, y = WIDTH - LEGEND + 16, TITLE + 30.0
    for name, colour in (("empty  -1", EMPTY), ("puddle  -3", PUDDLE)):
        picture.box((x - 7, y - 7), (x + 7, y + 7), colour, OUTSIDE, 1)
        picture.text((x + 18, y), name, 13, canvas.INK)
        y += 28
    for name, colour, radius in (("start", START, 5.5), ("goal  +250", GOAL, 5.5), ("agent", canvas.INK, 5.0)):
        picture.dot((x, y), radius + 1, colour, canvas.WHITE, 1.5)
        picture.text((x + 18, y), name, 13, canvas.INK)
        y += 28
    picture.box((x - 8, y - 8), (x + 8, y + 8), None, canvas.INK, 1.5)
    picture.text((x + 18, y), "what it sees", 13, canvas.INK)
    for name, colour, width in (("last plan", PLAN, 4.0), ("path before", PATH, 2.0)):
        y += 28
        picture.line([(x - 9, y), (x + 9, y)], colour, width)
        picture.text((x + 18, y), name, 13, canvas.INK)
