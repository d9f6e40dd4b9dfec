"""Agents whose candidates come from the critic: training, predicting by fresh keys, logging, saving."""

import numpy as np
import pytest
import torch
from stable_baselines3.common.logger import configure

from tests.policy.two_towers import VECTORS, all_values, fresh, states, tower_agent, updated
from wolpertinger import ActionProduct, BestByCritic, Nearest, States, TwoTower, Union, Wolpertinger

from .envs import NormalisedExtractor, TargetEnv, greedy, scramble, scramble_all, small_agent

SELDOM = BestByCritic(refresh_every=1_000)


def rank(agent, obs):
    behaviour = agent.policy.behaviour
    return behaviour.rank(behaviour.propose(agent.actor, obs), agent.critic)


@pytest.mark.parametrize("use", ["predict", "explain"])
def test_nothing_is_predicted_by_old_keys(use):
    agent = fresh(tower_agent(k=1, candidates=SELDOM))
    obs = states()
    agent.predict(obs.numpy())
    scramble(agent.critic, 10)
    updated(agent)
    found = agent.predict(obs.numpy())[0] if use == "predict" else agent.explain(obs.numpy()).chosen
    np.testing.assert_array_equal(found, all_values(agent, obs).argmax(dim=1))


@pytest.mark.parametrize("candidates", [SELDOM, Union((Nearest(), SELDOM))])
def test_in_learn_too_predictions_go_by_the_critic_of_now(candidates):
    agent = tower_agent(k=1, candidates=candidates, learning_starts=5)
    obs, behaviour = states(50), agent.policy.behaviour.source

    def compare(*_):
        np.testing.assert_array_equal(agent.predict(obs.numpy())[0], all_values(agent, obs).argmax(dim=1))
        np.testing.assert_array_equal(agent.explain(obs.numpy()).chosen, all_values(agent, obs).argmax(dim=1))
        return True

    agent.learn(40, callback=compare)
    assert behaviour.stats()["staleness"] == agent._n_updates > 0  # training has kept its own keys all the time


