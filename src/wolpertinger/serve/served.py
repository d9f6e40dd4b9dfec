"""One version of the policy, loaded, checked and warmed up, and how it answers."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from wolpertinger.agent import CheckpointError, Wolpertinger
from wolpertinger.serve.action_map import ActionMap
from wolpertinger.serve.observations import ObservationReader, Parts, count, join


@dataclass(frozen=True)
class Question:
    """What is asked of a state; questions that are equal are answered together."""

    kind: str
    """"pick": the policy's action alone; "rank": the best ones with their values; "explain": all candidates."""
    top: int | None = None
    """How many; None: as many as the agent's k."""


@dataclass(frozen=True, eq=False)
class Request:
    """A question about some states."""

    question: Question
    parts: Parts
    allowed: Sequence[Any] | None = None
    """What each state allows; None: all actions, or what the agent's own function says."""

    @property
    def states(self) -> int:
        return count(self.parts)


@dataclass(frozen=True, eq=False)
class Served:
    """An agent, and which version of the policy it is. Only one thread may call its methods."""

    agent: Wolpertinger
    version: int
    examples: Parts
    names: Sequence[str] | None

    @cached_property
    def reader(self) -> ObservationReader:
        return ObservationReader(self.agent.observation_space)

    @cached_property
    def map(self) -> ActionMap:
        return ActionMap(self.agent.actions)

    @property
    def digits(self) -> tuple[int, ...]:
        """The shape of one action: () for an id."""
        return tuple(self.agent.actions.space.shape or ())

    @property
    def needs_allowed(self) -> bool:
        """Whether a request must say what is allowed: the agent learned in environments that did."""
        return self.agent.restrictions.from_env

    def warm_up(self) -> None:
        """Answer once, and look at the answer: what cannot be served is refused before it takes the place of another.

        An index with a promised recall is chosen here, if the file does not hold one.
        """
        for name, tensor in self.agent.policy.state_dict().items():
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                raise CheckpointError(f"{name} holds numbers that are not finite")
        if self.needs_allowed:  # it cannot be asked without saying what is allowed
            return
        for question in (Question("pick"), Question("rank", 1), Question("explain")):
            answer = self._ask(question, self.examples, None)
            if not self.agent.actions.holds(answer["actions"]).all():
                raise CheckpointError("the policy picks actions that are not in its set")

    def answer(self, requests: Sequence[Request]) -> list[dict[str, npt.NDArray] | Exception]:
        """The answers in order. One request's error is its own: the others of its batch are asked again without it."""
        found: dict[int, Any] = {}
        groups: dict[Any, list[int]] = {}
        for place, request in enumerate(requests):
            groups.setdefault((request.question, request.allowed is None), []).append(place)
        for places in groups.values():
            own = [requests[place] for place in places]
            found |= zip(places, self._answer_alike(own), strict=True)
        return [found[place] for place in range(len(requests))]

    def _answer_alike(self, requests: Sequence[Request]) -> list[dict[str, npt.NDArray] | Exception]:
        allowed = [own for request in requests for own in request.allowed or ()] or None
        try:
            whole = self._ask(requests[0].question, join([request.parts for request in requests]), allowed)
        except Exception as error:  # which of them it is about, only asking each alone tells
            if len(requests) == 1:
                return [error]
            return [self._answer_alike([request])[0] for request in requests]
        bounds = np.cumsum([0, *(request.states for request in requests)])
        return [{name: part[start:stop] for name, part in whole.items()} for start, stop in pairwise(bounds)]

    def _ask(self, question: Question, parts: Parts, allowed: Sequence[Any] | None) -> dict[str, npt.NDArray]:
        obs = self.reader.to_observation(parts)
        if question.kind == "pick":
            return {"actions": self.agent.predict(obs, deterministic=True, allowed=allowed)[0]}
        if question.kind == "rank":
            found: Any = self.agent.rank(obs, question.top or self.agent.k, allowed=allowed)
        else:
            found = self.agent.explain(obs, k=question.top, allowed=allowed)
        answer = {field.name: getattr(found, field.name) for field in fields(found)}
        if question.kind == "explain":
            answer["positions"] = self.map.project(self.agent.actions.embed(answer["actions"]))
            answer["proto_position"] = self.map.project(answer["proto"])
        return answer

    def describe_action(self, action: int) -> dict[str, Any]:
        """What is known of an action with an id."""
        actions = self.agent.actions
        if not isinstance(actions.space, spaces.Discrete):
            raise ValueError(f"actions are digits of {actions.space}, not ids")
        if not 0 <= action < 2**63 or not actions.holds(np.array([action])).all():
            raise KeyError(action)
        vector = actions.embed(np.array([action]))[0]
        told = {"id": action, "vector": vector.tolist(), "position": self.map.project(vector).tolist()}
        return {**told, "name": self.name_of(action)}

    def name_of(self, action: Any) -> str | None:
        """What the run's task calls an action; None for one that was added since, or where nothing has a name."""
        names = self.names
        return names[action] if names is not None and np.ndim(action) == 0 and action < len(names) else None
