"""One step of Algorithm 2 against brute force and finite differences; seeds; the constructor."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.logger import configure

from wolpertinger import DDPG, ActionTable, States, Wolpertinger
from wolpertinger.learners import ddpg

from .envs import SMALL, GuidedEnv, NormalisedExtractor, TargetEnv, best_of, greedy, scramble_all, small_agent

SGD = {"net_arch": [12, 12], "activation_fn": torch.nn.Tanh, "optimizer_class": torch.optim.SGD}


def filled_agent(**kwargs):
    """An agent with random networks, each target different from its network, and a buffer with both kinds of end."""
    env = TimeLimit(EndingEnv(points_per_axis=8), max_episode_steps=4)
    agent = small_agent(env, **{"k": 5, "learning_starts": 1_000, "gamma": 0.9, **kwargs})
    agent.set_logger(configure(None, []))
    agent.learn(120)
    scramble_all(agent)
    return agent


class EndingEnv(TargetEnv):
    """Terminates now and then, so that some episodes end before their time is out."""

    def step(self, action):
        obs, reward, _, _, info = super().step(action)
        return obs, reward, bool(self.np_random.random() < 0.3), False, info


def train_once(agent, monkeypatch, batch_size=32):
    """One training step; the batch it drew, and the target its critic learned."""
    seen = {}

    def sample(*args, **kwargs):
        indices = np.random.default_rng(0).integers(agent.replay_buffer.pos, size=batch_size)
        seen["indices"], seen["batch"] = indices, agent.replay_buffer._get_samples(indices)
        return seen["batch"]

    def loss(q, target):
        seen["target"] = target[0].clone()
        return (q - target).square().mean()

    monkeypatch.setattr(agent.replay_buffer, "sample", sample)
    monkeypatch.setitem(ddpg.LOSSES, "mse", loss)
    agent.train(1, batch_size)
    return seen


def expected_target(agent, batch, dones, *, actor=None, critic=None, states=None, k=None):
    """Line 13 as a loop, with parts that can be swapped for the wrong ones."""
    actor, critic = actor or agent.actor_target, critic or agent.critic_target
    states = batch.next_observations if states is None else states
    targets = []
    for i, state in enumerate(states):
        candidates = agent.actions.nearest(actor(state[None]).detach().numpy(), k or agent.k)[0]
        _, q = best_of(critic, state, agent.actions, candidates)
        targets.append(batch.rewards[i].item() + (1 - dones[i]) * agent.gamma * q)
    return np.array(targets)


def networks_of(agent):
    return {name: copy.deepcopy(getattr(agent, name)) for name in ("actor", "critic", "actor_target", "critic_target")}


def swaps(before, batch, seen, buffer):
    ended = buffer.dones[seen["indices"], 0]
    return {
        "the online actor": {"actor": before["actor"]},
        "the online critic": {"critic": before["critic"]},
        "s instead of s'": {"states": batch.observations},
        "the nearest action alone": {"k": 1},
        "one candidate fewer": {"k": 4},
        "no end at all": {"dones": np.zeros(len(ended))},
        "time-outs as ends": {"dones": ended},
    }


def test_the_target_is_the_full_policys_with_both_targets_at_the_next_state(monkeypatch):
    agent = filled_agent()
    before = networks_of(agent)
    seen = train_once(agent, monkeypatch)
    batch, buffer = seen["batch"], agent.replay_buffer
    for name in ("actor_target", "critic_target"):
        setattr(agent, name, before[name])
    ended, timed_out = (array[seen["indices"], 0] for array in (buffer.dones, buffer.timeouts))
    terminal = ended * (1 - timed_out)
    assert terminal.any()
    assert timed_out.any()
    np.testing.assert_allclose(seen["target"], expected_target(agent, batch, terminal), rtol=1e-4, atol=1e-4)
    for name, wrong in swaps(before, batch, seen, buffer).items():
        other = expected_target(agent, batch, wrong.pop("dones", terminal), **wrong)
        assert np.abs(seen["target"].numpy() - other).max() > 0.01, f"this test would not notice {name}"


@pytest.mark.parametrize("is_set_later", [False, True])
def test_targets_follow_by_tau(monkeypatch, is_set_later):
    agent = filled_agent(tau=0.9 if is_set_later else 0.3)
    agent.tau = 0.3
    before = networks_of(agent)
    train_once(agent, monkeypatch)
    for name in ("actor", "critic"):
        now, old_target = getattr(agent, name), before[f"{name}_target"]
        for own, old, new in zip(
            now.parameters(), old_target.parameters(), getattr(agent, f"{name}_target").parameters(), strict=True
        ):
            torch.testing.assert_close(new, 0.3 * own + 0.7 * old)


def in_double(network):
    return copy.deepcopy(network).double()


def slope(loss, network, direction, step=1e-4):
    """Central difference of `loss` along a direction in the space of the network's parameters."""
    values = []
    for sign in (1, -1):
        moved = in_double(network)
        with torch.no_grad():
            for parameter, part in zip(moved.parameters(), direction, strict=True):
                parameter += sign * step * part
            values.append(loss(moved).item())
    return (values[0] - values[1]) / (2 * step)


