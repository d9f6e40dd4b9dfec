import pytest
import torch

from wolpertinger.agent import optimizer_files

from .envs import small_agent

KINDS = {
    "Adam": {},
    "AMSGrad": {"optimizer_kwargs": {"amsgrad": True}},
    "SGD": {"optimizer_class": torch.optim.SGD, "optimizer_kwargs": {"momentum": 0.5}},
    "RMSprop": {"optimizer_class": torch.optim.RMSprop},
    "Adagrad": {"optimizer_class": torch.optim.Adagrad},
    "Adafactor": {"optimizer_class": torch.optim.Adafactor},
    "NAdam": {"optimizer_class": torch.optim.NAdam},
}


@pytest.fixture(scope="module")
def agent():
    return small_agent().learn(40)


@pytest.mark.parametrize("kind", KINDS)
def test_optimisers_come_back(kind):
    agent, other = (small_agent(policy_kwargs=KINDS[kind]) for _ in range(2))
    agent.learn(40)
    optimizer_files.restore(other, *optimizer_files.describe(agent))
    for name in ("actor", "critic"):
        state, found = (getattr(one, name).optimizer.state_dict() for one in (agent, other))
        assert state["state"]
        assert state["param_groups"] == found["param_groups"]
        for place, moments in state["state"].items():
            for part, value in moments.items():
                assert torch.equal(torch.as_tensor(value), torch.as_tensor(found["state"][place][part]))


@pytest.mark.parametrize(
    ("key", "change", "match"),
    [
        ("critic.0.exp_avg", lambda moment: moment[:1], r"critic\.0 has .* was expected"),
        ("critic.0.exp_avg", lambda moment: moment.T.contiguous(), r"critic\.0 has .* was expected"),
        ("critic.0.exp_avg", lambda moment: moment.double(), r"critic\.0 has .* was expected"),
        ("critic.0.exp_avg", lambda moment: None, r"critic\.0 has .* was expected"),
        ("critic.0.exp_avg", lambda moment: moment * torch.nan, "not finite, or negative"),
        ("critic.0.exp_avg_sq", lambda moment: moment - 1, "not finite, or negative"),
        ("critic.0.step", lambda moment: moment.reshape(1), r"critic\.0 has .* was expected"),
        ("critic.99.step", lambda moment: torch.zeros(()), "critic has no parameter 99"),
        ("critic.00.step", lambda moment: torch.zeros(()), "critic has no parameter 00"),
        ("evil.0.step", lambda moment: torch.zeros(()), r"evil\.0\.step is of no optimiser"),
    ],
)
def test_moments_of_another_form_are_refused(agent, key, change, match):
    groups, tensors = optimizer_files.describe(agent)
    changed = change(tensors.pop(key, None))
    if changed is not None:
        tensors[key] = changed
    with pytest.raises(ValueError, match=match):
        optimizer_files.restore(small_agent(), groups, tensors)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"betas": [2.0, 0.9]}, "less than 1 is needed"),
        ({"betas": [0.9]}, "2 numbers were expected"),
        ({"lr": float("nan")}, "lr=nan"),
        ({"params": [0]}, "a group of parameters says"),
        ({"evil": 1}, "a group of parameters says"),
    ],
)
def test_groups_that_cannot_be_are_refused(agent, change, match):
    groups, tensors = optimizer_files.describe(agent)
    groups["critic"][0] |= change
    with pytest.raises(ValueError, match=match):
        optimizer_files.restore(small_agent(), groups, tensors)


def test_how_an_optimiser_works_is_not_the_files_to_say(agent):
    groups, tensors = optimizer_files.describe(agent)
    groups["critic"][0] |= {"maximize": True, "lr": 0.5}
    other = small_agent()
    optimizer_files.restore(other, groups, tensors)
    assert (other.critic.optimizer.param_groups[0]["maximize"], other.critic.optimizer.param_groups[0]["lr"]) == (
        False,
        0.5,
    )
