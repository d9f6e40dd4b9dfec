"""The committed report is what the committed results make."""

import re
from pathlib import Path

import numpy as np
import pytest

from reproduction.figures import COLOURS
from reproduction.plan import variants
from reproduction.report import write_report
from reproduction.reproduce import settle_scale
from reproduction.results import Results

COMMITTED = Path(__file__).parents[2] / "results"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    """A folder with the report of the committed results, made now."""
    folder = tmp_path_factory.mktemp("again")
    (folder / "runs").symlink_to(COMMITTED / "runs")
    write_report(Results(folder), variants(settle_scale(COMMITTED, None)))
    return folder


def without_drawings(page):
    """The page's text: drawings differ by matplotlib's version, and are compared by what they show."""
    return re.sub(r"<svg.*?</svg>", "<svg>", page, flags=re.DOTALL)


def drawn(svg):
    """Every coloured line and band as points within its panel, from 0 to 1 in both directions."""
    found = []
    for panel in re.split(r'<g id="axes_\d+">', svg)[1:]:
        paths = [(path, style, 0.0) for path, style in re.findall(r'<path d="([^"]+)"[^>]*?style="([^"]*)"', panel)]
        left, bottom, right, _, _, top = [float(each) for each in NUMBER.findall(paths[0][0])][:6]  # the background
        shapes = dict(re.findall(r'<path id="(\w+)" d="([^"]+)"', panel))
        bands = re.findall(r'<use xlink:href="#(\w+)" x="0" y="([\d.]+)" style="([^"]*)"', panel)
        paths += [(shapes[name], style, float(below)) for name, below, style in bands]
        for path, style, below in paths:
            if colour := next((colour for colour in COLOURS if colour in style), None):
                points = np.array([float(each) for each in NUMBER.findall(path)]).reshape(-1, 2)
                found.append((colour, np.subtract(points, [left, bottom - below]) / [right - left, top - bottom]))
    return found


@pytest.mark.parametrize("name", ["report.md", "report.html"])
def test_the_text_is_that_of_the_results(name, again):
    expected, found = ((folder / name).read_text() for folder in (COMMITTED, again))
    assert without_drawings(found) == without_drawings(expected)


@pytest.mark.parametrize("path", sorted((COMMITTED / "figures").iterdir()), ids=lambda path: path.stem)
def test_a_figure_shows_the_data_of_the_results(path, again):
    expected, found = drawn(path.read_text()), drawn((again / "figures" / path.name).read_text())
    assert [(colour, len(points)) for colour, points in found] == [(colour, len(points)) for colour, points in expected]
    for (_, ours), (_, theirs) in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.004)
    assert max(len(points) for _, points in found) > 8


def test_the_figures_are_those_of_the_report(again):
    assert {path.name for path in (COMMITTED / "figures").iterdir()} == {
        path.name for path in (again / "figures").iterdir()
    }


def test_a_point_that_is_moved_is_seen():
    svg = (COMMITTED / "figures" / "figure-6.svg").read_text()
    line = max(re.findall(r'<path d="([^"]+)" [^>]*style="fill: none; stroke: #0072b2', svg), key=len)
    first = NUMBER.findall(line)[1]
    moved = svg.replace(line, line.replace(first, str(float(first) - 5), 1))
    pairs = zip(drawn(svg), drawn(moved), strict=True)
    assert sum(not np.allclose(ours, theirs, atol=0.004) for (_, ours), (_, theirs) in pairs) == 1
