"""The keys of all actions at one moment."""

from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from wolpertinger.actions import ActionSet
from wolpertinger.index import InnerProductIndex
from wolpertinger.networks import Critic

KEYS_AT_ONCE = 2**14


@dataclass(eq=False)
class Keys:
    """What a thread reads in one piece, whatever others add, remove or refresh meanwhile."""

    vectors: Tensor
    """(n, width)"""
    members: Tensor
    """The actions (n, ...) whose keys they are."""
    version: int
    """Of the action set."""
    index: InnerProductIndex | None = None
    """Over the vectors, where there are many and many queries were asked."""
    asked: int = 0
    """Queries."""

    @classmethod
    @torch.no_grad()
    def of(cls, actions: ActionSet, critic: Critic) -> "Keys":
        """All actions, through the critic's action tower."""
        device, version = critic.scale.middle.device, actions.version
        keys, members = [], []
        for block in actions.blocks(KEYS_AT_ONCE):
            vectors = torch.from_numpy(actions.embed(block)).to(device, torch.float32)
            keys.append(critic.keys(vectors))
            members.append(torch.from_numpy(block))
        return cls(torch.cat(keys), torch.cat(members).to(device), version)

    def __len__(self) -> int:
        return len(self.vectors)

    def of_actions(self, actions: Tensor, space: spaces.Space) -> Tensor:
        """The keys (m, width) of actions (m, ...), which are among them."""
        if isinstance(space, spaces.MultiDiscrete):
            rows = np.ravel_multi_index(tuple(actions.t().numpy(force=True)), space.nvec.tolist())
            places = torch.from_numpy(rows).to(actions.device)
        elif int(self.members[-1]) < len(self):  # none was removed
            places = actions
        else:  # one that another thread has just removed has no key any more, and the next one's stands in
            places = torch.searchsorted(self.members, actions).clamp_max(len(self) - 1)
        return self.vectors.index_select(0, places)
