"""Algorithm 1: candidate sources, scoring, ranking."""

from typing import Any

from wolpertinger.policy.candidates import Candidates
from wolpertinger.policy.critic_search import BestByCritic, Union
from wolpertinger.policy.factors import BestByFactor
from wolpertinger.policy.policy import Policy
from wolpertinger.policy.ranking import Ranking
from wolpertinger.policy.slates import SlotBySlot, TopItems
from wolpertinger.policy.sources import CandidateSource, Everything, Nearest, SourceFactory
from wolpertinger.policy.states import States, select_rows
from wolpertinger.settings import Settings, read_settings

SOURCES: dict[str, type[Settings]] = {
    "nearest": Nearest,
    "critic": BestByCritic,
    "both": Union,
    "all": Everything,
    "slots": SlotBySlot,
    "top": TopItems,
    "factors": BestByFactor,
}
"""Where candidates come from, by short names."""


def make_source_settings(candidates: Any) -> SourceFactory:
    """What makes the candidate source, from its name, its settings or their JSON; or a callable of the user's own."""
    return read_settings("candidates", candidates, SOURCES, takes=("actions", "critic"))


__all__ = [
    "SOURCES",
    "BestByCritic",
    "BestByFactor",
    "CandidateSource",
    "Candidates",
    "Everything",
    "Nearest",
    "Policy",
    "Ranking",
    "SlotBySlot",
    "States",
    "TopItems",
    "Union",
    "make_source_settings",
    "select_rows",
]
