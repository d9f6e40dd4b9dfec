"""Results whose verdict is known."""

from itertools import chain

from reproduction.claims import CLAIMS, OURS
from reproduction.evidence import Evidence
from reproduction.plan import variants
from reproduction.results import Results

CLAIM = {claim.name: claim for claim in CLAIMS + OURS}
RECALL = {"slow": 0.99, "medium": 0.9, "fast": 0.7}
SEEDS = 8  # of alike results: their mean is exactly each of them, so that boundaries can be met


class Given(Evidence):
    """Shares of learning runs, speeds of cells, and whole results, as given.

    A share is of all seeds alike if it is one number. `results` are laid over what the others make of a key, `fixed` is
    the share of the best fixed item. Lookups have the recall that their names promise.
    """

    def __init__(self, tmp_path, shares=(), rates=(), results=(), fixed=-1.0):
        super().__init__(Results(tmp_path), {})
        self._found = {key: [] for key in variants()}
        for key, values in dict(shares).items():
            each = values if isinstance(values, list) else [values] * SEEDS
            self._found[key] = [learned(share) for share in each]
            promise = RECALL.get(key.rpartition("-")[2])
            for result in self._found[key] if promise else ():
                result["lookup"] = [{"promise": promise, "recall": promise}]
        for key, rate in dict(rates).items():
            self._found[key] = [{**cell, "steps_per_second": rate} for cell in self._found[key] or [{}]]
        for key, several in dict(results).items():
            before = self._found[key] or [{}] * len(several)
            self._found[key] = [{**old, **new} for old, new in zip(before, several, strict=True)]
        baselines = {"optimum": 10.0, "best fixed item": 10.0 * fixed, "random": 1.0}
        self._found = {key: [{"baselines": baselines, **each} for each in found] for key, found in self._found.items()}
        self._seeds = {key: len(found) for key, found in self._found.items()}

    def plan(self, seeds):
        """Set how many seeds every variant was to have."""
        self._seeds = dict.fromkeys(self._seeds, seeds)
        return self


def learned(share, steps=100):
    """A run that came to a share, having been better and worse before."""
    curve = {
        "share": [0.9, 0.1, share],
        "seconds": [1.0, 2.0, 60.0],
        "steps": [10.0, 20.0, 60.0],
        "distinct": [9, 9, 2],
    }
    spec = {"n_envs": 1, "agent": {"learning_starts": 0}}
    return {"curve": curve, "steps": steps, "steps_per_second": 1.0, "spec": spec}


def restless(*deviations):
    """Runs whose share has these standard deviations over their second half, and not over their first."""
    return [
        {
            **learned(0.0),
            "curve": {"share": [-9.0, 0.0, 2 * each], "seconds": [1.0, 60.0, 100.0], "distinct": [1, 1, 2]},
        }
        for each in deviations
    ]


def wide(share):
    """Three seeds that decide nothing about a share."""
    return [share - 0.5, share, share + 0.5]


def find(name, evidence):
    """The finding of a claim by its name."""
    return CLAIM[name].find(evidence)


def merge(*givens):
    """Dictionaries as one."""
    return dict(chain.from_iterable(given.items() for given in givens))
