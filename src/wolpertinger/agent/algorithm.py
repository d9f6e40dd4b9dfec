"""Algorithm 2: training with DDPG, on Stable-Baselines3's off-policy base class."""

from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, PyTorchObs, Schedule
from stable_baselines3.common.utils import obs_as_tensor, update_learning_rate

from wolpertinger.actions import ActionSet, resolve_k
from wolpertinger.agent.base import ActionSetAlgorithm
from wolpertinger.agent.diagnostics import Diagnostics
from wolpertinger.agent.exploration import Exploration, Explorer
from wolpertinger.agent.follower import Follower
from wolpertinger.agent.match import match_actions
from wolpertinger.agent.networks import Actor, Critic
from wolpertinger.agent.options import LOSSES, check_forms, check_options, check_remembered
from wolpertinger.agent.policy import Choice, CnnPolicy, Explanation, MultiInputPolicy, WolpertingerPolicy
from wolpertinger.agent.rerank import rank

DEFAULT_EPSILON = 0.1  # where noise on the proto-action moves no candidates
DEFAULT_K = 64  # candidates when the user names no k (or all actions, if they are fewer)


class Wolpertinger(ActionSetAlgorithm):
    """DDPG whose action is the best, by the critic, of the k actions nearest to the actor's proto-action.

    :param policy: "MlpPolicy", "CnnPolicy" or "MultiInputPolicy" (Dict observations).
    :param env: an environment with a Discrete or MultiDiscrete action space, a Gymnasium vector environment, an SB3
        `VecEnv`, or the id of a registered environment.
    :param actions: the action set; by default what the environment offers as `env.unwrapped.actions`.
    :param k: candidates to choose among: a count (int) or a share of A (float); by default 64. See also `agent.k`.
    :param critic: "mlp" (the paper), or "two-tower": phi(s) . psi(a) + v(a) + u(s), which can search all of A.
    :param candidates: the k "nearest" to the proto-action (the paper); the k that a two-tower "critic" values most in
        all of A (several critics: by their mean); or "both", k each. Noise on the proto-action does not reach the
        critic's candidates: explore with `Exploration(epsilon=...)` (default then: 0.1).
    :param rerank: "exact" scores every candidate; "screened" only those that can still win after a cheaper look at all
        of them: faster at hundreds of candidates, for the same choice in all but a few of a thousand states; best
        with actions that are ids (see docs/performance.md).
    :param exploration: noise on the proto-action and random actions; see `Exploration`.
    :param learning_rate: of the critic, and of the actor unless `actor_learning_rate` is given.
    :param final_learning_rate: what the learning rate goes to, linearly, over the training; the actor's in proportion.
    :param critic_loss: "mse" (the paper) or "huber".
    :param anchor: pulls the proto-action towards the action that the full policy picks in the same state, so that the
        actor does not leave the region where actions are; 0 is the paper's actor.
    :param gradient_at: where the actor takes the critic's gradient: at its "proto" (the paper), or at the "action" that
        the full policy makes of it, where the critic has been trained; one more lookup and re-ranking an update.
    :param max_grad_norm: clip the gradients to this norm; None does not.
    :param policy_kwargs: net_arch, layer_norm, interaction (products of state and action in an MLP critic), n_critics,
        state_arch (layers of the critic that read the state alone, at no cost per candidate), bound (of the
        proto-action: "tanh", or "inverted gradients", which does not saturate), activation_fn,
        refresh_every (updates from which on the critic's search goes by what it has learned since; by default more
        for larger sets), predict_by ("critic", or "target": `predict` and `explain` go by the target critic, an average
        of those of the last 1 / tau updates or so; the actor is the same), tower_kwargs (width,
        state_memory and action_memory of a two-tower critic, see `TwoTower`), features_extractor_class and the other
        arguments of `WolpertingerPolicy`.

    The remaining parameters are those of every off-policy algorithm of Stable-Baselines3.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": WolpertingerPolicy,
        "CnnPolicy": CnnPolicy,
        "MultiInputPolicy": MultiInputPolicy,
    }
    actor: Actor
    critic: Critic

    def __init__(
        self,
        policy: str | type[WolpertingerPolicy],
        env: GymEnv | gym.vector.VectorEnv | str | None,
        actions: ActionSet | None = None,
        *,
        k: int | float | None = None,
        critic: str = "mlp",
        candidates: str = "nearest",
        rerank: str = "exact",
        exploration: Exploration | None = None,
        learning_rate: float | Schedule = 1e-3,
        final_learning_rate: float | None = None,
        actor_learning_rate: float | None = None,
        buffer_size: int = 1_000_000,
        learning_starts: int = 1_000,
        batch_size: int = 64,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 1,
        critic_loss: str = "mse",
        anchor: float = 0.0,
        gradient_at: str = "proto",
        max_grad_norm: float | None = None,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, Any] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        super().__init__(
            policy,
            env,  # type: ignore[arg-type]  # `_wrap_env` below takes Gymnasium vector environments too
            learning_rate,
            buffer_size,
            learning_starts,
            batch_size,
            tau,
            gamma,
            train_freq,
            gradient_steps,
            replay_buffer_class=replay_buffer_class,
            replay_buffer_kwargs=replay_buffer_kwargs,
            optimize_memory_usage=optimize_memory_usage,
            n_steps=n_steps,
            policy_kwargs=policy_kwargs,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            device=device,
            support_multi_env=True,
            seed=seed,
            sde_support=False,
        )
        if env is None and _init_setup_model:
            raise ValueError("env=None: give an environment, or load a saved agent with Wolpertinger.load(path)")
        check_forms(critic, candidates, rerank, exploration)
        check_options(
            rerank,
            exploration,
            learning_rate,
            final_learning_rate,
            critic_loss,
            anchor,
            gradient_at,
            max_grad_norm,
            policy_kwargs,
        )
        self.forms = {"critic": critic, "candidates": candidates}
        self.rerank = rerank
        self.critic_loss = critic_loss
        self.final_learning_rate = final_learning_rate
        self.exploration = exploration or Exploration(epsilon=DEFAULT_EPSILON if candidates == "critic" else 0.0)
        self.actor_learning_rate = actor_learning_rate
        self.anchor = anchor
        self.gradient_at = gradient_at
        self.max_grad_norm = max_grad_norm
        self.actions: ActionSet = actions  # type: ignore[assignment]  # `_setup_model` fills in None
        self._actions_from_env = actions is None
        self._k = k
        if _init_setup_model:
            self._setup_model()

    def _setup_model(self) -> None:
        self.actions = match_actions(self.actions, self.action_space, self.env, self.exploration)
        k = resolve_k(min(DEFAULT_K, self.actions.n) if self._k is None else self._k, self.actions.n)
        ours = {"actions": self.actions, "k": k, "rerank": self.rerank, **self.forms}
        self.policy_kwargs = {**self.policy_kwargs, **ours}
        check_remembered(self.policy_kwargs, self._vec_normalize_env)
        super()._setup_model()
        self.actor, self.actor_target = self.policy.actor, self.policy.actor_target
        self.critic, self.critic_target = self.policy.critic, self.policy.critic_target
        self.follower = Follower((self.critic, self.critic_target), (self.actor, self.actor_target))
        self.diagnostics = Diagnostics()

    def set_random_seed(self, seed: int | None = None) -> None:
        super().set_random_seed(seed)
        self.explorer = Explorer(self.exploration, self.action_space if self.actions is None else self.actions, seed)

    @property
    def k(self) -> int:
        """How many candidates the critic chooses among; set a count (int) or a share of A (float) at any time."""
        return min(self.policy.k, self.actions.n)  # actions may have been removed since it was set

    @k.setter
    def k(self, k: int | float) -> None:
        self.policy.k = self.policy_kwargs["k"] = resolve_k(k, self.actions.n)
        self._k = k

    def train(self, gradient_steps: int, batch_size: int) -> None:
        """Lines 12 to 16 of Algorithm 2, `gradient_steps` times."""
        self.policy.set_training_mode(True)
        self._update_learning_rates()
        with self.policy.clock("update"):
            for _ in range(gradient_steps):
                self._train_once(batch_size)
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    def _train_once(self, batch_size: int) -> None:
        batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)  # line 12
        obs, next_obs = batch.observations, batch.next_observations
        rewards, going_on = batch.rewards.squeeze(1), 1 - batch.dones.squeeze(1)  # time-outs are not "done" here
        discount = self.gamma if batch.discounts is None else batch.discounts.squeeze(1)
        executed = self.policy.embed(batch.actions.reshape(len(rewards), *(self.action_space.shape or ())))

        # Line 13: the target action comes from the full policy, with target actor and target critic.
        choice = self.policy.choose(next_obs, self.policy.propose(self.actor_target, next_obs), self.critic_target)
        self.policy.remember(choice)
        target = rewards + going_on * discount * choice.value  # (batch,)

        # Line 14: the critic learns the value of the action that was executed.
        q = self.critic(obs, executed)  # (critics, batch)
        critic_loss = len(q) * LOSSES[self.critic_loss](q, target.expand_as(q))
        self._minimise(critic_loss, self.critic)
        self.policy.tick()

        if self.forms["candidates"] != "critic":  # which asks no actor
            self._train_actor(obs, next_obs, choice)

        # Line 16.
        self.follower.step(self.tau)
        self._n_updates += 1
        self.diagnostics.add(critic_loss=critic_loss.detach())

    def _train_actor(self, obs: PyTorchObs, next_obs: PyTorchObs, choice: Choice) -> None:
        """Line 15 of Algorithm 2; `choice` is what line 13 chose in the next states."""
        # The lookup has no gradient, so the critic's gradient is taken at the proto-action itself; or, with
        # gradient_at="action", at the action it becomes, as if the lookup had moved it there.
        proto = self.actor(obs)
        if self.gradient_at == "action":
            proto = proto + (self.policy.choose(obs, proto, self.critic).vector - proto).detach()
        actor_loss = -self.critic(obs, proto)[0].mean()
        if self.anchor:
            actor_loss = actor_loss + self.anchor * self.actor.distance(next_obs, choice.vector)
        self._minimise(actor_loss, self.actor)
        self.diagnostics.add(actor_loss=actor_loss.detach())

    def _minimise(self, loss: torch.Tensor, network: Actor | Critic) -> None:
        parameters = [parameter for group in network.optimizer.param_groups for parameter in group["params"]]
        for parameter in parameters:  # as `zero_grad` does, without its 30 us
            parameter.grad = None
        # Without `inputs` the actor's loss would also work out the gradient of every weight of the critic, for nothing.
        loss.backward(inputs=parameters)  # type: ignore[no-untyped-call]
        if self.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, self.max_grad_norm)
        network.optimizer.step()

    def _update_learning_rates(self) -> None:
        self._update_learning_rate([self.critic.optimizer, self.actor.optimizer])
        if self.actor_learning_rate is not None:
            first = self.lr_schedule(1)
            share = self.lr_schedule(self._current_progress_remaining) / first if first else 1.0
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
        if near.size:
            executed[near] = self._explore_near_policy(progress, near)
        if anywhere.size:
            executed[anywhere] = self.explorer.draw(anywhere, self._offered)
        return executed, executed

    @torch.no_grad()
    def _explore_near_policy(self, progress: float, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The policy's actions under noise in the environments at `places`; the noise moves on in all of them."""
        assert self._last_obs is not None
        obs, rows = obs_as_tensor(self._last_obs, self.device), torch.as_tensor(places, device=self.device)
        act = self.policy.choose if self.diagnostics.want_values else self.policy.act
        if self.forms["candidates"] == "critic":  # which asks no actor
            obs, unit = _rows(obs, rows), None
            pick = act(obs, self.policy.propose(self.actor, obs), self.critic)
        else:
            unit = self.actor.unit(obs)  # the proto-action in [-1, 1]
            noisy = torch.as_tensor(self.explorer.perturb(unit.cpu().numpy(), progress), device=unit.device)
            if len(places) < len(unit):
                obs, unit, noisy = _rows(obs, rows), unit[rows], noisy[rows]
            pick = act(obs, self.actor.scale.to_vectors(noisy), self.critic)
        self.diagnostics.add_pick(pick, unit)
        return pick.action.cpu().numpy()

    def _offered(self, places: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """What the environments at `places` offer for guided exploration in their current states."""
        assert self.env is not None
        return self.env.env_method("guided_actions", indices=places.tolist())

    def _store_transition(self, replay_buffer: ReplayBuffer, *args: Any, **kwargs: Any) -> None:
        super()._store_transition(replay_buffer, *args, **kwargs)
        dones = kwargs["dones"] if "dones" in kwargs else args[3]
        self.explorer.reset(dones)

    def dump_logs(self) -> None:
        self.diagnostics.record(self.logger, self.policy.clock, self.actions, self.k)
        if self.policy.search is not None:
            self.policy.search.record(self.logger)
        super().dump_logs()

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 4,
        tb_log_name: str = "Wolpertinger",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        if reset_num_timesteps:  # a new episode begins in every environment
            self.explorer.reset(np.ones(self.n_envs, dtype=np.bool_))
        self.policy.learning = True
        try:
            super().learn(total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar)
        finally:
            self.policy.learning = False
        return self

    def explain(self, observation: npt.NDArray | dict[str, npt.NDArray]) -> Explanation:
        """What the policy sees and picks in one state, or in each of a batch of states."""
        self.policy.set_training_mode(False)
        obs, batched = self.policy.obs_to_tensor(observation)
        with torch.no_grad():
            critic, search = self.policy.predictor()
            proto, features = self.policy.propose(self.actor, obs), critic.features(obs)
            candidates = self.policy.find(proto, self.policy.query(obs, proto, search), search)
            vectors = self.policy.embed(candidates)
            q = rank(critic, features, vectors)
            place = q.argmax(dim=1)
            if self.policy.rerank != "exact":  # what it picks may be another one
                place = self.policy.best(critic, features, candidates, vectors).place
        distances = (vectors - proto.unsqueeze(1)).norm(dim=-1)
        parts = (proto, candidates, distances, q, candidates[torch.arange(len(proto)), place])
        arrays = (*(part.cpu().numpy() for part in parts), self.policy.sources(candidates))
        return Explanation(*(array if batched else array[0] for array in arrays))

    def action_vectors(self) -> npt.NDArray[np.float32]:
        """psi(a) of every action, as a two-tower critic has learned it (n, width), in the order of `actions.ids`."""
        return self.policy.action_vectors().cpu().numpy()


def _rows(obs: PyTorchObs, rows: torch.Tensor) -> PyTorchObs:
    """Some rows of a batch of observations."""
    return {name: part[rows] for name, part in obs.items()} if isinstance(obs, dict) else obs[rows]
