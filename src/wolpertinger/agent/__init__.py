"""The agent: Algorithm 1 in `policy.py`, Algorithm 2 in `algorithm.py`."""

from wolpertinger.agent.algorithm import Wolpertinger
from wolpertinger.agent.exploration import Exploration
from wolpertinger.agent.policy import Explanation
from wolpertinger.archive import CheckpointError

__all__ = ["CheckpointError", "Explanation", "Exploration", "Wolpertinger"]
