"""The recommender as an environment: its contract, its dynamics, its options."""

import gymnasium as gym
import numpy as np
import pytest
import scipy.sparse as sp
from gymnasium.utils.env_checker import check_env as check_gymnasium
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.env_checker import check_env as check_sb3

import wolpertinger  # noqa: F401 - registers the environments
from wolpertinger.envs import Recommender, RecommenderVector
from wolpertinger.envs.acceptance import Acceptance
from wolpertinger.envs.catalogue import Catalogue
from wolpertinger.envs.recommender import RecommenderTask, make

ID = "wolpertinger/Recommender-v0"
W = np.array([[0.3, 0.8, 0.0, 0.5], [0.1, 0.0, 0.9, 0.2], [0.6, 0.4, 0.0, 1.0], [0.2, 0.2, 0.2, 0.2]])
REWARDS = np.array([1.0, 2.0, 3.0, 4.0])
VECTORS = np.arange(8, dtype=np.float32).reshape(4, 2)


def own(acceptance=W, **options):
    return Recommender(**{"acceptance": acceptance, "rewards": REWARDS, "vectors": VECTORS, "guided": 2, **options})


def own_vector(num_envs):
    return RecommenderVector(RecommenderTask(Catalogue(Acceptance.of(W), REWARDS, VECTORS), guided=2), num_envs)


def bound(share, count):
    """Five standard errors of a frequency."""
    return 5 * np.sqrt(max(share * (1 - share), 1e-9) / count)


def test_gymnasiums_checker_finds_nothing(monkeypatch):
    monkeypatch.setitem(Recommender.metadata, "render_fps", 1_000)
    check_gymnasium(gym.make(ID, items=49).unwrapped)
    check_gymnasium(own(), skip_render_check=True)  # which needs the id of a registered environment


def test_stable_baselines_checker_finds_nothing():
    check_sb3(gym.make(ID, items=49))
    check_sb3(own())


def play(env, n_steps, seed):
    env.action_space.seed(seed)
    seen = [env.reset(seed=seed)[0]]
    for _ in range(n_steps):
        obs, reward, terminated, _, _ = env.step(env.action_space.sample())
        seen += [obs, reward, terminated]
        if not isinstance(env, RecommenderVector) and terminated:
            seen.append(env.reset()[0])
    return np.concatenate([np.ravel(item) for item in seen])


