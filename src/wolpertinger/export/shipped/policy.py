"""An exported policy by onnxruntime, faiss and numpy alone: `Policy().pick(observations)`."""

import json
from pathlib import Path

import faiss
import numpy as np
import onnxruntime

AT_ONCE = 2**16  # candidates that are scored together
faiss.cvar.distance_compute_blas_threshold = 2**30  # distances by differences, which lose no digits


class Policy:
    """What `wolpertinger export` wrote into a folder, by default the one that this file is in."""

    def __init__(self, folder=Path(__file__).parent):
        self.about = json.loads(Path(folder, "policy.json").read_text())
        self.actions, self.vectors = (np.load(Path(folder, f"{name}.npy")) for name in ("actions", "vectors"))
        paths = {name: Path(folder, f"{name}.onnx") for name in self.about["networks"]}
        self.sessions = {name: onnxruntime.InferenceSession(path) for name, path in paths.items()}
        self.indexes = {"nearest": faiss.IndexFlatL2(self.about["dim"])}
        self.indexes["nearest"].add(self.vectors)
        if "action_tower" in self.sessions:  # keys do not depend on the state
            parts = np.array_split(self.vectors, 1 + len(self.vectors) // AT_ONCE)
            self.keys = np.concatenate([self.run("action_tower", {"vectors": part})[0] for part in parts])
            self.indexes["critic"] = faiss.IndexFlatIP(self.keys[0].size)
            self.indexes["critic"].add(self.keys.reshape(len(self.keys), -1))

    def run(self, network, given):
        return self.sessions[network].run(None, given)

    def pick(self, observations):
        """The best action in each state of a batch: an array (batch, ...), or those of a Dict by name."""
        states = observations if isinstance(observations, dict) else {"observation": np.asarray(observations)}
        batch, step = len(next(iter(states.values()))), max(1, AT_ONCE // self.about["candidates"])
        parts = ({name: part[start : start + step] for name, part in states.items()} for start in range(0, batch, step))
        return np.concatenate([self._pick(part, len(next(iter(part.values())))) for part in parts])

    def _pick(self, states, batch):
        query, offset = self.run("state_tower", states) if "state_tower" in self.sessions else (None, None)
        found, k = [], self.about["k"]
        for source in self.about["sources"]:
            if source == "all":
                found.append(np.tile(np.arange(len(self.actions)), (batch, 1)))
            else:
                points = self.run("actor", states)[0] if source == "nearest" else query.reshape(batch, -1)
                found.append(self.indexes[source].search(points, k)[1])
        places = np.concatenate(found, axis=1)
        if query is None:
            values = self.run("critic", {**states, "vectors": self.vectors[places]})[0]
        else:
            values = (np.einsum("bcw,bkcw->bkc", query, self.keys[places]) + offset[:, None]).min(axis=2)
        return self.actions[places[np.arange(batch), values.argmax(axis=1)]]
