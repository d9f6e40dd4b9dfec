import csv
import json
from dataclasses import replace

import pytest

from tests.runs.tiny import SMALL, TINY_AGENT, tiny
from wolpertinger import Wolpertinger, WorseThanRandom
from wolpertinger.runs import evaluate, make_config, train
from wolpertinger.runs.config import read_config
from wolpertinger.runs.plot import read_curve
from wolpertinger.runs.presets import TASKS

OTHER_TASKS = {
    "cart-pole": ({"levels": 1_000_000}, ["reference controller", "random"]),
    "puddle-world": ({"plan": 4, "size": 6}, ["optimum", "best fixed plan", "random"]),
    "control": ({"env_id": "Pendulum-v1", "levels": 1001}, ["random"]),
}


def test_a_run_folder_holds_config_logs_checkpoints_curve_and_plot(folder):
    expected = {"config.json", "result.json", "curve.csv", "curve.png"}
    assert expected <= {path.name for path in folder.iterdir()}
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"best.zip", "last.zip"}
    logs = [path.name for path in (folder / "logs").iterdir()]
    assert "progress.csv" in logs
    assert any(name.startswith("events.out.tfevents") for name in logs)
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_the_log_tells_what_a_user_needs(folder):
    with (folder / "logs" / "progress.csv").open() as file:
        columns = set(csv.DictReader(file).fieldnames)
    assert {
        "rollout/ep_rew_mean",
        "train/critic_loss",
        "train/reranked",
        "time/lookup",
        "eval/share_of_optimal",
    } <= columns


def test_a_run_is_compared_with_random_actions(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(WorseThanRandom, "_judge", lambda callback: callback.say(f"random {callback.level}"))
    folder = train(tiny(), tmp_path / "run")
    random = json.loads((folder / "result.json").read_text())["baselines"]["random"]
    assert f"random {random}" in capsys.readouterr().err


def test_the_curve_is_the_exact_return_and_the_best_checkpoint_is_its_maximum(folder):
    curve = read_curve(folder)
    result = json.loads((folder / "result.json").read_text())
    assert len(curve["steps"]) == 20
    assert result["best"]["return"] == pytest.approx(max(curve["return"]))
    assert result["last"]["steps"] == curve["steps"][-1]
    assert result["baselines"]["random"] < result["baselines"]["best fixed item"] < result["baselines"]["optimum"]
    assert evaluate(folder, episodes=8).score.value == pytest.approx(max(curve["return"]))
    assert evaluate(folder, episodes=8, checkpoint="last").score.value == pytest.approx(curve["return"][-1])


@pytest.mark.parametrize("preset", ["nearest", "default"])
def test_the_config_is_enough_to_repeat_a_run(preset, folder, tmp_path):
    first = folder if preset == "nearest" else train(tiny(preset=preset), tmp_path / "first", quiet=True)
    config = read_config(first)
    assert config == tiny(preset=preset)
    again = train(config, tmp_path / "again", quiet=True)
    assert read_curve(again)["return"] == read_curve(first)["return"]


def test_a_finished_run_is_not_overwritten_unasked(folder):
    before = (folder / "result.json").read_text()
    with pytest.raises(FileExistsError, match="holds a run already: give another folder, or --overwrite"):
        train(tiny(), folder)
    assert (folder / "result.json").read_text() == before


def test_a_run_that_cannot_start_leaves_the_old_one(folder):
    with pytest.raises(ValueError, match="k=1000 is out of range for 49 actions"):
        train(tiny(k=1000), folder, overwrite=True)
    assert (folder / "result.json").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_the_users_own_is_never_touched(tmp_path, overwrite):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"holds what is not of a run \(thesis\.txt\): give another folder"):
        train(tiny(), tmp_path, overwrite=overwrite)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_run_goes_into_an_empty_folder_and_replaces_a_run(tmp_path):
    train(tiny(steps=200), tmp_path, quiet=True)
    train(tiny(steps=400), tmp_path, quiet=True, overwrite=True)
    assert json.loads((tmp_path / "result.json").read_text())["steps"] == 400


@pytest.mark.parametrize("task", OTHER_TASKS)
def test_every_task_trains_and_is_scored_by_the_episodes_it_can_play(task, tmp_path, monkeypatch):
    monkeypatch.setattr("wolpertinger.runs.training.SELECTION_EPISODES", 2)
    env, baselines = OTHER_TASKS[task]
    folder = train(make_config(task, env=env, n_envs=2, steps=60, changes=SMALL), tmp_path / "run", quiet=True)
    result = json.loads((folder / "result.json").read_text())
    assert list(result["baselines"]) == baselines
    found = evaluate(folder, episodes=2)
    assert found.score.value == found.sampled.mean
    assert found.exact == (task == "puddle-world")
    if task == "control":
        assert found.score.share is None
    else:
        assert found.score.share == pytest.approx(found.score.value / found.baselines[baselines[0]])
    assert evaluate(folder, episodes=2).score.value == found.score.value
    assert (folder / "curve.png").exists()


