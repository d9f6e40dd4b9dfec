"""Odd arguments of every public constructor and method: refused in our own words, or accepted and of use."""

import os
import random
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import wolpertinger
from tests.faults.odd import ODD, count, describe, is_of_path, meet
from wolpertinger import (
    DDPG,
    MLP,
    TD3,
    ActionIds,
    ActionProduct,
    ActionTable,
    Allowed,
    BestByCritic,
    Columns,
    Exploration,
    Factored,
    Levels,
    OfferedActions,
    Offline,
    PerItem,
    Slate,
    Transitions,
    TwoTower,
    Union,
    Wolpertinger,
    WorseThanRandom,
    discretize,
)
from wolpertinger.envs import CartPoleSwingUp, PuddleMap, PuddleWorld, Recommender, UserModel
from wolpertinger.envs.acceptance import Acceptance
from wolpertinger.index import InnerProductIndex
from wolpertinger.runs import make_config
from wolpertinger.settings import is_number
from wolpertinger.threads import set_threads

VECTORS = np.random.default_rng(0).uniform(-1, 1, (24, 2)).astype(np.float32)
MANY = np.random.default_rng(1).uniform(-1, 1, (400, 8)).astype(np.float32)
SMALL: dict[str, Any] = {
    "learning_starts": 4,
    "batch_size": 4,
    "buffer_size": 64,
    "policy_kwargs": {"net_arch": [8, 8]},
    "train_freq": 1,
    "gradient_steps": 1,
    "seed": 0,
    "device": "cpu",
}
OBS = np.array([0.25, -0.5], np.float32)
LOGGED = np.random.default_rng(2).uniform(-1, 1, (8, 2)).astype(np.float32)
LOG: dict[str, Any] = {
    "observations": LOGGED,
    "actions": np.arange(8),
    "rewards": np.ones(8),
    "terminated": np.ones(8, bool),
}
Call = Callable[..., Any]


