"""Every run of the plan at a size that takes a moment."""

from dataclasses import replace

from reproduction.plan import Scale, Variant, variants

LEARNING_STARTS = 16
SMALL_ENV = {
    "recommender": {"items": 20, "dim": 4, "data": "generated"},
    "cart-pole": {"levels": 50},
    "puddle-world": {"size": 6, "window": 3},
}
SMALL_AGENT = {"learning_starts": LEARNING_STARTS, "batch_size": 8, "policy_kwargs": {"net_arch": [8, 8]}}


def shrink(variant: Variant) -> Variant:
    """The same variant with few actions, small networks and a fraction of a second."""
    if variant.kind == "lemma":
        return variant
    arguments = dict(variant.arguments)
    task = arguments["task"]
    env = {**SMALL_ENV[task], **({"plan": min(arguments["env"]["plan"], 4)} if task == "puddle-world" else {})}
    k = arguments["k"]
    arguments |= {"env": env, "k": min(k, 10) if isinstance(k, int) else k, "n_envs": 2, "steps": 10**6}
    arguments["changes"] = {**arguments.get("changes", {}), **SMALL_AGENT}
    return replace(variant, arguments=arguments, seeds=1, seconds=0.05)


def tiny_variants() -> dict[str, Variant]:
    return {key: shrink(variant) for key, variant in variants(Scale("tiny")).items()}
