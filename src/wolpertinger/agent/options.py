"""Settings of the agent that cannot be, said at construction."""

import warnings
from typing import Any

from stable_baselines3.common.vec_env import VecNormalize
from torch.nn import functional as F

from wolpertinger.agent.exploration import Exploration
from wolpertinger.agent.policy import CANDIDATES, CRITICS, RERANKERS

LOSSES = {"mse": F.mse_loss, "huber": F.smooth_l1_loss}


def check_forms(critic: str, candidates: str, rerank: str, exploration: Any) -> None:
    """Refuse forms of the agent that do not go together."""
    for name, value, known in (("critic", critic, CRITICS), ("candidates", candidates, CANDIDATES)):
        if value not in known:
            raise ValueError(f"{name}={value!r}: give one of {', '.join(map(repr, known))}")
    if candidates != "nearest" and critic != "two-tower":
        raise ValueError(f'candidates={candidates!r} needs a critic that can search all of A: give critic="two-tower"')
    if rerank == "screened" and critic == "two-tower":
        raise ValueError('rerank="screened" is for critic="mlp": two towers have nothing to screen; leave rerank out')
    explores = not isinstance(exploration, Exploration) or exploration.epsilon or exploration.final_epsilon
    if candidates == "critic" and not explores:
        warnings.warn(
            'epsilon is 0, and noise on the proto-action does not reach candidates="critic": nothing is explored',
            stacklevel=3,
        )


def check_options(
    rerank: str,
    exploration: Any,
    learning_rate: Any,
    final_learning_rate: float | None,
    critic_loss: str,
    anchor: float,
    gradient_at: str,
    max_grad_norm: float | None,
    policy_kwargs: dict[str, Any] | None,
) -> None:
    """Refuse settings out of range, and say what would be accepted."""
    if rerank not in RERANKERS:
        raise ValueError(f"rerank={rerank!r}: give one of {', '.join(map(repr, RERANKERS))}")
    if critic_loss not in LOSSES:
        raise ValueError(f"critic_loss={critic_loss!r}: give one of {', '.join(LOSSES)}")
    if gradient_at not in ("proto", "action"):
        raise ValueError(f'gradient_at={gradient_at!r}: give "proto" or "action"')
    if exploration is not None and not isinstance(exploration, Exploration):
        raise TypeError(f"exploration={exploration!r}: give Exploration(...)")
    if own := {"actions", "k", "rerank", "critic", "candidates"} & (policy_kwargs or {}).keys():
        raise ValueError(f"policy_kwargs holds {', '.join(sorted(own))}: give it to Wolpertinger itself")
    for name, value in (("anchor", anchor), ("max_grad_norm", max_grad_norm)):
        if value is not None and not value >= 0:
            raise ValueError(f"{name}={value!r}: give a number of at least 0")
    if final_learning_rate is not None and callable(learning_rate):
        raise ValueError("learning_rate is a schedule already: leave out final_learning_rate")


def check_remembered(policy_kwargs: dict[str, Any], normalised: VecNormalize | None) -> None:
    """Refuse a memory of states whose numbers change while it learns."""
    memory = (policy_kwargs.get("tower_kwargs") or {}).get("state_memory")
    if memory and normalised is not None and normalised.norm_obs:
        raise ValueError(
            f"state_memory={memory} tells states apart by their numbers, which VecNormalize changes as it goes: leave "
            "out one of them, or make it VecNormalize(..., norm_obs=False)"
        )
