import numpy as np

from wolpertinger.envs.rendering.canvas import BAD, GOOD, PAPER, TITLE, WHITE, Canvas, blend


def test_a_canvas_becomes_an_array_of_its_size():
    frame = Canvas(100, 60).frame()
    assert frame.shape == (60, 100, 3)
    assert frame.dtype == np.uint8
    assert (frame == PAPER).all()


def test_shapes_are_where_they_are_put_and_their_edges_are_smooth():
    canvas = Canvas(100, 60)
    canvas.dot((20, 30), 6, GOOD)
    canvas.box((60, 20), (70, 40), BAD)
    frame = canvas.frame()
    assert tuple(frame[30, 20]) == GOOD
    assert tuple(frame[30, 65]) == BAD
    assert tuple(frame[5, 5]) == PAPER
    assert len(np.unique(frame[20:40, 10:30].reshape(-1, 3), axis=0)) > 2  # more than the two colours


def test_an_arrow_points_to_its_end_and_needs_a_length():
    canvas = Canvas(100, 60)
    canvas.arrow((10, 30), (90, 30), GOOD, 3)
    frame = canvas.frame()
    painted = (frame != PAPER).any(axis=2).sum(axis=0)
    assert painted[80] > painted[40] > 0
    empty = Canvas(100, 60)
    empty.arrow((10, 30), (10, 30), GOOD, 3)
    assert (empty.frame() == PAPER).all()


def test_a_copy_leaves_its_original_as_it_is():
    canvas = Canvas(50, 50)
    copy = canvas.copy()
    copy.dashes((0, 25), (50, 25), BAD, 2)
    assert (canvas.frame() == PAPER).all()
    assert (copy.frame() != PAPER).any()


def test_long_texts_are_cut_to_the_room_there_is():
    canvas = Canvas()
    short = canvas.shorten("a very long name of an item " * 5, 12, 100)
    assert short.startswith("a very")
    assert short.endswith("...")
    assert canvas.text_width(short, 12) <= 100
    assert canvas.shorten("milk", 12, 100) == "milk"


def test_the_title_strip_holds_note_and_outcome_apart():
    canvas = Canvas()
    canvas.title("Task", "step 3", "note " * 100, "accepted", GOOD)
    strip = canvas.frame()[:TITLE]
    gap = canvas.width - 12 - round(canvas.text_width("accepted", 13))
    assert (strip[26:44, gap - 10 : gap - 4] == strip[0, 0]).all()


def test_blending_goes_from_one_colour_to_the_other():
    assert blend(GOOD, WHITE, 0) == GOOD
    assert blend(GOOD, WHITE, 1) == WHITE
    assert blend((0, 0, 0), (10, 20, 30), 0.5) == (5, 10, 15)
