"""Beyond one machine, on Ray: many workers for one learner, catalogues in shards. Ray is imported when it is used."""

from wolpertinger.distributed.sharded import Lookup, ShardedTable
from wolpertinger.distributed.shards import ShardUnavailableError
from wolpertinger.distributed.training import resume, train

__all__ = ["Lookup", "ShardUnavailableError", "ShardedTable", "resume", "train"]
