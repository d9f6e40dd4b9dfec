"""Algorithm 2, lines 13 to 16, against computations from scratch; and a second learner in its place."""

import ast
import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import wolpertinger
from tests.agent.envs import TargetEnv, all_actions, best_of, greedy, scramble_all, small_agent
from wolpertinger import DDPG, ActionProduct, ActionTable, BestByCritic, CheckpointError, States, Wolpertinger
from wolpertinger.learners import Batch, Networks, ddpg
from wolpertinger.learners.base import minimise
from wolpertinger.networks import PolyakUpdate

BATCH, GAMMA, RATE = 24, 0.9, 0.05
TERMINATED = slice(0, BATCH, 4)
SGD = {"net_arch": [12, 12], "activation_fn": torch.nn.Tanh, "optimizer_class": torch.optim.SGD}


def digits(**kwargs):
    return TargetEnv(ActionProduct([np.linspace(-1, 1, 9)] * 2, space="multidiscrete"), **kwargs)


CASES = {
    "nearest": (lambda: TargetEnv(points_per_axis=9), {"k": 5}),
    "one": (lambda: TargetEnv(points_per_axis=9), {"k": 1}),
    "digits": (digits, {"k": 5}),
    "everything": (lambda: TargetEnv(points_per_axis=9), {"k": 81}),
    "twins": (lambda: TargetEnv(points_per_axis=9), {"k": 5, "policy_kwargs": {**SGD, "n_critics": 2}}),
}


def make(case="nearest", **settings):
    """An agent whose networks are random and all different, with plain gradient descent."""
    env, own = CASES[case]
    agent = small_agent(env(), **{"learning_rate": RATE, "policy_kwargs": SGD, **own, **settings})
    scramble_all(agent)
    return agent


def transitions(agent, seed=0):
    """A batch with some transitions that ended their episode."""
    rng = np.random.default_rng(seed)
    obs, next_obs = (torch.as_tensor(rng.uniform(-1, 1, (BATCH, 2)).astype(np.float32)) for _ in range(2))
    discounts = torch.full((BATCH,), GAMMA)
    discounts[TERMINATED] = 0
    actions = torch.as_tensor(agent.actions.sample(rng, BATCH))
    return Batch(obs, actions, torch.as_tensor(rng.normal(size=BATCH).astype(np.float32)), next_obs, discounts)


def networks_of(agent):
    names = ("actor", "actor_target", "critic", "critic_target")
    return Networks(**{name: copy.deepcopy(getattr(agent, name)) for name in names})


def pick(agent, actor, critic, state):
    """The full policy's action in one state, and its value: one candidate after the other."""
    candidates = agent.actions.nearest(actor(state[None]).detach().numpy(), agent.k)[0]
    return best_of(critic, state, agent.actions, candidates)


def targets(agent, before, batch):
    """Line 13 as a loop over states and candidates, by the targets as they were."""
    values = [pick(agent, before.actor_target, before.critic_target, state)[1] for state in batch.next_obs]
    return batch.rewards + batch.discounts * torch.tensor(values)


def squared_error(critic, agent, batch, target):
    """Line 14's loss, summed over critics."""
    executed = torch.as_tensor(agent.actions.embed(batch.actions.numpy()))
    return (critic(batch.obs, executed) - target).square().mean(dim=1).sum()


def assert_stepped_down(network, before, loss):
    """The network is what it was, one step of RATE down the gradient of `loss(before)`."""
    gradients = torch.autograd.grad(loss(before), list(before.parameters()), allow_unused=True)
    moved = 0.0
    for now, old, gradient in zip(network.parameters(), before.parameters(), gradients, strict=True):
        step = torch.zeros_like(old) if gradient is None else RATE * gradient
        torch.testing.assert_close(now.detach(), (old - step).detach(), rtol=1e-4, atol=1e-6)
        moved += step.abs().sum().item()
    assert moved > 0.01  # else nothing would be tested


