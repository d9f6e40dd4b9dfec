import csv
import json
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from wolpertinger import ActionTable, Wolpertinger
from wolpertinger.runs import evaluate, make_config, train
from wolpertinger.runs.build import make_agent, make_env
from wolpertinger.runs.config import read_config
from wolpertinger.runs.plot import read_curve
from wolpertinger.runs.presets import PAPER, PRESETS, TASKS
from wolpertinger.runs.scores import puddle_scorer

TINY = {"items": 49, "dim": 4}
TINY_AGENT = {"learning_starts": 64, "batch_size": 16, "policy_kwargs": {"net_arch": [16, 16]}}


def tiny(**changes):
    few = {"env": TINY, "n_envs": 8, "steps": 800, "changes": TINY_AGENT, "preset": "nearest"}
    return make_config("recommender", **{**few, **changes})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return train(tiny(), tmp_path_factory.mktemp("runs") / "tiny", quiet=True)


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


def test_the_exact_score_is_what_episodes_return(folder):
    found = evaluate(folder, episodes=3_000)
    assert found.exact
    assert abs(found.sampled.mean - found.score.value) < 2 * found.sampled.half_width
    assert 0 < found.score.value < found.candidates <= found.score.best
    assert found.sampled.steps_per_second > 0
    assert len(found.recommendations) == 5


def test_a_finished_run_is_not_overwritten_unasked(folder):
    before = (folder / "result.json").read_text()
    with pytest.raises(FileExistsError, match="holds a run already: give another folder, or --overwrite"):
        train(tiny(), folder)
    assert (folder / "result.json").read_text() == before


def test_a_run_that_cannot_start_leaves_the_old_one(folder):
    with pytest.raises(ValueError, match="k=1000 is out of range for 49 actions"):
        train(tiny(k=1000), folder, overwrite=True)
    assert (folder / "result.json").exists()


def test_a_folder_without_a_run_or_checkpoint_is_named(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is no run folder: it holds no config\.json"):
        evaluate(tmp_path)
    with pytest.raises(FileNotFoundError, match="has no checkpoint 'first': it has best, last"):
        evaluate(folder, checkpoint="first")


def test_changes_are_laid_over_the_presets():
    config = tiny(changes={"exploration": {"epsilon": 0.7}, "tau": 0.5})
    preset = TASKS["recommender"].nearest["agent"]
    assert config.agent["exploration"] == {**preset["exploration"], "epsilon": 0.7}
    assert config.agent["tau"] == 0.5
    assert config.agent["learning_rate"] == preset["learning_rate"]


def test_the_papers_preset_is_plain_ddpg():
    config = make_config("recommender", env=TINY, preset="paper", n_envs=2)
    agent = make_agent(config, make_env(config))
    assert {name: config.agent[name] for name in PAPER} == PAPER
    assert (agent.anchor, agent.critic_loss, agent.tau) == (0.0, "mse", 1e-3)
    assert len(agent.critic.q_networks) == 1
    assert not any("norm" in type(module).__name__.lower() for module in agent.policy.modules())


@pytest.mark.parametrize("preset", PRESETS)
def test_every_task_and_preset_builds_an_agent(preset):
    for task in TASKS if preset != "few-items" else ["recommender"]:
        config = make_config(task, env=TINY if task == "recommender" else {}, preset=preset, n_envs=2)
        assert isinstance(make_agent(config, make_env(config)), Wolpertinger)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "cart-pole", "preset": "few-items"}, "is for the recommender, not for cart-pole"),
        ({"task": "chess"}, "task='chess': give one of recommender"),
        ({"task": "recommender", "env": {"colour": 3}}, "unknown options of recommender: colour; there are items, dim"),
        (
            {"task": "recommender", "preset": "best"},
            "give one of 'default', 'few-items', 'nearest', 'paper'",
        ),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_config(**arguments)


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


def test_evaluation_meets_other_users_than_training(folder, monkeypatch):
    seeds = []
    monkeypatch.setattr(
        "wolpertinger.runs.evaluation.sampled_score",
        lambda agent, env, episodes: seeds.append(env.unwrapped._seeds),
    )
    evaluate(folder)
    assert seeds[0][0] == 10_000