def assert_steps_down(loss, before, after, learning_rate):
    """The change of the parameters is - learning rate * gradient, as seen from random directions."""
    changes = [new.double() - old.double() for new, old in zip(after.parameters(), before.parameters(), strict=True)]
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        direction = [torch.randn(change.shape, generator=generator, dtype=torch.double) for change in changes]
        moved = sum((change * part).sum().item() for change, part in zip(changes, direction, strict=True))
        assert moved == pytest.approx(-learning_rate * slope(loss, before, direction), rel=2e-3, abs=1e-6)


@pytest.mark.parametrize("n_critics", [1, 2])
def test_the_critic_steps_down_its_squared_error(monkeypatch, n_critics):
    agent = filled_agent(learning_rate=0.05, policy_kwargs={**SGD, "n_critics": n_critics})
    before = networks_of(agent)["critic"]
    seen = train_once(agent, monkeypatch)
    states = seen["batch"].observations.double()
    executed = torch.as_tensor(agent.actions.embed(seen["batch"].actions[:, 0].numpy())).double()

    def loss(critic):  # line 14, the sum over critics
        unit = critic.scale.to_inputs(executed)
        return sum((q(states, unit) - seen["target"].double()).square().mean() for q in critic.q_networks)

    assert_steps_down(loss, before, agent.critic, 0.05)


@pytest.mark.parametrize("anchor", [0.0, 0.7])
def test_the_actor_steps_up_q_at_its_proto_action(monkeypatch, anchor):
    agent = filled_agent(learning_rate=0.05, learner=DDPG(anchor=anchor), policy_kwargs=SGD)
    before = networks_of(agent)
    seen = train_once(agent, monkeypatch)
    states, next_states = seen["batch"].observations.double(), seen["batch"].next_observations.double()
    critic = in_double(agent.critic)  # as line 14 has just left it
    best = agent.policy.behaviour.rank(
        States(next_states.float(), before["actor_target"](next_states.float())), before["critic_target"]
    )

    def loss(actor):  # line 15; with anchor=0 the paper's, and nothing else
        distance = actor.mu(next_states) - actor.scale.to_unit(best.vectors[:, 0].double())
        q = critic.q_networks[0](states, actor.mu(states) / critic.scale.spread)
        return -q.mean() + anchor * distance.square().sum(dim=1).mean()

    assert_steps_down(loss, before["actor"], agent.actor, 0.05)


@pytest.mark.parametrize("k", [1, 5])
def test_the_actor_may_take_the_gradient_at_the_action_its_proto_becomes(monkeypatch, k):
    agent = filled_agent(learning_rate=0.05, learner=DDPG(gradient_at="action"), k=k, policy_kwargs=SGD)
    before = networks_of(agent)
    states = train_once(agent, monkeypatch)["batch"].observations
    critic = in_double(agent.critic)
    slopes = []  # of Q at each state's action, found by a loop
    for state in states:
        candidates = agent.actions.nearest(before["actor"](state[None]).detach().numpy(), k)[0]
        action, _ = best_of(agent.critic, state, agent.actions, candidates)
        inputs = critic.scale.to_inputs(torch.as_tensor(agent.actions.embed(action)).double())[None].requires_grad_()
        critic.q_networks[0](state[None].double(), inputs).sum().backward()
        slopes.append(inputs.grad[0] / critic.scale.spread)

    def loss(actor):
        return -(torch.stack(slopes) * actor.mu(states.double())).sum(dim=1).mean()

    assert_steps_down(loss, before["actor"], agent.actor, 0.05)


