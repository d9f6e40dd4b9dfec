"""The set A of actions: a table of vectors, or a product of levels that is never enumerated."""

from wolpertinger.actions.base import ActionSet, resolve_k
from wolpertinger.actions.product import ActionProduct
from wolpertinger.actions.sample import sample_actions
from wolpertinger.actions.table import ActionTable

__all__ = ["ActionProduct", "ActionSet", "ActionTable", "resolve_k", "sample_actions"]