def test_evaluation_plays_as_many_episodes_as_the_task_says(folder, monkeypatch):
    played = []
    monkeypatch.setattr(
        "wolpertinger.runs.evaluation.sampled_score",
        lambda agent, env, episodes: played.append((env.num_envs, episodes)),
    )
    evaluate(folder)
    assert played == [(2_000, 2_000)]


SMALL = {"learning_starts": 16, "batch_size": 16, "policy_kwargs": {"net_arch": [16, 16]}}
OTHER_TASKS = {
    "cart-pole": ({"levels": 1_000_000}, ["reference controller", "random"]),
    "puddle-world": ({"plan": 4, "size": 6}, ["optimum", "best fixed plan", "random"]),
    "control": ({"env_id": "Pendulum-v1", "levels": 1001}, ["random"]),
}


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


def test_a_score_by_episodes_is_what_a_loop_over_them_returns(tmp_path):
    config = make_config("puddle-world", env={"plan": 2, "size": 5}, n_envs=2, changes=SMALL)
    env = make_env(config, 1)
    agent = make_agent(config, env)
    world = gym.make("wolpertinger/PuddleWorld-v0", plan=2, size=5)
    obs, _ = world.reset()
    total, over, taken = 0.0, False, set()
    while not over:
        action, _ = agent.predict(obs, deterministic=True)
        obs, reward, ended, cut, _ = world.step(action)
        total, over = total + reward, ended or cut
        taken.add(int(action))
    found = puddle_scorer(env, 1, seed=0).score(agent)
    assert (found.value, found.distinct) == (total, len(taken))


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


@pytest.mark.parametrize("asked", [{"recall": "fast"}, {"table": True}])
def test_where_the_critic_searches_there_is_no_lookup_to_set(asked):
    with pytest.raises(ValueError, match='nothing is looked up; leave it out, or use preset="nearest"'):
        make_config("recommender", **asked)


def test_the_default_recommender_is_searched_by_its_critic_and_the_papers_form_is_an_option(tmp_path):
    config = tiny(preset="default", changes={"learning_starts": 64, "batch_size": 16})
    found = evaluate(train(config, tmp_path / "run", quiet=True), episodes=8)
    assert found.candidates == found.score.value  # one candidate
    default, nearest = (make_config("recommender", preset=preset) for preset in ("default", "nearest"))
    assert (default.agent["candidates"], "candidates" in nearest.agent) == ("critic", False)
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


def test_actions_with_a_lookup_of_their_own_can_be_looked_up_in_a_table(tmp_path):
    config = make_config("puddle-world", env={"plan": 4}, n_envs=2, steps=8, table=True, recall=0.9)
    env = make_env(config)
    agent = make_agent(config, env)
    assert isinstance(agent.actions, ActionTable)
    assert agent.actions.recall == 0.9
    offered = env.get_attr("actions", indices=0)[0]
    assert np.array_equal(agent.actions.vectors, offered.embed(np.arange(16)))


def test_a_table_of_too_many_actions_is_refused():
    config = make_config("puddle-world", env={"plan": 30}, n_envs=2, steps=8, table=True)
    with pytest.raises(ValueError, match=r"table=True: .* too many actions for a table, 16,777,216 is the most"):
        make_agent(config, make_env(config))


def test_the_time_of_a_run_is_that_of_training_only(tmp_path, monkeypatch):
    """Before the first update nothing is looked up in training, though evaluation does."""
    monkeypatch.setitem(TASKS, "recommender", replace(TASKS["recommender"], episode_steps=1))
    idle = tiny(steps=40, changes={**TINY_AGENT, "learning_starts": 1_000})
    result = json.loads((train(idle, tmp_path / "run", quiet=True) / "result.json").read_text())
    assert len(read_curve(tmp_path / "run")["steps"]) > 1
    assert result["time"] == {}
    assert result["warm_up_steps"] == result["steps"]
    assert result["steps_per_second"] == 0
