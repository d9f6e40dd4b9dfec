"""`wolpertinger export`: a policy for programs without torch."""

import argparse
from pathlib import Path
from typing import Any

from wolpertinger.cli.options import with_example
from wolpertinger.imports import needs_extra

EXAMPLE = """example:
  wolpertinger export runs/first --onnx exported --card
  python -c "from exported.policy import Policy; print(Policy().about)\""""


def add_export(commands: Any) -> None:
    """Add `export`."""
    parser = commands.add_parser(
        "export", help="write a policy as ONNX, with a program that picks by it", **with_example(EXAMPLE)
    )
    parser.add_argument("path", metavar="PATH", type=Path, help="a run folder, or a file of agent.save")
    parser.add_argument("--checkpoint", default="best", choices=("best", "last"), help="of a run (default: best)")
    parser.add_argument("--onnx", type=Path, metavar="DIR", required=True, help="a new folder for all of it")
    parser.add_argument("--card", action="store_true", help="with a model card for Hugging Face, README.md")
    parser.add_argument("--mlflow", action="store_true", help="with MLmodel, so that mlflow.pyfunc loads the folder")
    parser.add_argument("--overwrite", action="store_true", help="replace an export that is there")
    parser.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> None:
    with needs_extra("onnx", "wolpertinger export"):
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    from wolpertinger.export.folder import export
    from wolpertinger.serve.source import Source

    source = Source(options.path, options.checkpoint)
    choice = {name: getattr(options, name) for name in ("card", "mlflow", "overwrite")}
    equal, of = export(source, options.onnx, **choice)
    print(f"exported: {options.onnx}")
    print(f"picks as predict: {equal} of {of} example states")
