"""The values that crafted archives hold in place of the right ones."""

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

GONE = object()
HUGE = 10**9
Values = list[tuple[Any, bool]]


def wrong(*found: Any) -> Values:
    """Values that contradict the rest of the file, or cannot be."""
    return [(value, True) for value in found]


def strange(*found: Any) -> Values:
    """Values of another agent, perhaps: refused, or what is built by them works."""
    return [(value, False) for value in found]


BOX = {"space": "Box", "dtype": "float32", "low": -1.0, "high": 1.0}
LINE = {"schedule": "linear", "start": 1e-3, "end": 1e-4, "end_fraction": 0.5}
TABLED = {"schedule": "table", "values": [0.0, 1e-3]}
COUNTER = wrong("1", None, -1, float("nan"), float("inf"), True, [1], 10**30)
CONFIG: list[tuple[str, Values]] = [
    ("settings/policy_kwargs/net_arch", wrong([HUGE, HUGE], [10**5] * 40, [0], [-1], ["a"], "abc", [1e30], HUGE)),
    ("settings/policy_kwargs/net_arch", wrong([2**40], [[8]], {"pi": [8], "qf": [10**8]}, [20_000] * 3, [], None)),
    ("settings/policy_kwargs/n_critics", wrong(HUGE, 1_000, 0, -1, 2, 60, 1.5, True, "2")),
    ("settings/policy_kwargs/state_arch", wrong([HUGE], [10**6] * 10, "a")),
    ("settings/policy_kwargs/features_extractor_kwargs", wrong({"features_dim": HUGE}, {"evil": 1}, 5)),
    ("settings/policy_kwargs/features_extractor_class", wrong({"class": "stable_baselines3.NatureCNN"}, "os.system")),
    ("settings/policy_kwargs/activation_fn", wrong({"class": "torch.nn.Transformer"}, {"class": "torch.nn.Linear"})),
    ("settings/policy_kwargs/activation_fn", wrong({"class": "os.system"}, {"class": "torch.optim.Adam"}, 5)),
    ("settings/policy_kwargs/optimizer_class", wrong({"class": "torch.optim.LBFGS"}, {"class": "torch.optim.SGD"})),
    ("settings/policy_kwargs/optimizer_kwargs", wrong({"evil": 1}, {"betas": [2, 2]}, {"eps": "x"})),
    ("settings/policy_kwargs/evil", wrong(5)),
    ("settings/critic", wrong({"kind": "two-tower", "width": HUGE}, {"kind": "evil"}, {"kind": "mlp", "evil": 1})),
    ("settings/critic", wrong({"kind": "two-tower", "state_embedding": 2**26}, {"kind": "two-tower", "width": "4"})),
    ("settings/critic", wrong({"kind": "two-tower", "action_embedding": 1e17}, "mlp", 5)),
    ("settings/candidates", wrong({"kind": "both", "sources": [{"kind": "critic"}] * 5_000}, {"kind": "evil"})),
    ("settings/learner", wrong({"kind": "ddpg", "target_samples": -1}, {"kind": "ddpg", "anchor": float("nan")})),
    ("settings/exploration", wrong({"kind": "exploration", "sigma": float("inf")}, {"kind": "evil"}, [])),
    ("settings/k", wrong(HUGE, 0, -1, float("nan"), "8", 1.5, True)),
    ("settings/gamma", wrong(2, "0.9", float("nan"), -1)),
    ("settings/tau", wrong(2, float("inf"))),
    ("settings/batch_size", wrong(0, 10**12, "8")),
    ("settings/n_steps", wrong(0, HUGE, 1.5)),
    ("settings/buffer_size", wrong(0, -1, 1e6, "1", 10**15)),
    ("settings/buffer_size", strange(10**7)),
    ("settings/seed", wrong(-1, 2**40, "a")),
    ("settings/train_freq", wrong(0, [1], [1, "evil"], [0, "step"], "x")),
    ("settings/gradient_steps", wrong(-5, "x")),
    ("settings/learning_starts", wrong(float("nan"), "x", -1)),
    ("settings/learning_rate", wrong(float("nan"), -1, "x", {"schedule": "evil"}, {"class": "torch.optim.Adam"}, [])),
    ("settings/learning_rate", wrong({**LINE, "start": -1}, {**LINE, "end_fraction": 0}, {**LINE, "evil": 1})),
    ("settings/learning_rate", wrong({**TABLED, "values": []}, {**TABLED, "values": [1.0] * 200_000})),
    ("settings/learning_rate", wrong({**TABLED, "values": [1.0, float("nan")]}, {**TABLED, "values": ["x", "y"]})),
    ("settings/learning_rate", strange(LINE, TABLED)),
    ("settings/stats_window_size", wrong(0, 10**12, "x")),
    ("settings/replay_buffer_class", wrong({"class": "torch.nn.Linear"}, {"class": "os.system"}, 5)),
    ("settings/replay_buffer_kwargs", wrong({"evil": 1}, {"n_steps": HUGE}, 5)),
    ("settings/optimize_memory_usage", wrong(5, "x")),
    ("settings/verbose", wrong("x")),
    ("settings/preset", wrong("evil")),
    ("settings/rerank", wrong("evil", 5)),
    ("settings/on_bad_transition", wrong("evil")),
    ("settings/allowed", wrong("os.system")),
    ("settings/evil", wrong(5)),
    ("settings/gamma", wrong(GONE)),
    ("settings/tensorboard_log", strange("../outside", "/tmp/outside", 5)),
    ("unsaved_settings", wrong(["evil"], 5, ["gamma"], [[]])),
    ("policy", wrong("EvilPolicy", 5, "CnnPolicy")),
    ("n_envs", wrong(HUGE, 0, -1, "1", True, 1.5)),
    ("restricted_by_env", wrong(5)),
    ("evil", wrong(5)),
    ("optimizers/actor", wrong([], 5, [{}], [{"params": [0]}])),
    ("optimizers/critic/0/betas", wrong([2, 2], [1.0, 1.0], [0.9], "x", [float("nan"), 0.9])),
    ("optimizers/critic/0/lr", wrong(float("nan"), -1, "x", None)),
    ("optimizers/critic/0/params", wrong([0], [0] * 14, list(range(HUGE // 10**6)))),
    ("optimizers/critic/0/evil", wrong(1)),
    ("optimizers/critic/0/capturable", strange(True)),
    ("observation_space", wrong({**BOX, "shape": [HUGE]}, {**BOX, "shape": [10**6, 10**6]}, {**BOX, "shape": [-3]})),
    ("observation_space", wrong({**BOX, "shape": [3], "dtype": "O"}, {**BOX, "shape": [3], "dtype": "U999999999"})),
    ("observation_space", wrong({**BOX, "shape": [3], "dtype": "V1000000000"}, {**BOX, "shape": [3.0]}, {**BOX})),
    ("observation_space", wrong({**BOX, "shape": [3], "low": float("nan")}, {**BOX, "shape": [1_000_000]}, "Box")),
    ("observation_space", wrong({"space": "Discrete", "n": 10**12, "start": 0, "dtype": "int64"}, {"space": "Evil"})),
    ("observation_space", wrong({"space": "MultiBinary", "n": 10**10}, {"space": "MultiBinary", "n": [10**5] * 3})),
    ("observation_space", wrong({"space": "Dict", "spaces": {str(i): {**BOX, "shape": [10**5]} for i in range(500)}})),
    ("observation_space", wrong({"space": "MultiDiscrete", "nvec": [10**9] * 5, "start": [0] * 5, "dtype": "int64"})),
    ("action_space/n", wrong(10**18, 59, 0, -1, "x", 1.5)),
    ("action_space/start", wrong(5, "x")),
    ("action_space", wrong({**BOX, "shape": [3]}, {"space": "MultiBinary", "n": 6})),
    ("actions/sha256", wrong("0" * 64, 5)),
    ("actions/kind", wrong("evil", "product", 5)),
    ("actions/from_env", wrong(5)),
]
OF_POLICY: list[tuple[str, Values]] = [
    ("settings/net_arch", wrong([HUGE, HUGE], [10**5] * 40, [0], "abc", [1e30], [20_000] * 3)),
    ("settings/activation_fn", wrong({"class": "os.system"}, {"class": "torch.nn.Transformer"})),
    ("settings/critic", wrong({"kind": "two-tower", "width": HUGE}, {"kind": "evil"}, 5)),
    ("settings/candidates", wrong({"kind": "evil"}, "os.system", 5)),
    ("settings/k", wrong(HUGE, -1, float("nan"), "8")),
    ("settings/evil", wrong(5)),
    ("settings/lr_schedule", wrong(5)),
    ("action_space/n", wrong(10**18, 59, "x")),
    ("actions/sha256", wrong("0" * 64, 5)),
    ("observation_space", wrong({**BOX, "shape": [HUGE]}, "Box")),
    ("evil", wrong(5)),
]
TABLE: list[tuple[str, Values]] = [
    ("sha256", wrong("0" * 64, None)),
    ("size", wrong(HUGE, 1_199, "x", -1)),
    ("dim", wrong(5, 4.5)),
    ("recall", wrong(2, "evil", float("nan"), None)),
    ("build_seconds", wrong(float("nan"), float("inf"), -1, "x")),
    ("index", wrong("evil", None, 5, "LSQ8x8")),
    ("indexes", wrong(["LSQ8x8"], 5, ["Flat"] * 5)),
    ("tuned/8/rows", wrong(0, "x", 1.5)),
    ("tuned/8/every", wrong(0, float("inf"), "x")),
    ("tuned/8/effort", wrong({"nprobe": 1e300}, {"nprobe": 0}, {"overfetch": float("nan")}, {"evil": 1}, 5)),
    ("tuned/8/recipe", wrong("LSQ8x8", 5)),
    ("tuned/8/live", wrong("x")),
    ("tuned/100000000", wrong({"recipe": "exact"})),
]
RANDOM = "dict/random/dict"
TRAINING: list[tuple[str, Values]] = [
    (f"{RANDOM}/numpy/2", wrong(10**9, -1, 625, "x", 2**70)),
    (f"{RANDOM}/numpy/0", wrong("PCG64", 5)),
    (f"{RANDOM}/python/0", wrong(9, "x")),
    (f"{RANDOM}/python/1", wrong([1], 5)),
    (f"{RANDOM}/torch", wrong({"array": "state.random.numpy.1"}, 5, None)),
    ("dict/seconds", wrong({"scalar": "V8", "value": 10**11}, {"scalar": "U9", "value": 1}, {"dict": {"a": "b"}})),
    ("dict/last_obs", wrong({"array": "state.random.torch"}, "x", 5)),
    ("dict/episodes", wrong(["x"], 5, [{"dict": {"r": "x", "l": 1}}])),
    ("dict/successes", wrong(["x"])),
    ("dict/log", wrong({"dict": {"a": [[], 0, []]}}, {"dict": {"a": 5}}, 5)),
    ("dict/faults/dict/bad_transitions", wrong("x", -1, 1.5)),
    ("dict/faults/dict/unknown", wrong({"array": "state.random.torch"}, 5)),
    ("dict/diagnostics/dict/counts", wrong({"dict": {"a": 1}}, 5)),
    ("dict/explorer/dict/random/dict/bit_generator", wrong("MT19937", 5)),
    ("dict/explorer/dict/drift", wrong({"array": "state.random.torch"}, 5)),
    ("dict/learner", strange({"dict": {}}, 5)),
    ("dict/predictor", strange({"dict": {}}, 5)),
    ("dict/env/dict/wrappers", wrong([{"dict": {"kind": "VecNormalize", "values": {"dict": {}}}}], 5)),
    ("dict/env/dict/inner", wrong([5], {"dict": {}}, [])),
    ("dict/env/dict/inner/0/dict/env/dict/target", wrong("x", {"array": "state.random.torch"})),
    ("dict/env/dict/inner/0/dict/wrappers/0/dict/values/dict/total_steps", wrong("x", [])),
    ("dict/env/dict/inner/0/dict/wrappers/0/dict/values/dict/needs_reset", wrong("x")),
    ("dict/evil", wrong(5)),
]
JSON: list[tuple[str, str, str, Values]] = [
    *(("table", "config.json", place, found) for place, found in CONFIG),
    *(("table", "config.json", f"counters/{name}", COUNTER) for name in ("num_timesteps", "_n_updates")),
    ("table", "config.json", "counters/predict", wrong("mine")),
    ("table", "config.json", "counters/_current_progress_remaining", wrong("x", float("nan"), 5)),
    *(("tuned", "table.json", place, found) for place, found in TABLE),
    *(("table", "training.json", place, found) for place, found in TRAINING),
    ("buffer", "replay_buffer.json", "pos", wrong(-1, HUGE, "1", 1.5, 39)),
    ("buffer", "replay_buffer.json", "full", wrong(1, "x", True)),
    ("buffer", "replay_buffer.json", "buffer_size", wrong("x", 39, 10**30, -1)),
    ("buffer", "replay_buffer.json", "buffer_size", strange(HUGE, 100)),  # of which it takes what is there
    ("goals", "replay_buffer.json", "episode_start", wrong([-1], [HUGE], [0, 0], 5, "x", [1.5], [])),
    ("goals", "replay_buffer.json", "buffer_size", wrong(100, HUGE)),
    ("goals", "config.json", "settings/replay_buffer_kwargs", wrong({"goal_selection_strategy": "evil"}, {"evil": 1})),
    *(("policy", "config.json", place, found) for place, found in OF_POLICY),
    ("product", "actions/product.json", "factors", wrong(HUGE, -1, 1, "x", 10**30)),
    ("product", "actions/product.json", "space", wrong("evil", 5)),
    ("product", "actions/product.json", "space", strange("discrete")),  # the environment says which
    ("ids", "actions/ids.json", "n", wrong(HUGE, -1, 1.5, "5", True, 2**20, 31)),
    ("slate", "actions/slate.json", "size", wrong(HUGE, 0, 4_096, 2, "x", 1.5)),
    ("slate", "actions/slate.json", "repeats", wrong("x", 5, True)),
    ("slate", "actions/items/table.json", "sha256", wrong("0" * 64)),
    ("run", "segments.json", "stored", wrong(HUGE, -1, "x", 10**30, 39)),
    ("run", "segments.json", "segments", wrong([], 5, [5], [{}])),
    ("run", "segments.json", "segments/0/name", wrong("../evil", "/etc/passwd", "rows-0-0000000000000000.safetensors")),
    ("run", "segments.json", "segments/0/start", wrong(5, -1, 10**30, "x")),
    ("run", "segments.json", "segments/0/stop", wrong(HUGE, 10**30, 1)),
    ("run", "segments.json", "segments/0/bytes", wrong(HUGE, 10**18, 1)),
    ("run", "segments.json", "segments/0/sha256", wrong("0" * 64, 5)),
]

CHANGES: dict[str, Callable[[np.ndarray], np.ndarray | None]] = {
    "left out": lambda array: None,
    "renamed": lambda array: array,
    "NaN": lambda array: np.full_like(array, np.nan),
    "one infinite": lambda array: np.where(np.arange(array.size).reshape(array.shape) == 0, np.inf, array).astype(
        array.dtype
    ),
    "smaller": lambda array: array.ravel()[:1],
    "of no size": lambda array: array.ravel()[:0],
    "larger": lambda array: np.concatenate([array.ravel()] * 3),
    "flat": lambda array: array.reshape(1, *array.shape),
    "float64": lambda array: array.astype(np.float64) * 1e300,
    "negative": lambda array: -1 - np.abs(array),
    "int8": lambda array: array.astype(np.int8),
    "far": lambda array: np.full_like(array, 2**30),
    "seven": lambda array: np.full_like(array, 7),
    "others": lambda array: array[::-1].copy() + array.dtype.type(1),
}
SHAPES = ["left out", "renamed", "smaller", "of no size", "larger", "flat", "float64", "int8"]
TENSORS: list[tuple[str, str, str, list[str]]] = [
    ("table", "optimizers.safetensors", ".0.exp_avg", [*SHAPES, "NaN", "one infinite"]),
    ("table", "optimizers.safetensors", ".2.exp_avg_sq", [*SHAPES, "NaN", "one infinite", "negative"]),
    (
        "table",
        "optimizers.safetensors",
        ".1.step",
        ["left out", "renamed", "of no size", "flat", "float64", "NaN", "negative"],
    ),
    ("table", "networks.safetensors", "weight", [*SHAPES, "NaN", "one infinite"]),
    ("table", "networks.safetensors", "actor.scale.middle", [*SHAPES, "NaN"]),
    (
        "table",
        "candidates.safetensors",
        "staleness",
        ["left out", "renamed", "of no size", "flat", "float64", "negative"],
    ),
    ("table", "candidates.safetensors", "weight", [*SHAPES, "NaN"]),
    ("ids", "networks.safetensors", "places", ["left out", "far", "smaller", "others", "negative"]),
    ("table", "actions/vectors.safetensors", "vectors", [*SHAPES, "NaN", "others", "seven"]),
    ("tuned", "vectors.safetensors", "vectors", [*SHAPES, "NaN", "others"]),
    ("product", "actions/levels.safetensors", "levels.0", [*SHAPES[:-1], "NaN", "others"]),
    ("table", "replay_buffer.safetensors", "observations", [*SHAPES, "NaN", "one infinite"]),
    ("table", "replay_buffer.safetensors", "actions", [*SHAPES, "far", "negative"]),
    ("buffer", "replay_buffer.safetensors", "dones", ["seven", "NaN", "smaller"]),
    ("goals", "replay_buffer.safetensors", "ep_start", [*SHAPES, "negative", "far", "seven"]),
    ("goals", "replay_buffer.safetensors", "ep_length", [*SHAPES, "negative", "far"]),
    ("policy", "networks.safetensors", "weight", [*SHAPES, "NaN", "one infinite"]),
    ("allowed", "replay_buffer_allowed.safetensors", "length", ["left out", "negative", "seven", "smaller", "float64"]),
    ("allowed", "replay_buffer_allowed.safetensors", "numbers", ["left out", "negative", "far", "smaller", "float64"]),
    ("table", "training.safetensors", "random.numpy.1", ["left out", "smaller", "float64", "flat"]),
    ("table", "training.safetensors", "random.torch", ["left out", "smaller", "larger", "seven"]),
    ("table", "training.safetensors", "last_obs", ["left out", "smaller", "NaN", "larger"]),
    ("table", "training.safetensors", "env.target", ["left out", "smaller", "float64"]),
]

RECIPES = [
    *("LSQ8x8", "HNSW0", "HNSW1", "HNSW999999", "IVF4_HNSW1,Flat", "IVF1000000000,Flat", "IVF0,Flat", "PQ4x24"),
    *("IVF8,PQ4", "HNSW8", "OPQ4,IVF8,Flat", "IVF8,Flat,RFlat", "Flat", "IVF16,Flat", "PQ1000000000x4fs", "NSG32"),
]
"""Of which none is what the file holds."""


def _many_tensors(count: int) -> bytes:
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps({f"{number}": entry for number in range(count)}).encode()
    return struct.pack("<Q", len(header)) + header


def _tensor(shape: list[int], offsets: list[int], data: int) -> bytes:
    header = json.dumps({"vectors": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(data)


BAD_JSON: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "a list": lambda: b"[]",
    "deep": lambda: b"[" * 10**6,
    "many lists": lambda: b"[" + b"[]," * (4 * 10**6) + b"[]]",
    "a long text": lambda: b'"' + b"x" * (40 << 20) + b'"',
    "a long number": lambda: b"1" * 10**6,
    "no text": lambda: b"\xff\xfe\xfd" * 100,
}
BAD_TENSORS: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "a long header": lambda: struct.pack("<Q", 2**63) + b"{}",
    "many tensors": lambda: _many_tensors(60_000),
    "too many tensors": lambda: _many_tensors(500_000),
    "a shape that lies": lambda: _tensor([2**40, 2**20], [0, 16], 16),
    "a shape that overflows": lambda: _tensor([2**62, 4], [0, 0], 0),
    "offsets that lie": lambda: _tensor([4], [0, 2**40], 16),
    "offsets that turn round": lambda: _tensor([4], [16, 0], 16),
    "a size of none": lambda: _tensor([0, 2**60], [0, 0], 0),
}
