"""`Wolpertinger`: the agent on Stable-Baselines3's off-policy base class."""

import warnings
from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule, TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.utils import obs_as_tensor, update_learning_rate

from wolpertinger.actions import ActionSet, Allowed, resolve_k
from wolpertinger.agent import arguments, validation
from wolpertinger.agent.defaults import choose_defaults
from wolpertinger.agent.diagnostics import Diagnostics
from wolpertinger.agent.exploration import Exploration
from wolpertinger.agent.faults import Faults
from wolpertinger.agent.logged import LoggedAlgorithm
from wolpertinger.agent.policies import CnnPolicy, MultiInputPolicy, WolpertingerPolicy
from wolpertinger.agent.restrictions import AllowedFunction, Restrictions
from wolpertinger.agent.schedules import plain_rate
from wolpertinger.agent.standardization import has_units
from wolpertinger.learners import LearnerFactory, make_learner, make_learner_settings
from wolpertinger.networks import MLP, Actor, Critic, Factored, PerItem, TwoTower, make_critic_settings
from wolpertinger.policy import States, make_source_settings
from wolpertinger.policy.sources import SourceFactory
from wolpertinger.settings import check_seed, read_settings, show

NOT_SETTINGS = {"self", "__class__", "policy", "env", "actions", "device", "_init_setup_model"}  # of the constructor


