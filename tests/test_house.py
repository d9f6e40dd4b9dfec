"""The house rules that a script can check: sizes, and who may look behind an action set."""

import ast
from pathlib import Path

import pytest

import wolpertinger

SOURCE = Path(wolpertinger.__file__).parent
FILES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
MAX_FILE, MAX_FUNCTION = 300, 40  # lines
# Lines that are not blank: those of the house as it was rebuilt, and what each feature since may take.
MAX_PACKAGE = 10_000 + sum(
    {
        "standard units": 120,
        "actions without vectors": 200,
        "the newcomer's warnings and threads": 200,
        "a run that is never lost": 1_500,
        "valid actions, ranked lists, slates": 2_000,
        "files from strangers": 700,
        "new states and new items, a young critic's keys": 120,
        "arguments in our own words": 50,
        "learning from logs": 2_000,
