"""From a config to a run folder, and from run folders to scores and pictures."""

from wolpertinger.experiments.evaluation import Evaluation, evaluate
from wolpertinger.experiments.run import RunConfig, make_config, train

__all__ = ["Evaluation", "RunConfig", "evaluate", "make_config", "train"]
