"""Algorithm 1: the actor proposes, the lookup finds the k nearest actions, the critic picks the best of them."""

from functools import partial, reduce

import torch
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor

from wolpertinger.actions import ActionSet, Allowed
from wolpertinger.networks import Actor, Critic
from wolpertinger.policy.candidates import Candidates, RaggedCandidates
from wolpertinger.policy.ranking import Best, Ranking
from wolpertinger.policy.restricted import best_of_ragged, find_allowed
from wolpertinger.policy.scoring import Scorer, score_exactly
from wolpertinger.policy.sources import CandidateSource, EverythingSource
from wolpertinger.policy.states import States
from wolpertinger.policy.timing import SectionTimer

CANDIDATES_AT_ONCE = 2**16  # looked up and embedded together: 10 MB of vectors of 40 numbers
SHARED_AT_ONCE = 2**20  # values of actions that states share, of which there is one vector each: 4 MB


class Policy:
    """Algorithm 1 over an action set: where candidates come from, how many, and how the best of them is found."""

    def __init__(
        self, actions: ActionSet, source: CandidateSource, k: int, scorer: Scorer, timer: SectionTimer | None = None
    ) -> None:
        self.actions, self.source, self.k, self.scorer = actions, source, k, scorer
        self.timer = timer or SectionTimer()

    def propose(self, actor: Actor, obs: PyTorchObs, allowed: Allowed | None = None) -> States:
        """The states with the actor's proto-actions, if candidates need them (the first line of Algorithm 1)."""
        return States(obs, actor(obs) if self.source.needs_actor else None, allowed)

    @torch.no_grad()
    def rank(self, states: States, critic: Critic, top: int = 1) -> Ranking:
        """The `top` best by `critic` of each state's k candidates (Algorithm 1 after its first line)."""
        k = min(self.k, self.actions.n)  # actions may have been removed since k was set
        source = self.source
        if states.allowed is not None:
            with self.timer("lookup"):
                candidates = find_allowed(source, states, k)
            return Ranking(states, candidates, partial(self._find_best_allowed, states, critic, top))
        if source.finds_all and k == self.actions.n and self.actions.is_listable:  # nothing to look up
            source = EverythingSource(self.actions, critic)
        # In parts where all candidates do not fit; not at k = 1, where acting asks no critic.
        if not source.is_shared and k > 1 and len(states) > 1 and len(states) * k > CANDIDATES_AT_ONCE:
            parts = (self._rank(source, part, k, critic, top) for part in states.split(max(1, CANDIDATES_AT_ONCE // k)))
            return Ranking.join([part.scored() for part in parts], states)
        return self._rank(source, states, k, critic, top)

    def _rank(self, source: CandidateSource, states: States, k: int, critic: Critic, top: int) -> Ranking:
        with self.timer("lookup"):
            candidates = source.find(states, k)
        at_once = SHARED_AT_ONCE if source.is_shared else CANDIDATES_AT_ONCE
        size = min(CANDIDATES_AT_ONCE, at_once // max(1, len(states)))
        return Ranking(states, candidates, partial(self._find_best, states, critic, top, size))

    @torch.no_grad()
    def _find_best(self, states: States, critic: Critic, top: int, size: int, candidates: Candidates) -> Best:
        """A running top over blocks of at most `size` candidates: one block, unless k is huge."""
        features = critic.features(states.obs)
        found = (self._best_of(block, features, critic, top) for block in candidates.blocks(max(1, size)))
        return reduce(lambda best, later: best.merge(later, top), found)

    def _find_best_allowed(self, states: States, critic: Critic, top: int, candidates: Candidates) -> Best:
        assert isinstance(candidates, RaggedCandidates)
        with self.timer("rerank"):
            return best_of_ragged(self.embed, states, critic, top, candidates)

    def _best_of(self, block: Tensor, features: Tensor, critic: Critic, top: int) -> Best:
        with self.timer("lookup"):
            vectors = self.embed(block)  # (batch, k, dim), or (k, dim) where states share them
        with self.timer("rerank"):
            # Screening tells which candidate wins, not in which order the others come.
            scores = (self.scorer if top == 1 else score_exactly)(critic, features, vectors)
            values, mean = critic.values.invert(scores.values), critic.values.invert(scores.mean)
            return Best.of(block, vectors, values, mean, min(top, vectors.shape[-2]))

    def embed(self, actions: Tensor) -> Tensor:
        """The vectors of actions, as float tensors on the actions' device."""
        return torch.from_numpy(self.actions.embed(actions.numpy(force=True))).to(actions.device, torch.float32)