def test_a_small_step_of_the_actor_raises_q(monkeypatch):
    agent = filled_agent(learning_rate=1e-3, policy_kwargs=SGD)
    old = networks_of(agent)["actor"]
    states = train_once(agent, monkeypatch)["batch"].observations
    raised = agent.critic(states, agent.actor(states)).mean() - agent.critic(states, old(states)).mean()
    assert raised > 0


def test_gradients_are_clipped_to_their_norm(monkeypatch):
    agent = filled_agent(learning_rate=1.0, learner=DDPG(max_grad_norm=0.01), policy_kwargs=SGD)
    before = networks_of(agent)
    train_once(agent, monkeypatch)
    for name in ("actor", "critic"):
        pairs = zip(before[name].parameters(), getattr(agent, name).parameters(), strict=True)
        moved = torch.cat([(new - old).flatten() for old, new in pairs]).norm().item()
        assert 0 < moved < 0.0101


def test_the_huber_loss_is_another_loss(monkeypatch):
    changes = []
    for critic_loss in ("mse", "huber"):
        agent = filled_agent(learner=DDPG(critic_loss=critic_loss), policy_kwargs=SGD)
        with monkeypatch.context() as patch:
            train_once(agent, patch)
        changes.append(agent.critic.q_networks[0].state.weight.detach().clone())
    assert not torch.equal(*changes)


def test_the_actor_may_have_a_learning_rate_of_its_own(monkeypatch):
    agent = filled_agent(learning_rate=0.05, actor_learning_rate=0.0, policy_kwargs=SGD)
    before = networks_of(agent)
    train_once(agent, monkeypatch)
    assert torch.equal(before["actor"].mu[0].weight, agent.actor.mu[0].weight)
    assert not torch.equal(before["critic"].q_networks[0].state.weight, agent.critic.q_networks[0].state.weight)


def test_targets_have_the_running_statistics_of_batch_normalisation():
    agent = small_agent(policy_kwargs={"net_arch": [8], "features_extractor_class": NormalisedExtractor})
    agent.learn(60)
    own, target = agent.critic.features_extractor.norm, agent.critic_target.features_extractor.norm
    assert own.running_mean.abs().max() > 1e-4
    torch.testing.assert_close(target.running_mean, own.running_mean)
    torch.testing.assert_close(target.running_var, own.running_var)


def weights(agent):
    return torch.cat([parameter.detach().flatten() for parameter in agent.policy.parameters()])


def run(seed):
    env = TargetEnv(length=5)
    return small_agent(env, seed=seed).learn(80), np.array(env.executed)


def test_the_same_seed_gives_the_same_run_and_another_one_another():
    (one, actions), (same, same_actions), (other, other_actions) = run(3), run(3), run(4)
    np.testing.assert_array_equal(actions, same_actions)
    assert torch.equal(weights(one), weights(same))
    assert not np.array_equal(actions, other_actions)
    assert not torch.equal(weights(one), weights(other))


def test_set_random_seed_reaches_the_exploration():
    runs = []
    for _ in range(2):
        agent = small_agent(seed=None)
        agent.set_random_seed(5)
        runs.append(agent.explorer.draw(np.arange(20), None))
    np.testing.assert_array_equal(*runs)


def test_learning_goes_on_in_a_second_call():
    agent = small_agent().learn(40)
    updates = agent._n_updates
    agent.learn(30, reset_num_timesteps=False)
    assert (agent.num_timesteps, agent._n_updates) == (70, updates + 30)
    agent.learn(30)
    assert agent.num_timesteps == 30


