"""The policy as Stable-Baselines3 knows it: networks, optimisers, and what predicts."""

import copy
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any, ClassVar, Self

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    NatureCNN,
    get_actor_critic_arch,
)
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from stable_baselines3.common.utils import get_device
from torch import Tensor, nn

from wolpertinger import archive
from wolpertinger.actions import ActionSet, Allowed
from wolpertinger.agent import policy_files
from wolpertinger.agent.growing import GrowingSpace
from wolpertinger.learners import Networks
from wolpertinger.networks import MLP, Actor, Critic, Factored, PerItem, TwoTower
from wolpertinger.policy import Nearest, Policy, Ranking, States
from wolpertinger.policy.scoring import Scorer, score_exactly
from wolpertinger.policy.screening import EightBitScreen
from wolpertinger.policy.sources import SourceFactory
from wolpertinger.policy.timing import SectionTimer
from wolpertinger.settings import check_choice, check_memory, show
from wolpertinger.threads import threads_for

RERANKERS: dict[str, Callable[[Critic], Scorer]] = {"exact": lambda critic: score_exactly, "screened": EightBitScreen}
KEYS_AT_ONCE = 2**14
OF_AGENT = {"self", "__class__", "observation_space", "action_space", "lr_schedule", "actions"}
BYTES = 20  # of a weight with its gradient, its two moments and its target


