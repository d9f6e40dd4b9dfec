"""The recommender as a map of its items, with the agent's proto-action, candidates and pick."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from wolpertinger.envs.rendering import canvas
from wolpertinger.envs.rendering.canvas import HEIGHT, TITLE, WIDTH, Canvas, Colour, Frame, Point, blend

Floats = npt.NDArray[np.floating]
Ids = npt.NDArray[np.int64]

LEGEND = 30  # height of the strip at the bottom
LEFT, TOP, RIGHT, BOTTOM = 16.0, TITLE + 14.0, WIDTH - 16.0, HEIGHT - LEGEND - 12.0  # the map

POOR: Colour = (221, 227, 235)  # items by reward
RICH: Colour = (72, 104, 158)
PLATE: Colour = (190, 198, 208)  # the edge of a label
CANDIDATE: Colour = (240, 138, 20)
PROTO: Colour = (158, 42, 168)
USER: Colour = canvas.INK


class PcaProjection:
    """Projection of vectors on their two principal axes; points outside the picture are moved to its edge."""

    def __init__(self, vectors: Floats) -> None:
        centred = vectors - (mean := vectors.mean(axis=0, dtype=np.float64))
        axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
        axes *= np.where(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)] < 0, -1, 1)[:, None]
        self._mean, self._axes = mean, np.zeros((2, vectors.shape[1]))
        self._axes[: len(axes)] = axes  # the second axis is zero for vectors of one dimension
        flat = centred @ self._axes.T
        low, high = np.percentile(flat, [0.5, 99.5], axis=0)  # a few far items do not squeeze the others
        self._middle, self._spread = (low + high) / 2, np.maximum(high - low, 1e-9)
        self.points = self.project(vectors)

    def project(self, vectors: Floats) -> Floats:
        """Return the places of vectors (n, dim) in the picture, in pixels (n, 2)."""
        share = ((vectors - self._mean) @ self._axes.T - self._middle) / (1.04 * self._spread) + 0.5
        x, y = np.clip(share, 0, 1).T
        return np.stack([LEFT + x * (RIGHT - LEFT), BOTTOM - y * (BOTTOM - TOP)], axis=1)


@dataclass(frozen=True)
class Choice:
    """The proto-action and the candidates of a step."""

    proto: Floats | None
    """None where the critic found the candidates itself."""
    candidates: Ids


@dataclass(frozen=True)
class Recommendation:
    """One step: the item recommended to a user at another, the outcome, and the agent's choice, if it was shown."""

    at: int
    item: int
    accepted: bool
    reward: float
    choice: Choice | None


@dataclass
class Session:
    """The part of a session that is drawn."""

    user: int
    steps: int = 0
    total: float = 0.0
    last: Recommendation | None = None

    def record(self, last: Recommendation, user: int) -> None:
        """Record a step, after which the user is at the item `user`."""
        self.last, self.user = last, user
        self.steps += 1
        self.total += last.reward


