"""TD3 over the full policy: smoothed targets, the least of twins, an actor that waits."""

import copy

import numpy as np
import pytest
import torch
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from tests.agent.envs import TargetEnv, best_of, greedy, scramble, scramble_all, small_agent
from wolpertinger import TD3, Wolpertinger
from wolpertinger.learners import Batch

BATCH, GAMMA = 24, 0.9
TWINS = {"net_arch": [12, 12], "n_critics": 2}


def make(**settings):
    agent = small_agent(
        TargetEnv(points_per_axis=9), learner=TD3(**settings), policy_kwargs=TWINS, tau=0.3, exploration=greedy()
    )
    scramble_all(agent)
    return agent


def transitions(agent, seed=0):
    rng = np.random.default_rng(seed)
    obs, next_obs = (torch.as_tensor(rng.uniform(-1, 1, (BATCH, 2)).astype(np.float32)) for _ in range(2))
    actions = torch.as_tensor(agent.actions.sample(rng, BATCH))
    return Batch(obs, actions, torch.zeros(BATCH), next_obs, torch.full((BATCH,), GAMMA))


def ranked(agent, monkeypatch):
    """The rankings of every update from now on."""
    found, rank = [], agent.policy.behaviour.rank
    monkeypatch.setattr(agent.policy.behaviour, "rank", lambda *args: (found.append(rank(*args)), found[-1])[1])
    return found


def test_without_noise_the_target_is_the_least_of_the_twins(monkeypatch):
    agent = make(target_noise=0.0)
    scramble(agent.critic_target, seed=5)  # twins of which now one, now the other values less
    rankings, batch, critic = ranked(agent, monkeypatch), transitions(agent), copy.deepcopy(agent.critic_target)
    protos = agent.actor_target(batch.next_obs).detach().numpy()
    agent.learner.update(batch)
    for row, state in enumerate(batch.next_obs):  # `best_of` values a pair by the least of all critics
        _, q = best_of(critic, state, agent.actions, agent.actions.nearest(protos[[row]], agent.k)[0])
        assert rankings[0].values[row, 0].item() == pytest.approx(q, rel=1e-4, abs=1e-5)
    first, second = critic(batch.next_obs, rankings[0].vectors[:, 0])
    assert (first > second).any()
    assert (second > first).any()


@pytest.mark.parametrize(("noise", "clip"), [(0.05, 0.5), (5.0, 0.25)])
def test_targets_are_smoothed_inside_the_clip_and_the_box(noise, clip, monkeypatch):
    agent = make(target_noise=noise, target_noise_clip=clip)
    rankings, shifts = ranked(agent, monkeypatch), []
    for seed in range(40):
        batch = transitions(agent, seed)
        unit = agent.actor_target.unit(batch.next_obs).detach()
        agent.learner.update(batch)
        proto = agent.actor.scale.to_unit(rankings[-1].states.proto)
        assert proto.abs().max() <= 1
        shifts.append((proto - unit)[(unit.abs() < 1 - clip)])
    shifts = torch.cat(shifts)
    assert shifts.abs().max() <= clip + 1e-5
    assert len(shifts) > 200
    if noise < clip:
        assert shifts.std().item() == pytest.approx(noise, rel=0.15)
    else:
        assert (shifts.abs() > 0.99 * clip).float().mean() > 0.9


@pytest.mark.parametrize("delay", [1, 3])
def test_actor_and_targets_wait_for_the_critic(delay):
    agent, moved = make(policy_delay=delay), []
    for seed in range(6):
        names = ("actor", "actor_target", "critic", "critic_target")
        before = {name: copy.deepcopy(getattr(agent, name).state_dict()) for name in names}
        losses = agent.learner.update(transitions(agent, seed))
        now = {name: getattr(agent, name).state_dict() for name in names}
        changed = [any(not torch.equal(now[n][key], old) for key, old in before[n].items()) for n in names]
        moved.append((*changed, "actor_loss" in losses))
    expected = [((update + 1) % delay == 0) for update in range(6)]
    assert moved == [(due, due, True, due, due) for due in expected]


def test_it_learns_and_comes_back_from_a_file(tmp_path):
    env = TargetEnv(points_per_axis=32, dim=2)
    agent = small_agent(env, learner="td3", learning_starts=100, policy_kwargs={"net_arch": [64, 64], "n_critics": 2})
    agent.learn(500)
    assert evaluate_policy(agent, Monitor(env), n_eval_episodes=100)[0] > -0.3  # a random policy scores -1.04
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    assert loaded._arguments["learner"] == TD3()
    obs = np.random.default_rng(0).uniform(-1, 1, (20, 2)).astype(np.float32)
    np.testing.assert_array_equal(loaded.predict(obs)[0], agent.predict(obs)[0])
