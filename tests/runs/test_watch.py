"""Films of agents: what is in the files, and that nothing half-written is left."""

import os
import sys

import imageio.v3 as iio
import numpy as np
import pytest

from wolpertinger.envs.rendering import Window, opengl
from wolpertinger.runs import make_config, show, watch
from wolpertinger.runs.build import make_agent, make_env
from wolpertinger.runs.config import write_config
from wolpertinger.runs.watch import Player

# imageio leaves the pipes of the ffmpeg that it reads with to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:Exception ignored in. <_io\.FileIO:pytest.PytestUnraisableExceptionWarning"
)

SMALL = {
    "recommender": {"items": 49, "dim": 4},
    "cart-pole": {"levels": 101},
    "puddle-world": {"size": 8, "plan": 4, "window": 5},
    "control": {"levels": 11},
}


def untrained(task, folder, env=None, preset="nearest"):
    """A run folder as `train` leaves it, with an agent that has learnt nothing."""
    small = {"policy_kwargs": {"net_arch": [16, 16]}}
    config = make_config(task, env=env or SMALL[task], n_envs=1, changes=small, preset=preset)
    (folder / "checkpoints").mkdir(parents=True)
    write_config(folder, config)
    make_agent(config, make_env(config)).save(folder / "checkpoints" / "best.zip")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return untrained("recommender", tmp_path_factory.mktemp("runs") / "recommender")


def test_an_mp4_holds_all_pictures(run):
    film = watch(run, episodes=2)
    assert film.path == run / "watch.mp4"
    video = iio.imread(film.path)
    assert video.shape == (film.frames, 480, 640, 3)
    assert len(film.returns) == 2
    assert not film.cut
    about = iio.immeta(film.path)
    assert about["codec"] == "h264"
    assert about["pix_fmt"].startswith("yuv420p")
    assert about["fps"] == 2
    first = next(iter(Player(run, episodes=2).play()))
    assert np.abs(video[0].astype(int) - first).mean() < 3


def test_a_gif_holds_all_pictures_and_loops(run, tmp_path):
    film = watch(run, tmp_path / "new folder" / "film.GIF", fps=4)
    frames = iio.imread(film.path)
    assert frames.shape[1:3] == (480, 640)
    assert len(frames) == film.frames
    about = iio.immeta(film.path)
    assert about["duration"] == 250
    assert about["loop"] == 0
    first = next(iter(Player(run).play()))
    assert np.abs(frames[0, ..., :3].astype(int) - first).mean() < 3
    assert film.path.stat().st_size < 300_000
    assert [path.name for path in film.path.parent.iterdir()] == ["film.GIF"]


def test_the_same_seed_gives_the_same_pictures(run):
    first, again, other = (np.array(list(Player(run, seed=seed, max_frames=3).play())) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_every_episode_has_a_start_of_its_own(run):
    first, again = (Player(run, episodes=2, every=1_000) for _ in range(2))
    for player in (first, again):
        assert len(list(player.play())) == 4
    assert first.film.returns[0] != first.film.returns[1]
    assert first.film.returns == again.film.returns


def test_the_recommender_shows_what_the_agent_saw(run, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "wolpertinger.envs.Recommender.show_choice", lambda env, proto, candidates: seen.append((proto, candidates))
    )
    player = Player(run)
    list(player.play())
    assert len(seen) == player.film.frames - 1
    assert seen[0][0].shape == (4,)
    assert seen[0][1].shape == (player.agent.k,)


def test_an_actor_that_nobody_asks_is_not_shown(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "wolpertinger.envs.Recommender.show_choice", lambda env, proto, candidates: seen.append((proto, candidates))
    )
    list(Player(untrained("recommender", tmp_path / "run", preset="default")).play())
    assert {proto for proto, _ in seen} == {None}
    assert {len(candidates) for _, candidates in seen} == {1}


def test_pictures_can_be_left_out_but_not_the_last(run):
    every, third = Player(run, seed=1), Player(run, seed=1, every=3)
    pictures, kept = list(every.play()), list(third.play())
    assert len(pictures) > 4
    np.testing.assert_array_equal(kept[1], pictures[3])
    np.testing.assert_array_equal(kept[-1], pictures[-1])
    assert third.film.returns == every.film.returns
    assert third.fps == every.fps / 3


def test_a_film_ends_at_the_most_pictures_it_may_have(run, tmp_path):
    film = watch(run, tmp_path / "film.gif", episodes=50, max_frames=4)
    assert film.frames == 4
    assert film.cut


@pytest.mark.parametrize("task", ["cart-pole", "puddle-world", "control"])
def test_every_task_can_be_watched(task, tmp_path, monkeypatch):
    monkeypatch.setattr("wolpertinger.envs.rendering.cartpole.CartPoleView._find_stage", lambda self: None)
    film = watch(untrained(task, tmp_path / task), max_frames=3)
    video = iio.imread(film.path)
    assert len(video) == film.frames == 3
    assert not np.array_equal(video[0], video[2])


def test_odd_pictures_become_even(run, monkeypatch):
    monkeypatch.setattr(Player, "_draw", lambda self: np.zeros((31, 45, 3), dtype=np.uint8))
    assert iio.imread(watch(run, max_frames=2).path).shape == (2, 30, 44, 3)


def test_a_failure_leaves_nothing_half_written(run, tmp_path, monkeypatch):
    out = tmp_path / "film.mp4"
    out.write_text("an older film")

    def fail(self, obs):
        raise RuntimeError("the actor has left")

    monkeypatch.setattr(Player, "_step", fail)
    for path in (out, tmp_path / "film.gif"):
        with pytest.raises(RuntimeError, match="the actor has left"):
            watch(run, path)
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]
    assert out.read_text() == "an older film"


