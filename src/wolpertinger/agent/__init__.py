"""The agent on Stable-Baselines3: spaces, exploration, buffers, logging, checkpoints."""

from wolpertinger.agent.algorithm import Wolpertinger
from wolpertinger.agent.callbacks import WorseThanRandom
from wolpertinger.agent.explanation import Explanation, RankedActions
from wolpertinger.agent.exploration import Exploration
from wolpertinger.agent.faults import BadTransitionError
from wolpertinger.archive import CheckpointError

__all__ = [
    "BadTransitionError",
    "CheckpointError",
    "Explanation",
    "Exploration",
    "RankedActions",
    "Wolpertinger",
    "WorseThanRandom",
]
