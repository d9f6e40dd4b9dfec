"""How far training is, on the terminal or nowhere."""

from typing import Protocol


class Progress(Protocol):
    """A bar that fills up to a total, and lines above it."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def update(self, done: int, text: str) -> None: ...
    def say(self, line: str) -> None: ...


class NoProgress:
    """Shows nothing, and needs nothing that draws."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def update(self, done: int, text: str) -> None: ...
    def say(self, line: str) -> None: ...


class BarProgress:
    """A bar with a text before it, and the time that went by and is left behind it."""

    def __init__(self, total: int) -> None:
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("<"),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),  # standard output is for what came out
        )
        self._total = total

    def start(self) -> None:
        self._id = self._bar.add_task("training", total=self._total)
        self._bar.start()

    def stop(self) -> None:
        self._bar.stop()

    def update(self, done: int, text: str) -> None:
        self._bar.update(self._id, completed=done, description=text)

    def say(self, line: str) -> None:
        self._bar.console.print(line, highlight=False, soft_wrap=True)
