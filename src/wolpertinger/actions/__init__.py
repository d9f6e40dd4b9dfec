"""The set A of actions: a table of vectors, a product of levels that is never enumerated, or ids alone."""

from wolpertinger.actions.allowed import Allowed, NoAllowedActionError, UnknownActionError
from wolpertinger.actions.allowed_levels import Levels
from wolpertinger.actions.base import (
    ActionSet,
    ActionSpace,
    TooManyActionsError,
    count_actions,
    resolve_k,
    same_actions,
    sample_space,
)
from wolpertinger.actions.ids import ActionIds
from wolpertinger.actions.offered import OfferedActions
from wolpertinger.actions.product import ActionProduct
from wolpertinger.actions.reading import read_allowed
from wolpertinger.actions.slate import Slate
from wolpertinger.actions.table import ActionTable

STORED: dict[str, type[ActionSet]] = {
    "table": ActionTable,
    "product": ActionProduct,
    "ids": ActionIds,
    "slate": Slate,
}
"""The sets that a checkpoint can hold, by their `kind`."""

__all__ = [
    "STORED",
    "ActionIds",
    "ActionProduct",
    "ActionSet",
    "ActionSpace",
    "ActionTable",
    "Allowed",
    "Levels",
    "NoAllowedActionError",
    "OfferedActions",
    "Slate",
    "TooManyActionsError",
    "UnknownActionError",
    "count_actions",
    "read_allowed",
    "resolve_k",
    "same_actions",
    "sample_space",
]
