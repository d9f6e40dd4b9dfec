"""A million actions of which 1 % is allowed, another 1 % in every state: a training step beside the unrestricted one.

`python -m benchmarks.speed.restricted` writes results/speed/restricted.json: seconds of a training step and its parts,
restricted over unrestricted in the same rounds, and the bytes that the replay buffer keeps per transition.
"""

import statistics
from operator import truediv
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from benchmarks.measure import describe_index, say, spread, time_rounds, write_result
from benchmarks.speed.agents import Trainer, spread_protos, tune
from wolpertinger import ActionTable, Wolpertinger
from wolpertinger.agent.allowed_store import AllowedStore
from wolpertinger.threads import count_threads

N, DIM, OBS, SHARE, KEPT = 1_000_000, 20, 16, 0.01, 200
BUFFER, WARM_UP, ROUNDS, SECONDS = 5_000, 1_000, 7, 1.0
FORMS: dict[str, dict[str, Any]] = {
    "nearest, index": {"candidates": "nearest", "k": 64, "table": {"recall": 0.99}},
    "nearest, scan": {"candidates": "nearest", "k": 64, "table": {}},
    "default": {"table": {}},
}


class Shelf(gym.Env):
    """Random states, each with another set of allowed actions: one of `KEPT` that were drawn in advance."""

    observation_space = spaces.Box(-1, 1, (OBS,), np.float32)
    action_space = spaces.Discrete(N)
    sets: ClassVar = [
        np.sort(np.random.default_rng(seed).choice(N, int(SHARE * N), replace=False)) for seed in range(KEPT)
    ]

    def _draw(self) -> npt.NDArray[np.float32]:
        self.obs = self.np_random.uniform(-1, 1, OBS).astype(np.float32)
        return self.obs

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._draw(), {}

    def step(self, action: np.int64) -> Any:
        self.steps += 1
        return self._draw(), float(self.np_random.random()), self.steps % 20 == 0, False, {}

    @classmethod
    def allowed_in(cls, obs: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        """A function of the state."""
        return cls.sets[int(1e6 * abs(float(obs[0]))) % KEPT]


class RestrictedShelf(Shelf):
    """The same, and it says so."""

    def allowed_actions(self) -> npt.NDArray[np.int64]:
        """What the current state allows."""
        return self.allowed_in(self.obs)


def make_agent(contender: str, table: ActionTable, **settings: Any) -> Wolpertinger:
    """An agent that has filled its buffer a little, tuned."""
    env = RestrictedShelf() if contender == "environment" else Shelf()
    if contender == "function":
        settings["allowed"] = lambda obs: [Shelf.allowed_in(own) for own in obs]
    agent = Wolpertinger(
        "MlpPolicy",
        env,
        table,
        learning_rate=1e-6,
        buffer_size=BUFFER,
        learning_starts=WARM_UP,
        train_freq=1,
        gradient_steps=1,
        seed=0,
        **settings,
    )
    agent.learn(WARM_UP)
    spread_protos(agent)
    if not table.health:  # once for all contenders, which share it
        tune(agent)
    return agent


def measure(form: str) -> dict[str, Any]:
    """One form of the agent: unrestricted, and restricted by the environment and by a function."""
    settings, trainers = dict(FORMS[form]), {}
    vectors = np.random.default_rng(1).normal(size=(N, DIM)).astype(np.float32)
    settings["table"] = ActionTable(vectors, **settings["table"])
    for contender in ("unrestricted", "environment", "function"):
        trainers[contender] = trainer = Trainer(make_agent(contender, **settings))
        step = trainer.warm_up(5, SECONDS)
        say(f"{form}, {contender}: {1e3 * step:.1f} ms a step")
    seconds = time_rounds(trainers, ROUNDS)
    first = seconds["unrestricted"]
    rows = {}
    for contender, trainer in trainers.items():
        buffer = trainer.agent.replay_buffer
        store = getattr(buffer, "allowed_store", None)
        rows[contender] = {
            "seconds": spread(seconds[contender]),
            "times_unrestricted": statistics.median(map(truediv, seconds[contender], first)),
            "parts": trainer.median_parts(),
            "index": describe_index(trainer.agent),
            "bytes_per_transition": 0.0 if store is None else bytes_per_transition(store),
        }
        say(f"{form}, {contender}: {rows[contender]['times_unrestricted']:.2f} times, {rows[contender]['parts']}")
    return {"k": trainer.agent.k, "batch": trainer.agent.batch_size, "contenders": rows}


def bytes_per_transition(store: AllowedStore) -> float:
    """Of the transitions that are there: the addresses of all others are allocated too."""
    length, per_address = store.pool.length, store.pool.start.itemsize + store.pool.length.itemsize
    return (store.nbytes - per_address * length.size) / np.count_nonzero(length) + per_address


def main() -> None:
    forms = {form: measure(form) for form in FORMS}
    path = write_result(
        "speed.restricted", {"n": N, "dim": DIM, "allowed": int(SHARE * N), "threads": count_threads(), "forms": forms}
    )
    say(f"wrote {path.name}")


if __name__ == "__main__":
    main()