def test_a_run_keeps_its_map(tmp_path):
    path = tmp_path / "map.txt"
    path.write_text("S.~\n.~.\n..G\n")
    config = make_config("puddle-world", env={"plan": 2, "map": str(path)}, n_envs=2, steps=40, changes=SMALL)
    folder = train(config, tmp_path / "run", quiet=True)
    path.unlink()
    assert evaluate(folder).baselines["optimum"] == 250 - 3


def test_a_cap_below_the_way_to_the_goal_is_refused_before_a_run_is_replaced(folder, tmp_path):
    config = make_config("puddle-world", env={"plan": 2, "size": 5, "max_moves": 3}, n_envs=2, steps=40, changes=SMALL)
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(ValueError, match="max_moves=3: give at least 8, the moves from the start to the goal"):
        train(config, folder, overwrite=True, quiet=True)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_run_of_few_steps_is_not_all_evaluation(tmp_path):
    config = make_config("control", n_envs=2, steps=60, changes=SMALL)
    assert len(read_curve(train(config, tmp_path / "run", quiet=True))["steps"]) == 1


def test_a_run_may_promise_a_recall_instead_of_an_exact_lookup(tmp_path):
    config = make_config("recommender", env={"items": 60}, n_envs=8, steps=600, k=5, recall="fast", preset="nearest")
    train(config, tmp_path / "run", quiet=True)
    assert read_config(tmp_path / "run").recall == 0.7
    agent = Wolpertinger.load(tmp_path / "run" / "checkpoints" / "last.zip")
    assert (agent.actions.recall, agent.actions.index) == (0.7, "auto")
    with (tmp_path / "run" / "logs" / "progress.csv").open(newline="") as file:
        logged = [row["lookup/recall"] for row in csv.DictReader(file)]
    assert "1.0" in logged  # so few items are scanned
    assert evaluate(tmp_path / "run").score.value > 0


def test_a_recall_for_actions_that_need_no_index_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"recall=0\.9: ActionProduct.* needs no index, its lookup is exact"):
        train(make_config("puddle-world", recall=0.9), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="recall='quick': give a share of the true neighbours"):
        make_config("recommender", recall="quick", preset="nearest")


def test_the_default_recommender_is_searched_by_its_critic_and_the_papers_form_is_an_option(tmp_path):
    config = tiny(preset="default", changes={"learning_starts": 64, "batch_size": 16})
    found = evaluate(train(config, tmp_path / "run", quiet=True), episodes=8)
    assert found.candidates == found.score.value  # one candidate
    default, nearest = (make_config("recommender", preset=preset) for preset in ("default", "nearest"))
    assert [config.agent["candidates"]["kind"] for config in (default, nearest)] == ["critic", "nearest"]
    assert (nearest.n_envs, nearest.k) == (256, 0.05)


def test_a_run_that_is_limited_in_seconds_ends_early_with_its_schedules_at_their_end(tmp_path):
    config = tiny(steps=10**9, seconds=0.5, changes={**TINY_AGENT, "final_learning_rate": 1e-5})
    folder = train(config, tmp_path / "run", quiet=True)
    result = json.loads((folder / "result.json").read_text())
    curve = read_curve(folder)
    assert result["stopped_by"] == "seconds"
    assert result["steps"] == curve["steps"][-1] < 10**9
    assert 2 <= len(curve["steps"]) <= TASKS["recommender"].evaluations + 1
    assert curve["seconds"] == sorted(curve["seconds"])
    agent = Wolpertinger.load(folder / "checkpoints" / "last.zip")
    assert agent._current_progress_remaining < 0.1


def test_the_time_of_a_run_is_that_of_training_only(tmp_path, monkeypatch):
    """Before the first update nothing is looked up in training, though evaluation does."""
    monkeypatch.setitem(TASKS, "recommender", replace(TASKS["recommender"], episode_steps=1))
    idle = tiny(steps=40, changes={**TINY_AGENT, "learning_starts": 1_000})
    result = json.loads((train(idle, tmp_path / "run", quiet=True) / "result.json").read_text())
    assert len(read_curve(tmp_path / "run")["steps"]) > 1
    assert result["time"] == {}
    assert result["warm_up_steps"] == result["steps"]
    assert result["steps_per_second"] == 0
