"""Beyond one machine, on Ray: many workers for one learner. Ray is imported when it is used."""

from wolpertinger.distributed.training import resume, train

__all__ = ["resume", "train"]
