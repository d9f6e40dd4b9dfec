"""MLflow's flavour `python_function`: a file `MLmodel` that makes the folder a model of MLflow's."""

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from platform import python_version
from typing import Any

from wolpertinger.export.write import ship
from wolpertinger.serve.observations import ONLY

LOADER = "mlflow_policy"


def write_flavour(folder: Path, told: Mapping[str, Any]) -> None:
    """Write `MLmodel`, which is YAML, of which JSON is a part."""
    inputs = [
        {"type": "tensor", "name": name, "tensor-spec": {"dtype": kind, "shape": [-1, *shape]}}
        for name, (kind, *shape) in told["inputs"].items()
    ]
    if list(told["inputs"]) == [ONLY]:  # then MLflow takes an array as well
        del inputs[0]["name"]
    outputs = [{"type": "tensor", "tensor-spec": {"dtype": "int64", "shape": [-1, *told["action"]]}}]
    flavour = {"loader_module": LOADER, "code": ".", "data": ".", "env": {}, "python_version": python_version()}
    described = {
        "flavors": {"python_function": flavour},
        "model_uuid": uuid.uuid4().hex,
        "utc_time_created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f"),
        "signature": {"inputs": json.dumps(inputs), "outputs": json.dumps(outputs), "params": None},
    }
    (folder / "MLmodel").write_text(json.dumps(described, indent=1) + "\n")
    ship(f"{LOADER}.py", folder)
