"""Where the candidates of Algorithm 1 come from.

`CandidateSource` is the seam: subclass it, say `find`, and give the class to the agent, `candidates=MySource`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from wolpertinger.actions import ActionSet, Allowed, TooManyActionsError
from wolpertinger.actions.allowed import Actions
from wolpertinger.actions.base import MAX_CANDIDATES
from wolpertinger.actions.nearest_allowed import widen
from wolpertinger.networks import Critic
from wolpertinger.policy.candidates import Candidates, JoinedCandidates, RaggedCandidates, SharedCandidates
from wolpertinger.policy.states import States
from wolpertinger.settings import Settings


class CandidateSource(ABC):
    """Finds candidates in one action set, and is told when the critic that it was made for was updated."""

    needs_actor: ClassVar[bool] = True
    """Whether `find` needs proto-actions; if no source does, the actor is neither asked nor trained."""
    is_shared: ClassVar[bool] = False
    """Whether all states have the same candidates, so that k may be as large as A."""
    finds_all: ClassVar[bool] = False
    """Whether its k = |A| candidates are all of A, which then need not be looked up."""

    def __init__(self, actions: ActionSet, critic: Critic) -> None:
        self.actions, self.critic = actions, critic

    @abstractmethod
    def find(self, states: States, k: int) -> Candidates:
        """k candidates for each state."""

    def find_allowed(self, states: States, k: int) -> RaggedCandidates:
        """k of what each state allows, fewer where they are hard to find: here by asking `find` for more and more.

        What is not allowed, or a state for which nothing is found, is the policy's to notice.
        """
        assert states.allowed is not None
        names = [type(self).__name__]

        def find(rows: Actions, wanted: int) -> Actions:
            found = self.find(states.rows(torch.from_numpy(rows)), wanted)
            names[0] = found.source
            blocks = found.blocks(MAX_CANDIDATES)
            if self.is_shared:
                blocks = (block.expand(len(rows), *block.shape) for block in blocks)
            return torch.cat(list(blocks), dim=1).numpy(force=True)

        rows = widen(find, states.allowed, k, self.actions.n)
        return RaggedCandidates(Allowed(rows), (names[0],))

    def narrow(self, states: States, k: int) -> States:
        """The states with about k of what each allows, of much, that are worth scoring: here with all of it."""
        return states

    def critic_updated(self) -> None:  # noqa: B027 - most sources do not depend on the critic
        """The critic has learned: what was made of it is out of date by one more update."""

    def expire(self) -> None:  # noqa: B027
        """Let the next `find` go by the critic as it is then, whatever that costs."""

    def stats(self) -> dict[str, float]:
        """What the log shows of the source."""
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        """Tensors that a checkpoint keeps, so that a resumed run finds what the interrupted one would have."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put what `state_dict` gave in place."""
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, the file holds {', '.join(sorted(state))}")


SourceFactory = Callable[[ActionSet, Critic], CandidateSource]


@dataclass(frozen=True)
class Nearest(Settings):
    """The k actions nearest to the proto-action: the paper's candidates."""

    kind: ClassVar[str] = "nearest"
    needs_actor: ClassVar[bool] = True

    def __call__(self, actions: ActionSet, critic: Critic) -> CandidateSource:
        return NearestSource(actions, critic)


class NearestSource(CandidateSource):
    """g_k: the k actions of A closest to each proto-action."""

    finds_all = True

    def find(self, states: States, k: int) -> Candidates:
        assert states.proto is not None
        found = self.actions.nearest_at_most(states.proto.numpy(force=True), k)
        return Candidates(torch.from_numpy(found).to(states.proto.device), Nearest.kind, nearest_first=True)

    def find_allowed(self, states: States, k: int) -> RaggedCandidates:
        assert states.proto is not None
        assert states.allowed is not None
        nearest = self.actions.nearest_allowed(states.proto.numpy(force=True), k, states.allowed)
        return RaggedCandidates(nearest, (Nearest.kind,))


