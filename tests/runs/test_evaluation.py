import pytest

from wolpertinger.runs import evaluate


def test_the_exact_score_is_what_episodes_return(folder):
    found = evaluate(folder, episodes=3_000)
    assert found.exact
    assert abs(found.sampled.mean - found.score.value) < 2 * found.sampled.half_width
    assert 0 < found.score.value < found.candidates <= found.score.best
    assert found.sampled.steps_per_second > 0
    assert len(found.recommendations) == 5


def test_a_folder_without_a_run_or_checkpoint_is_named(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is no run folder: it holds no config\.json"):
        evaluate(tmp_path)
    with pytest.raises(FileNotFoundError, match="has no checkpoint 'first': it has best, last"):
        evaluate(folder, checkpoint="first")


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
