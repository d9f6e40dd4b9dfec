"""The agent in rl_zoo3, Stable-Baselines3's training framework: `python -m wolpertinger.zoo train --env ...`.

The same by hand: `from wolpertinger.zoo import register; register()`, then rl_zoo3's own `train` or `enjoy`.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from wolpertinger.agent import Wolpertinger
from wolpertinger.imports import needs_extra

NAME = "wolpertinger"
HYPERPARAMS = Path(__file__).with_suffix(".yml")
"""Settings of environments by their ids, in rl_zoo3's form."""
CONFIG_OPTIONS = ("-conf", "--conf-file")


def register() -> None:
    """Make `--algo wolpertinger` known to rl_zoo3, to its search for settings too."""
    with needs_extra("tools", "the zoo"):
        import rl_zoo3
        from rl_zoo3 import hyperparams_opt
    rl_zoo3.ALGOS[NAME] = Wolpertinger
    hyperparams_opt.HYPERPARAMS_SAMPLER[NAME] = sample_settings
    hyperparams_opt.HYPERPARAMS_CONVERTER[NAME] = to_settings


def sample_settings(trial: Any, n_actions: int, n_envs: int, additional_args: dict[str, Any]) -> dict[str, Any]:
    """Settings of one trial of an Optuna study, around those that the class chooses by itself."""
    sampled = {
        "learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
        "one_minus_gamma": trial.suggest_float("one_minus_gamma", 0.01, 0.3, log=True),
        "tau": trial.suggest_float("tau", 2e-3, 5e-2, log=True),
        "batch_size_pow": trial.suggest_int("batch_size_pow", 5, 9),
        "train_freq": trial.suggest_int("train_freq", 1, 8),
        "epsilon": trial.suggest_float("epsilon", 0.02, 0.4, log=True),
        "sigma": trial.suggest_float("sigma", 0.02, 0.5, log=True),
    }
    settings = to_settings(sampled)
    for name in ("gamma", "batch_size"):
        trial.set_user_attr(name, settings[name])
    return settings


def to_settings(sampled: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `Wolpertinger` from what was sampled."""
    plain = {name: sampled[name] for name in ("learning_rate", "tau", "train_freq")}
    exploration = {"kind": "exploration", "epsilon": sampled["epsilon"], "sigma": sampled["sigma"]}
    size = 2 ** sampled["batch_size_pow"]
    rest = {"gamma": 1 - sampled["one_minus_gamma"], "batch_size": size, "gradient_steps": 1}
    return {**plain, **rest, "exploration": exploration}


def main(arguments: Sequence[str] | None = None) -> None:
    """rl_zoo3's own `train` and `enjoy`, which know the agent and its settings."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] not in (["train"], ["enjoy"]):
        raise SystemExit(f"python -m wolpertinger.zoo: give train or enjoy, not {' '.join(given[:1]) or 'nothing'}")
    register()
    command, *options = given
    if "--algo" not in options:
        options += ["--algo", NAME]
    if command == "train" and not any(word.partition("=")[0] in CONFIG_OPTIONS for word in options):
        options += ["--conf-file", str(HYPERPARAMS)]
    run = getattr(import_module(f"rl_zoo3.{command}"), command)
    before, sys.argv = sys.argv, [f"python -m wolpertinger.zoo {command}", *options]
    try:
        run()
    finally:
        sys.argv = before


if __name__ == "__main__":
    main()
