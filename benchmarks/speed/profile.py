"""Part of benchmarks.speed: what a training step still spends its time on, by torch's profiler."""

import time
from collections import defaultdict
from typing import Any

from torch.profiler import ProfilerActivity, profile

from benchmarks.measure import say
from benchmarks.speed.agents import make_agent, make_env, preset, teach
from benchmarks.speed.effort import Effort

CASES = (("cart-pole", 1, "exact"), ("recommender", 656, "exact"), ("recommender", 656, "screened"))
STEPS = {1: 300, 656: 20}
KINDS = {
    "matrix products": ("aten::addmm", "aten::mm", "aten::bmm", "aten::baddbmm", "aten::mv", "aten::addmv"),
    "optimiser": ("aten::_fused_adam_",),
    "targets": ("aten::_foreach_lerp_",),
    "copies and gathering": (
        *("aten::copy_", "aten::index", "aten::gather", "aten::cat", "aten::fill_", "aten::scatter", "aten::scatter_"),
        *("aten::_index_put_impl_", "aten::nonzero", "aten::topk"),
    ),
    "activations and normalisation": (
        *("aten::relu", "aten::relu_", "aten::clamp_min", "aten::clamp_min_", "aten::threshold_backward"),
        *("aten::tanh", "aten::tanh_backward", "aten::native_layer_norm"),
    ),
}


def measure(effort: Effort) -> dict[str, Any]:
    """One row for each case: milliseconds a step by kind of work."""
    cases = CASES if effort.most_seconds == float("inf") else CASES[:1]
    return {"rows": [measure_case(*case, effort) for case in cases]}


def measure_case(task: str, k: int, rerank: str, effort: Effort) -> dict[str, Any]:
    agent = make_agent(make_env(task), k=k, rerank=rerank, **preset(task, "paper"))
    teach(agent, task, effort.trained_steps)
    steps = STEPS[k]
    agent.learn(steps // 4, reset_num_timesteps=False)
    start = time.perf_counter()
    agent.learn(steps, reset_num_timesteps=False)
    plain = (time.perf_counter() - start) / steps
    start = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        agent.learn(steps, reset_num_timesteps=False)
        seconds = (time.perf_counter() - start) / steps
    spent: defaultdict[str, float] = defaultdict(float)
    for event in profiled.key_averages():
        spent[kind_of(event.key)] += event.self_cpu_time_total / 1e6 / steps
    spent["Python, Stable-Baselines3, lookup, environment"] = seconds - sum(spent.values())
    say(f"profile, {task}, k = {k}, {rerank}: {1e3 * plain:.3g} ms a step, {1e3 * seconds:.3g} under the profiler")
    return {"task": task, "k": k, "rerank": rerank, "seconds": plain, "profiled_seconds": seconds, "spent": dict(spent)}


def kind_of(event: str) -> str:
    """The kind of work behind an event's name."""
    return next((kind for kind, names in KINDS.items() if event in names), "other operations of torch")
