"""The actions on a plane: their two principal components."""

from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.actions import ActionSet

SAMPLE = 1 << 14  # vectors that the plane is chosen by
AT_ONCE = 1 << 16
MAX_LISTED = 1 << 22  # actions of which all are drawn; of a larger set, a sample
CELLS = 96  # of the density, each way


class ActionMap:
    """Places of actions on the plane that shows most of their differences; of many, how many are where."""

    def __init__(self, actions: ActionSet) -> None:
        self._actions = actions
        vectors = actions.sample_vectors(np.random.default_rng(0), min(SAMPLE, max(256, actions.n))).astype(np.float64)
        self._middle = vectors.mean(axis=0)
        _, components = np.linalg.eigh(np.cov(vectors - self._middle, rowvar=False).reshape(actions.dim, actions.dim))
        axes = components[:, ::-1][:, :2]
        axes = axes * np.where(axes.sum(axis=0) < 0, -1, 1)  # the same way round on every machine
        self._axes = np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))  # one dimension is a line
        self._of_version: tuple[int, npt.NDArray, npt.NDArray] | None = None

    def project(self, vectors: npt.NDArray) -> npt.NDArray[np.float32]:
        """Positions (..., 2) of vectors (..., dim)."""
        return ((vectors - self._middle) @ self._axes).astype(np.float32)

    def draw(self, box: tuple[float, float, float, float] | None, most: int) -> dict[str, Any]:
        """What lies in a box (left, bottom, right, top), by default all: up to `most` points, or of more a density."""
        actions, positions = self._placed()
        if box is None:
            low, high = positions.min(axis=0), positions.max(axis=0)
            margin = np.maximum(0.05 * (high - low), 1e-6)
            box = tuple(float(edge) for edge in (*(low - margin), *(high + margin)))  # type: ignore[assignment]
        assert box is not None
        left, bottom, right, top = box
        inside = (positions >= (left, bottom)).all(axis=1) & (positions <= (right, top)).all(axis=1)
        told: dict[str, Any] = {"box": box, "count": int(inside.sum()), "of": str(self._actions.n)}
        if told["count"] <= most:
            return {**told, "points": positions[inside].tolist(), "actions": actions[inside].tolist()}
        cells = ((positions[inside] - (left, bottom)) / (right - left, top - bottom) * CELLS).astype(np.int64)
        column, row = cells.clip(0, CELLS - 1).T
        return {**told, "cells": CELLS, "density": np.bincount(row * CELLS + column, minlength=CELLS**2).tolist()}

    def _placed(self) -> tuple[npt.NDArray, npt.NDArray]:
        """The actions that are drawn, and where, until some are added or removed."""
        version = self._actions.version
        if self._of_version is None or self._of_version[0] != version:
            if self._actions.is_listable and self._actions.n <= MAX_LISTED:
                blocks = list(self._actions.blocks(AT_ONCE))
            else:
                blocks = [self._actions.sample(np.random.default_rng(0), AT_ONCE)]
            positions = [self.project(self._actions.embed(block)) for block in blocks]
            self._of_version = version, np.concatenate(blocks), np.concatenate(positions)
        return self._of_version[1:]