@pytest.mark.parametrize("case", CASES)
def test_the_target_is_that_of_a_loop_over_states_and_candidates(case, monkeypatch):
    agent, seen = make(case), []
    batch, before = transitions(agent), networks_of(agent)
    monkeypatch.setitem(ddpg.LOSSES, "mse", lambda q, target: (seen.append(target), (q - target).square().mean())[1])
    agent.learner.update(batch)
    expected = targets(agent, before, batch)
    torch.testing.assert_close(seen[0], expected.expand_as(seen[0]), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(seen[0][:, TERMINATED], batch.rewards[TERMINATED].expand(len(seen[0]), -1))
    assert (seen[0] - batch.rewards).abs().max() > 0.05


@pytest.mark.parametrize("case", CASES)
def test_the_critic_steps_down_its_loss(case):
    agent = make(case)
    batch, before = transitions(agent), networks_of(agent)
    target = targets(agent, before, batch)
    losses = agent.learner.update(batch)
    assert_stepped_down(agent.critic, before.critic, lambda critic: squared_error(critic, agent, batch, target))
    first, now = (squared_error(critic, agent, batch, target).item() for critic in (before.critic, agent.critic))
    assert losses["critic_loss"].item() == pytest.approx(first, rel=1e-4)
    assert now < first


def test_the_huber_loss_is_linear_far_from_the_target():
    agent = make(learner=DDPG(critic_loss="huber"))
    batch, before = transitions(agent), networks_of(agent)
    target = targets(agent, before, batch)

    def loss(critic):
        errors = (critic(batch.obs, torch.as_tensor(agent.actions.embed(batch.actions.numpy())))[0] - target).abs()
        assert (errors > 1).any()
        assert (errors < 1).any()
        return torch.where(errors < 1, errors.square() / 2, errors - 0.5).mean()

    agent.learner.update(batch)
    assert_stepped_down(agent.critic, before.critic, loss)


@pytest.mark.parametrize("case", CASES)
def test_the_actor_steps_up_the_new_critic_at_its_proto_action(case):
    agent = make(case)
    batch, before = transitions(agent), networks_of(agent)
    losses = agent.learner.update(batch)

    def loss(actor):  # by the critic as line 14 has just left it
        return -sum(agent.critic(state[None], actor(state[None]))[0, 0] for state in batch.obs) / BATCH

    assert_stepped_down(agent.actor, before.actor, loss)
    assert losses["actor_loss"].item() == pytest.approx(loss(before.actor).item(), rel=1e-4, abs=1e-6)


def test_a_small_step_of_the_actor_raises_q_at_the_proto_action():
    agent = make(learning_rate=1e-3)
    batch, before = transitions(agent), networks_of(agent)
    agent.learner.update(batch)
    old, new = (agent.critic(batch.obs, actor(batch.obs)).mean() for actor in (before.actor, agent.actor))
    assert new > old


def test_the_anchor_pulls_the_proto_action_to_the_action_of_the_target_policy():
    agent = make(learner=DDPG(anchor=0.7))
    batch, before = transitions(agent), networks_of(agent)
    agent.learner.update(batch)
    # In the next states, where line 13 has found the full policy's action already.
    actions = [pick(agent, before.actor_target, before.critic_target, state)[0] for state in batch.next_obs]
    anchors = torch.as_tensor(agent.actions.embed(np.array(actions)))  # the box is [-1, 1] already

    def loss(actor):
        distances = (actor(batch.next_obs) - anchors).square().sum(dim=1)
        return -agent.critic(batch.obs, actor(batch.obs))[0].mean() + 0.7 * distances.mean()

    assert_stepped_down(agent.actor, before.actor, loss)


@pytest.mark.parametrize("case", ["nearest", "one", "digits"])
def test_the_gradient_may_be_taken_at_the_action_that_the_proto_becomes(case):
    agent = make(case, learner=DDPG(gradient_at="action"))
    batch, before = transitions(agent), networks_of(agent)
    agent.learner.update(batch)
    slopes = []  # of Q at the action of each state
    for state in batch.obs:
        action, _ = pick(agent, before.actor, agent.critic, state)
        vector = torch.as_tensor(agent.actions.embed(action))[None].requires_grad_()
        slopes.append(torch.autograd.grad(agent.critic(state[None], vector)[0, 0], vector)[0])

    def loss(actor):
        return -(torch.cat(slopes) * actor(batch.obs)).sum(dim=1).mean()

    assert_stepped_down(agent.actor, before.actor, loss)


@pytest.mark.parametrize("name", ["actor", "critic"])
def test_the_targets_go_the_share_tau_of_the_way(name):
    agent = make(tau=0.3)
    old = getattr(networks_of(agent), f"{name}_target")
    agent.learner.update(transitions(agent))
    network, target = getattr(agent, name), getattr(agent, f"{name}_target")
    for own, before, now in zip(network.parameters(), old.parameters(), target.parameters(), strict=True):
        torch.testing.assert_close(now, 0.3 * own.detach() + 0.7 * before)


def test_the_gradients_norm_is_clipped():
    agent = make(learning_rate=1.0, learner=DDPG(max_grad_norm=0.01))
    before = networks_of(agent)
    agent.learner.update(transitions(agent))
    for name in ("actor", "critic"):
        pairs = zip(getattr(before, name).parameters(), getattr(agent, name).parameters(), strict=True)
        moved = torch.cat([(new - old).flatten() for old, new in pairs]).norm().item()
        assert moved == pytest.approx(0.01, rel=1e-2)


@pytest.mark.parametrize(
    "settings",
    [
        {"candidates": "all"},
        {"critic": "two-tower", "candidates": BestByCritic(refresh_every=1)},
    ],
    ids=["all", "critic"],
)
def test_where_candidates_need_no_actor_it_is_not_trained_and_the_target_is_the_best_of_a(settings, monkeypatch):
    agent, seen = make("nearest", k=3, exploration=greedy(epsilon=0.1), **settings), []
    batch, before = transitions(agent), networks_of(agent)
    if "critic" in settings:  # it searches by the learned critic, and what it finds is valued by the target
        agent.critic_target.load_state_dict(agent.critic.state_dict())
        agent.policy.behaviour.source.critic_updated()
        before = networks_of(agent)
    monkeypatch.setitem(ddpg.LOSSES, "mse", lambda q, target: (seen.append(target), (q - target).square().mean())[1])
    losses = agent.learner.update(batch)
    best = [best_of(before.critic_target, state, agent.actions, all_actions(agent.actions)) for state in batch.next_obs]
    expected = batch.rewards + batch.discounts * torch.tensor([q for _, q in best])
    torch.testing.assert_close(seen[0][0], expected, rtol=1e-4, atol=1e-4)
    assert losses.keys() == {"critic_loss"}
    for now, old in zip(agent.actor.parameters(), before.actor.parameters(), strict=True):
        assert torch.equal(now, old)


def test_the_source_is_told_of_every_update():
    agent = make()
    told, source = [], agent.policy.behaviour.source
    source.critic_updated = lambda: told.append(1)
    for seed in range(3):
        agent.learner.update(transitions(agent, seed))
    assert len(told) == 3


@pytest.mark.parametrize(("n_steps", "discounts"), [(1, [0, GAMMA]), (3, [0, GAMMA**3])])
def test_a_batch_of_the_buffer_is_what_a_learner_takes(n_steps, discounts):
    agent = small_agent(digits(length=5), gamma=GAMMA, n_steps=n_steps, learning_starts=1_000).learn(60)
    batch = agent._sample(50)
    assert batch.obs.shape == batch.next_obs.shape == (50, 2)
    assert batch.actions.shape == (50, 2)  # digits
    assert batch.rewards.shape == batch.discounts.shape == (50,)
    assert batch.discounts.unique().tolist() == pytest.approx(discounts)
    assert agent.learner.update(batch).keys() == {"critic_loss", "actor_loss"}


class TwinDelayed:
    """A learner of a user's own, like TD3: twin critics, a smoothed target, an actor that learns every second time."""

    def __init__(self, networks, policy, tau):
        self.networks, self.policy, self.tau, self.updates = networks, policy, tau, 0
        self.polyak = PolyakUpdate((networks.critic, networks.critic_target), (networks.actor, networks.actor_target))

    def update(self, batch):
        networks, policy, scale = self.networks, self.policy, self.networks.actor.scale
        with torch.no_grad():
            unit = networks.actor_target.unit(batch.next_obs)
            noise = (0.2 * torch.randn_like(unit)).clamp(-0.5, 0.5)
            proto = scale.to_vectors((unit + noise).clamp(-1, 1))
            best = policy.rank(States(batch.next_obs, proto), networks.critic_target)  # the least of the twins
            target = batch.rewards + batch.discounts * best.values[:, 0]
        q = networks.critic(batch.obs, policy.embed(batch.actions))  # (2, batch)
        critic_loss = (q - target).square().mean(dim=1).sum()
        minimise(critic_loss, networks.critic)
        policy.source.critic_updated()
        self.updates += 1
        losses = {"critic_loss": critic_loss.detach()}
        if self.updates % 2 == 0:
            actor_loss = -networks.critic(batch.obs, networks.actor(batch.obs))[0].mean()
            minimise(actor_loss, networks.actor)
            losses["actor_loss"] = actor_loss.detach()
            self.polyak.step(self.tau)
        return losses


def twin_agent(env, **settings):
    policy_kwargs = {"net_arch": [64, 64], "n_critics": 2}
    return small_agent(env, learner=TwinDelayed, policy_kwargs=policy_kwargs, learning_starts=100, **settings)


def test_a_second_learner_fits_and_learns():
    env = TargetEnv(points_per_axis=32, dim=2)
    agent = twin_agent(env)
    assert isinstance(agent.learner, TwinDelayed)
    before, _ = evaluate_policy(agent, Monitor(env), n_eval_episodes=100)
    agent.learn(500)
    after, _ = evaluate_policy(agent, Monitor(env), n_eval_episodes=100)
    assert agent.learner.updates == agent._n_updates == 400
    assert after > -0.3 > before + 0.2  # a random policy scores -1.04


def test_a_second_learner_delays_its_actor():
    agent = twin_agent(TargetEnv(points_per_axis=9))
    scramble_all(agent)
    moved = []
    for seed in range(4):
        before = networks_of(agent)
        agent.learner.update(transitions(agent, seed))
        moved.append([not torch.equal(*weights) for weights in pairs_of_weights(before, agent)])
    assert moved == [[False, True, False], [True, True, True]] * 2  # actor, critic, critic's target


def pairs_of_weights(before, agent):
    yield before.actor.mu[0].weight, agent.actor.mu[0].weight
    for name in ("critic", "critic_target"):
        yield getattr(before, name).q_networks[1].state.weight, getattr(agent, name).q_networks[1].state.weight


def test_a_second_learner_is_asked_for_on_loading(tmp_path):
    agent = twin_agent(TargetEnv(points_per_axis=9)).learn(120)
    agent.save(tmp_path / "agent.zip")
    with pytest.raises(CheckpointError, match="saved with learner of the user's own: give it to load again"):
        Wolpertinger.load(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip", env=TargetEnv(points_per_axis=9), learner=TwinDelayed)
    assert isinstance(loaded.learner, TwinDelayed)
    obs = np.random.default_rng(0).uniform(-1, 1, (20, 2)).astype(np.float32)
    np.testing.assert_array_equal(loaded.predict(obs)[0], agent.predict(obs)[0])
    assert loaded.learn(20, reset_num_timesteps=False).num_timesteps == 140


def test_learners_know_no_environment_and_no_stable_baselines3():
    folder = Path(wolpertinger.__file__).parent / "learners"
    imported = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module)
    assert "wolpertinger.networks" in imported
    above = ("stable_baselines3", "gymnasium", "wolpertinger.envs", "wolpertinger.agent", "logging")
    assert not [name for name in imported if name.startswith(above)]


def test_sampled_targets_look_at_no_action_that_was_removed():
    table = ActionTable(np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32))
    agent = small_agent(TargetEnv(table, length=5), learner=DDPG(target_samples=8)).learn(60)
    table.remove(np.arange(200))
    agent.learn(10, reset_num_timesteps=False)
    assert (agent.learner._given.given >= 200).all()
    assert len(agent.learner._given.given) >= 8