class WolpertingerPolicy(GrowingSpace, BasePolicy):
    """Actor, critic and their targets over an action set, and two policies over them: one to train, one to predict.

    `behaviour` acts in training and picks target actions. `predictor` serves `predict` and `explain`: the same by
    candidates of its own, so that predicting changes nothing of what is learned; with predict_by="target" it goes by
    the target critic, an average of the critics of the last 1 / tau updates or so.
    """

    policy_class: ClassVar[type[Policy]] = Policy
    """What ranks: override it to rank otherwise."""
    actor: Actor
    critic: Critic

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Schedule,
        actions: ActionSet,
        k: int,
        rerank: str = "exact",
        critic: MLP | TwoTower | PerItem | Factored | None = None,
        candidates: SourceFactory | None = None,
        predict_by: str = "critic",
        net_arch: list[int] | dict[str, list[int]] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        layer_norm: bool = False,
        unit_features: bool = False,
        n_critics: int = 1,
        state_arch: list[int] | None = None,
        dropout: float = 0.0,
        bound: str = "tanh",
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        made_with = {name: value for name, value in locals().items() if name not in OF_AGENT and value is not None}
        if optimizer_kwargs is None and optimizer_class is torch.optim.Adam:
            optimizer_kwargs = {"fused": True}  # one kernel for all parameters, on every device
        super().__init__(
            *(observation_space, action_space, features_extractor_class, features_extractor_kwargs),
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )
        self.actions, self.made_with = actions, made_with
        shared = {"activation_fn": activation_fn, "layer_norm": layer_norm, "unit_features": unit_features}
        of_critic = {"n_critics": n_critics, "state_arch": state_arch, "dropout": dropout, "form": critic, **shared}
        self._build_networks(net_arch, {"bound": bound, **shared}, of_critic, lr_schedule)
        self._build_policies(candidates or Nearest(), k, rerank, predict_by)

    def _build_networks(self, net_arch: Any, of_actor: Any, of_critic: Any, lr_schedule: Schedule) -> None:
        actor_arch, critic_arch = get_actor_critic_arch([256, 128] if net_arch is None else net_arch)
        if not (actor_arch and critic_arch):
            raise ValueError(
                f"net_arch={net_arch!r}: give actor and critic at least one hidden layer, such as [256, 128]"
            )
        self._width = max(*actor_arch, *critic_arch)
        weights = sum(a * b for arch in (actor_arch, critic_arch) for a, b in pairwise([self.actions.dim, *arch]))
        check_memory(f"net_arch={show(net_arch)}", BYTES * weights * of_critic["n_critics"])
        self.actor, self.actor_target = (self._network(Actor, actor_arch, of_actor) for _ in range(2))
        self.critic, self.critic_target = (self._network(Critic, critic_arch, of_critic) for _ in range(2))
        self._is_flat = next(self.critic.features_extractor.parameters(), None) is None
        for network, target in ((self.actor, self.actor_target), (self.critic, self.critic_target)):
            target.load_state_dict(network.state_dict())  # line 2 of Algorithm 2
            target.set_training_mode(False)
            target.requires_grad_(False)
            parameters: Any = network.parameters()
            network.optimizer = self.optimizer_class(parameters, **{"lr": lr_schedule(1), **self.optimizer_kwargs})

    def threads_for(self, n_states: int) -> AbstractContextManager[None]:
        """One thread for so many states, if that is all they need; pictures always have what the host has set."""
        source = self.behaviour.source
        candidates = self.actions.n if source.is_shared else self.k
        return threads_for(n_states * candidates * self._width if self._is_flat else sys.maxsize)

    def _network(self, network_class: type, net_arch: list[int], settings: dict[str, Any]) -> Any:
        return network_class(
            self.observation_space,
            self.action_space,
            self.actions,
            net_arch=net_arch,
            features_extractor=self.make_features_extractor(),
            normalize_images=self.normalize_images,
            **settings,
        )

    def _build_policies(self, candidates: SourceFactory, k: int, rerank: str, predict_by: str) -> None:
        critics = {"critic": self.critic, "target": self.critic_target}
        check_choice("predict_by", predict_by, critics)
        check_choice("rerank", rerank, RERANKERS)
        self._predicts_by_target = predict_by == "target"
        scorer, self.timer = RERANKERS[rerank](self.critic), SectionTimer()
        self.behaviour, self.predictor = (
            self.policy_class(self.actions, candidates(self.actions, critic), k, scorer, self.timer)
            for critic in (self.critic, critics[predict_by])
        )

    @property
    def networks(self) -> Networks:
        """All four networks, as a learner takes them."""
        return Networks(self.actor, self.actor_target, self.critic, self.critic_target)

    @property
    def predicting_critic(self) -> Critic:
        """The critic that `predict` and `explain` go by."""
        return self.critic_target if self._predicts_by_target else self.critic

    @property
    def k(self) -> int:
        """Candidates per state."""
        return self.behaviour.k

    @k.setter
    def k(self, k: int) -> None:
        self.behaviour.k = self.predictor.k = k

    @torch.no_grad()
    def action_vectors(self) -> Tensor:
        """psi of every action by a two-tower critic (n, width), those of several critics side by side."""
        if not self.critic.has_keys:
            raise ValueError('critic="mlp" learns no vectors of actions: make the agent with critic="two-tower"')
        blocks = (torch.from_numpy(self.actions.embed(block)) for block in self.actions.blocks(KEYS_AT_ONCE))
        vectors = (block.to(self.device, torch.float32) for block in blocks)
        return torch.cat([self.critic.keys(block, with_values=False) for block in vectors])

    def forward(self, obs: PyTorchObs, deterministic: bool = False) -> Tensor:
        return self._predict(obs, deterministic)

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> Tensor:
        with self.threads_for(len(States(observation))):
            return self.rank(observation).actions[:, 0]

    def rank(self, obs: PyTorchObs, allowed: Allowed | None = None, top: int = 1, k: int | None = None) -> Ranking:
        """The `top` best of k candidates by the predictor, by the critic as it is."""
        predictor = self.predictor
        if k is not None and k != predictor.k:
            predictor = copy.copy(predictor)
            predictor.k = k
        predictor.source.expire()
        return predictor.rank(predictor.propose(self.actor, obs, allowed), self.predicting_critic, top)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        loaded = super().load_state_dict(*args, **kwargs)
        for policy in (self.behaviour, self.predictor):
            policy.source.critic_updated()
            policy.source.expire()
        return loaded

    def set_training_mode(self, mode: bool) -> None:
        _switch(self.actor, mode)
        _switch(self.critic, mode)
        self.training = mode

    def save(self, path: archive.Target) -> None:
        """Write what predicts, with its actions, to one zip of safetensors and JSON; `agent.save` writes all else too.

        Classes of your own in `policy_kwargs` cannot be said in JSON.
        """
        policy_files.save_policy(self, path)

    @classmethod
    def load(
        cls, path: archive.Target, device: torch.device | str = "auto", *, actions: ActionSet | None = None
    ) -> Self:
        """A policy from a file that `save` wrote; it runs nothing of it. `actions`: instead of those in the file."""
        return policy_files.load_policy(cls, path, get_device(device), actions)


def _switch(module: nn.Module, mode: bool) -> None:
    """`module.train(mode)`, which is called twice a step, in a tenth of its time."""
    if type(module).train is not nn.Module.train or isinstance(module, torch.jit.ScriptModule):  # its own ways
        module.train(mode)
        return
    vars(module)["training"] = mode
    for child in module._modules.values():
        if child is not None:
            _switch(child, mode)


class CnnPolicy(WolpertingerPolicy):
    """For images: Stable-Baselines3's NatureCNN in front."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": NatureCNN, **kwargs})


class MultiInputPolicy(WolpertingerPolicy):
    """For Dict observations: Stable-Baselines3's CombinedExtractor in front."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": CombinedExtractor, **kwargs})