@pytest.mark.parametrize("build", [own, lambda: own_vector(7)], ids=["single", "vector"])
def test_the_same_seed_gives_the_same_trajectory(build):
    first, again, other = (play(build(), 60, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[:100], other[:100])


def sample_single(state, action, count):
    env = own()
    env.reset(seed=0)
    rows = []
    for _ in range(count):
        env.state = state
        _, reward, terminated, truncated, info = env.step(action)
        assert not truncated
        assert info["item"] == env.state
        rows.append((info["accepted"], env.state, reward, terminated))
    return (np.array(column) for column in zip(*rows, strict=True))


def sample_vector(state, action, count):
    env = own_vector(count)
    env.reset(seed=0)
    env.states = np.full(count, state)
    _, rewards, terminated, truncated, info = env.step(np.full(count, action))
    assert not truncated.any()
    reached = np.flatnonzero((info["final_obs"][:, None] == VECTORS).all(axis=2))  # users x items
    return rewards > 0, reached % 4, rewards, terminated


@pytest.mark.parametrize(("sample", "count"), [(sample_single, 4_000), (sample_vector, 100_000)])
@pytest.mark.parametrize(("state", "action"), [(0, 1), (0, 2), (2, 3), (3, 3), (1, 1)])
def test_the_dynamics_are_the_papers(sample, count, state, action):
    accepted, reached, rewards, ended = sample(state, action, count)
    assert accepted.mean() == pytest.approx(W[state, action], abs=bound(W[state, action], count))
    assert (reached[accepted] == action).all()
    np.testing.assert_array_equal(rewards, np.where(accepted, REWARDS[action], 0.0))
    for group, share in ((accepted, 0.1), (~accepted, 0.2)):
        if group.any():
            assert ended[group].mean() == pytest.approx(share, abs=bound(share, group.sum()))
    if not accepted.all():
        shares = np.bincount(reached[~accepted], minlength=4) / (~accepted).sum()
        np.testing.assert_allclose(shares, 0.25, atol=bound(0.25, (~accepted).sum()))


def test_a_session_starts_at_any_item():
    env = own()
    env.reset(seed=0)
    starts = [env.reset()[1]["item"] for _ in range(4_000)]
    np.testing.assert_allclose(np.bincount(starts) / 4_000, 0.25, atol=bound(0.25, 4_000))


def test_the_observation_is_the_items_vector_and_the_callers_own():
    env = own()
    obs, info = env.reset(seed=0)
    np.testing.assert_array_equal(obs, VECTORS[info["item"]])
    obs[:] = -1
    np.testing.assert_array_equal(env.actions.vectors, VECTORS)
    obs, *_, info = env.step(np.int64(1))
    np.testing.assert_array_equal(obs, VECTORS[info["item"]])
    obs[:] = -1
    np.testing.assert_array_equal(env.actions.vectors, VECTORS)


@pytest.mark.parametrize(
    "acceptance",
    [W, W.tolist(), sp.csr_array(W), sp.coo_matrix(W), (sp.csr_array(W - 0.0), np.zeros(4)), Acceptance(W)],
    ids=["dense", "list", "sparse", "matrix", "tuple", "acceptance"],
)
def test_a_user_may_bring_their_own_chances(acceptance):
    env = own(acceptance)
    np.testing.assert_allclose(env.model.acceptance.rows(np.arange(4)), W)
    assert env.action_space == gym.spaces.Discrete(4)


def test_a_base_rate_counts_off_the_diagonal():
    env = own((sp.csr_array((4, 4)), [0.1, 0.2, 0.3, 0.4]))
    expected = np.tile([0.1, 0.2, 0.3, 0.4], (4, 1)) * (1 - np.eye(4))
    np.testing.assert_allclose(env.model.acceptance.rows(np.arange(4)), expected)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rewards": [1, 2]}, r"rewards has shape \(2,\): give one for each of the 4 items"),
        ({"vectors": VECTORS[:3]}, "3 vectors for 4 items: give one vector per item"),
        ({"acceptance": W[:, :3]}, r"acceptance has shape \(4, 3\): give a square matrix"),
        ({"acceptance": (W, [0.1])}, r"base has shape \(1,\): give one number for each of the 4 items"),
        ({"guided": 5}, "guided=5: give a whole number from 1 to 4"),
        ({"guided": 0}, "guided=0: give a whole number from 1 to 4"),
    ],
)
def test_sizes_that_disagree_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        own(**changed)


def test_guided_actions_are_the_largest_chance_times_reward_of_the_current_state():
    env, users = own(), own_vector(4)
    expected = np.argsort(-W * REWARDS, axis=1)[:, :2]
    env.reset(seed=0)
    users.reset(seed=0)
    for state in range(3):  # the fourth has ties
        env.state = state
        np.testing.assert_array_equal(env.guided_actions(), expected[state])
    users.states = np.array([2, 0, 1, 0])
    np.testing.assert_array_equal(users.guided_actions(), expected[[2, 0, 1, 0]])


@pytest.mark.parametrize("action", [-1, 4, 2**40])
def test_an_action_that_is_no_item_is_refused(action):
    env = own()
    env.reset(seed=0)
    with pytest.raises(ValueError, match=f"action {action} is not in the set: give ids or digits from 0 to 3"):
        env.step(action)
    users = own_vector(3)
    users.reset(seed=0)
    with pytest.raises(ValueError, match=f"action {action} is no item: give integers from 0 to 3"):
        users.step(np.array([0, action, 1]))


@pytest.mark.parametrize("actions", [np.array([0, 1]), 1, np.zeros((3, 1), int), np.array([0.0, 1.0, 2.0])])
def test_users_need_one_integer_each(actions):
    users = own_vector(3)
    users.reset(seed=0)
    with pytest.raises(ValueError, match=r"give one item, an integer, per user, shape \(3,\)"):
        users.step(actions)