@pytest.mark.parametrize("predict_by", ["critic", "target"])
@pytest.mark.parametrize("use", ["predict", "explain"])
def test_a_callback_that_predicts_does_not_change_what_is_learned(use, predict_by):
    def learned(callback):
        agent = tower_agent(k=4, candidates=BestByCritic(refresh_every=7), policy_kwargs={"predict_by": predict_by})
        agent.learn(60, callback=callback)
        return {**agent.critic.state_dict(), **agent.policy.behaviour.source.state_dict()}, agent.replay_buffer.actions

    def predicts(local_variables, _):
        getattr(local_variables["self"], use)(states().numpy())
        return True

    (ours, executed), (theirs, executed_too) = learned(None), learned(predicts)
    np.testing.assert_array_equal(executed, executed_too)
    for one, other in zip(ours.values(), theirs.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("predict_by", ["critic", "target"])
def test_parameters_of_another_agent_come_with_their_keys(predict_by):
    one, other = (tower_agent(k=1, candidates=SELDOM, policy_kwargs={"predict_by": predict_by}) for _ in range(2))
    obs = states()
    fresh(one).predict(obs.numpy())
    other.predict(obs.numpy())
    rank(other, obs)
    other.set_parameters(one.get_parameters())
    np.testing.assert_array_equal(other.predict(obs.numpy())[0], one.predict(obs.numpy())[0])
    np.testing.assert_array_equal(rank(other, obs).actions, rank(one, obs).actions)


@pytest.mark.parametrize("candidates", [BestByCritic(refresh_every=7), Union((Nearest(), BestByCritic(7)))])
def test_the_log_tells_the_age_of_the_keys(candidates, tmp_path):
    agent = tower_agent(k=4, candidates=candidates)
    agent.set_logger(configure(str(tmp_path), ["csv"]))
    agent.learn(60, log_interval=1)
    agent.logger.close()
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    logged = {"candidates/staleness", "candidates/agreement", "candidates/seconds", "time/lookup"}
    assert logged <= set(header.split(","))


@pytest.mark.parametrize("age", [0, 2])
def test_a_saved_agent_goes_on_with_keys_of_the_same_age(tmp_path, age):
    candidates = BestByCritic(refresh_every=5)
    agent = fresh(tower_agent(k=4, candidates=candidates, policy_kwargs={"n_critics": 2}))
    obs = states()
    rank(agent, obs)
    scramble(agent.critic, 10)  # the snapshot, which is saved, is of the critic before
    agent.policy.predictor.source.critic_updated()
    for _ in range(age):
        agent.policy.behaviour.source.critic_updated()
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    assert (loaded.policy_kwargs["critic"], loaded.policy_kwargs["candidates"]) == (TwoTower(), candidates)
    assert loaded.policy.behaviour.source.age == age
    np.testing.assert_array_equal(rank(loaded, obs).actions, rank(agent, obs).actions)
    for name in ("actions", "q"):
        ours, theirs = (getattr(each.explain(obs.numpy()), name) for each in (agent, loaded))
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(loaded.explain(obs.numpy()).actions, best_by_sum(loaded, obs, 4))


@torch.no_grad()
def best_by_sum(agent, obs, k):
    vectors = torch.from_numpy(VECTORS).expand(len(obs), -1, -1)
    return agent.critic(obs, vectors).sum(dim=0).topk(k, dim=1).indices


@pytest.mark.parametrize("candidates", [BestByCritic(refresh_every=7), Union((Nearest(), BestByCritic(7)))])
def test_training_goes_on_from_a_file_as_it_would_have(tmp_path, candidates):
    first = tower_agent(k=4, candidates=candidates)
    first.learn(40)
    train(first, 3)
    assert first.policy.behaviour.source.stats()["staleness"] > 0
    first.save(tmp_path / "agent.zip", include=["replay_buffer"])
    second = Wolpertinger.load(tmp_path / "agent.zip")
    second.set_logger(first.logger)
    for agent in (first, second):
        train(agent, 10)
    for part in (lambda agent: agent.policy, lambda agent: agent.policy.behaviour.source):
        for name, tensor in part(first).state_dict().items():
            torch.testing.assert_close(part(second).state_dict()[name], tensor, rtol=0, atol=0)


def train(agent, times):
    np.random.seed(3)  # noqa: NPY002 - Stable-Baselines3's buffer draws from here
    for _ in range(times):
        agent.train(1, 16)


def test_its_own_vectors_of_the_actions():
    agent = fresh(tower_agent(policy_kwargs={"n_critics": 2}))
    inputs = agent.critic.scale.to_inputs(torch.from_numpy(VECTORS))
    expected = torch.cat([network.action_tower(inputs)[:, :-1] for network in agent.critic.q_networks], dim=1)
    np.testing.assert_allclose(agent.action_vectors(), expected.detach(), rtol=1e-5, atol=1e-6)
    huge = ActionProduct([np.linspace(-1, 1, 2)] * 100)
    with pytest.raises(ValueError, match="too large to go through"):
        small_agent(TargetEnv(huge, length=5), critic="two-tower").action_vectors()
    with pytest.raises(ValueError, match='critic="two-tower"'):
        small_agent().action_vectors()


@pytest.mark.parametrize("candidates", ["critic", "all", "both"])
def test_an_actor_that_nobody_asks_is_not_trained(candidates):
    agent = tower_agent(candidates=candidates)
    before = [parameter.clone() for parameter in agent.actor.parameters()]
    agent.learn(40)
    same = all(torch.equal(one, other) for one, other in zip(before, agent.actor.parameters(), strict=True))
    assert same == (candidates != "both")


@pytest.mark.parametrize("candidates", ["critic", "all", "both"])
def test_an_actor_that_nobody_asks_does_no_work_and_is_not_logged(candidates, tmp_path):
    agent, asked = tower_agent(candidates=candidates), []
    for actor in (agent.actor, agent.actor_target):
        actor.mu.register_forward_hook(lambda *_: asked.append(1))
    agent.set_logger(configure(str(tmp_path), ["json"]))
    agent.learn(40, log_interval=1)
    agent.predict(states().numpy())
    agent.explain(states().numpy())
    agent.logger.close()
    logged = "actor_saturation" in (tmp_path / "progress.json").read_text()
    assert (bool(asked), logged) == (candidates == "both", candidates == "both")


@pytest.mark.parametrize("candidates", [SELDOM, Union((Nearest(), SELDOM)), "nearest"])
def test_an_agent_may_predict_by_its_target_critic(candidates, tmp_path):
    agent = tower_agent(k=300, candidates=candidates, policy_kwargs={"predict_by": "target"})
    agent.k = 299 if candidates == "nearest" else 1
    obs = states(50)

    def assert_best():
        values = all_values(agent, obs, agent.critic_target)
        why = agent.explain(obs.numpy())
        if candidates == "nearest":
            values = values.gather(1, torch.as_tensor(why.actions))
            np.testing.assert_array_equal(why.chosen, why.actions[np.arange(50), values.argmax(dim=1)])
        else:
            np.testing.assert_array_equal(why.chosen, values.argmax(dim=1))
        np.testing.assert_array_equal(agent.predict(obs.numpy())[0], why.chosen)

    assert_best()  # before anything is learned
    agent.learn(40, callback=lambda *_: assert_best() is None)
    scramble_all(agent)
    updated(agent)
    assert_best()
    assert (all_values(agent, obs).argmax(dim=1) != all_values(agent, obs, agent.critic_target).argmax(dim=1)).any()
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    np.testing.assert_array_equal(loaded.predict(obs.numpy())[0], agent.predict(obs.numpy())[0])
    agent.policy.to("cpu")
    assert_best()


def test_who_predicts_is_checked():
    with pytest.raises(ValueError, match="predict_by='average': give one of 'critic', 'target'"):
        tower_agent(policy_kwargs={"predict_by": "average"})


def test_the_snapshot_of_the_critic_does_not_train():
    policy_kwargs = {"features_extractor_class": NormalisedExtractor}
    agent = tower_agent(k=4, candidates=BestByCritic(refresh_every=7), policy_kwargs=policy_kwargs)
    agent.learn(40)
    agent.predict(states(1).numpy())  # which a layer in training refuses
    agent.predict(100 * states(50).numpy())  # which would move its statistics
    copied, own = (critic.features_extractor.norm for critic in (agent.policy.predictor.source.snapshot, agent.critic))
    torch.testing.assert_close(copied.running_mean, own.running_mean, rtol=0, atol=0)
    assert own.running_mean.abs().max() > 0
    source = agent.policy.behaviour.source
    before = source.snapshot.features_extractor.norm.running_mean.clone()
    source.find(States(100 * states(50)), 1)
    torch.testing.assert_close(source.snapshot.features_extractor.norm.running_mean, before, rtol=0, atol=0)


@pytest.mark.parametrize(("first", "then"), [("critic", "nearest"), ("nearest", "critic"), ("both", "all")])
def test_an_agent_is_loaded_with_candidates_of_another_kind(tmp_path, first, then):
    agent = fresh(tower_agent(k=1, candidates=first, exploration=greedy(epsilon=0.2)))
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip", candidates=then)
    obs = states()
    chosen = loaded.predict(obs.numpy())[0]
    np.testing.assert_array_equal(rank(loaded, obs).actions[:, 0], chosen)
    if then == "nearest":
        np.testing.assert_array_equal(chosen, agent.actions.nearest(agent.actor(obs).detach().numpy(), 1)[:, 0])
    else:
        np.testing.assert_array_equal(chosen, all_values(agent, obs).argmax(dim=1))


def test_without_epsilon_the_critics_candidates_are_not_explored():
    with pytest.warns(UserWarning, match="nothing is explored"):
        tower_agent(exploration=greedy())
    assert tower_agent().exploration.epsilon > 0


@pytest.mark.parametrize("name", ["actions", "k", "rerank", "critic", "candidates"])
def test_what_the_agent_takes_itself_is_not_for_policy_kwargs(name):
    with pytest.raises(ValueError, match=f"policy_kwargs holds {name}: give it to Wolpertinger itself"):
        small_agent(policy_kwargs={name: "two-tower"})
