"""Transitions and logs: read from arrays and files, checked, described, sampled."""

from wolpertinger.data.checking import LogError
from wolpertinger.data.columns import Columns
from wolpertinger.data.transitions import Transitions

__all__ = ["Columns", "LogError", "Transitions"]
