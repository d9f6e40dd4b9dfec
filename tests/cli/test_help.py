"""Every help page: one screen of 80 columns, with an example."""

import argparse

import pytest

from wolpertinger.cli import make_parser

LINES, COLUMNS = 50, 80


def walk(parser):
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for part in action.choices.values():
                yield from walk(part)


NAMES = [parser.prog for parser in walk(make_parser())]


@pytest.mark.parametrize("name", NAMES)
def test_a_help_page_fits_on_a_screen_and_ends_with_an_example(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    parser = next(parser for parser in walk(make_parser()) if parser.prog == name)
    lines = parser.format_help().splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    assert "example:" in lines
    assert lines[-1].startswith(("  wolpertinger", '  eval "$(wolpertinger', "  python -c"))


def test_all_commands_have_a_page():
    assert {"wolpertinger train recommender", "wolpertinger new", "wolpertinger log describe"} <= set(NAMES)
    assert len(NAMES) == len(set(NAMES)) > 15
