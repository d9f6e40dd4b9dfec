"""From a config to a run folder, and from run folders to scores and pictures."""

from wolpertinger.runs.config import RunConfig, make_config
from wolpertinger.runs.evaluation import Evaluation, evaluate
from wolpertinger.runs.resume import resume
from wolpertinger.runs.training import train
from wolpertinger.runs.watch import Film, show, watch

__all__ = ["Evaluation", "Film", "RunConfig", "evaluate", "make_config", "resume", "show", "train", "watch"]