class PlainEnv(gym.Env):
    """Observations of two numbers, episodes of five steps."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, actions: Any = None) -> None:
        self.actions = ActionTable(VECTORS) if actions is None else actions
        self.action_space = self.actions.space
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps % 5 == 0, False, {}


def new_agent(actions: Any = None, **options: Any) -> Wolpertinger:
    given = {"policy": "MlpPolicy", "env": PlainEnv(actions), **SMALL, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Wolpertinger(**given)


def learns(agent: Wolpertinger) -> None:
    """What was accepted is of use too."""
    agent.learn(10)
    agent.predict(OBS)


def part(name: str, kind: type, actions: Any = None, **others: Any) -> Call:
    """An agent with a part of this kind, which learns."""
    return lambda **odd: learns(new_agent(actions, **{name: kind(**odd)}, **others))


def then(make: Call, *uses: Call) -> Call:
    def use(**given: Any) -> None:
        made = make(**given)
        for each in uses:
            each(made)

    return use


def of(call: Call, **good: Any) -> tuple[Call, list[str]]:
    """A call with these arguments, each of which is replaced by odd ones."""
    return (lambda **odd: call(**{**good, **odd})), list(good)


def steps(env: Any) -> None:
    """A few steps of an environment, with its own random actions."""
    env.reset(seed=0)
    for _ in range(3):
        env.step(env.action_space.sample())


def targets(folder: Path) -> dict[str, tuple[Call, list[str]]]:
    """What is called, and its parameters, by name."""
    return {
        **{f"Wolpertinger.{name}": call for name, call in _agents(folder).items()},
        **_parts(),
        **_sets(folder),
        **_environments(),
    }


def _agents(folder: Path) -> dict[str, tuple[Call, list[str]]]:
    agent, towers = new_agent(k=4, critic="mlp", candidates="nearest"), new_agent()
    product = new_agent(ActionProduct([[0.0, 1.0, 2.0]] * 3, space="multidiscrete"))
    for each in (agent, towers, product):
        each.learn(10)
    agent.save(path := folder / "agent.zip")
    agent.save_replay_buffer(folder / "buffer.zip")
    names = [name for name in signature(Wolpertinger).parameters if name != "_init_setup_model"]
    plain = {"policy": "MlpPolicy", "env": PlainEnv(), **SMALL}
    constructor = (lambda **odd: learns(Wolpertinger(**{**plain, **odd}))), names
    asked = {"observation": OBS, "allowed": np.array([1, 3])}
    learning = {
        "total_timesteps": 4,
        "callback": None,
        "log_interval": 4,
        "tb_log_name": "run",
        "reset_num_timesteps": True,
        "progress_bar": False,
    }
    load = {
        "path": path,
        "env": PlainEnv(),
        "device": "cpu",
        "custom_objects": None,
        "print_system_info": False,
        "force_reset": True,
        "actions": None,
        "learning_rate": 1e-3,
        "batch_size": 4,
    }
    return {
        "__init__": constructor,
        "__init__, paper": (partial(constructor[0], preset="paper"), names[3:-1]),
        "predict": of(agent.predict, **asked),
        "predict, two towers": of(towers.predict, **asked),
        "predict, digits": of(product.predict, observation=OBS, allowed=Levels([[0, 1], [2], [1, 2]])),
        "rank": of(agent.rank, **asked, top=3),
        "rank, two towers": of(towers.rank, **asked, top=3),
        "explain": of(agent.explain, **asked),
        "learn": of(agent.learn, **learning),
        "save": of(agent.save, path=folder / "saved.zip", exclude=["actions"], include=["training"]),
        "load": of(Wolpertinger.load, **load),
        "save_replay_buffer": of(agent.save_replay_buffer, path=folder / "saved.zip"),
        "load_replay_buffer": of(agent.load_replay_buffer, path=folder / "buffer.zip"),
        "set_env": of(agent.set_env, env=PlainEnv()),
        "set_random_seed": of(agent.set_random_seed, seed=3),
        "set_parameters": of(agent.set_parameters, load_path_or_dict=agent.get_parameters()),
        "k": of(lambda k: setattr(agent, "k", k), k=3),
        "acting_in": of(agent.acting_in, env=PlainEnv()),
    }


def _parts() -> dict[str, tuple[Call, list[str]]]:
    nearest: dict[str, Any] = {"k": 4, "critic": "mlp", "candidates": "nearest"}
    slates = Slate(ActionTable(VECTORS), size=3)
    made = {
        "Exploration": (part("exploration", Exploration, **nearest), Exploration),
        "DDPG": (part("learner", DDPG, **nearest), DDPG),
        "DDPG, two towers": (part("learner", DDPG), DDPG),
        "TD3": (part("learner", TD3, **nearest), TD3),
        "Offline": (part("learner", Offline, **nearest), Offline),
        "MLP": (part("critic", MLP, k=4, candidates="nearest"), MLP),
        "TwoTower": (part("critic", TwoTower), TwoTower),
        "PerItem": (part("critic", PerItem, slates), PerItem),
        "Factored": (part("critic", Factored, ActionProduct([np.linspace(-1, 1, 40)] * 2)), Factored),
        "BestByCritic": (part("candidates", BestByCritic, critic="two-tower"), BestByCritic),
        "Union": (part("candidates", Union, critic="two-tower"), Union),
    }
    return {
        **{name: (call, [field.name for field in fields(kind)]) for name, (call, kind) in made.items()},
        "WorseThanRandom": of(
            then(WorseThanRandom, lambda callback: new_agent().learn(12, callback)), say=print, level=1.0
        ),
        "set_threads": of(set_threads, n=1),
        "Columns": of(Columns, reward="clicks", allowed="offered"),
        "Transitions": of(Transitions, **LOG, next_observations=LOGGED, propensities=[0.5] * 8, allowed=None),
        "Wolpertinger.from_log": of(
            lambda **given: Wolpertinger.from_log(Transitions(**LOG), ActionTable(VECTORS), **given),
            **{"updates": 3, "unlogged": False, "observation_space": None, "callback": None, "batch_size": 4},
        ),
        "make_config": of(
            make_config,
            task="recommender",
            preset="default",
            env={"items": 30, "dim": 3},
            changes={"batch_size": 8},
            k=1,
            recall=None,
            table=False,
            steps=10,
            seconds=1.0,
            n_envs=2,
            seed=0,
        ),
    }


def _sets(folder: Path) -> dict[str, tuple[Call, list[str]]]:
    table, tuned = ActionTable(VECTORS), ActionTable(MANY, recall=0.9)
    product, digits = ActionProduct([[0, 1, 2]] * 3), ActionProduct([[0, 1]] * 80)
    ids, slate = ActionIds(24), Slate(table, size=3)
    near = [lambda made: made.nearest(np.zeros((2, made.dim)), 1)]
    rng, few = np.random.default_rng(0), [0, 2]
    table.save(stored := folder / "table.zip", exclude=["vectors"])
    found: dict[str, tuple[Call, list[str]]] = {
        "ActionTable": of(then(ActionTable, *near), vectors=MANY, index="IVF4,Flat", recall=None, build_seconds=10.0),
        "ActionTable, tuned": of(then(ActionTable, *near), vectors=MANY, index="auto", recall=0.9, build_seconds=1.0),
        "ActionTable.tune": of(tuned.tune, protos=MANY[:40], k=3, batch=8),
        "ActionTable.add": of(table.add, vectors=VECTORS),
        "ActionTable.remove": of(table.remove, actions=few),
        "ActionTable.save": of(table.save, path=folder / "saved.zip", exclude=[]),
        "ActionTable.load": of(ActionTable.load, path=stored, vectors=VECTORS),
        "ActionProduct": of(then(ActionProduct, *near), levels=[[0, 1], [0.5, 1]], space="discrete"),
        "ActionProduct.digits": of(product.digits, ids=few),
        "ActionProduct.ids": of(product.ids, digits=[[0, 1, 2]]),
        "ActionProduct.with_space": of(product.with_space, space="multidiscrete"),
        "ActionIds": of(then(ActionIds, *near), n=9),
        "Slate": of(then(Slate, *near), items=table, size=3, repeats=True),
        "OfferedActions": of(
            then(OfferedActions, lambda made: made.sample_vectors(rng, 2)), n=5, dim=2, low=-1.0, high=1.0
        ),
        "Levels": of(Levels, of=[[0, 1]]),
        "Allowed": of(then(Allowed, len), states=[np.array([1])], own_vectors=None),
        "InnerProductIndex": of(
            lambda queries, k, **made: InnerProductIndex(**made).search(queries, k),
            vectors=MANY,
            recall=0.9,
            build_seconds=1.0,
            queries=MANY[:2],
            k=3,
        ),
    }
    every = {"table": table, "tuned": tuned, "product": product, "digits": digits, "ids": ids, "slate": slate}
    for name, each in every.items():
        some = each.sample(rng, 2)
        found |= {
            f"{name}.nearest": of(each.nearest, protos=np.zeros((2, each.dim)), k=2),
            f"{name}.embed": of(each.embed, actions=some),
            f"{name}.holds": of(each.holds, actions=some),
            f"{name}.sample": of(each.sample, rng=rng, n=3),
            f"{name}.blocks": of(lambda size, each=each: next(iter(each.blocks(size))), size=10),
        }
    return found


def _environments() -> dict[str, tuple[Call, list[str]]]:
    chances = np.full((4, 4), 0.2)
    vectors = VECTORS[:4]
    pendulum = discretize(gym.make("Pendulum-v1"), 11)
    carts, world = CartPoleSwingUp(levels=11), PuddleWorld(plan=4, size=6)
    shop = Recommender(acceptance=chances, rewards=np.ones(4), vectors=vectors)
    envs = {"Discretized": pendulum, "CartPoleSwingUp": carts, "PuddleWorld": world, "Recommender": shop}
    vector = {f"{name} vector": env.vector(3) for name, env in envs.items() if name != "Discretized"}
    for env in (*envs.values(), *vector.values()):
        env.reset(seed=0)
    found = {
        "discretize": of(then(discretize, steps), env=gym.make("Pendulum-v1"), levels=5, multidiscrete=False),
        "CartPoleSwingUp": of(then(CartPoleSwingUp, steps), levels=11, max_steps=5, render_mode=None),
        "PuddleWorld": of(
            then(PuddleWorld, steps), plan=4, size=6, map_seed=0, map=None, window=5, max_moves=30, render_mode=None
        ),
        "PuddleMap": of(PuddleMap, cells=np.array([[2, 0], [0, 3]])),
        "PuddleMap.generate": of(PuddleMap.generate, size=5, seed=0),
        "PuddleMap.from_text": of(PuddleMap.from_text, text="S.\n.G"),
        "PuddleMap.best_fixed_plan": of(world.map.best_fixed_plan, n=3, max_moves=20),
        "Recommender": of(
            then(Recommender, steps),
            acceptance=chances,
            rewards=np.ones(4),
            vectors=vectors,
            guided=2,
            names=list("abcd"),
            render_mode=None,
        ),
        "Recommender.show_choice": of(shop.show_choice, proto=VECTORS[0], candidates=[1, 2]),
        "Recommender-v0": of(
            partial(gym.make, "wolpertinger/Recommender-v0"),
            items=30,
            dim=3,
            data="generated",
            reward=None,
            median_best=0.5,
            data_seed=0,
            guided=5,
        ),
        "PuddleWorld-v0": of(partial(gym.make_vec, "wolpertinger/PuddleWorld-v0"), num_envs=2, plan=3, size=5),
        "Acceptance": of(Acceptance, sparse=chances, base=np.full(4, 0.1), weight=np.ones(4)),
        "UserModel": of(UserModel, acceptance=Acceptance(chances), rewards=np.ones(4)),
        "UserModel.evaluate": of(shop.model.evaluate, policy=np.zeros(4, int)),
        **{f"{name}.vector": of(env.vector, num_envs=2) for name, env in envs.items() if name != "Discretized"},
    }
    for name, env in {**envs, **vector}.items():
        found[f"{name}.step"] = of(lambda action, env=env: env.step(action), action=env.action_space.sample())
        found[f"{name}.reset"] = of(env.reset, seed=3)
    return found


def is_long(steps: Any) -> bool:
    return is_number(steps) and steps > 1_000


def _try(call: Call, parameter: str, value: str, place: str) -> dict[str, Any] | None:
    os.chdir(place)  # some values are names of files
    given = ODD[value]()
    try:
        call(**{parameter: given})
    except OSError as error:
        if not is_of_path(error, given):
            raise
        return {"came_to": "refused", "said": describe(error)}
    return None


def odd_arguments(tries: int, seed: int = 0) -> dict[str, Any]:
    """One argument of one call at random, all others as they should be."""
    rng = random.Random(seed)
    outcomes = ("accepted", "refused", "foreign", "crashes", "hangs", "most_megabytes")
    found: dict[str, Any] = {"tries": 0, **dict.fromkeys(outcomes, 0), "foreign_errors": [], "failures": []}
    with tempfile.TemporaryDirectory() as place:
        known = targets(Path(place))
        assert {name.partition(".")[0] for name in known} >= CONSTRUCTORS
        parameters = [(name, parameter) for name, (_, all_of_them) in known.items() for parameter in all_of_them]
        while found["tries"] < tries:
            (name, parameter), value = rng.choice(parameters), rng.choice(list(ODD))
            if parameter == "total_timesteps" and is_long(ODD[value]()):
                continue  # it would do as it is told
            outcome = meet(partial(_try, known[name][0], parameter, value, place))
            count(found, f"{name}({parameter}={value[:40]})", outcome)
    return found


RESULTS = {"CandidateSource", "Candidates", "Explanation", "RankedActions", "States", "ActionSet"}
PLAIN = {"BestByFactor", "Everything", "Nearest", "SlotBySlot", "TopItems", "envs"}  # without arguments
CONSTRUCTORS = {name for name in wolpertinger.__all__ if not name.endswith("Error")} - RESULTS - PLAIN
