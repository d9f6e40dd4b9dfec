"""An export from the agent's file to a folder that is whole or not there."""

import shutil
from pathlib import Path

from wolpertinger.export.card import write_card
from wolpertinger.export.mlflow import write_flavour
from wolpertinger.export.write import KIND, count_equal, write_policy
from wolpertinger.serve.observations import ObservationReader
from wolpertinger.serve.source import Source


def export(
    source: Source, folder: Path, *, card: bool = False, mlflow: bool = False, overwrite: bool = False
) -> tuple[int, int]:
    """Write a policy into a folder; in how many of so many example states it picks what `predict` does."""
    _check_folder(folder, overwrite)
    agent = source.load()
    examples = source.examples(ObservationReader(agent.observation_space))
    partial = folder.resolve().with_name(f".{folder.resolve().name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        told = write_policy(agent, examples, partial)
        if mlflow:
            write_flavour(partial, told)
        if card:
            write_card(partial, source.name, told, source.path if source.path.is_dir() else None)
        found = count_equal(agent, examples, partial)
        shutil.rmtree(partial / "__pycache__", ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return found


def _check_folder(folder: Path, overwrite: bool) -> None:
    """Never remove what is no export."""
    if not folder.exists():
        return
    told = folder / "policy.json"
    is_ours = told.exists() and f'"{KIND}"' in told.read_text()
    if not folder.is_dir() or (any(folder.iterdir()) and not is_ours):
        raise FileExistsError(f"{folder} holds what is no exported policy: give another folder")
    if is_ours and not overwrite:
        raise FileExistsError(f"{folder} holds an exported policy already: give another folder, or --overwrite")
