"""Spaces of actions that grow: what agents and policies say of theirs."""

from typing import Any

from gymnasium import spaces

from wolpertinger.actions import ActionSet


class GrowingSpace:
    """Has an `action_space` that follows its `actions`."""

    _action_space: spaces.Space

    @property
    def action_space(self) -> Any:
        """What the environment takes; ids of actions that were added since are in it."""
        actions = vars(self).get("actions")
        return actions.space if isinstance(actions, ActionSet) and actions.version else self._action_space

    @action_space.setter
    def action_space(self, space: spaces.Space) -> None:
        self._action_space = space