def test_users_take_any_kind_of_integer():
    users = own_vector(3)
    users.reset(seed=0)
    for actions in ([0, 1, 2], np.array([0, 1, 2], np.int32), np.array([3, 1, 2], np.uint8), np.arange(6)[::2] // 2):
        obs, rewards, *_ = users.step(actions)
        assert obs.shape == (3, users.actions.dim)
        assert rewards.shape == (3,)


def test_gymnasium_makes_one_user_or_many():
    env = gym.make(ID, items=49)
    assert env.action_space == gym.spaces.Discrete(49)
    assert env.get_wrapper_attr("actions").n == 49
    users = gym.make_vec(ID, num_envs=5, items=49, dim=3, guided=4)
    assert isinstance(users, RecommenderVector)
    assert users.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    obs, _ = users.reset(seed=0)
    assert obs in users.observation_space
    assert obs.shape == (5, 3)
    assert users.action_space.sample() in users.action_space
    assert users.guided_actions().shape == (5, 4)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"item": 49}, TypeError, "unknown option item: the recommender takes guided, items, dim"),
        ({"data": "netflix"}, ValueError, "data='netflix': give one of 'generated', 'complete-journey'"),
        ({"reward": "price"}, ValueError, "reward='price' goes with data=\"complete-journey\""),
        ({"items": 9}, ValueError, "items=9: give a whole number of at least 10"),
        ({"dim": 0}, ValueError, "dim=0: give a whole number of at least 1"),
        ({"items": 49, "median_best": 2}, ValueError, "median_best=2: give a finite number above 0, 1 at most"),
    ],
)
def test_what_an_option_may_not_be(options, error, message):
    with pytest.raises(error, match=message):
        gym.make(ID, **options)
    with pytest.raises(error, match=message):
        gym.make_vec(ID, num_envs=2, **options)


def test_median_best_scales_the_chances():
    model = gym.make(ID, items=49, median_best=0.12).unwrapped.model
    assert np.median(model.acceptance.best(np.ones(49))[0]) == pytest.approx(0.12)


def test_a_user_whose_session_ends_starts_anew_in_the_same_step():
    users = own_vector(500)
    users.reset(seed=0)
    for _ in range(3):
        obs, rewards, terminated, truncated, info = users.step(np.full(500, 3))
        np.testing.assert_array_equal(info["_final_obs"], terminated)
        np.testing.assert_array_equal(obs, VECTORS[users.states])
        np.testing.assert_array_equal(info["item"], users.states)
        np.testing.assert_array_equal(obs[~terminated], info["final_obs"][~terminated])
        paid = rewards > 0
        np.testing.assert_array_equal(info["final_obs"][paid], np.tile(VECTORS[3], (paid.sum(), 1)))
        assert (obs[terminated] != info["final_obs"][terminated]).any()
        assert obs.dtype == np.float32
        assert terminated.dtype == truncated.dtype == np.bool_


def test_earlier_results_do_not_change_with_later_steps():
    users = own_vector(50)
    obs, info = users.reset(seed=0)
    kept = [(obs, obs.copy()), (info["item"], info["item"].copy())]
    for _ in range(5):
        obs, rewards, terminated, _, info = users.step(np.full(50, 1))
        arrays = (obs, rewards, terminated, info["item"], info.get("final_obs", obs))
        kept += [(array, array.copy()) for array in arrays]
    for array, copy in kept:
        np.testing.assert_array_equal(array, copy)


def test_a_step_where_nobody_leaves_has_no_final_observation():
    users = own_vector(1)
    users.reset(seed=0)
    infos = [(terminated[0], info) for _, _, terminated, _, info in (users.step(np.array([1])) for _ in range(40))]
    assert {ended for ended, _ in infos} == {True, False}
    assert all(("final_obs" in info) == ended for ended, info in infos)


def test_environments_of_the_same_options_share_their_tables():
    single, users = gym.make(ID, items=49).unwrapped, gym.make_vec(ID, num_envs=2, items=49)
    assert single.task is users.task
    assert np.shares_memory(single.actions.vectors, users.actions.vectors)
    assert make(items=49, dim=20, data="generated", data_seed=0).task is single.task  # defaults spelled out
    assert make(items=49, data_seed=1).task is not single.task
    assert single.np_random is not users.np_random


def test_small_catalogues_need_no_word_on_guidance():
    env = gym.make("wolpertinger/Recommender-v0", items=12, dim=3)
    env.reset(seed=0)
    assert len(env.unwrapped.guided_actions()) == 12


def test_the_users_own_recommender_steps_many_users_too():
    chances = np.full((5, 5), 0.5)
    env = Recommender(acceptance=chances, rewards=np.ones(5), vectors=np.eye(5))
    users = env.vector(8)
    obs, _ = users.reset(seed=0)
    assert obs.shape == (8, 5)
    assert users.model is env.model
    with pytest.raises(ValueError, match="num_envs=0: give a whole number from 1 to"):
        env.vector(0)
