"""The library's own three tasks, one environment each, as any user would make them."""

import gymnasium as gym
import numpy as np

import wolpertinger  # noqa: F401 - registers the environments
from benchmarks.suite.task import Predict, Task
from wolpertinger import ActionSet
from wolpertinger.envs.cartpole_reference import reference_return


def make(env_id: str, **options: int) -> tuple[gym.Env, ActionSet]:
    env = gym.make(f"wolpertinger/{env_id}", **options)
    return env, env.unwrapped.actions  # type: ignore[attr-defined]


def exact(env: gym.Env, predict: Predict) -> float:
    """The recommender's own evaluation: the value of the policy over all starts."""
    model, actions = env.unwrapped.model, env.unwrapped.actions  # type: ignore[attr-defined]
    return float(model.evaluate(predict(actions.embed(np.arange(actions.n)))).mean())


def one_episode(env: gym.Env, predict: Predict) -> float:
    """Puddle World is deterministic and has one start."""
    from benchmarks.suite.task import play

    return play(env, predict, 1)


def _recommender() -> Task:
    model = make("Recommender-v0", items=835)[0].unwrapped.model  # type: ignore[attr-defined]
    return Task(
        make=lambda: make("Recommender-v0", items=835),
        role="development",
        steps=200_000,
        random=model.random_value,
        best=model.optimum.value,
        best_is="value iteration",
        score=exact,
    )


def _puddle_world(plan: int, role: str) -> Task:
    puddle = make("PuddleWorld-v0", plan=plan)[0].unwrapped.task.map  # type: ignore[attr-defined]
    return Task(
        make=lambda: make("PuddleWorld-v0", plan=plan),
        role=role,
        steps=50_000,
        random=puddle.random_value,
        best=puddle.best_score,
        best_is="dynamic programming",
        score=one_episode,
    )


CART_POLE = Task(
    make=lambda: make("CartPoleSwingUp-v0"),
    role="confirmation",
    steps=600_000,
    random=0.0,
    best=reference_return(),
    best_is="a controller that knows the dynamics",
)
GENERATED = _recommender()
PUDDLE_WORLD = _puddle_world(20, "confirmation")
PUDDLE_WORLD_1 = _puddle_world(1, "development")
