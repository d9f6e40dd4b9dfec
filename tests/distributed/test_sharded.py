"""A table in shards answers as one table does, or not at all, whatever becomes of its shards."""

import sys

import numpy as np
import pytest

from tests.agent.envs import TargetEnv
from wolpertinger import ActionTable, CheckpointError, Wolpertinger
from wolpertinger.distributed import ShardedTable, ShardUnavailableError

N, DIM = 300, 3
# Few values, so that many distances tie.
VECTORS = np.random.default_rng(0).integers(-2, 3, size=(N, DIM)).astype(np.float32)
QUERIES = np.random.default_rng(1).integers(-4, 5, size=(20, DIM)) / 2
pytestmark = pytest.mark.usefixtures("fake")


def sharded(**options):
    return ShardedTable(VECTORS, **{"shards": 3, "wait": 0.0, **options})


def same(found, expected, ks=(1, 7, 150, 290)):
    assert (found.n, found.dim, found.space) == (expected.n, expected.dim, expected.space)
    for k in ks:
        assert np.array_equal(found.nearest(QUERIES, k), expected.nearest(QUERIES, k))
    assert np.array_equal(found.low, expected.low)
    assert np.array_equal(found.high, expected.high)
    ids = np.arange(expected.space.n)
    assert np.array_equal(found.embed(ids[:, None]), expected.embed(ids[:, None]))
    assert np.array_equal(found.holds(np.arange(-2, 400)), expected.holds(np.arange(-2, 400)))
    assert np.array_equal(np.concatenate(list(found.blocks(77))), np.concatenate(list(expected.blocks(77))))


def change(table):
    """The same changes, whichever kind of table."""
    new = table.add(VECTORS[:5] + 0.25)
    table.remove([0, 17, 299, new[1]])
    table.add(VECTORS[7:9] - 1)
    table.remove(np.arange(20, 60))
    return table


@pytest.mark.parametrize("shards", [1, 2, 7])
@pytest.mark.parametrize("replicas", [1, 2])
def test_shards_answer_as_one_table(shards, replicas):
    table = sharded(shards=shards, replicas=replicas)
    same(table, ActionTable(VECTORS))
    assert table.version == 0
    same(change(table), change(ActionTable(VECTORS)), ks=(1, 7, 262))
    assert table.version == 4


def test_the_whole_table_can_be_asked_for():
    assert np.array_equal(sharded().nearest(QUERIES, N), ActionTable(VECTORS).nearest(QUERIES, N))
    assert sharded().nearest(np.empty((0, DIM)), 3).shape == (0, 3)


def test_files_are_mapped_where_the_shards_are(tmp_path):
    np.save(tmp_path / "all.npy", VECTORS)
    paths = [tmp_path / f"{part}.npy" for part in range(2)]
    for path, part in zip(paths, np.split(VECTORS, [100]), strict=True):
        np.save(path, part)
    expected = ActionTable(VECTORS)
    same(ShardedTable(tmp_path / "all.npy", shards=4), expected)
    same(ShardedTable(paths), expected)


@pytest.mark.parametrize("kind", ["whole", "array", "path", "paths"])
def test_a_saved_table_is_the_same_again(kind, tmp_path):
    np.save(tmp_path / "all.npy", VECTORS)
    paths = [tmp_path / f"{part}.npy" for part in range(3)]
    for path, part in zip(paths, np.split(VECTORS, 3), strict=True):
        np.save(path, part)
    given = {"whole": None, "array": VECTORS, "path": tmp_path / "all.npy", "paths": paths}[kind]
    table = change(sharded(recall=0.9))
    table.save(tmp_path / "saved", exclude=[] if kind == "whole" else ["vectors"])
    again = ShardedTable.load(tmp_path / "saved", given)
    assert again.recall == 0.9
    same(again, change(ActionTable(VECTORS)), ks=(1, 7, 262))
    assert np.array_equal(again.add(VECTORS[:1]), [307])


def test_a_folder_that_is_damaged_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no shards\.json"):
        ShardedTable.load(tmp_path)
    sharded().save(tmp_path)
    (tmp_path / "shard-1.zip").rename(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match=r"shard-1\.zip is missing"):
        ShardedTable.load(tmp_path)
    (tmp_path / "shards.json").write_text('{"format": 1, "ends": [0, 9, 4], "recall": null}')
    with pytest.raises(CheckpointError, match="they ascend from 0"):
        ShardedTable.load(tmp_path)


def kill(table, number, replica=0):
    table._shards.places[number].replicas[replica].actor.alive = False


def test_a_shard_that_is_lost_begins_anew_with_all_changes():
    table, expected = change(sharded()), change(ActionTable(VECTORS))
    for number in range(3):
        kill(table, number)
        same(table, expected, ks=(1, 7, 262))
    assert table.revived == 3
    kill(table, 1)
    table.remove([100, 150, 250])  # while it is gone
    expected.remove([100, 150, 250])
    same(table, expected, ks=(1, 7))


def test_a_lookup_that_lacks_a_shard_is_refused(fake):
    table = sharded()
    fake.hanging = True
    kill(table, 1)
    for ask in (lambda: table.nearest(QUERIES, 5), lambda: table.embed([150]), lambda: table.low):
        with pytest.raises(ShardUnavailableError, match="no answer from shard 1 of 3") as caught:
            ask()
        assert caught.value.shards == (1,)
    assert table.embed([5]).shape == (1, DIM)  # another shard's
    fake.hanging = table._shards.places[1].replicas[0].actor.hangs = False
    same(table, ActionTable(VECTORS))


