"""The puddle world as an environment: its contract, its dynamics, its options."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.env_checker import check_env as check_sb3

import wolpertinger  # noqa: F401 - registers the environments
from wolpertinger.envs import GymnasiumVecEnv, PuddleMap, PuddleWorld, PuddleWorldVector
from wolpertinger.envs.puddle import make, make_vector
from wolpertinger.envs.puddle_map import GOAL, PUDDLE

ID = "wolpertinger/PuddleWorld-v0"
SMALL = PuddleMap.from_text("S~...\n..~~.\n~..~.\n....G\n")
DOWN_DOWN_DOWN_RIGHT = 0b1110


@pytest.mark.parametrize("plan", [1, 20, 64])
def test_gymnasiums_and_stable_baselines_checkers_find_nothing(plan):
    check_gymnasium(gym.make(ID, plan=plan).unwrapped)
    check_sb3(gym.make(ID, plan=plan))
    check_sb3(PuddleWorld(plan=plan, map=SMALL))


def test_a_plan_pays_for_every_cell_it_visits_bumps_included():
    env = PuddleWorld(map=SMALL, plan=4, max_moves=100)
    _, info = env.reset()
    assert info == {"position": (0, 0), "moves": 0}
    _, reward, terminated, truncated, info = env.step(0b1111)  # down to the edge, which the fourth move bumps against
    assert (reward, terminated, truncated) == (-1 - 3 - 1 - 1, False, False)
    assert info == {"position": (3, 0), "moves": 4}
    assert env.last_plan_path == [(1, 0), (2, 0), (3, 0), (3, 0)]
    env.reset()
    _, reward, *_ = env.step(0b0000)
    assert reward == -3 - 1 - 1 - 1
    assert env.position == (0, 4)
    _, reward, *_ = env.step(0b0001)
    assert reward == -4
    assert env.position == (1, 4)


def test_the_rest_of_a_plan_is_dropped_at_the_goal():
    env = PuddleWorld(map=SMALL, plan=12)
    env.reset()
    _, reward, terminated, truncated, info = env.step(int("111000011111", 2))
    assert (reward, terminated, truncated) == (-1 - 3 - 1 - 3 + 250, True, False)
    assert info == {"position": (3, 4), "moves": 7}
    assert env.path == [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4)]
    assert env.last_plan_path == env.path[1:]
    env.reset()
    assert (env.path, env.last_plan_path, env.position) == ([(0, 0)], [], (0, 0))


def test_the_path_goes_on_over_plans():
    env = PuddleWorld(map=SMALL, plan=2)
    env.reset()
    env.step(0b10)
    env.step(0b01)
    assert env.path == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 2)]
    assert env.last_plan_path == [(1, 2), (2, 2)]


def test_a_plan_is_the_same_as_its_moves_one_by_one():
    rng = np.random.default_rng(0)
    whole, single = PuddleWorld(plan=20), PuddleWorld(plan=1)
    for _ in range(20):
        whole.reset()
        single.reset()
        ended = False
        while not ended:
            action = rng.integers(2**20)
            obs, reward, terminated, truncated, info = whole.step(action)
            rewards = []
            for move in whole.actions.digits(action):
                last, gain, arrived, _, last_info = single.step(move)
                rewards.append(gain)
                if arrived:
                    break
            assert (reward, terminated, info) == (sum(rewards), arrived, last_info)
            np.testing.assert_array_equal(obs, last)
            ended = terminated or truncated
        assert whole.path == single.path


def test_an_optimal_plan_scores_the_maps_best():
    env = PuddleWorld(plan=14)  # 7 plans of 14 are the 98 moves of the way
    env.reset()
    steps = [env.step(action) for action in env.actions.ids(env.map.best_moves().reshape(7, 14))]
    assert sum(reward for _, reward, *_ in steps) == env.map.best_score
    assert [terminated for _, _, terminated, *_ in steps] == [False] * 6 + [True]


@pytest.mark.parametrize(("max_moves", "ends"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_the_cap_truncates_after_the_plan_in_which_it_is_reached(max_moves, ends):
    env, agents = (
        PuddleWorld(map=SMALL, plan=4, max_moves=max_moves),
        make_vector(2, map=SMALL, plan=4, max_moves=max_moves),
    )
    env.reset()
    agents.reset()
    for step in range(1, ends + 1):
        _, _, terminated, truncated, info = env.step(0b1111)
        _, _, ended, cut, _ = agents.step(np.full(2, 0b1111))
        assert (terminated, truncated) == (False, step == ends)
        assert info["moves"] == 4 * step
        assert not ended.any()
        assert (cut == (step == ends)).all()


def test_the_goal_in_the_plan_that_reaches_the_cap_is_a_goal():
    for build in (
        lambda: PuddleWorld(map=SMALL, plan=7, max_moves=7),
        lambda: make_vector(1, map=SMALL, plan=7, max_moves=7),
    ):
        env = build()
        env.reset()
        action = 0b1110000
        _, reward, terminated, truncated, _ = env.step(action if isinstance(env, PuddleWorld) else np.array([action]))
        assert (reward, bool(terminated), bool(truncated)) == (242, True, False)


def test_an_episode_is_cut_after_twice_the_rows_and_columns():
    env = PuddleWorld(map=SMALL, plan=1)
    env.reset()
    ends = [env.step(1)[3] for _ in range(18)]
    assert ends == [False] * 17 + [True]


@pytest.mark.parametrize("window", [3, 5, 11])
def test_the_window_shows_puddles_the_goal_and_the_outside(window):
    env = PuddleWorld(map=SMALL, plan=1, window=window)
    half = window // 2
    for number in range(20):
        row, col = divmod(number, 5)
        expected = np.zeros((3, window, window))
        for i, j in np.ndindex(window, window):
            r, c = row + i - half, col + j - half
            if 0 <= r < 4 and 0 <= c < 5:
                expected[:2, i, j] = SMALL.cells[r, c] == PUDDLE, SMALL.cells[r, c] == GOAL
            else:
                expected[2, i, j] = 1
        np.testing.assert_array_equal(env.task.observations[number], expected.ravel())
    assert env.observation_space == gym.spaces.Box(0, 1, (3 * window**2,), np.uint8)


def test_observations_are_of_the_position_and_the_callers_own():
    env, agents = PuddleWorld(map=SMALL, plan=2), make_vector(3, map=SMALL, plan=2)
    table = env.task.observations.copy()
    for obs, number in ((env.reset()[0], 0), (env.step(0b10)[0], 6)):
        np.testing.assert_array_equal(obs, table[number])
        obs[:] = 7
    for obs in (agents.reset()[0], agents.step(np.array([0, 1, 2]))[0]):
        obs[:] = 7
    np.testing.assert_array_equal(env.task.observations, table)


@pytest.mark.parametrize("plan", [1, 5, 20, 64])
def test_many_agents_do_what_each_would_do_alone(plan):
    options = {"size": (12, 17), "map_seed": 3, "plan": plan, "max_moves": 36}
    agents, singles = make_vector(9, **options), [make(**options) for _ in range(9)]
    agents.action_space.seed(0)
    obs, info = agents.reset(seed=0)
    for number, env in enumerate(singles):
        np.testing.assert_array_equal(env.reset()[0], obs[number])
    endings = set()
    for _ in range(80):
        actions = agents.action_space.sample()
        actions[0] = 0  # pushes against the edge until it is cut
        obs, rewards, terminated, truncated, info = agents.step(actions)
        assert obs.dtype == np.uint8
        for number, (env, action) in enumerate(zip(singles, actions, strict=True)):
            alone, *outcome, alone_info = env.step(action)
            assert outcome == [rewards[number], terminated[number], truncated[number]]
            if outcome[1] or outcome[2]:
                assert info["_final_obs"][number]
                np.testing.assert_array_equal(info["final_obs"][number], alone)
                alone, alone_info = env.reset()
                endings.add((outcome[1], outcome[2]))
            np.testing.assert_array_equal(obs[number], alone)
            assert tuple(info["position"][number]) == alone_info["position"]
            assert info["moves"][number] == alone_info["moves"]
    assert endings == {(True, False), (False, True)}


def play(env, seed):
    env.action_space.seed(seed)
    seen = [env.reset(seed=seed)[0]]
    for _ in range(40):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen += [obs, reward, terminated, truncated]
        if isinstance(env, PuddleWorld) and (terminated or truncated):
            env.reset()
    return np.concatenate([np.ravel(item) for item in seen])


@pytest.mark.parametrize("build", [make, lambda: make_vector(5)], ids=["single", "vector"])
def test_the_same_seed_gives_the_same_trajectory(build):
    first, again, other = (play(build(), seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_earlier_results_do_not_change_with_later_steps():
    agents = make_vector(20, map=SMALL, plan=3)
    obs, info = agents.reset(seed=0)
    kept = [(array, array.copy()) for array in (obs, info["position"], info["moves"])]
    for _ in range(12):
        obs, *arrays, info = agents.step(agents.action_space.sample())
        kept += [(array, array.copy()) for array in (obs, *arrays, *info.values())]
    assert len(kept) > 3 + 12 * 6  # final observations among them
    for array, copy in kept:
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize(
    ("plan", "space"),
    [
        (1, gym.spaces.Discrete(2)),
        (20, gym.spaces.Discrete(2**20)),
        (62, gym.spaces.Discrete(2**62)),
        (63, gym.spaces.MultiDiscrete([2] * 63)),
        (64, gym.spaces.MultiDiscrete([2] * 64)),
    ],
)
def test_plans_are_ids_as_long_as_these_fit(plan, space):
    env, agents = gym.make(ID, plan=plan), gym.make_vec(ID, num_envs=3, plan=plan)
    assert env.action_space == agents.single_action_space == space
    assert env.unwrapped.actions.n == agents.actions.n == 2**plan
    assert env.unwrapped.actions.dim == 2 * plan
    env.reset()
    obs, *_ = env.step(env.action_space.sample())
    assert obs in env.observation_space
    agents.reset()
    assert agents.step(agents.action_space.sample())[0] in agents.observation_space


def test_ids_vectors_and_moves_agree():
    env = PuddleWorld(map=SMALL, plan=4)
    np.testing.assert_array_equal(env.actions.digits(DOWN_DOWN_DOWN_RIGHT), [1, 1, 1, 0])
    np.testing.assert_array_equal(env.actions.embed(DOWN_DOWN_DOWN_RIGHT), [0, 1, 0, 1, 0, 1, 1, 0])
    for action in range(16):
        np.testing.assert_array_equal(env.task.moves(np.array([action]), 1)[0], env.actions.digits(action))
    env.reset()
    env.step(DOWN_DOWN_DOWN_RIGHT)
    assert env.position == (3, 1)
    long = PuddleWorld(plan=64)
    long.reset()
    long.step(np.array([1] * 40 + [0] * 24))
    assert long.position == (40, 24)


@pytest.mark.parametrize(
    ("plan", "action", "message"),
    [
        (4, 16, "16 is no plan: give integers from 0 to 15"),
        (4, -1, "-1 is no plan: give integers from 0 to 15"),
        (4, 1.0, r"actions of shape \(.,\), float64: give integers of shape \(.,\), one id per agent"),
        (4, [0, 1, 0, 1], r"actions of shape \(., 4\), int64: give integers of shape \(.,\)"),
        (64, 3, r"actions of shape \(.,\), int64: give integers of shape \(., 64\), one row of moves per agent"),
        (64, [2] * 64, "2 is no move: give integers from 0 to 1"),
    ],
)
def test_what_is_no_plan_is_refused(plan, action, message):
    env, agents = PuddleWorld(plan=plan), make_vector(2, plan=plan)
    env.reset()
    agents.reset()
    with pytest.raises(ValueError, match=message):
        env.step(action)
    with pytest.raises(ValueError, match=message):
        agents.step(np.array([action, action]))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"plan": 0}, ValueError, "plan=0: give a whole number from 1 to 64"),
        ({"plan": 65}, ValueError, "plan=65: give a whole number from 1 to 64"),
        ({"plan": 2.5}, ValueError, "plan=2.5: give a whole number from 1 to 64"),
        ({"plan": True}, ValueError, "plan=True: give a whole number"),
        ({"window": 10}, ValueError, "window=10: give an odd number"),
        ({"window": 1}, ValueError, "window=1: give a whole number from 3 to"),
        ({"window": "11"}, ValueError, "window='11': give a whole number from 3 to"),
        ({"max_moves": 0}, ValueError, "max_moves=0: give a whole number from 1 to"),
        ({"max_moves": 9.5}, ValueError, "max_moves=9.5: give a whole number from 1 to"),
        ({"size": 1}, ValueError, "size=1: give a whole number from 2"),
        ({"size": (3, 4, 5)}, ValueError, r"size=\(3, 4, 5\): give a whole number from 2 to 1,000, or two of them"),
        ({"map_seed": -1}, ValueError, "map_seed=-1: give a whole number of at least 0"),
        ({"map": SMALL, "size": 9}, ValueError, "with size=9, map_seed=None: give a map, or what to generate one from"),
        ({"map": SMALL, "map_seed": 0}, ValueError, "with size=None, map_seed=0: give a map, or what to"),
        ({"map": 7}, ValueError, "map=7: give a PuddleMap, its text, or the path of a text file"),
        ({"map": "no/such/map.txt"}, ValueError, "map='no/such/map.txt' cannot be read as a text file: .*No such file"),
        ({"plans": 3}, TypeError, "unknown option plans: the puddle world takes plan, size, map_seed, map, window"),
        ({"render_mode": "hologram"}, ValueError, "render_mode='hologram': give 'rgb_array', 'human' or None"),
    ],
)
def test_what_an_option_may_not_be(options, error, message):
    with pytest.raises(error, match=message):
        make(**options)
    with pytest.raises(error, match=message):
        make_vector(2, **options)


def test_a_number_of_agents_is_at_least_one():
    with pytest.raises(ValueError, match="num_envs=0: give a whole number from 1 to"):
        make_vector(0)


def test_a_map_may_come_from_a_file(tmp_path):
    path = tmp_path / "own.txt"
    path.write_text(SMALL.to_text())
    for source in (path, str(path), SMALL):
        env, agents = gym.make(ID, map=source), gym.make_vec(ID, num_envs=2, map=source)
        assert env.unwrapped.map == agents.map == SMALL


def test_environments_of_the_same_options_share_their_tables():
    single, agents = gym.make(ID).unwrapped, gym.make_vec(ID, num_envs=2)
    assert isinstance(agents, PuddleWorldVector)
    assert agents.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert single.task is agents.task is make(plan=20, size=(50, 50), map_seed=0, max_moves=200).task
    assert single.task is single.vector(3).task
    assert make(map_seed=1).task is not single.task
    assert single.task.observations.nbytes == 2500 * 363  # and no table of 2**20 plans


def test_the_adapter_hands_truncations_to_stable_baselines():
    agents = GymnasiumVecEnv(make_vector(2, map=SMALL, plan=7, max_moves=7))
    agents.reset()
    _, rewards, done, infos = agents.step(np.array([0b1110000, 0b1111111]))
    assert rewards.tolist() == [242, -9]
    assert done.all()
    assert [info["TimeLimit.truncated"] for info in infos] == [False, True]
