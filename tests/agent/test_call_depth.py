"""How many calls of ours lie between Stable-Baselines3's loop and the index: `pytest -s` prints them."""

import inspect
from pathlib import Path

import pytest

import wolpertinger
from wolpertinger import ActionTable, BestByCritic
from wolpertinger.index import InnerProductIndex
from wolpertinger.policy import critic_search

from .envs import TargetEnv, grid, small_agent

MAX_FRAMES = 8
SOURCE = str(Path(wolpertinger.__file__).parent)


def own_frames():
    """Our functions between `collect_rollouts` and the caller's caller, outermost first; None outside the loop."""
    stack = inspect.stack(context=0)[2:]
    names = [frame.function for frame in stack]
    if "collect_rollouts" not in names:
        return None
    inside = stack[: names.index("collect_rollouts")]
    return [
        f"{Path(frame.filename).relative_to(SOURCE)}: {frame.function}"
        for frame in reversed(inside)
        if frame.filename.startswith(SOURCE)
    ]


def watch(monkeypatch, owner):
    """The chains of calls by which `owner.search` is reached."""
    chains, search = [], owner.search

    def watched(*args, **kwargs):
        chains.append(own_frames())
        return search(*args, **kwargs)

    monkeypatch.setattr(owner, "search", watched)
    return chains


def assert_short(chains, ends_with):
    acting = [chain for chain in chains if chain is not None]
    assert acting
    longest = max(acting, key=len)
    print(f"\n{len(longest)} frames from collect_rollouts to the index:", *longest, sep="\n  ")
    assert longest[-1] == ends_with
    assert len(longest) <= MAX_FRAMES


@pytest.mark.parametrize("index", [{}, {"index": "IVF4,Flat"}, {"recall": 0.9}], ids=["exact", "FAISS", "promised"])
@pytest.mark.parametrize(
    "settings", [{}, {"critic": "two-tower", "candidates": "both"}, {"k": 1}], ids=["nearest", "both", "one"]
)
def test_a_lookup_is_a_few_calls_from_the_loop(index, settings, monkeypatch):
    table = ActionTable(grid(8, 2).vectors, **index)
    agent = small_agent(TargetEnv(table, length=5), **settings)
    chains = watch(monkeypatch, table._index)
    agent.learn(30)
    assert_short(chains, "actions/table.py: nearest")


def test_a_search_by_the_critic_is_a_few_calls_from_the_loop(monkeypatch):
    monkeypatch.setattr(critic_search, "INDEXED_FROM", 1)
    monkeypatch.setattr(critic_search, "SCANNED_QUERIES", 0)
    agent = small_agent(TargetEnv(grid(8, 2), length=5), critic="two-tower", candidates=BestByCritic(refresh_every=5))
    chains = watch(monkeypatch, InnerProductIndex)
    agent.learn(30)
    assert_short(chains, "policy/critic_search.py: best")