@dataclass(frozen=True)
class Everything(Settings):
    """All of A, whatever k: for sets that are small enough to score."""

    kind: ClassVar[str] = "all"
    needs_actor: ClassVar[bool] = False

    def __call__(self, actions: ActionSet, critic: Critic) -> CandidateSource:
        if not actions.is_listable or actions.n > MAX_CANDIDATES:
            raise TooManyActionsError(
                f"{actions!r} is too large to go through: {actions.n} actions, {MAX_CANDIDATES} at most; "
                'candidates="nearest" does not go through it'
            )
        return EverythingSource(actions, critic)


class EverythingSource(CandidateSource):
    """All of A, block by block: nothing is looked up, and no state has a copy of its own."""

    needs_actor = False
    is_shared = True

    def find(self, states: States, k: int) -> Candidates:
        listed = self.actions.blocks
        return SharedCandidates(
            torch.empty(len(states), 0),
            Everything.kind,
            block=lambda size: (torch.from_numpy(part).to(states.device) for part in listed(size)),
        )

    def find_allowed(self, states: States, k: int) -> RaggedCandidates:
        assert states.allowed is not None
        return RaggedCandidates(states.allowed.listed(), (Everything.kind,))


class GivenSource(CandidateSource):
    """The same candidates for all states, given anew before each call of `rank`."""

    needs_actor = False
    is_shared = True
    given: Tensor

    def find(self, states: States, k: int) -> Candidates:
        return SharedCandidates(
            torch.empty(len(states), 0), "given", block=lambda size: iter(torch.split(self.given, size))
        )

    def find_allowed(self, states: States, k: int) -> RaggedCandidates:
        assert states.allowed is not None
        return RaggedCandidates(states.allowed.listed(), ("given",))


class UnionSource(CandidateSource):
    """The candidates of several sources, k of each, side by side."""

    def __init__(self, actions: ActionSet, critic: Critic, sources: tuple[SourceFactory, ...]) -> None:
        super().__init__(actions, critic)
        self.sources = [source(actions, critic) for source in sources]
        if any(source.is_shared for source in self.sources):
            raise ValueError('Union holds Everything, beside which nothing is left to find: give candidates="all"')
        self.needs_actor = any(source.needs_actor for source in self.sources)  # type: ignore[misc]
        self.finds_all = any(source.finds_all for source in self.sources)  # type: ignore[misc]

    def find(self, states: States, k: int) -> Candidates:
        found = []
        for source in self.sources:
            found.append(source.find(states, k))
        actions = torch.cat([part.actions for part in found], dim=1)
        by = tuple((part.source, part.actions.shape[1]) for part in found)
        return JoinedCandidates(actions, "both", found[0].nearest_first, by)

    def find_allowed(self, states: States, k: int) -> RaggedCandidates:
        found = [source.find_allowed(states, k) for source in self.sources]
        whole = [[np.ones(count, np.bool_) for count in part.found.counts] for part in found]
        return RaggedCandidates.gather(
            [
                [own for part, kept in zip(found, whole, strict=True) for own in part.of_state(row, kept[row])]
                for row in range(len(states))
            ]
        )

    def critic_updated(self) -> None:
        for source in self.sources:
            source.critic_updated()

    def expire(self) -> None:
        for source in self.sources:
            source.expire()

    def stats(self) -> dict[str, float]:
        return {name: value for source in self.sources for name, value in source.stats().items()}

    def state_dict(self) -> dict[str, Tensor]:
        parts = enumerate(source.state_dict() for source in self.sources)
        return {f"{number}.{name}": tensor for number, part in parts for name, tensor in part.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        places = {str(number) for number in range(len(self.sources))}
        if strange := [name for name in state if name.partition(".")[0] not in places]:
            raise ValueError(f"{strange[0]} is of none of the sources")
        for number, source in enumerate(self.sources):
            own = {name: tensor for name, tensor in state.items() if name.startswith(f"{number}.")}
            source.load_state_dict({name.partition(".")[2]: tensor for name, tensor in own.items()})