def test_without_ffmpeg_a_gif_is_suggested(run, tmp_path, monkeypatch):
    def missing():
        raise RuntimeError("No ffmpeg exe could be found.")

    monkeypatch.setattr("imageio_ffmpeg.get_ffmpeg_exe", missing)
    with pytest.raises(OSError, match=r"no ffmpeg to write mp4 with .*: pip install imageio-ffmpeg, or write a \.gif"):
        watch(run, tmp_path / "film.mp4")
    assert not list(tmp_path.iterdir())


def test_a_window_plays_the_same_pictures_and_may_be_closed(run, monkeypatch):
    shown = []

    def show_once(self, frame):
        shown.append(frame)
        self.closed = len(shown) == 2

    monkeypatch.setattr(Window, "show", show_once)
    film = show(run, episodes=2)
    assert len(shown) == film.frames == 2
    assert film.cut
    assert film.path is None
    np.testing.assert_array_equal(shown, list(Player(run, max_frames=2).play()))


def test_a_window_that_stays_open_sees_all(run):
    film = show(run, fps=1_000)
    assert not film.cut
    assert film.frames > 1


def test_without_a_display_the_window_fails_before_anything_is_drawn(run, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "no such driver")
    monkeypatch.setattr(Player, "_draw", lambda self: pytest.fail("drawn"))
    with pytest.raises(OSError, match="no window can be opened"):
        show(run)


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    env = {"env_id": "InvertedPendulum-v5", "levels": 3}
    return untrained("control", tmp_path_factory.mktemp("runs") / "robot", env)


@pytest.fixture
def headless(monkeypatch):
    for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("platform.system", lambda: "Linux")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="backends of Linux")
def test_a_robot_is_drawn_without_a_display(robot, headless):
    if not any(map(opengl._works, opengl.BACKENDS)):
        pytest.skip("no OpenGL here")
    player = Player(robot, max_frames=2)
    pictures = list(player.play())
    player.env.close()
    assert pictures[0].std() > 5
    assert "MUJOCO_GL" not in os.environ  # it would mislead the cart-pole


def test_a_robot_without_opengl_is_a_clear_error(robot, headless, monkeypatch):
    monkeypatch.setattr(opengl, "_works", lambda backend: False)
    with pytest.raises(OSError, match=r"^no OpenGL .*neither EGL nor OSMesa works.* MUJOCO_GL=egl .* libosmesa6"):
        watch(robot)
    assert not (robot / "watch.mp4").exists()


def test_what_a_robots_backend_says_fits_on_a_line(robot, headless, monkeypatch):
    def fail(self):
        raise RuntimeError("one\ntwo")

    monkeypatch.setattr(opengl, "_works", lambda backend: True)
    monkeypatch.setattr("gymnasium.envs.mujoco.MujocoEnv.render", fail)
    with pytest.raises(OSError, match=r"^no OpenGL .*RuntimeError: one two\)"):
        watch(robot)
    assert "MUJOCO_GL" not in os.environ


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"out": "film.avi"}, ValueError, r"film\.avi is no film: give a file that ends in \.mp4 or \.gif"),
        ({"out": "film"}, ValueError, r"film is no film: give a file that ends in \.mp4 or \.gif"),
        ({"checkpoint": "first"}, FileNotFoundError, "has no checkpoint 'first': it has best"),
        ({"episodes": 0}, ValueError, "episodes=0: give a whole number of at least 1"),
        ({"every": 0}, ValueError, "every=0: give a whole number of at least 1"),
        ({"max_frames": 0}, ValueError, "max_frames=0: give a whole number of at least 1"),
        ({"fps": 0.0}, ValueError, r"fps=0\.0: give a finite number from 0\.01 to 1000"),
        ({"fps": float("nan")}, ValueError, "fps=nan: give a finite number from 0"),
        ({"fps": float("inf")}, ValueError, "fps=inf: give a finite number from 0"),
    ],
)
def test_bad_arguments_are_named(options, error, message, run, tmp_path):
    out = tmp_path / options.pop("out", "film.mp4")
    with pytest.raises(error, match=message):
        watch(run, out, **options)
    assert not list(tmp_path.iterdir())


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is no run folder: it holds no config\.json"):
        watch(tmp_path)
