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
        "valid actions, ranked lists, slates": 2_050,
        "files from strangers": 700,
        "new states and new items, a young critic's keys": 120,
        "arguments in our own words": 50,
        "lookups while another thread writes": 290,
        "features of length 1": 20,
        "learning from logs": 2_000,
        "the policy as a service": 1_600,
        "factored critics": 260,
        "the policy as ONNX": 460,
        "workers, shards and databases": 1_400,
        "the tools people use, files as they know them": 600,
        "an environment of one's own, new projects, completion": 350,
    }.values()
)
SETS = {"ActionTable", "ActionProduct", "ActionIds"}
every_file = pytest.mark.parametrize("path", FILES, ids=str)


def lines_of(path):
    return len((SOURCE / path).read_text().splitlines())


def tree_of(path):
    return ast.parse((SOURCE / path).read_text())


def long_functions(tree):
    """Functions above the limit, signature and docstring counted."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    lengths = [(node.name, node.end_lineno - node.lineno + 1) for node in functions]
    return [(name, length) for name, length in lengths if length > MAX_FUNCTION]


def names_in(node):
    """The names and attributes that an expression speaks of."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


def asks_which_set(tree):
    """Lines with isinstance(..., ActionTable | ActionProduct), issubclass, or a `match` of either."""
    for node in ast.walk(tree):
        is_check = isinstance(node, ast.Call) and {"isinstance", "issubclass"} & set(names_in(node.func))
        asked = node.args[1] if is_check else node.cls if isinstance(node, ast.MatchClass) else None
        if asked is not None and SETS & set(names_in(asked)):
            yield node.lineno


def test_there_is_a_house():
    assert Path("agent/algorithm.py") in FILES
    assert len(FILES) > 50


@every_file
def test_a_file_fits_on_a_few_screens(path):
    assert lines_of(path) <= MAX_FILE


@every_file
def test_a_function_fits_on_a_screen(path):
    assert not long_functions(tree_of(path))


@every_file
def test_nobody_asks_which_action_set_it_is(path):
    if path.parts[0] != "actions":
        assert not list(asks_which_set(tree_of(path)))


def test_the_package_is_small():
    lines = (line for path in FILES for line in (SOURCE / path).read_text().splitlines())
    assert sum(bool(line.strip()) for line in lines) < MAX_PACKAGE


def test_the_rules_are_noticed():
    long = "def f(\n    x,\n):\n" + "    x += 1\n" * (MAX_FUNCTION - 3)
    assert not long_functions(ast.parse(long))
    assert long_functions(ast.parse(long + "    x += 1\n")) == [("f", MAX_FUNCTION + 1)]
    for asking in (
        "isinstance(x, ActionTable)",
        "isinstance(x, actions.ActionProduct)",
        "isinstance(x, (int, ActionTable))",
        "isinstance(x, ActionTable | ActionProduct)",
        "issubclass(x, ActionTable)",
        "match x:\n    case ActionTable():\n        pass",
    ):
        assert list(asks_which_set(ast.parse(asking)))
    assert not list(asks_which_set(ast.parse("isinstance(x, ActionSet) and ActionTable(x)")))
