"""The command line: `wolpertinger train recommender`, `wolpertinger evaluate RUN`, ..., one file a command."""

from wolpertinger.cli.main import main

__all__ = ["main"]