class RecommenderView:
    """Draws sessions over one map of items."""

    def __init__(self, projection: PcaProjection, rewards: Floats, names: Sequence[str] | None) -> None:
        self.projection, self.rewards, self.names = projection, rewards, names
        self.radius = float(np.clip(90 / np.sqrt(len(rewards)), 1.2, 5.0))
        low, high = np.percentile(rewards, [2, 98])
        self._shades = np.clip((rewards - low) / max(high - low, 1e-9), 0, 1)

    def draw(self, session: Session, coming: Choice | None = None) -> Frame:
        """Draw the session after its last step; `coming` is the choice of the next one, if it was shown."""
        picture = self._map.copy()
        last = session.last
        choice = coming or (last.choice if last else None)
        if choice is not None:
            self._draw_candidates(picture, choice)
        if coming is None and last is not None:
            self._draw_pick(picture, last, session.user)
        else:
            self._draw_user(picture, session.user)
        if choice is not None and choice.proto is not None:
            x, y = self.projection.project(choice.proto[None])[0]
            _cross(picture, (float(x), float(y)), 7)
        self._draw_title(picture, session)
        _draw_legend(picture, proposed=choice is None or choice.proto is not None)
        return picture.frame()

    @cached_property
    def _map(self) -> Canvas:
        """The background: all items, coloured by reward."""
        picture = Canvas()
        for item in np.argsort(self._shades, kind="stable"):  # the rich ones on top
            picture.dot(self._at(item), self.radius, blend(POOR, RICH, self._shades[item]))
        return picture

    def _at(self, item: int) -> Point:
        x, y = self.projection.points[item]
        return float(x), float(y)

    def _name(self, item: int) -> str:
        return self.names[item].strip() if self.names else f"item {item}"

    def _draw_candidates(self, picture: Canvas, choice: Choice) -> None:
        for item in choice.candidates:
            shade = blend(POOR, RICH, self._shades[item])
            picture.dot(self._at(item), self.radius + 2.2, shade, CANDIDATE, 1.8)

    def _draw_user(self, picture: Canvas, item: int) -> None:
        _draw_user_mark(picture, self._at(item))
        self._label(picture, item, away_from=self._at(item))

    def _draw_pick(self, picture: Canvas, last: Recommendation, user: int) -> None:
        """Draw an arrow to the recommended item, and after a refusal a dashed line to the user's next item."""
        colour = canvas.GOOD if last.accepted else canvas.BAD
        start, end = self._at(last.at), self._at(last.item)
        if not last.accepted:
            picture.dashes(start, self._at(user), canvas.FAINT, 1.4)
            picture.dot(self._at(user), 5, canvas.WHITE, USER, 1.8)
        _draw_user_mark(picture, start)
        picture.dot(end, self.radius + 3.5, None, colour, 2.6)
        picture.arrow(start, _short_of(start, end, self.radius + 4), colour, 2.6)
        self._label(picture, last.at, away_from=end)
        if last.item != last.at:
            self._label(picture, last.item, away_from=start)

    def _label(self, picture: Canvas, item: int, away_from: Point) -> None:
        """Draw an item's name beside it, on the side away from a point."""
        x, y = self._at(item)
        name = picture.shorten(self._name(item), 12, 190)
        width = picture.text_width(name, 12) + 8
        down = 1 if y > away_from[1] else -1
        left = x + 6 if x >= away_from[0] else x - 6 - width
        left, middle = min(max(left, 4), WIDTH - 4 - width), min(max(y + 18 * down, TITLE + 12), BOTTOM)
        picture.box((left, middle - 8.5), (left + width, middle + 8.5), canvas.WHITE, PLATE)
        picture.text((left + 4, middle), name, 12, canvas.INK)

    def _draw_title(self, picture: Canvas, session: Session) -> None:
        note, outcome, colour = f"the user is at {self._name(session.user)}", "", canvas.WHITE
        if (last := session.last) is not None:
            note = f"{self._name(last.at)}  >  {self._name(last.item)}"
            outcome = f"accepted  +{last.reward:.2f}" if last.accepted else "refused"
            colour = canvas.GOOD_ON_STRIP if last.accepted else canvas.BAD_ON_STRIP
        score = f"step {session.steps}    return {session.total:.2f}"
        picture.title(f"Recommender: {len(self.rewards):,} items", score, note, outcome, colour)


def _draw_user_mark(picture: Canvas, at: Point) -> None:
    picture.dot(at, 6.5, USER, canvas.WHITE, 1.6)


def _cross(picture: Canvas, at: Point, size: float) -> None:
    x, y = at
    for colour, width, reach in ((canvas.WHITE, 5.5, size + 1.5), (PROTO, 3, size)):
        picture.line([(x - reach, y), (x + reach, y)], colour, width)
        picture.line([(x, y - reach), (x, y + reach)], colour, width)


def _short_of(start: Point, end: Point, gap: float) -> Point:
    """Return the point on the line to `end` that is `gap` before it."""
    length = float(np.hypot(end[0] - start[0], end[1] - start[1]))
    share = max(0.0, 1 - gap / length) if length else 0.0
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def _draw_legend(picture: Canvas, *, proposed: bool) -> None:
    """Draw the legend, with the proto-action's mark if there are any."""
    y = HEIGHT - LEGEND / 2
    picture.box((0, HEIGHT - LEGEND), (WIDTH, HEIGHT), (240, 242, 245))
    _draw_user_mark(picture, (20, y))
    picture.text((31, y), "user", 12, canvas.INK)
    if proposed:
        _cross(picture, (82, y), 6)
        picture.text((94, y), "proto-action", 12, canvas.INK)
    picture.dot((184, y), 5.5, blend(POOR, RICH, 0.4), CANDIDATE, 1.8)
    picture.text((195, y), "candidates", 12, canvas.INK)
    picture.arrow((274, y), (298, y), canvas.GOOD, 2.6)
    picture.text((304, y), "accepted", 12, canvas.INK)
    picture.arrow((372, y), (396, y), canvas.BAD, 2.6)
    picture.text((402, y), "refused", 12, canvas.INK)
    picture.text((500, y), "reward", 12, canvas.INK, "rm")
    for i in range(110):
        picture.line([(508 + i, y - 5), (508 + i, y + 5)], blend(POOR, RICH, i / 109), 1.5)
