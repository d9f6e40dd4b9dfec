"""The set A of actions: a table of vectors, or a product of levels that is never enumerated."""

from wolpertinger.actions.base import ActionSet, resolve_k
from wolpertinger.actions.listing import can_list, list_actions
from wolpertinger.actions.product import ActionProduct
from wolpertinger.actions.sample import sample_actions
from wolpertinger.actions.table import ActionTable

__all__ = ["ActionProduct", "ActionSet", "ActionTable", "can_list", "list_actions", "resolve_k", "sample_actions"]