def test_sigma_starts_anew_in_a_second_call():
    agent = small_agent(exploration=greedy(noise="gaussian", sigma=0.5, final_sigma=0.0), learning_starts=0).learn(10)
    asked, perturb = [], agent.explorer.perturb
    agent.explorer.perturb = lambda unit, progress: (asked.append(progress), perturb(unit, progress))[1]
    agent.learn(10)
    assert asked == pytest.approx(np.arange(10) / 10)


def test_the_buffer_holds_the_ids_of_the_executed_actions():
    env = TargetEnv(length=5)
    agent = small_agent(env).learn(50)
    np.testing.assert_array_equal(agent.replay_buffer.actions[:50, 0, 0], env.executed)
    assert agent.replay_buffer.actions.dtype == np.int64


def test_k_can_be_set_at_any_time():
    agent = small_agent(k=3)
    obs = np.zeros(2, np.float32)
    assert len(agent.explain(obs).actions) == 3
    agent.k = 0.1
    assert agent.k == len(agent.explain(obs).actions) == 102
    agent.learn(30)
    assert agent.k == 102


def test_k_is_64_or_all_actions_by_default():
    assert small_agent(k=None).k == 64
    assert small_agent(TargetEnv(points_per_axis=5), k=None).k == 25


BAD_K = [
    (0, ValueError, "k=0 is out of range for 1024 actions"),
    (-3, ValueError, "k=-3 is out of range"),
    (1025, ValueError, "k=1025 is out of range for 1024 actions"),
    (0.0, ValueError, r"k=0\.0 is not a share"),
    (1.5, ValueError, r"k=1\.5 is not a share"),
    (float("nan"), ValueError, "k=nan is not a share"),
    (True, TypeError, "k=True is not a number"),
    ("8", TypeError, "k='8' is not a number"),
]


@pytest.mark.parametrize(("k", "error", "match"), BAD_K)
def test_a_bad_k_is_refused_at_construction_and_later(k, error, match):
    with pytest.raises(error, match=match):
        small_agent(k=k)
    agent = small_agent(k=4)
    with pytest.raises(error, match=match):
        agent.k = k
    assert agent.k == agent.policy.k == 4


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="neighbours"):
        small_agent(neighbours=8)
    with pytest.raises(TypeError, match="net_size"):
        small_agent(policy_kwargs={"net_size": 8})


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="policy='RnnPolicy': give one of"):
        small_agent(policy="RnnPolicy")


def test_no_environment_is_refused():
    with pytest.raises(ValueError, match=r"env=None: give an environment, or load a saved agent"):
        Wolpertinger("MlpPolicy", None, **SMALL)


def test_a_dict_observation_asks_for_its_policy():
    from .envs import DictEnv

    with pytest.raises(ValueError, match="MultiInputPolicy"):
        small_agent(DictEnv())


def test_an_environment_can_be_given_by_its_id():
    gym.register("test/Target-v0", entry_point=lambda **kwargs: TargetEnv(length=3))
    try:
        agent = small_agent("test/Target-v0")
        agent.set_env("test/Target-v0")
        assert agent.learn(25).num_timesteps == 25
    finally:
        gym.registry.pop("test/Target-v0")


def test_set_env_keeps_the_action_set():
    agent = small_agent(TargetEnv(points_per_axis=5))
    agent.set_env(TargetEnv(points_per_axis=5, length=3))
    assert agent.learn(25).num_timesteps == 25
    with pytest.raises(ValueError, match=r"takes 36 actions .*the action set has 25"):
        agent.set_env(TargetEnv(points_per_axis=6))


def test_set_env_refuses_another_set_of_the_same_size():
    table = ActionTable(np.random.default_rng(0).normal(size=(25, 2)))
    agent = small_agent(TargetEnv(points_per_axis=5))
    with pytest.raises(ValueError, match="their actions are not the same"):
        agent.set_env(TargetEnv(table))
    own = small_agent(TargetEnv(points_per_axis=5), actions=table)  # the user's choice against the environment's
    own.set_env(TargetEnv(points_per_axis=5))
    assert own.actions is table