def test_a_lookup_that_lacks_a_shard_is_flagged(fake, caplog):
    table = sharded(incomplete="flag")
    assert table.search(QUERIES, 5).missing == ()
    fake.hanging = True
    kill(table, 1)
    rest = ActionTable(VECTORS)
    rest.remove(np.arange(100, 200))
    found = table.search(QUERIES, 5)
    assert found.missing == (1,)
    assert np.array_equal(found.ids, rest.nearest(QUERIES, 5))
    assert np.array_equal(table.nearest(QUERIES, 5), found.ids)
    assert caplog.text.count("answered without [1] of 3 shards") == 2
    with pytest.raises(ShardUnavailableError, match="no answer from shard 1"):
        table.nearest(QUERIES, 201)  # never short


def test_a_replica_answers_for_another(fake):
    table = sharded(replicas=2)
    fake.hanging = True
    for number in range(3):
        kill(table, number, replica=number % 2)
    same(table, ActionTable(VECTORS))


def test_replicas_answer_in_turn(fake):
    table = sharded(shards=2, replicas=2)
    for _ in range(6):
        table.nearest(QUERIES, 5)
    asked = [actor for actor, method in fake.calls if method == "search"]
    assert [asked.count(actor) for actor in fake.actors] == [3, 3, 3, 3]


def test_an_error_of_a_shard_is_the_callers(tmp_path):
    np.save(tmp_path / "wide.npy", np.zeros((4, 9), np.float32))
    np.save(tmp_path / "all.npy", VECTORS)
    with pytest.raises(ValueError, match=r"vectors of \[3, 9\] dimensions"):
        ShardedTable([tmp_path / "all.npy", tmp_path / "wide.npy"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shards": 0}, "shards=0"),
        ({"shards": 301}, "shards=301 for 300 vectors: give 300 at most"),
        ({"replicas": 0}, "replicas=0"),
        ({"incomplete": "ignore"}, "incomplete='ignore'"),
        ({"wait": -1}, "wait=-1"),
        ({"recall": 1.5}, "recall=1.5"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        sharded(**options)


def test_wrong_files_are_named(tmp_path):
    np.save(tmp_path / "doubles.npy", VECTORS.astype(np.float64))
    with pytest.raises(ValueError, match=r"give a \.npy file of float32"):
        ShardedTable(tmp_path / "doubles.npy")
    np.save(tmp_path / "all.npy", VECTORS)
    with pytest.raises(ValueError, match="shards=3 for 1 files: each is a shard"):
        ShardedTable([tmp_path / "all.npy"], shards=3)


def test_wrong_questions_are_named():
    table = sharded()
    with pytest.raises(ValueError, match="k=301 is out of range for 300 actions"):
        table.nearest(QUERIES, 301)
    with pytest.raises(ValueError, match=r"queries have shape \(2, 5\)"):
        table.nearest(np.zeros((2, 5)), 3)
    with pytest.raises(ValueError, match="action 300 is not in the set"):
        table.embed([300])
    with pytest.raises(ValueError, match=r"vectors have 2 dimensions: give \(n, 3\)"):
        table.add([[1, 2]])
    table.remove([3])
    with pytest.raises(ValueError, match="id 3 was removed already"):
        table.remove([3])
    with pytest.raises(ValueError, match="all of shard 2: at least one must stay"):
        table.remove(np.arange(200, 300))


def test_what_is_drawn_is_there():
    table = sharded()
    kept = [3, 120, 121, 299]
    table.remove(np.setdiff1d(np.arange(N), kept))
    drawn = table.sample(np.random.default_rng(0), 1_000)
    assert sorted(set(drawn)) == kept


@pytest.mark.slow
def test_each_shard_keeps_its_promise():
    vectors = np.random.default_rng(0).normal(size=(4_000, 8)).astype(np.float32)
    table = ShardedTable(vectors, shards=2, recall=0.9, build_seconds=1.0)
    queries = np.random.default_rng(1).normal(size=(64, 8))
    expected = ActionTable(vectors).nearest(queries, 20)
    found = table.nearest(queries, 20)
    shares = [len(np.intersect1d(*pair)) / 20 for pair in zip(found, expected, strict=True)]
    assert np.mean(shares) >= 0.9
    assert table.stats(20)["tuning_seconds"] > 0
    assert sharded().stats(20) == {}


def test_two_towers_search_a_table_in_shards():
    made = {}
    for name, actions in (("one", ActionTable(VECTORS)), ("shards", sharded())):
        env = TargetEnv(actions=ActionTable(VECTORS))
        agent = Wolpertinger(
            "MlpPolicy", env, actions, critic="two-tower", candidates="critic", k=5, seed=0, learning_starts=20,
            batch_size=16, standardize=False, policy_kwargs={"net_arch": [16]},
        )  # fmt: skip
        agent.learn(60)
        made[name] = agent.predict(QUERIES.astype(np.float32))[0], agent.action_vectors()
    assert np.array_equal(made["one"][0], made["shards"][0])
    assert np.allclose(made["one"][1], made["shards"][1])


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'a table in shards needs ray.*pip install "wolpertinger\[ray\]"'):
        sharded()
