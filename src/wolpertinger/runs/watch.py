"""Watch a run's agent at work: as a film, or in a window."""

import warnings
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np

from wolpertinger.agent import Wolpertinger
from wolpertinger.envs.allowed_info import METHODS
from wolpertinger.runs.config import read_config
from wolpertinger.runs.evaluation import load_agent
from wolpertinger.runs.film import check_suffix, write_film
from wolpertinger.runs.presets import TASKS
from wolpertinger.settings import check_number, check_seed

if TYPE_CHECKING:
    from wolpertinger.envs.rendering.canvas import Frame

MAX_FRAMES = 3_000
MIN_FPS, MAX_FPS = 0.01, 1_000


@runtime_checkable
class ShowsChoice(Protocol):
    """An environment that draws what the agent saw; `proto` is None if the critic found the candidates itself."""

    def show_choice(self, proto: Any, candidates: Any) -> None: ...


@dataclass
class Film:
    """What was played: where the film is, if one was written, its pictures, and what each episode returned."""

    path: Path | None = None
    frames: int = 0
    returns: list[float] = field(default_factory=list)
    cut: bool = False
    """Whether the last episode was not played to its end."""


def watch(folder: Path, out: Path | None = None, *, fps: float | None = None, **options: Any) -> Film:
    """Film a run's agent into `out` (.mp4 or .gif; default: watch.mp4 in the folder); options as in `Player`."""
    out = folder / "watch.mp4" if out is None else out
    check_suffix(out)
    player = Player(folder, fps=fps, **options)
    with closing(player.env):
        write_film(out, player.play(), player.fps)
    player.film.path = out
    return player.film


def show(folder: Path, *, fps: float | None = None, **options: Any) -> Film:
    """Play a run's agent in a window, until its user closes it; options as in `Player`."""
    from wolpertinger.envs.rendering import Window

    player = Player(folder, fps=fps, **options)
    with closing(player.env), closing(Window(str(folder), player.fps)) as window:
        window.open()
        for frame in player.play():
            window.show(frame)
            if window.closed:
                player.film.cut = True
                break
    return player.film


class Player:
    """Plays episodes of a run's task by its agent, without exploration: the same seed gives the same pictures.

    `every` keeps one picture of so many, and the last of each episode; `fps` is by default as fast as the task is.
    """

    def __init__(
        self,
        folder: Path,
        *,
        checkpoint: str = "best",
        episodes: int = 1,
        seed: int = 0,
        fps: float | None = None,
        every: int = 1,
        max_frames: int = MAX_FRAMES,
    ) -> None:
        for name, value in (("episodes", episodes), ("every", every), ("max_frames", max_frames)):
            check_number(name, value, least=1, whole=True)
        check_seed("seed", seed)
        check_number("fps", fps, least=MIN_FPS, most=MAX_FPS, optional=True)
        config = read_config(folder)
        self.agent: Wolpertinger = load_agent(folder, config, checkpoint, 1)[0]
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # an error says it below
            self.env: gym.Env = gym.make(TASKS[config.task].env_id, render_mode="rgb_array", **config.env)
        if "rgb_array" not in self.env.metadata.get("render_modes", ()):
            raise ValueError(
                f"{config.env.get('env_id', self.env)} draws no pictures: give it the render_mode rgb_array, with a "
                "render() that returns one, and list it in its metadata"
            )
        self.episodes, self.seed, self.every, self.max_frames = episodes, seed, every, max_frames
        self.fps = fps or max(MIN_FPS, self.env.metadata.get("render_fps", 30) / every)
        self.film = Film()

    def play(self) -> Iterator["Frame"]:
        """The pictures of all episodes, as they are played; `film` keeps count."""
        for episode in range(self.episodes):
            obs, _ = self.env.reset(seed=self.seed if episode == 0 else None)
            self.film.returns.append(0.0)
            over, steps = False, 0
            while True:
                if over or steps % self.every == 0:
                    if self.film.frames == self.max_frames:
                        self.film.cut = True
                        return
                    self.film.frames += 1
                    yield self._draw()
                if over:
                    break
                obs, over = self._step(obs)
                steps += 1

    def _step(self, obs: Any) -> tuple[Any, bool]:
        asked = [name for name in METHODS if self.agent.restrictions.from_env and self.env.has_wrapper_attr(name)]
        why = self.agent.explain(obs, allowed=self.env.get_wrapper_attr(asked[0])() if asked else None)
        if isinstance(self.env.unwrapped, ShowsChoice):
            proposed = None if not self.agent.policy.predictor.source.needs_actor else why.proto
            self.env.unwrapped.show_choice(proposed, why.actions)
        obs, reward, terminated, truncated, _ = self.env.step(why.chosen)
        self.film.returns[-1] += float(reward)
        return obs, terminated or truncated

    def _draw(self) -> "Frame":
        from wolpertinger.envs.rendering.opengl import NoOpenGLError, gymnasium_backend

        robot = self.film.frames == 1 and hasattr(self.env.unwrapped, "mujoco_renderer")
        try:
            with gymnasium_backend() if robot else nullcontext():
                frame: Any = self.env.render()
        except NoOpenGLError as error:
            raise OSError(
                f"no OpenGL for MuJoCo's pictures ({error}): set MUJOCO_GL=egl or MUJOCO_GL=osmesa; on Debian and "
                "Ubuntu, libegl1 or libosmesa6 would help"
            ) from error
        if not isinstance(frame, np.ndarray):
            raise ValueError(f"{self.env.spec and self.env.spec.id} draws no pictures: its render() gave {frame!r}")
        return frame
