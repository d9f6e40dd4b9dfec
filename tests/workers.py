"""Children of a parent that has looked up and learned, by a start method: `python tests/workers.py fork`."""

import multiprocessing
import sys

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.vec_env import SubprocVecEnv

from wolpertinger import ActionProduct, ActionTable, Slate, Wolpertinger
from wolpertinger.threads import set_threads

VECTORS = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
OBS = np.random.default_rng(1).uniform(-1, 1, (40, 4)).astype(np.float32)
SMALL = {"learning_starts": 8, "batch_size": 8, "buffer_size": 100, "policy_kwargs": {"net_arch": [8, 8]}, "seed": 0}
SECONDS = 400


class NearestEnv(gym.Env):
    """Each step looks up in the environment's own table."""

    observation_space = gym.spaces.Box(-4, 4, (4,), np.float32)

    def __init__(self):
        self.actions = ActionTable(VECTORS, index="IVF8,Flat")
        self.action_space = self.actions.space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 4).astype(np.float32), {}

    def step(self, action):
        obs = self.np_random.uniform(-1, 1, 4).astype(np.float32)
        return obs, float(action in self.actions.nearest(obs[None], 20)), self.np_random.random() < 0.2, False, {}


def look_up(sets):
    return [each.nearest(np.random.default_rng(2).normal(size=(40, each.dim)), 3).tolist() for each in sets]


def predict(agent):
    return agent.predict(OBS)[0].tolist()


def send(work, argument, connection):
    connection.send(work(argument))


def in_a_child(context, work, argument):
    """What a child process answers; with fork it takes what the parent has, with spawn a pickle."""
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=send, args=(work, argument, there))
    child.start()
    assert here.poll(SECONDS), "the child hangs"
    answer = here.recv()
    child.join(SECONDS)
    assert child.exitcode == 0
    return answer


def main(method):
    set_threads(2, small_work=False)
    torch.ones(500, 500) @ torch.ones(500, 500)  # torch's threads are there, which no fork takes along
    context = multiprocessing.get_context(method)
    tables = [ActionTable(VECTORS), ActionTable(VECTORS, index="IVF8,Flat"), ActionTable(VECTORS, recall=0.9)]
    sets = [*tables, ActionProduct([[0.0, 1.0, 3.0]] * 3), Slate(tables[0], 3)]
    expected = look_up(sets)
    tables[1].remove([expected[1][0][0]])
    expected = look_up(sets)
    assert in_a_child(context, look_up, sets) == expected
    envs = SubprocVecEnv([NearestEnv] * 2, start_method=method)
    agent = Wolpertinger("MlpPolicy", envs, **SMALL).learn(60)
    assert agent.replay_buffer.pos == 30
    envs.close()
    if method == "fork":  # an agent is not pickled: it is saved and loaded
        assert in_a_child(context, predict, agent) == predict(agent)


if __name__ == "__main__":
    main(sys.argv[1])