def test_set_env_asks_for_guided_actions_too():
    agent = small_agent(GuidedEnv(), exploration=greedy(epsilon=0.5, guided=0.5))
    with pytest.raises(ValueError, match=r"guided=0\.5 needs an environment with a method guided_actions"):
        agent.set_env(TargetEnv())


def test_a_buffer_of_the_users_own_is_used():
    class OwnBuffer(ReplayBuffer):
        pass

    assert type(small_agent(replay_buffer_class=OwnBuffer).replay_buffer) is OwnBuffer


def test_actions_of_another_integer_type_are_welcome():
    env = TargetEnv(points_per_axis=5, length=3)
    env.action_space = spaces.Discrete(25, dtype=np.int32)
    assert small_agent(env).learn(40).replay_buffer.actions.dtype == np.int32


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"exploration": 0.1}, TypeError, r'exploration=0\.1: give one of "exploration" or Exploration\(\.\.\.\)'),
        (
            {"exploration": {"epsilon": 0.1}},
            ValueError,
            r"exploration=\{'epsilon': 0.1\}: give .*Exploration\(\.\.\.\)",
        ),
        ({"exploration": DDPG()}, TypeError, r"exploration=DDPG\(.*\): give .*Exploration\(\.\.\.\)"),
        ({"exploration": len}, TypeError, r"exploration=.*len.*: give Exploration\(\.\.\.\)"),
        ({"policy_kwargs": {"k": 7}}, ValueError, "policy_kwargs holds k: give it to Wolpertinger itself"),
        ({"learner": "sac"}, ValueError, r"learner='sac': give one of \"ddpg\" or DDPG\(\.\.\.\)"),
        ({"learner": 3}, TypeError, r"learner=3: give one of \"ddpg\" or DDPG\(\.\.\.\)"),
        ({"critic": len}, TypeError, r"critic=.*len.*: give MLP\(\.\.\.\), TwoTower\(\.\.\.\)"),
        ({"rerank": "quick"}, ValueError, "rerank='quick': give one of 'exact', 'screened'"),
        ({"learning_rate": lambda left: left, "final_learning_rate": 0.1}, ValueError, "is a schedule already"),
    ],
)
def test_bad_options_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        small_agent(TargetEnv(), **arguments)


def test_the_learning_rates_go_to_their_final_values_together():
    agent = small_agent(TargetEnv(), learning_rate=1e-2, final_learning_rate=1e-3, actor_learning_rate=1e-4)
    agent.learn(40)
    assert agent.critic.optimizer.param_groups[0]["lr"] == pytest.approx(1e-3, rel=0.5)
    assert agent.actor.optimizer.param_groups[0]["lr"] == pytest.approx(1e-5, rel=0.5)


def test_parameters_are_set_from_a_dict_not_from_a_file(tmp_path):
    agent, other = small_agent(TargetEnv(), seed=1), small_agent(TargetEnv(), seed=2)
    other.set_parameters(agent.get_parameters())
    for own, given in zip(other.policy.parameters(), agent.policy.parameters(), strict=True):
        torch.testing.assert_close(own, given)
    with pytest.raises(TypeError, match=r"is not a dict of parameters: load a file with Wolpertinger\.load"):
        agent.set_parameters(str(tmp_path / "agent.zip"))


def test_returns_of_several_steps_end_with_their_episode_where_learning_begins_anew():
    agent = small_agent(TargetEnv(length=None), n_steps=3)
    agent.learn(30)
    agent.learn(10)
    buffer = agent.replay_buffer
    assert buffer.timeouts[:, 0].nonzero()[0].tolist() == [29]


def test_gamma_has_an_effect_on_returns_of_several_steps():
    agent = small_agent(n_steps=3)
    agent.gamma = 0.5
    agent.learn(30)
    assert agent.replay_buffer.gamma == 0.5


def test_the_users_own_buffer_arguments_stay_as_they_are():
    given = {"handle_timeout_termination": True}
    small_agent(n_steps=3, replay_buffer_kwargs=given)
    assert given == {"handle_timeout_termination": True}
