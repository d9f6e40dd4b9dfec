"""The agent where states say what they allow: acting, storing, sampling and predicting obey it."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import VecEnv

from wolpertinger.actions import Allowed
from wolpertinger.actions.base import MAX_CANDIDATES
from wolpertinger.agent.allowed_store import AllowedStore
from wolpertinger.agent.arguments import check_observation
from wolpertinger.agent.base import ActionSetAlgorithm
from wolpertinger.agent.explanation import Explanation, RankedActions, explain, rank_actions
from wolpertinger.agent.faults import cut_returns
from wolpertinger.policy import Ranking, States
from wolpertinger.settings import check_number

Observation = npt.NDArray | dict[str, npt.NDArray]


class RestrictedAlgorithm(ActionSetAlgorithm):
    """Keeps what states allow beside their observations, from the environment to the targets."""

    _has_warned = False

    def _setup_learn(self, total_timesteps: int, *args: Any, **kwargs: Any) -> Any:
        had_obs = self._last_obs is not None
        started = super()._setup_learn(total_timesteps, *args, **kwargs)
        does_reset = kwargs.get("reset_num_timesteps", args[1] if len(args) > 1 else True)
        is_reset = does_reset or not had_obs
        if is_reset and isinstance(self.replay_buffer, NStepReplayBuffer):  # no return goes on into another episode
            cut_returns(self.replay_buffer, np.ones(self.n_envs, dtype=np.bool_))
        if is_reset or not self.restrictions.has_begun:
            assert self.env is not None
            self.restrictions.begin(self.env, is_reset=is_reset)
            if self.restrictions.is_used and self.on_bad_transition == "skip":
                raise ValueError(
                    'on_bad_transition="skip" stores other transitions in the place of those it leaves out, and what '
                    'their states allow would not fit: give "raise" where states say what they allow'
                )
            if self.restrictions.from_env and getattr(self._arguments["learner"], "gradient_at", "") == "action":
                raise ValueError(
                    'gradient_at="action" looks up actions in the states of a batch, and the replay buffer keeps what '
                    'the next ones allow: give allowed=, a function of the observation, or gradient_at="proto"'
                )
        return started

    def _allowed_now(self) -> Allowed | None:
        """What the environments' current states allow."""
        if not self.restrictions.is_used:
            return None
        original = self._last_obs if self._vec_normalize_env is None else self._last_original_obs
        return self.restrictions.now(original, self.num_timesteps)

    def _warn_if_unexplored(self, ranking: Ranking) -> None:
        """Where few actions are allowed all of them are candidates: noise on the proto-action changes nothing."""
        if ranking.states.allowed is None or self._has_warned:
            return
        explores = self.exploration.epsilon or self.exploration.final_epsilon
        self._has_warned = ranking.candidates.source == "allowed" and ranking.candidates.only is None and not explores
        if self._has_warned:
            warnings.warn(
                "epsilon is 0, and so few actions are allowed that all of them are candidates: noise on the "
                "proto-action explores nothing; give exploration=Exploration(epsilon=0.1), say",
                stacklevel=5,
            )

    def _store_transition(
        self,
        replay_buffer: ReplayBuffer,
        buffer_action: npt.NDArray[np.int64],
        new_obs: Any,
        reward: npt.NDArray[np.floating],
        dones: npt.NDArray[np.bool_],
        infos: list[dict[str, Any]],
    ) -> None:
        arrived = executed = store = None
        position, restrictions = replay_buffer.pos, self.restrictions
        if restrictions.is_used:
            infos = list(infos)
            executed = restrictions.vectors_of(buffer_action)
            if restrictions.from_env:
                assert self.env is not None
                arrived = restrictions.step(self.env, dones, infos, buffer_action, self.num_timesteps)
            store = self._allowed_store(None if arrived is None else arrived.form)
        super()._store_transition(replay_buffer, buffer_action, new_obs, reward, dones, infos)
        if store is not None:
            store.add(position, arrived, executed)

    def _allowed_store(self, form: str | None) -> AllowedStore | None:
        """Where the replay buffer keeps what states allow; None if a function says all there is to know."""
        if form is None and not self.actions.has_offered_vectors:
            return None
        store = getattr(self.replay_buffer, "allowed_store", None)
        return AllowedStore(self.replay_buffer, self.actions, form) if store is None else store

    def _sample_restricted(self, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """A batch of the replay buffer, and what its states allow, as arguments of `Batch`."""
        restrictions, normalised = self.restrictions, self._vec_normalize_env
        if restrictions.function is None or normalised is None:
            original = batch = self.replay_buffer.sample(batch_size, env=normalised)
        else:  # the same places twice
            state = np.random.get_state()  # noqa: NPY002 - Stable-Baselines3's generator
            original = self.replay_buffer.sample(batch_size)
            np.random.set_state(state)  # noqa: NPY002
            batch = self.replay_buffer.sample(batch_size, env=normalised)
        known: dict[str, Any] = {}
        store: AllowedStore | None = getattr(self.replay_buffer, "allowed_store", None)
        if store is not None and (restrictions.from_env or self.actions.has_offered_vectors):
            known["next_allowed"], vectors = store.sampled()
            known["vectors"] = None if vectors is None else self.replay_buffer.to_torch(vectors)
        if restrictions.function is not None:
            for name, obs in (("next_allowed", original.next_observations), ("allowed", original.observations)):
                if name == "next_allowed" or getattr(self._arguments["learner"], "gradient_at", "") == "action":
                    known[name] = restrictions.of(self._as_observed(obs))
        return batch, known

    def _as_observed(self, obs: Any) -> Any:
        """Observations of a batch of tensors as the environments give them."""
        if isinstance(obs, dict):
            return {name: _reshape(part, self.observation_space[name]) for name, part in obs.items()}  # type: ignore[index]
        return _reshape(obs, self.observation_space)

    def _allowed_in(self, observation: Observation, allowed: Any, asked: str) -> Allowed | None:
        """What states allow whose observations are given: what the user says, or the function; else all of A."""
        check_observation(observation, self.observation_space)
        if allowed is None and not self.restrictions.is_used:
            return None
        if allowed is None and self.restrictions.function is None:
            raise ValueError(
                f"{asked}(obs): the agent learned in environments that say what they allow, and an observation does "
                f"not: give {asked}(obs, allowed=...), or let agent.acting_in(env) ask the environments"
            )
        obs, batched = self.policy.obs_to_tensor(observation)
        if allowed is None:
            original = self._as_observed(obs)
            if self._vec_normalize_env is not None:
                original = self._vec_normalize_env.unnormalize_obs(original)
            return self.restrictions.of(original)
        count = len(next(iter(obs.values())) if isinstance(obs, dict) else obs)
        return self.restrictions.read(allowed if batched else [allowed], count)

    def predict(
        self,
        observation: Observation,
        state: tuple[npt.NDArray, ...] | None = None,
        episode_start: npt.NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        *,
        allowed: Any = None,
    ) -> tuple[npt.NDArray, tuple[npt.NDArray, ...] | None]:
        """The policy's actions; `allowed` says what may be done, for one state or for each of a batch."""
        restriction = self._allowed_in(observation, allowed, "predict")
        if restriction is None:
            return super().predict(observation, state, episode_start, deterministic)
        self.policy.set_training_mode(False)
        obs, batched = self.policy.obs_to_tensor(observation)
        with self.policy.threads_for(len(States(obs))):
            actions = self.policy.rank(obs, restriction).actions[:, 0].cpu().numpy()
        return (actions if batched else actions[0]), state

    def explain(self, observation: Observation, *, k: int | None = None, allowed: Any = None) -> Explanation:
        """What the policy sees and picks in one state, or in each of a batch of states; beside its pick the candidates
        of another k, if one is given.
        """
        check_number("k", k, least=1, most=MAX_CANDIDATES, whole=True, optional=True)
        restriction = self._allowed_in(observation, allowed, "explain")
        parts = self._ask(partial(explain, k=k), observation, restriction)
        return Explanation(*parts)

    def rank(self, observation: Observation, top: int = 10, *, allowed: Any = None) -> RankedActions:
        """The `top` best actions by the policy in one state, or in each of a batch of states, best first: of its k
        candidates, or of `top` where k is less.
        """
        check_number("top", top, least=1, most=MAX_CANDIDATES, whole=True)
        restriction = self._allowed_in(observation, allowed, "rank")
        parts = self._ask(partial(rank_actions, top=top), observation, restriction)
        return RankedActions(*parts)

    def _ask(self, question: Callable[..., list[npt.NDArray]], observation: Observation, allowed: Any) -> list[Any]:
        self.policy.set_training_mode(False)
        obs, batched = self.policy.obs_to_tensor(observation)
        with self.policy.threads_for(len(States(obs))):
            return [part if batched else part[0] for part in question(self.policy, obs, allowed)]

    def acting_in(self, env: VecEnv) -> "Acting":
        """The policy in environments that say what they allow: `evaluate_policy(agent.acting_in(env), env)`."""
        return Acting(self, self._wrap_env(env))


class Acting:
    """Predicts what the agent would, after asking the environments what their current states allow."""

    def __init__(self, agent: RestrictedAlgorithm, env: VecEnv) -> None:
        self.agent, self.env, self.policy = agent, env, agent.policy
        self.method = agent.restrictions.method_of(env)

    def predict(
        self, observation: Observation, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[npt.NDArray, Any]:
        """As `agent.predict`."""
        allowed = self.env.env_method(self.method)
        return self.agent.predict(observation, state, episode_start, deterministic, allowed=allowed)


def _reshape(part: Any, space: spaces.Space) -> npt.NDArray:
    """A batch of observations as numpy, those of Discrete spaces without a dimension of their own."""
    array = part.numpy(force=True)
    return array.reshape(len(array), *(space.shape or ())) if isinstance(space, spaces.Discrete) else array
