"""The environment, the agent and the scorer of a config."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from wolpertinger.actions import ActionTable
from wolpertinger.agent import Exploration, Wolpertinger
from wolpertinger.agent.validation import offered_actions
from wolpertinger.envs import GymnasiumVecEnv
from wolpertinger.index.tune import BUILD_SECONDS
from wolpertinger.runs.config import RunConfig
from wolpertinger.runs.presets import TASKS
from wolpertinger.runs.scores import SCORERS, Scorer
from wolpertinger.settings import check_keywords, read_settings

MAX_TABLE_ROWS = 1 << 24
EMBEDDED_AT_ONCE = 1 << 16
NOT_SET = ("policy", "env", "actions", "k", "seed", "device", "_init_setup_model")  # of the agent's arguments, here


def make_env(config: RunConfig, n_envs: int | None = None) -> VecEnv:
    """The run's environment, many at once, with episode statistics."""
    env_id, options = TASKS[config.task].env_id, dict(config.env)
    if gym.spec(env_id).vector_entry_point is None:
        options["vector_kwargs"] = {"autoreset_mode": AutoresetMode.SAME_STEP}
    try:
        made = gym.make_vec(env_id, num_envs=n_envs or config.n_envs, **options)
    except (gym.error.Error, ModuleNotFoundError) as error:  # of an environment of others
        raise ValueError(f"env_id={config.env.get('env_id', env_id)!r} cannot be made: {error}") from error
    return VecMonitor(GymnasiumVecEnv(made))


def make_scorer(config: RunConfig, episodes: int, seed: int) -> Scorer:
    """Scores agents on the run's task, in an environment of its own."""
    return SCORERS[config.task](make_env(config, episodes), episodes, seed)


def make_agent(
    config: RunConfig, env: VecEnv, device: str = "auto", agent_class: type[Wolpertinger] = Wolpertinger
) -> Wolpertinger:
    """The run's agent, untrained."""
    arguments, actions = agent_arguments(config.agent), make_actions(config, env)
    return agent_class("MlpPolicy", env, actions, k=config.k, seed=config.seed, device=device, **arguments)


def make_actions(config: RunConfig, env: VecEnv) -> ActionTable | None:
    """The table that the run looks actions up in; None: the environment's own set."""
    return None if config.recall is None and not config.table else _make_table(offered_actions(env), config)


def agent_arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """A config's settings of the agent, which are JSON, as arguments of `Wolpertinger`."""
    check_keywords("the agent", settings, Wolpertinger, without=NOT_SET)
    spec = settings.get("exploration", {})
    if not isinstance(spec, dict):
        raise ValueError(f"exploration={spec!r}: give its settings by name, as exploration.epsilon")
    freq = {"train_freq": tuple(settings["train_freq"])} if isinstance(settings.get("train_freq"), list) else {}
    if not spec:  # the class chooses by the action set
        return {**settings, **freq}
    exploration = read_settings("exploration", {"kind": Exploration.kind, **spec}, {Exploration.kind: Exploration})
    return {**settings, **freq, "exploration": exploration}


def _make_table(actions: Any, config: RunConfig) -> ActionTable:
    """The environment's actions as a table, behind an index if a recall is promised."""
    build = BUILD_SECONDS if config.build_seconds is None else config.build_seconds
    if actions.kind != ActionTable.kind and not config.table:
        raise ValueError(
            f"recall={config.recall!r}: {actions!r} needs no index, its lookup is exact; leave recall out, "
            "or ask for a table of its vectors too"
        )
    if actions.n > MAX_TABLE_ROWS:
        raise ValueError(f"table=True: {actions!r} has too many actions for a table, {MAX_TABLE_ROWS:,} is the most")
    vectors = np.concatenate([actions.embed(block) for block in actions.blocks(EMBEDDED_AT_ONCE)])
    return ActionTable(vectors, recall=config.recall, build_seconds=build)