class Wolpertinger(LoggedAlgorithm):
    """DDPG whose action is the best, by the critic, of the k actions nearest to the actor's proto-action.

    :param policy: "MlpPolicy", "CnnPolicy" or "MultiInputPolicy" (Dict observations).
    :param env: an environment with a Discrete or MultiDiscrete action space, a Gymnasium vector environment, an SB3
        `VecEnv`, or the id of a registered environment.
    :param actions: the action set; by default what the environment offers as `env.unwrapped.actions`, else actions are
        known by their number only (`ActionIds`), or by digits that are evenly spaced levels (MultiDiscrete).
    :param k: candidates to choose among: a count (int) or a share of A (float); by default 64. See also `agent.k`.
    :param critic: "mlp" (the paper) or `MLP(...)`; "two-tower" or `TwoTower(...)`: phi(s) . psi(a) + v(a) + u(s), which
        can search all of A; "factored" or `Factored(...)`: a sum over the factors of an `ActionProduct`.
    :param candidates: the k "nearest" to the proto-action (the paper); the k that a two-tower "critic" values most in
        all of A, `BestByCritic(...)`; "both", k each; "all" of A; slates by "slots" or "top" (docs/slates.md); or a
        `CandidateSource` of your own. Noise on the
        proto-action does not reach the critic's candidates: explore with `Exploration(epsilon=...)` (default: 0.1).
    :param rerank: "exact" scores every candidate; "screened" only those that can still win after a cheaper look at all
        of them: faster at hundreds of candidates, for the same choice all but always (see docs/performance.md).
    :param allowed: a function of a batch of observations that says what each state allows: ids, a mask, `Levels`; by
        default what the environment says, if it does, by `allowed_actions()`, `action_masks()` or
        `info["allowed_actions"]` (docs/valid-actions.md).
    :param exploration: noise on the proto-action and random actions; see `Exploration`.
    :param learner: what is learned from a batch: `DDPG(...)`, by default the paper's.
    :param learning_rate: of the critic, and of the actor unless `actor_learning_rate` is given.
    :param final_learning_rate: what the learning rate goes to, linearly, over the training; the actor's in proportion.
    :param standardize: let networks read states and say values in the units of what the warm-up saw, so that those of
        the environment do not matter; by default yes, with preset="paper" no.
    :param policy_kwargs: net_arch, layer_norm, unit_features (what the last layers read has length 1), n_critics,
        state_arch (layers of the critic that read the state alone, at no cost per candidate), bound (of the
        proto-action: "tanh", or "inverted gradients", which never saturates), predict_by ("critic", or "target":
        `predict` and `explain` go by the target critic), features_extractor_class and the other arguments of
        `WolpertingerPolicy`.

    :param on_bad_transition: what to do with rewards and observations that are not finite: "raise" an error that names
        environment, step and field before anything of that step is stored, or "skip" and count them in the log.

    The remaining parameters are those of every off-policy algorithm of Stable-Baselines3.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": WolpertingerPolicy,
        "CnnPolicy": CnnPolicy,
        "MultiInputPolicy": MultiInputPolicy,
    }
    actor: Actor
    critic: Critic

    # fmt: off
    def __init__(
        self, policy: str | type[WolpertingerPolicy], env: GymEnv | gym.vector.VectorEnv | str | None,
        actions: ActionSet | None = None, *,
        # Algorithm 1: which candidates, scored by what.
        k: int | float | None = None, critic: str | MLP | TwoTower | PerItem | Factored | None = None,
        candidates: str | SourceFactory | None = None, rerank: str = "exact",
        allowed: AllowedFunction | None = None,
        # Algorithm 2: exploration and learning.
        exploration: Exploration | None = None, learner: str | LearnerFactory | None = None,
        learning_rate: float | Schedule | None = None, final_learning_rate: float | None = None,
        actor_learning_rate: float | None = None, gamma: float | None = None, tau: float | None = None,
        n_steps: int | None = None, batch_size: int | None = None, learning_starts: int = 1_000,
        train_freq: int | tuple[int, str] | None = None, gradient_steps: int | None = None,
        standardize: bool | None = None, preset: str = "auto",
        # Stable-Baselines3's.
        buffer_size: int = arguments.DEFAULT_BUFFER, replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, Any] | None = None, optimize_memory_usage: bool = False,
        policy_kwargs: dict[str, Any] | None = None, stats_window_size: int = 100, tensorboard_log: str | None = None,
        verbose: int = 0, seed: int | None = None, device: torch.device | str = "auto",
        on_bad_transition: str = "raise", _init_setup_model: bool = True,
    ) -> None:
        # fmt: on
        learning_rate = plain_rate(learning_rate)
        self._arguments = {name: value for name, value in locals().items() if name not in NOT_SETTINGS}
        arguments.check_arguments(self._arguments, policy, self.policy_aliases, device)
        self._arguments |= arguments.plain_numbers(self._arguments)
        self._settle_parts(critic, candidates, learner, exploration)
        self.final_learning_rate, self.actor_learning_rate = final_learning_rate, actor_learning_rate
        self._init_off_policy(policy, env, device)
        if env is None and _init_setup_model:
            raise ValueError("env=None: give an environment, or load a saved agent with Wolpertinger.load(path)")
        self.rerank, self.standardize, self.on_bad_transition = rerank, standardize, on_bad_transition
        self.actions: ActionSet = actions  # type: ignore[assignment]  # `_setup_model` fills in None
        self._actions_from_env = actions is None
        if _init_setup_model:
            self._setup_model()

    def _settle_parts(self, critic: Any, candidates: Any, learner: Any, exploration: Any) -> None:
        if exploration is not None:
            exploration = read_settings("exploration", exploration, {Exploration.kind: Exploration})
        if exploration is not None and not isinstance(exploration, Exploration):
            raise TypeError(f"exploration={show(exploration)}: give Exploration(...)")
        makers = {"critic": make_critic_settings, "candidates": make_source_settings, "learner": make_learner_settings}
        given = {"critic": critic, "candidates": candidates, "learner": learner}
        settled = {name: None if part is None else makers[name](part) for name, part in given.items()}
        self._arguments |= {**settled, "exploration": exploration}

    def _init_off_policy(self, policy: Any, env: Any, device: torch.device | str) -> None:
        ours = {"k", "allowed", "critic", "candidates", "rerank", "exploration", "learner", "preset"}
        ours |= {"standardize", "on_bad_transition", "final_learning_rate", "actor_learning_rate"}
        theirs = {name: value for name, value in self._arguments.items() if name not in ours}
        theirs["replay_buffer_kwargs"] = dict(theirs["replay_buffer_kwargs"] or {})  # which the base class adds to
        env = None if env is None else validation.make_env(env, theirs["verbose"])
        super().__init__(policy, env, **theirs, device=device, support_multi_env=True, sde_support=False)

    def _settle_defaults(self) -> None:
        """Fill in what the user did not say, by the action set and the environments."""
        given = self._arguments
        self.defaults = chosen = choose_defaults(given, self.actions, self.observation_space)
        for name, value in chosen.arguments.items():
            if given[name] is None:
                given[name] = value
                if name not in ("k", "critic", "learner", "candidates"):
                    setattr(self, name, value)
        self.policy_kwargs = {**chosen.policy_kwargs, **self.policy_kwargs}
        given["policy_kwargs"] = dict(self.policy_kwargs)
        self.train_freq = 1 if self.train_freq is None else self.train_freq  # `learn` knows how often to train
        self.gradient_steps = 1 if self.gradient_steps is None else self.gradient_steps

    def _settle_update_ratio(self, transitions: int) -> None:
        """Updates per transition for a run of this length, unless the user has said how many; verbose, say so."""
        if self._arguments["train_freq"] is None and self._arguments["gradient_steps"] is None:
            steps, self.gradient_steps = self.defaults.update_ratio(transitions, self.n_envs)
            self.train_freq = TrainFreq(steps, TrainFrequencyUnit.STEP)  # type: ignore[assignment]
        if self.verbose >= 1:
            every = f"{self.train_freq.frequency} {self.train_freq.unit.value}(s)"  # type: ignore[union-attr]
            print(f"{self.defaults.why}; {self.n_envs} environment(s): {self.gradient_steps} update(s) of "
                  f"{self.batch_size} per {every}, gamma {self.gamma:g}")

    def _setup_model(self) -> None:
        given = self._arguments
        if self.actions is None:
            self.actions = validation.find_actions(self.action_space, self.env, verbose=self.verbose >= 1)
        self.actions = validation.match_actions(self.actions, self.action_space)
        self._settle_defaults()
        self.exploration = given["exploration"]
        validation.require_guidance(self.exploration, self.env)
        validation.require_fixed_observations(given["critic"], self.env)
        validation.require_actor_gradient(given["critic"], given["candidates"], self.actions)
        validation.require_skippable(self.on_bad_transition, self.env, self.optimize_memory_usage)
        ours = {name: given[name] for name in ("rerank", "critic", "candidates")}
        k = resolve_k(given["k"], self.actions.n)
        spaces, shares = (self.observation_space, self.action_space), self.optimize_memory_usage
        self.buffer_size = arguments.fit_buffer(self.buffer_size, *spaces, shares=shares)
        self.policy_kwargs = {**self.policy_kwargs, "actions": self.actions, "k": k, **ours}
        super()._setup_model()
        self.actor, self.actor_target = self.policy.actor, self.policy.actor_target
        self.critic, self.critic_target = self.policy.critic, self.policy.critic_target
        self.learner = make_learner(given["learner"], self.policy.networks, self.policy.behaviour, self.tau)
        self.diagnostics, self.faults = Diagnostics(), Faults()
        self.restrictions = Restrictions(self.actions, given["allowed"])
        is_moved_by_noise = self.policy.behaviour.source.needs_actor and self.k < self.actions.n
        if not (is_moved_by_noise or self.exploration.epsilon or self.exploration.final_epsilon):
            text = "epsilon is 0, and noise on the proto-action does not reach these candidates: nothing is explored"
            warnings.warn(text, stacklevel=4)

    def set_random_seed(self, seed: int | None = None) -> None:
        check_seed("seed", seed)
        super().set_random_seed(seed)
        self.explorer = self.exploration(self.actions, seed)

    @property
    def k(self) -> int:
        """Number of candidates the critic chooses among; set a count (int) or a share of A (float) at any time."""
        return min(self.policy.k, self.actions.n)  # actions may have been removed since it was set

    @k.setter
    def k(self, k: int | float) -> None:
        self.policy.k = self.policy_kwargs["k"] = resolve_k(k, self.actions.n)
        self._arguments["k"] = k

    def train(self, gradient_steps: int, batch_size: int) -> None:
        """Lines 12 to 16 of Algorithm 2, `gradient_steps` times."""
        if self.standardize and not has_units(self.policy, self.replay_buffer, self.gamma, self._vec_normalize_env):
            return  # too little has been seen
        if isinstance(self.replay_buffer, HerReplayBuffer) and not self.replay_buffer.ep_length.any():
            return  # goals are of whole episodes
        self.policy.set_training_mode(True)
        self._update_learning_rates()
        self.learner.tau = self.tau  # it may have been set since, as may gamma
        if self._arguments["replay_buffer_class"] is None:  # ours makes n-step returns with it
            self.replay_buffer.gamma = self.gamma  # type: ignore[attr-defined]
        with self.policy.timer("update"), self.policy.threads_for(batch_size):
            for _ in range(gradient_steps):
                losses = self.learner.update(self._sample(batch_size))
                self.faults.count_update(losses)
                self.diagnostics.add(losses)
                self.policy.predictor.source.critic_updated()
                self._n_updates += 1
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    def _update_learning_rates(self) -> None:
        self._update_learning_rate([self.critic.optimizer, self.actor.optimizer])
        if self.actor_learning_rate is not None:
            share = self.lr_schedule(self._current_progress_remaining) / full if (full := self.lr_schedule(1)) else 1.0
            update_learning_rate(self.actor.optimizer, self.actor_learning_rate * share)

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Line 9: the policy's action under exploration, which acts before the lookup or picks members of A."""
        progress = self.num_timesteps / max(1, self._total_timesteps)
        epsilon = 1.0 if self.num_timesteps < learning_starts else self.explorer.epsilon(progress)
        at_random = self.explorer.at_random(n_envs, epsilon)
        near, anywhere = np.flatnonzero(~at_random), np.flatnonzero(at_random)
        executed = np.empty((n_envs, *(self.action_space.shape or ())), dtype=np.int64)
        allowed = self._allowed_now()
        if near.size:
            with self.policy.threads_for(n_envs):
                executed[near] = self._explore_near_policy(progress, near, allowed)
        if anywhere.size:
            own = None if allowed is None else allowed.rows(anywhere)
            executed[anywhere] = self.explorer.draw(anywhere, self._offered, own)
        return executed, executed

    @torch.no_grad()
    def _explore_near_policy(
        self, progress: float, places: npt.NDArray[np.int64], allowed: Allowed | None
    ) -> npt.NDArray[np.int64]:
        """The policy's actions under noise in the environments at `places`; the noise moves on in all of them."""
        assert self._last_obs is not None
        behaviour = self.policy.behaviour
        states, unit = States(obs_as_tensor(self._last_obs, self.device), None, allowed), None
        if behaviour.source.needs_actor:
            unit = self.actor.unit(states.obs)  # the proto-action in [-1, 1]
            noisy = torch.as_tensor(self.explorer.perturb(unit.cpu().numpy(), progress), device=unit.device)
            states = States(states.obs, self.actor.scale.to_vectors(noisy), allowed)
        if len(places) < len(states):
            rows = torch.as_tensor(places, device=self.device)
            states, unit = states.rows(rows), None if unit is None else unit[rows]
        ranking = behaviour.rank(states, self.critic)
        self._warn_if_unexplored(ranking)
        self.diagnostics.add_acting(ranking, unit)
        return ranking.actions[:, 0].cpu().numpy()

    def _offered(self, places: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """What the environments at `places` offer for guided exploration in their current states."""
        assert self.env is not None
        return self.env.env_method("guided_actions", indices=places.tolist())

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 4,
        tb_log_name: str = "Wolpertinger",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        *,
        env: Any = None,
    ) -> Self:
        """Learn for so many steps of the environment; `env`, if given, is where from now on, as by `set_env`."""
        flags = {"reset_num_timesteps": reset_num_timesteps, "progress_bar": progress_bar}
        arguments.check_learn(total_timesteps, callback, log_interval, tb_log_name, **flags)
        if env is not None:
            self.set_env(env)
        if self.env is None:
            raise ValueError("there is no environment: give learn(..., env=...)")
        self._settle_update_ratio(total_timesteps + (0 if reset_num_timesteps else self.num_timesteps))
        if reset_num_timesteps:  # a new episode begins in every environment
            self.explorer.reset(np.ones(self.n_envs, dtype=np.bool_))
        self._go_on(reset_num_timesteps)
        return super().learn(total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar)

    def action_vectors(self) -> npt.NDArray[np.float32]:
        """psi(a) of every action, as a two-tower critic has learned it (n, width), in the order of `actions.blocks`."""
        return self.policy.action_vectors().cpu().numpy()
