"""Runs of a moment."""

from wolpertinger.runs import make_config

TINY = {"items": 49, "dim": 4}
TINY_AGENT = {"learning_starts": 64, "batch_size": 16, "policy_kwargs": {"net_arch": [16, 16]}}
SMALL = {"learning_starts": 16, "batch_size": 16, "policy_kwargs": {"net_arch": [16, 16]}}


def tiny(**changes):
    """A config of the recommender."""
    few = {"env": TINY, "n_envs": 8, "steps": 800, "changes": TINY_AGENT, "preset": "nearest"}
    return make_config("recommender", **{**few, **changes})
