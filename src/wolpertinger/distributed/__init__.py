"""Beyond one machine, on Ray: many workers for one learner, catalogues in shards. stores of others in place."""

from wolpertinger.distributed.cutting import Lookup
from wolpertinger.distributed.pgvector import DatabaseUnavailableError, PgVectorActions
from wolpertinger.distributed.sharded import ShardedTable
from wolpertinger.distributed.shards import ShardUnavailableError
from wolpertinger.distributed.training import resume, train

__all__ = [
    "DatabaseUnavailableError",
    "Lookup",
    "PgVectorActions",
    "ShardUnavailableError",
    "ShardedTable",
    "resume",
    "train",
]
