"""How good one can be in the cart-pole; apart from it, since knowing this takes no MuJoCo."""

import json
from functools import cache
from importlib.resources import files


@cache
def reference_return() -> float:
    """The best known mean return, over 100 starts: what `benchmarks/cartpole_reference.py` reached."""
    return float(json.loads(files("wolpertinger.envs").joinpath("cartpole_reference.json").read_text())["mean_return"])
