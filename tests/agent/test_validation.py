"""Bad environments and bad action sets are refused at construction, with what was given and what would do."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from wolpertinger import ActionIds, ActionProduct, ActionTable

from .envs import TargetEnv, small_agent


class Plain(gym.Env):
    """An environment that offers no action set."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, True, False, {}


TABLE = ActionTable(np.eye(4))


def test_continuous_actions_are_to_be_discretised():
    with pytest.raises(ValueError, match=r"continuous .*discretise them.*wolpertinger\.discretize\(env, levels=101\)"):
        small_agent(Plain(spaces.Box(-1, 1, (3,))))


def test_other_action_spaces_are_refused():
    with pytest.raises(ValueError, match=r"MultiBinary\(3\): Discrete or MultiDiscrete is needed"):
        small_agent(Plain(spaces.MultiBinary(3)))


@pytest.mark.parametrize("space", [spaces.Discrete(4, start=1), spaces.MultiDiscrete([2, 2], start=[0, 1])])
def test_actions_are_numbered_from_0(space):
    with pytest.raises(ValueError, match="number them from 0"):
        small_agent(Plain(space), actions=TABLE)


@pytest.mark.parametrize("offer", [None, "left or right"])
def test_without_an_action_set_actions_are_known_by_their_number(offer, capsys):
    env = Plain(spaces.Discrete(4))
    env.actions = offer  # of that name, but no action set: as the enumerations of other libraries
    agent = small_agent(env, k=1, verbose=1)
    assert agent.actions.sha256 == ActionIds(4).sha256
    assert "Discrete(4) without actions=: known by their number only" in capsys.readouterr().out


def test_without_an_action_set_digits_are_levels(capsys):
    agent = small_agent(Plain(spaces.MultiDiscrete([3, 1, 2])), k=1, verbose=1)
    levels = [[-1, 0, 1], [-1], [-1, 1]]
    assert agent.actions.is_ordinal
    assert agent.actions.sha256 == ActionProduct(levels).sha256
    assert agent.predict(np.zeros(2, np.float32))[0] in agent.action_space
    assert "MultiDiscrete([3 1 2]) without actions=: taken for levels of controls" in capsys.readouterr().out


def test_too_many_actions_without_vectors_are_refused():
    with pytest.raises(ValueError, match=r"n=1,048,577: 1,048,576 actions at most .*give ActionTable\(vectors\)"):
        small_agent(Plain(spaces.Discrete(2**20 + 1)))


@pytest.mark.parametrize("candidates", ["nearest", "both"])
def test_an_actor_is_not_trained_by_a_table(candidates):
    env = Plain(spaces.Discrete(100))
    with pytest.raises(ValueError, match=r"asks an actor, .*over ActionIds\(100\).*Give candidates=\"critic\" or cri"):
        small_agent(env, critic="two-tower", candidates=candidates)
    small_agent(env, critic="two-tower", candidates="critic")
    small_agent(env, critic="mlp", candidates="nearest")


def test_what_is_no_action_set_is_refused():
    with pytest.raises(TypeError, match=r"is no action set: give ActionTable\(vectors\)"):
        small_agent(Plain(spaces.Discrete(4)), actions=np.eye(4))


@pytest.mark.parametrize(
    ("space", "actions", "match"),
    [
        (spaces.Discrete(5), TABLE, r"takes 5 actions .*the action set has 4 \(Discrete\(4\)\)"),
        (spaces.MultiDiscrete([2, 2]), TABLE, r"takes 4 actions .*the action set has 4 \(Discrete\(4\)\)"),
        (spaces.Discrete(5), ActionProduct([[0, 1]] * 2), r"takes 5 actions .*the action set has 4"),
        (spaces.MultiDiscrete([2] * 3), ActionProduct([[0, 1]] * 2), r"takes 8 actions .*the action set has 4"),
        (spaces.MultiDiscrete([4, 1]), ActionProduct([[0, 1]] * 2), r"does not fit 4 actions of 2 factors"),
        (spaces.MultiDiscrete([2] * 99), ActionProduct([[0, 1]] * 100), rf"(?s)takes {2**99} act.*has {2**100}"),
    ],
)
def test_sizes_that_disagree_are_both_named(space, actions, match):
    with pytest.raises(ValueError, match=match):
        small_agent(Plain(space), actions=actions, k=1)


@pytest.mark.parametrize("space", ["discrete", "multidiscrete"])
@pytest.mark.parametrize("given", ["discrete", "multidiscrete"])
def test_a_product_takes_the_form_of_the_environment(space, given):
    env = Plain(ActionProduct([[0, 1, 2]] * 2, space=space).space)
    agent = small_agent(env, actions=ActionProduct([[0, 1, 2]] * 2, space=given))
    assert agent.actions.space == env.action_space
    assert agent.predict(np.zeros(2, np.float32))[0] in env.action_space


def test_the_users_set_goes_before_the_environments():
    table = ActionTable(np.random.default_rng(0).normal(size=(25, 7)))
    assert small_agent(TargetEnv(points_per_axis=5), actions=table).actions is table
