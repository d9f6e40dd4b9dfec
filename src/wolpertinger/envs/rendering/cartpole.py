"""The cart-pole: by MuJoCo where there is OpenGL, else a plain drawing of track, cart and pole."""

import math
import warnings

from wolpertinger.envs.rendering import canvas
from wolpertinger.envs.rendering.canvas import HEIGHT, TITLE, WIDTH, Canvas, Colour, Frame
from wolpertinger.envs.rendering.cartpole_3d import Stage
from wolpertinger.envs.rendering.cartpole_scene import Moment, Track
from wolpertinger.envs.rendering.opengl import NoOpenGLError

POLE: Colour = (217, 140, 38)
GOAL: Colour = (150, 217, 180)
RAIL: Colour = (90, 102, 120)
MARGIN = 75  # pixels beyond either end of the track
LONGEST_ARROW = 50  # pixels, at full force
MIDDLE = TITLE + (HEIGHT - TITLE) * 0.56  # height of the track in the plain drawing


class CartPoleView:
    """Draws moments; chooses between MuJoCo and the plain drawing at the first one."""

    def __init__(self, track: Track) -> None:
        self.track = track
        self._stage: Stage | None = None
        self._plain = False

    def draw(self, moment: Moment) -> Frame:
        """Draw a moment with its force, and a title strip with the score."""
        picture = Canvas()
        stage = self._find_stage()
        if stage is None:
            draw_plain(picture, moment, self.track)
        _draw_title(picture, moment)
        frame = picture.frame()
        if stage is not None:
            frame[TITLE:] = stage.draw(moment)
        return frame

    def _find_stage(self) -> Stage | None:
        if self._stage is None and not self._plain:
            try:
                self._stage = Stage(self.track, WIDTH, HEIGHT - TITLE)
            except NoOpenGLError as error:
                self._plain = True
                warnings.warn(
                    f"no OpenGL for MuJoCo's pictures ({error}): the cart-pole is drawn in two dimensions. On Debian "
                    "and Ubuntu, libegl1 or libosmesa6 would help.",
                    stacklevel=2,
                )
        return self._stage

    def close(self) -> None:
        """Free OpenGL's resources; a later picture acquires them again."""
        if self._stage is not None:
            self._stage.close()
            self._stage = None


def draw_plain(picture: Canvas, moment: Moment, track: Track) -> None:
    """Track, goal, cart, pole and force from the side."""
    metre = (WIDTH / 2 - MARGIN) / track.half
    cart = WIDTH / 2 + moment.cart * metre
    goal = track.goal * metre
    picture.box((WIDTH / 2 - goal, MIDDLE + 18), (WIDTH / 2 + goal, MIDDLE + 28), GOAL)
    ends = [WIDTH / 2 + side * (track.half + 0.2) * metre for side in (-1, 1)]
    picture.line([(ends[0], MIDDLE), (ends[1], MIDDLE)], RAIL, 4)
    for end in ends:
        picture.box((end - 3, MIDDLE - 14), (end + 3, MIDDLE + 14), RAIL)
    picture.box((cart - 0.15 * metre, MIDDLE - 12), (cart + 0.15 * metre, MIDDLE + 12), canvas.INK)
    tip = cart + moment.length * metre * math.sin(moment.angle), MIDDLE - moment.length * metre * math.cos(moment.angle)
    colour = canvas.GOOD if moment.rewarded else POLE
    picture.line([(cart, MIDDLE), tip], colour, 9)
    for end_of_pole in ((cart, MIDDLE), tip):
        picture.dot(end_of_pole, 4.5, colour)
    picture.dot((cart, MIDDLE), 3, canvas.WHITE)
    side = math.copysign(0.16 * metre, moment.force)
    reach = LONGEST_ARROW * moment.force / track.max_force
    picture.arrow((cart + side, MIDDLE), (cart + side + reach, MIDDLE), canvas.BAD, 4)


def _draw_title(picture: Canvas, moment: Moment) -> None:
    degrees = math.degrees(math.remainder(moment.angle, math.tau))
    picture.title(
        "Cart-pole swing-up",
        f"step {moment.steps}    return {moment.total:.0f}",
        f"force {moment.force:+.2f} N    pole {moment.length:.2f} m, {degrees:+.0f}° from upright",
        "reward" if moment.rewarded else "",
        canvas.GOOD_ON_STRIP,
    )
