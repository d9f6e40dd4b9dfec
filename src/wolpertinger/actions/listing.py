"""All actions of a set, one block after another."""

from collections.abc import Iterator
from typing import TypeGuard

from wolpertinger.actions.base import Actions, ActionSet
from wolpertinger.actions.product import ID_LIMIT, ActionProduct
from wolpertinger.actions.table import ActionTable


def can_list(actions: ActionSet) -> TypeGuard[ActionTable | ActionProduct]:
    """Whether `list_actions` can go through this set: a table, or a product with ids of 63 bits."""
    return isinstance(actions, ActionTable) or (isinstance(actions, ActionProduct) and actions.n < ID_LIMIT)


def list_actions(actions: ActionTable | ActionProduct, size: int) -> Iterator[Actions]:
    """Every action once, in blocks of `size` at most: ids (m,) or digits (m, d)."""
    if isinstance(actions, ActionTable):
        ids = actions.ids
        return (ids[start : start + size] for start in range(0, len(ids), size))
    return (actions.members(start, min(start + size, actions.n)) for start in range(0, actions.n, size))
