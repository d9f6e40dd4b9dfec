import numpy as np
import pytest

from tests.runs.tiny import TINY
from wolpertinger import DDPG, ActionTable, Wolpertinger
from wolpertinger.runs import make_config
from wolpertinger.runs.build import agent_arguments, make_agent, make_env
from wolpertinger.runs.presets import PAPER, PRESET_NAMES, TASKS


def test_the_papers_preset_is_plain_ddpg():
    config = make_config("recommender", env=TINY, preset="paper", n_envs=2)
    agent = make_agent(config, make_env(config))
    assert {name: config.agent[name] for name in PAPER} == PAPER
    assert agent.learner.settings == DDPG()
    assert agent.learner.tau == 1e-3
    assert len(agent.critic.q_networks) == 1
    assert not any("norm" in type(module).__name__.lower() for module in agent.policy.modules())


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_every_task_and_preset_builds_an_agent(preset):
    for task in TASKS if preset != "few-items" else ["recommender"]:
        config = make_config(task, env=TINY if task == "recommender" else {}, preset=preset, n_envs=2)
        assert isinstance(make_agent(config, make_env(config)), Wolpertinger)


def test_exploration_is_given_by_name():
    assert agent_arguments({"exploration": {"epsilon": 0.5}, "tau": 0.1})["exploration"].epsilon == 0.5
    with pytest.raises(ValueError, match="exploration='pink': give its settings by name"):
        agent_arguments({"exploration": "pink"})


def test_actions_with_a_lookup_of_their_own_can_be_looked_up_in_a_table():
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
