"""From a config to a run folder, and from run folders to scores and pictures."""

from wolpertinger.experiments.evaluation import Evaluation, evaluate
from wolpertinger.experiments.run import RunConfig, make_config, train
from wolpertinger.experiments.watch import Film, show, watch

__all__ = ["Evaluation", "Film", "RunConfig", "evaluate", "make_config", "show", "train", "watch"]
