import copy

import pytest
import torch

from wolpertinger.agent.budget import SPARE, Budget


def test_what_is_within_the_budget_is_built_as_without_one():
    torch.manual_seed(0)
    expected = torch.nn.Linear(5, 7)
    torch.manual_seed(0)
    with Budget(42):
        found = torch.nn.Linear(5, 7)
    assert torch.equal(found.weight, expected.weight)


@pytest.mark.parametrize(
    "work",
    [
        lambda: torch.nn.Linear(2**30, 2**30),
        lambda: torch.zeros(SPARE + 1),
        lambda: torch.nn.Parameter(torch.empty(10**6, 10**6)),
        lambda: torch.randint(1, 5, (2**40,)),
        lambda: [torch.nn.Linear(1000, 1000) for _ in range(10**9)],
        lambda: [copy.deepcopy(LARGE) for _ in range(10**9)],
    ],
)
def test_what_is_beyond_it_is_refused_before_it_is_made(work):
    with pytest.raises(ValueError, match="larger than what is in the file, 0 numbers"), Budget(0):
        work()


LARGE = torch.nn.Linear(1000, 1000)
