"""A catalogue where it is: a table of PostgreSQL with a pgvector column."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.actions.base import Actions, ActionSet, check_draw
from wolpertinger.imports import needs_extra
from wolpertinger.index import check_ids, read_ids
from wolpertinger.index.base import Vectors, check_finite, check_k, check_queries
from wolpertinger.settings import check_flag, check_kind, check_number

LEAST_EF = 40  # pgvector's own
MAX_EF = 1_000  # hnsw.ef_search takes no more; an index that is not scanned on ends there
MOST = 2**31 - 1
ITERATIVE = (0, 8)  # version of pgvector from which on an index is scanned until there are enough rows
COLUMNS = 200  # dimensions whose bounds one query asks for
HEADER = 4  # bytes before the numbers of a vector, as it is sent
EXACT = {"enable_indexscan": "off", "enable_indexonlyscan": "off", "enable_bitmapscan": "off"}  # no index
Result = TypeVar("Result")


class DatabaseUnavailableError(ConnectionError):
    """The database did not answer; the next call connects anew."""


class PgVectorActions(ActionSet):
    """The rows of a table, each with an id and a vector, looked up in the database itself.

    Ids and bounds are read once, and again by `refresh`. A lookup goes by whatever index the table has, scanned until
    there are k rows; an answer that is short all the same is asked for once more without the index. What an index
    finds is what it finds: `exact=True` does without.

    :param database: what `psycopg.connect` takes: "postgresql://user@host/name".
    :param table: its name, with the schema's before a point if need be.
    :param id: column of whole numbers from 0 up, which tells rows apart.
    :param vector: column of type vector; rows without one are no actions.
    :param ef_search: candidates that an HNSW index goes through, from 1 to 1,000; None: twice k, and 40 at least.
    :param timeout: seconds to wait for an answer.
    """

    def __init__(
        self,
        database: str,
        table: str,
        *,
        id: str = "id",
        vector: str = "embedding",
        exact: bool = False,
        ef_search: int | None = None,
        timeout: float = 60.0,
    ) -> None:
        for name, given in (("database", database), ("table", table), ("id", id), ("vector", vector)):
            check_kind(name, given, str, "text")
        check_flag("exact", exact)
        check_number("ef_search", ef_search, least=1, most=MAX_EF, whole=True, optional=True)
        check_number("timeout", timeout, above=True)
        with needs_extra("pgvector", "a catalogue in PostgreSQL"):
            import psycopg
            from psycopg import sql
        self._psycopg, self._database, self._timeout = psycopg, database, timeout
        self.exact, self.ef_search = exact, ef_search
        self.repeated = 0
        """Lookups that an index answered short, and that were asked for once more without it."""
        columns = {"id": sql.Identifier(id), "vector": sql.Identifier(vector)}
        self._names, self._name = {"table": sql.Identifier(*table.split(".")), **columns}, table
        self._connection: Any = None
        self._lock = threading.RLock()
        self._version = -1
        self.refresh()

    def refresh(self) -> None:
        """Read anew which rows there are, and their bounds."""
        self._iterates, ids, dims = self._run(self._read_rows)
        if not len(ids):
            raise ValueError(f"{self._name} has no row with a vector: an action set needs one")
        if len(dims) > 1 or len(np.unique(ids)) < len(ids) or ids.min() < 0:
            raise ValueError(
                f"{self._name}: vectors of {sorted(dims)} dimensions, ids from {ids.min()} to {ids.max()}, "
                f"{len(ids) - len(np.unique(ids))} of them twice: give vectors of one length, and each an id from 0 up"
            )
        self._dim = dims.pop()
        self._bounds = np.concatenate(
            [self._run(self._read_bounds, first) for first in range(1, self._dim + 1, COLUMNS)]
        )
        check_finite(self._bounds, "bounds of the vectors")
        self._ids, self._version = np.sort(ids), self._version + 1

    @property
    def space(self) -> spaces.Discrete:
        """Ids up to the largest; not all of them need be there."""
        return spaces.Discrete(int(self._ids[-1]) + 1)

    @property
    def n(self) -> int:
        """Number of actions."""
        return len(self._ids)

    @property
    def dim(self) -> int:
        """Length of an action's vector."""
        return self._dim

    @property
    def low(self) -> npt.NDArray[np.float32]:
        """Smallest coordinate of any action, per dimension (dim,)."""
        return self._bounds[:, 0]

    @property
    def high(self) -> npt.NDArray[np.float32]:
        """Largest coordinate of any action, per dimension (dim,)."""
        return self._bounds[:, 1]

    @property
    def version(self) -> int:
        """How often it was read anew."""
        return self._version

    def nearest(self, protos: npt.ArrayLike, k: int) -> Actions:
        """Ids (batch, k) of the distinct actions closest to each proto-action (batch, dim), nearest first."""
        k, points = check_k(k, self.n), check_queries(protos, self.dim)
        if not len(points):
            return np.empty((0, k), np.int64)
        found, counts = self._run(self._look_up, points, k, self.exact)
        if len(short := np.flatnonzero(counts < k)):
            self.repeated += len(short)
            found[short], counts[short] = self._run(self._look_up, points[short], k, True)
        if (counts < k).any():
            raise ValueError(
                f"{self._name} holds {counts.min():,} rows by now, and k={k:,}: call refresh() after rows were deleted"
            )
        return found

    def embed(self, actions: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Vectors (..., dim) of the actions with these ids (...)."""
        ids = check_ids(actions, int(self._ids[-1]) + 1)
        wanted, place = np.unique(ids, return_inverse=True)
        found, vectors = self._run(self._read_vectors, wanted)
        order = np.argsort(found)
        if not np.array_equal(found[order], wanted):
            missing = np.setdiff1d(wanted, found)[0]
            raise ValueError(f"action {missing} is not in {self._name}: call refresh() after rows were deleted")
        return vectors[order][place.reshape(ids.shape)]

    def holds(self, actions: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which of these ids (...) were there when they were read."""
        return np.isin(read_ids(actions), self._ids)

    def sample(self, rng: np.random.Generator, n: int) -> Actions:
        """Ids (n,) drawn uniformly."""
        check_draw(rng, n, 1)
        return self._ids[rng.integers(self.n, size=n)]

    def _members(self, start: int, stop: int) -> Actions:
        return self._ids[start:stop]

    def add(self, vectors: npt.ArrayLike) -> Actions:
        """Rows are the database's to insert; `refresh` reads them."""
        raise TypeError(f"{self!r}: insert rows into {self._name} and call refresh()")

    def remove(self, actions: npt.ArrayLike) -> None:
        """Rows are the database's to delete; `refresh` forgets them."""
        raise TypeError(f"{self!r}: delete rows of {self._name} and call refresh()")

    def stats(self, k: int) -> dict[str, float | str]:
        """Lookups that an index answered short."""
        return {"repeated": self.repeated}

    def close(self) -> None:
        """End the connection; the next call makes another one."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self._connection.close()

    def __repr__(self) -> str:
        return f"PgVectorActions({self._name!r}, n={self.n}, dim={self.dim})"

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(f"{self!r} holds a connection: make another one where it is needed")

    def _compose(self, text: str, **parts: Any) -> Any:
        """SQL with the names of table and columns in it."""
        return self._psycopg.sql.SQL(text).format(**self._names, **parts)

    def _look_up(self, cursor: Any, points: Vectors, k: int, exact: bool) -> tuple[Actions, Actions]:
        """Ids (batch, k) as far as they were found, and how many were."""
        for name, value in (EXACT if exact else self._scanning(k)).items():
            cursor.execute("SELECT set_config(%s, %s, true)", (name, str(value)))
        text = (
            "SELECT q.place, found.id, found.distance FROM unnest(%s::vector[]) WITH ORDINALITY AS q(point, place) "
            "CROSS JOIN LATERAL (SELECT {id} AS id, {vector} <-> q.point AS distance FROM {table} "
            "WHERE {vector} IS NOT NULL ORDER BY {order} LIMIT %s) AS found"
        )
        by_id = ", {id}" if exact else ""
        order = self._compose("{vector} <-> q.point" + by_id)
        cursor.execute(self._compose(text, order=order), (list(map(_as_text, points)), k))
        rows = cursor.fetchall()
        places, ids, distances = (
            (np.array(column) for column in zip(*rows, strict=True)) if rows else (np.empty(0),) * 3
        )
        places = places.astype(np.int64) - 1
        ordered = np.lexsort((ids, distances, places))
        counts = np.bincount(places, minlength=len(points))
        column = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        found = np.full((len(points), k), -1, np.int64)
        found[places[ordered], column] = ids[ordered]
        return found, counts

    def _scanning(self, k: int) -> dict[str, Any]:
        """Settings by which an index finds k rows, if it can."""
        if not self._iterates:  # it ends at ef_search rows
            return EXACT if k > MAX_EF else {"hnsw.ef_search": self.ef_search or min(MAX_EF, max(LEAST_EF, 2 * k))}
        return {
            "hnsw.ef_search": self.ef_search or min(MAX_EF, max(LEAST_EF, 2 * k)),
            "hnsw.iterative_scan": "strict_order",
            "hnsw.max_scan_tuples": MOST,
            "ivfflat.iterative_scan": "relaxed_order",
        }

    def _read_rows(self, cursor: Any) -> tuple[bool, Actions, set[int]]:
        cursor.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        if (version := cursor.fetchone()) is None:
            raise ValueError("the database has no extension vector: CREATE EXTENSION vector")
        cursor.execute(self._compose("SELECT DISTINCT vector_dims({vector}) FROM {table} WHERE {vector} IS NOT NULL"))
        dims = {int(dim) for (dim,) in cursor.fetchall()}
        cursor.execute(self._compose("SELECT {id}::bigint FROM {table} WHERE {vector} IS NOT NULL"))
        ids = np.fromiter((number for (number,) in cursor), np.int64)
        return tuple(map(int, version[0].split(".")[:2])) >= ITERATIVE, ids, dims

    def _read_bounds(self, cursor: Any, first: int) -> npt.NDArray[np.float32]:
        last = min(first + COLUMNS, self._dim + 1)
        bounds = ", ".join(f"min(parts[{number}]), max(parts[{number}])" for number in range(first, last))
        text = f"SELECT {bounds} FROM (SELECT {{vector}}::real[] AS parts FROM {{table}} OFFSET 0) AS rows"
        cursor.execute(self._compose(text))
        return np.array(cursor.fetchone(), np.float32).reshape(-1, 2)

    def _read_vectors(self, cursor: Any, ids: Actions) -> tuple[Actions, Vectors]:
        text = "SELECT {id}::bigint, vector_send({vector}) FROM {table} WHERE {id} = ANY(%s) AND {vector} IS NOT NULL"
        cursor.execute(self._compose(text), (ids.tolist(),), binary=True)
        rows = cursor.fetchall()
        sent = b"".join(data[HEADER:] for _, data in rows)
        vectors = np.frombuffer(sent, ">f4").astype(np.float32).reshape(len(rows), self._dim)
        return np.array([number for number, _ in rows], np.int64), vectors

    def _run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do some work in a transaction; once more on a new connection, where the old one did not last."""
        psycopg = self._psycopg
        with self._lock:
            for is_last in (self._connection is None, True):
                try:
                    connection = self._connect()
                    with connection.transaction(), connection.cursor() as cursor:
                        return work(cursor, *arguments)
                except psycopg.errors.QueryCanceled as error:
                    raise DatabaseUnavailableError(f"no answer within {self._timeout:g} seconds: {error}") from error
                except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                    self.close()
                    if is_last:
                        told = str(error).strip().partition("\n")[0]
                        raise DatabaseUnavailableError(f"{self._name}: the database does not answer: {told}") from error
                except psycopg.Error as error:
                    told = str(error).strip().partition("\n")[0]
                    raise ValueError(f"{self._name} cannot be used as an action set: {told}") from error
        raise AssertionError("unreachable")

    def _connect(self) -> Any:
        if self._connection is None or self._connection.closed:
            milliseconds = round(1_000 * self._timeout)
            # A prepared plan would outlive the settings that it was made by.
            self._connection = self._psycopg.connect(
                self._database, autocommit=True, prepare_threshold=None, connect_timeout=max(2, round(self._timeout)),
                options=f"-c statement_timeout={milliseconds}",
            )  # fmt: skip
        return self._connection


def _as_text(point: Vectors) -> str:
    """A point as pgvector reads it."""
    return "[" + ",".join(map(repr, point.tolist())) + "]"
