"""The tasks by name; a task's file is imported when it is asked for, as it may need a package of its own."""

from importlib import import_module

from benchmarks.suite.task import Task

TASKS = {
    "sardine-bored": "sardine_tasks:BORED",
    "sardine-static": "sardine_tasks:STATIC",
    "sardine-slates": "sardine_tasks:SLATES",
    "shop": "shop:SHOP",
    "shop-ends": "shop:ENDS",
    "shop-units": "shop:UNITS",
    "shop-large": "shop:LARGE",
    "pendulum-table": "tables:PENDULUM_TABLE",
    "plane": "tables:PLANE",
    "inventory": "inventory:INVENTORY",
    "orders": "orders:ORDERS",
    "reacher": "control:REACHER",
    "hopper": "control:HOPPER",
    "half-cheetah": "control:HALF_CHEETAH",
    "pendulum": "control:PENDULUM",
    "generated": "own:GENERATED",
    "cart-pole": "own:CART_POLE",
    "puddle-world": "own:PUDDLE_WORLD",
    "puddle-world-1": "own:PUDDLE_WORLD_1",
    "doudizhu": "doudizhu:DOUDIZHU",
    "stock": "restricted:STOCK",
    "walls": "restricted:WALLS",
    "identity": "small:IDENTITY",
    "bit-flipping": "small:BIT_FLIPPING",
}


def find_task(name: str) -> Task:
    if name not in TASKS:
        raise ValueError(f"task={name!r}: give one of {', '.join(TASKS)}")
    module, variable = TASKS[name].split(":")
    return getattr(import_module(f"{__name__}.{module}"), variable)
