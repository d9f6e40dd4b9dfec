"""Maps of the puddle world, their dynamics and their exact values.

The default map (50 x 50, seed 0) never changes; a test pins it. Its best score is 143 (153 without puddles), random
moves score 82.6, the best plan of 20 moves repeated for ever 117, and 28 % of it are puddles. Seeds 1 to 7: best 141 to
153, random 54 to 62 % of the best, the best repeated plan 12 to 28 % below it. The windows of 11 x 11 along
`best_moves` are all different on each of the eight.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wolpertinger.index import as_array
from wolpertinger.settings import check_kind, check_number, is_number, show

EMPTY, PUDDLE, START, GOAL = range(4)
SYMBOLS = ".~SG"  # of the cells above, in this order
RIGHT, DOWN = 0, 1
EMPTY_COST, PUDDLE_COST, GOAL_REWARD = -1, -3, 250

MAX_SIZE = 1_000  # rows or columns of a map that is generated
MAX_MOVES = 10_000  # in an episode: the exhaustive search makes all of them
PUDDLE_SHARE = 0.28  # at which the generator stops
MAX_SEARCHED_PLAN = 20  # moves, of the exhaustive search
MOVES_PER_BLOCK = 1 << 16  # of the exhaustive search at a time: as many as fit the cache

Ints = npt.NDArray[np.int64]
Moves = npt.NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class PuddleMap:
    """A grid of cells (rows, cols): EMPTY, PUDDLE, one START, and one GOAL in the bottom right corner.

    A move RIGHT or DOWN against the edge visits the same cell again. Cells are also numbered row by row.
    """

    cells: npt.NDArray[np.uint8]

    def __post_init__(self) -> None:
        cells = _check_cells(as_array("cells", self.cells)).astype(np.uint8)
        cells.flags.writeable = False
        object.__setattr__(self, "cells", cells)

    @classmethod
    def from_text(cls, text: str) -> "PuddleMap":
        """A map of one line per row: '.' empty, '~' puddle, 'S' start, 'G' goal."""
        check_kind("text", text, str, "one line per row, of '.', '~', 'S' and 'G'")
        lines = text.rstrip().splitlines()
        if not lines:
            raise ValueError("the map is empty: give one line per row, of '.', '~', 'S' and 'G'")
        for number, line in enumerate(lines, start=1):
            if len(line) != len(lines[0]):
                raise ValueError(f"line {number} has {len(line)} cells, line 1 has {len(lines[0])}: give equal lengths")
            if unknown := set(line) - set(SYMBOLS):
                raise ValueError(f"line {number} has {min(unknown)!r}: give '.' empty, '~' puddle, 'S' start, 'G' goal")
        return cls(np.array([[SYMBOLS.index(symbol) for symbol in line] for line in lines], np.uint8))

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> "PuddleMap":
        """The map in a text file, in the form of `from_text`."""
        return cls.from_text(Path(path).read_text(encoding="utf-8"))

    @classmethod
    def generate(cls, size: int | Sequence[int] = 50, seed: int = 0) -> "PuddleMap":
        """A map with patches of puddle all over, start top left; `size` is one number, or rows and columns.

        The same map for the same size and seed, for ever.
        """
        lengths = list(size) if isinstance(size, Sequence) else [size, size]
        fits = all(is_number(length, whole=True) and 2 <= length <= MAX_SIZE for length in lengths)
        if len(lengths) != 2 or not fits:
            accepted = f"give a whole number from 2 to {MAX_SIZE:,}, or two of them, (rows, columns)"
            raise ValueError(f"size={show(size)}: {accepted}")
        check_number("seed", seed, whole=True)
        return cls(_scatter_puddles(int(lengths[0]), int(lengths[1]), seed))

    def to_text(self) -> str:
        """The map in the form of `from_text`, each line ended."""
        return "".join("".join(SYMBOLS[cell] for cell in row) + "\n" for row in self.cells)

    @cached_property
    def sha256(self) -> str:
        """Fingerprint of the map: of its text."""
        return hashlib.sha256(self.to_text().encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PuddleMap) and np.array_equal(self.cells, other.cells)

    def __hash__(self) -> int:
        return hash((self.cells.shape, self.cells.tobytes()))

    def __repr__(self) -> str:
        rows, cols = self.cells.shape
        return f"PuddleMap({rows} x {cols}, {self.puddle_share:.1%} puddles, sha256={self.sha256[:8]})"

    @property
    def rows(self) -> int:
        """Cells from top to bottom."""
        return self.cells.shape[0]

    @property
    def cols(self) -> int:
        """Cells from left to right."""
        return self.cells.shape[1]

    @cached_property
    def start(self) -> tuple[int, int]:
        """Row and column of the start."""
        return divmod(int((self.cells == START).argmax()), self.cols)

    @property
    def goal(self) -> tuple[int, int]:
        """Row and column of the goal."""
        return self.rows - 1, self.cols - 1

    @property
    def distance(self) -> int:
        """Moves from the start to the goal, on any path."""
        return self.goal[0] - self.start[0] + self.goal[1] - self.start[1]

    @property
    def puddle_share(self) -> float:
        """Of the cells, that are puddle."""
        return float((self.cells == PUDDLE).mean())

    @property
    def default_max_moves(self) -> int:
        """Moves after which an episode is truncated by default: twice those from corner to corner."""
        return 2 * (self.rows + self.cols)

    @cached_property
    def costs(self) -> Ints:
        """Reward for visiting a cell (cells,), 0 for the goal, whose reward `walk` adds once."""
        return np.array([EMPTY_COST, PUDDLE_COST, EMPTY_COST, 0])[self.cells.ravel()]

    def walk(self, cells: npt.ArrayLike, moves: Moves) -> tuple[Ints, Ints]:
        """Return the cells visited (batch, n), and the sum of their rewards (batch,), by moves (batch, n) from cells
        (batch,). Moves beyond the goal stay there, with no reward.
        """
        # No move leads back from an edge, so that staying at it is a minimum.
        rows, cols = np.divmod(cells, self.cols)
        downs = moves.cumsum(axis=-1)
        rights = np.arange(1, moves.shape[-1] + 1) - downs
        rights += cols[..., None]
        downs += rows[..., None]
        np.minimum(rights, self.cols - 1, out=rights)
        np.minimum(downs, self.rows - 1, out=downs)
        downs *= self.cols
        downs += rights
        goal = self.cells.size - 1
        arrived = (downs[..., -1] == goal) & (cells != goal)
        return downs, self.costs.take(downs).sum(axis=-1) + GOAL_REWARD * arrived

    @cached_property
    def values(self) -> npt.NDArray[np.float64]:
        """Best score from each cell (rows, cols), by dynamic programming; 0 at the goal."""
        return self._sweep(best=True)

    @cached_property
    def random_values(self) -> npt.NDArray[np.float64]:
        """Expected score of uniformly random moves from each cell (rows, cols): exact, with bumps, without a cap."""
        return self._sweep(best=False)

    @property
    def best_score(self) -> float:
        """The best score from the start."""
        return self.best_score_from(self.start)

    def best_score_from(self, cell: tuple[int, int]) -> float:
        """The best score from a (row, column)."""
        return float(self.values[cell])

    @property
    def random_value(self) -> float:
        """The expected score of uniformly random moves from the start: exact, bumps included, without a cap."""
        return float(self.random_values[self.start])

    def best_moves(self) -> Ints:
        """Return the moves of an optimal path from the start to the goal; right where both are optimal."""
        (row, col), moves = self.start, []
        while (row, col) != self.goal:
            right = self._enter(row, col + 1, self.values)
            moves.append(RIGHT if right >= self._enter(row + 1, col, self.values) else DOWN)
            row, col = row + moves[-1], col + 1 - moves[-1]
        return np.array(moves)

    def best_fixed_plan(self, n: int, max_moves: int | None = None) -> tuple[Ints, float]:
        """Return the plan of n <= 20 moves that scores best when repeated, and its score; the first by id of equals.

        Tries all 2**n, each until the goal or the end of the plan in which `max_moves` is reached.
        """
        check_number("n", n, least=1, most=MAX_SEARCHED_PLAN, whole=True)  # all 2**n plans are tried
        check_number("max_moves", max_moves, least=1, most=MAX_MOVES, whole=True, optional=True)
        max_moves = self.default_max_moves if max_moves is None else max_moves
        repeats = ceil(max_moves / n)
        step = max(1, MOVES_PER_BLOCK // (repeats * n))
        start = np.ravel_multi_index(self.start, self.cells.shape)
        best, best_score = 0, -np.inf
        for first in range(0, 2**n, step):
            plans = moves_of(np.arange(first, min(first + step, 2**n)), n)
            _, scores = self.walk(np.full(len(plans), start), np.tile(plans, repeats))
            if scores.max() > best_score:
                best, best_score = first + int(scores.argmax()), float(scores.max())
        return moves_of(np.array(best), n), best_score

    def _enter(self, row: int, col: int, values: npt.NDArray[np.float64]) -> float:
        """Return the value of entering a cell; -inf beyond the edge."""
        if row == self.rows or col == self.cols:
            return -np.inf
        if (row, col) == self.goal:
            return GOAL_REWARD
        return float(self.costs[row * self.cols + col] + values[row, col])

    def _sweep(self, best: bool) -> npt.NDArray[np.float64]:
        """Return the values of the best moves or of random ones, by a sweep from the goal backwards."""
        values = np.zeros(self.cells.shape)
        for row in reversed(range(self.rows)):
            for col in reversed(range(self.cols)):
                if (row, col) == self.goal:
                    continue
                ahead = self._enter(row, col + 1, values), self._enter(row + 1, col, values)
                if best:
                    values[row, col] = max(ahead)
                elif -np.inf in ahead:  # at an edge, one move is lost on average
                    values[row, col] = max(ahead) + self.costs[row * self.cols + col]
                else:
                    values[row, col] = sum(ahead) / 2
        values.flags.writeable = False
        return values


MapSource = PuddleMap | str | PathLike[str]


def load_map(source: MapSource) -> PuddleMap:
    """Return a map that is given as such, as a text of several lines, or as the path of a text file."""
    if isinstance(source, PuddleMap):
        return source
    if not isinstance(source, str | PathLike):
        raise ValueError(f"map={show(source)}: give a PuddleMap, its text, or the path of a text file")
    if isinstance(source, str) and "\n" in source:
        return PuddleMap.from_text(source)
    try:
        return PuddleMap.from_file(source)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"map={show(source)} cannot be read as a text file: {error}") from error


def moves_of(ids: Ints, n: int) -> Ints:
    """Return the moves (..., n) of the plans with these ids (...); the first move is the most significant bit."""
    return ids[..., None] >> np.arange(n - 1, -1, -1) & 1


def _check_cells(cells: npt.NDArray) -> npt.NDArray:
    if cells.ndim != 2 or cells.dtype.kind not in "iu":
        raise ValueError(f"cells have shape {cells.shape}, {cells.dtype}: give integers (rows, cols)")
    if min(cells.shape) < 2:
        raise ValueError(f"the map has {cells.shape[0]} rows and {cells.shape[1]} columns: give at least 2 of each")
    if cells.min() < EMPTY or cells.max() > GOAL:
        raise ValueError(f"cells from {cells.min()} to {cells.max()}: give 0 empty, 1 puddle, 2 start, 3 goal")
    for kind, name in ((START, "start"), (GOAL, "goal")):
        if (count := int((cells == kind).sum())) != 1:
            raise ValueError(f"the map has {count} {name} cells ({SYMBOLS[kind]!r}): give exactly one")
    if cells[-1, -1] != GOAL:
        row, col = np.argwhere(cells == GOAL)[0].tolist()
        raise ValueError(
            f"the goal is in row {row + 1}, column {col + 1} of {cells.shape[0]} x {cells.shape[1]}: "
            "put it in the bottom right corner, where right and down always lead"
        )
    return cells


def _scatter_puddles(rows: int, cols: int, seed: int) -> npt.NDArray[np.uint8]:
    """Scatter ellipses, three times as long across the diagonal as along it, until they cover PUDDLE_SHARE.

    Only raw doubles are drawn, whose stream numpy keeps, and only added and multiplied: the same map on every machine.
    """
    random = np.random.default_rng(seed).random
    row, col = np.ogrid[:rows, :cols]
    cells = np.zeros((rows, cols), np.uint8)
    while (cells == PUDDLE).sum() < PUDDLE_SHARE * cells.size:
        down, right = row - rows * random() + 0.5, col - cols * random() + 0.5  # from the middle of the patch
        along, across, draw = down + right, down - right, random()
        reach = 1.2 + 7.3 * draw * draw * draw  # many small patches, few large ones
        cells[9 * along * along + across * across <= reach * reach] = PUDDLE
        cells[0, 0], cells[-1, -1] = START, GOAL
    return cells
