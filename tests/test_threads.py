"""Work is divided among threads once, in order, and nobody else's settings change."""

import subprocess
import sys
import threading

import faiss
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wolpertinger import threads
from wolpertinger.index import ExactIndex, FaissIndex
from wolpertinger.threads import count_threads, divide, set_threads, share


@pytest.fixture(autouse=True)
def restore_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def of_our_own(monkeypatch):
    """Threads as they are where torch's own cannot be had."""
    monkeypatch.setattr(threads, "_torchs_threads", lambda: None)


@pytest.fixture(params=["torch's", "of our own"])
def both_kinds(request):
    if request.param == "of our own":
        request.getfixturevalue("of_our_own")


@given(n=st.integers(0, 60), least=st.integers(0, 20), count=st.integers(1, 5))
def test_slices_cover_every_row_once_in_order(n, least, count):
    set_threads(count)
    slices = divide(lambda rows: rows, n, least=least)
    assert [row for rows in slices for row in range(n)[rows]] == list(range(n))
    assert 1 <= len(slices) <= count
    if len(slices) > 1:
        assert all(rows.stop - rows.start >= least for rows in slices)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_as_many_threads_as_torch_has_and_the_caller_is_one(count, both_kinds):
    set_threads(count)
    assert count_threads() == torch.get_num_threads() == count
    barrier = threading.Barrier(count, timeout=20)

    def work(_):
        barrier.wait()  # all of them at the same time
        return threading.get_ident()

    found = divide(work, 100, least=1)
    assert len(set(found)) == count
    assert threading.get_ident() in found


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_an_error_in_any_part_surfaces(bad, both_kinds):
    set_threads(3)

    def work(rows):
        if rows.start == 10 * bad:
            raise KeyError(f"part {bad}")

    with pytest.raises(KeyError, match=f"part {bad}"):
        divide(work, 30, least=1)
    assert divide(lambda rows: rows.stop, 30, least=1) == [10, 20, 30]  # the threads are still there


@pytest.mark.parametrize("threads_wanted", [1, 2])
def test_tasks_at_once_return_in_order(threads_wanted):
    set_threads(threads_wanted)
    assert threads.at_once(*(lambda number=number: number**2 for number in range(5))) == [0, 1, 4, 9, 16]
    with pytest.raises(ZeroDivisionError):
        threads.at_once(lambda: 1, lambda: 1 / 0)


def test_work_that_divides_its_own_work_does_not_wait_for_itself(both_kinds):
    """A lookup that came back short is left to a scan, which divides its queries too: that was for ever."""
    set_threads(2)
    done = []

    def outer(rows):
        return sum(divide(lambda own: own.stop - own.start, rows.stop - rows.start, least=1))

    thread = threading.Thread(target=lambda: done.append(divide(outer, 10, least=1)), daemon=True)
    thread.start()
    thread.join(timeout=20)
    assert done == [[5, 5]]


def test_two_callers_at_a_time_get_their_own_results(both_kinds):
    set_threads(2)
    results = {}

    def call(offset):
        results[offset] = [divide(lambda rows: offset + rows.start, 10, least=1) for _ in range(50)]

    callers = [threading.Thread(target=call, args=(offset,), daemon=True) for offset in (0, 100, 200)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=20)
    assert results == {offset: [[offset, offset + 5]] * 50 for offset in (0, 100, 200)}


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_every_piece_is_done_once(n, count, both_kinds):
    set_threads(count)
    done = []
    share(done.append, (str(piece) for piece in range(n)))
    assert sorted(done, key=int) == [str(piece) for piece in range(n)]


def test_a_thread_that_is_slow_does_fewer_pieces():
    set_threads(2)
    here, others = threading.Event(), []

    def work(piece):
        if threading.get_ident() == caller:
            assert here.wait(timeout=20)  # until the other thread has done all the rest
        else:
            others.append(piece)
            if len(others) == 19:
                here.set()

    caller = threading.get_ident()
    share(work, range(20))
    assert len(others) >= 19


@pytest.mark.parametrize("most", [0, 1])
def test_one_thread_at_most_is_the_caller(most):
    set_threads(3)
    seen = []
    share(lambda piece: seen.append((threading.get_ident(), count_threads())), range(30), most)
    assert seen == [(threading.get_ident(), 3)] * 30  # and torch may divide what it does


def test_after_an_error_no_further_piece_is_begun(both_kinds):
    set_threads(2)
    done = []

    def work(piece):
        done.append(piece)
        raise KeyError("the first one")

    with pytest.raises(KeyError, match="the first one"):
        share(work, range(1_000))
    assert len(done) <= 2


def test_shared_work_is_not_divided_again_and_has_no_gradients():
    set_threads(3)
    seen = []
    weight = torch.ones(3, 3, requires_grad=True)

    def work(_):
        seen.append((count_threads(), (weight @ weight).requires_grad))

    share(work, range(12))
    assert set(seen) == {(1, False)}
    assert count_threads() == torch.get_num_threads() == 3
    assert (weight @ weight).requires_grad


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_what_the_caller_made_can_be_written_to(mode, both_kinds):
    set_threads(2)
    with mode():
        found = torch.zeros(40)
        share(lambda piece: found[piece].add_(1), range(40))
    assert found.tolist() == [1] * 40


def test_torchs_own_threads_are_found():
    """Or every machine would quietly use the slower ones; only torch for another system than Linux is let off."""
    assert threads._torchs_threads() is not None or sys.platform != "linux"


def test_an_interrupt_reaches_the_caller(both_kinds):
    set_threads(2)

    def work(piece):
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    def share_often():
        for _ in range(100):  # the other thread may be faster
            share(work, range(50))

    with pytest.raises(KeyboardInterrupt):
        share_often()


SIGNALS = """
import os, signal, threading, time
import numpy as np
from wolpertinger.threads import count_threads, set_threads, share
set_threads(2)
rows = np.random.default_rng(0).random((64, 5_000))
caught = 0
for number in range(30):
    timer = threading.Timer(0.002 + number / 5_000, os.kill, (os.getpid(), signal.SIGINT))
    end = time.monotonic() + 5
    try:
        timer.start()
        while time.monotonic() < end:
            share(lambda row: np.sort(rows[row]), range(64))
    except KeyboardInterrupt:
        caught += 1
    assert count_threads() == 2
print(caught)
"""


def test_a_signal_is_not_lost_on_the_way_into_a_thread():
    """ctypes only prints what is raised there. A few bytecodes on the way out are left where it may still be lost."""
    found = subprocess.run([sys.executable, "-c", SIGNALS], check=True, timeout=200, capture_output=True, text=True)
    assert int(found.stdout) >= 28


FORK = """
import os, torch
from wolpertinger.threads import divide, set_threads
set_threads(2)
assert divide(lambda rows: rows.start, 10, least=1) == [0, 5]
torch.ones(500, 500) @ torch.ones(500, 500)
child = os.fork()
if child == 0:
    torch.ones(500, 500) @ torch.ones(500, 500)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(2)
    os._exit(divide(lambda rows: rows.start, 10, least=1)[1])
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
"""


FORKED_LOOKUP = """
import os, numpy as np, torch
from wolpertinger.index import FaissIndex
from wolpertinger.threads import set_threads
set_threads(2)
vectors = np.random.default_rng(0).normal(size=(2_000, 8)).astype(np.float32)
index = FaissIndex(vectors, "IVF16,PQ8x4fs")
expected = index.search(vectors[:64], 3)
child = os.fork()
if child == 0:
    assert torch.get_num_threads() == 1
    for threads in (1, 2):
        set_threads(threads)
        for n in (64, 8, 1):
            assert (index.search(vectors[:n], 3) == expected[:n]).all()
    FaissIndex(vectors, "IVF16,PQ8x4fs")
    os._exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
"""


@pytest.mark.parametrize("code", [FORK, FORKED_LOOKUP])
def test_a_forked_process_has_threads_of_its_own(code):
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("n", [0, -1])
def test_no_threads_are_an_error(n):
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match=f"threads={n}: give at least 1"):
        set_threads(n)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("divides_itself", [False, True])
@pytest.mark.parametrize("recipe", ["Flat", "IVF8,Flat", "HNSW8", "IVF8,PQ4x4fs"])
def test_results_do_not_depend_on_the_threads_and_faiss_keeps_its_own(recipe, divides_itself, monkeypatch):
    monkeypatch.setattr("wolpertinger.index.faiss.divides_itself", lambda: divides_itself)
    rng = np.random.default_rng(0)
    vectors, queries = (rng.normal(size=(n, 4)).astype(np.float32) for n in (400, 64))
    index = FaissIndex(vectors, recipe)
    expected = index.search(queries, 7)
    set_threads(3)
    before = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(5)
        monkeypatch.setattr("wolpertinger.index.faiss.count_threads", lambda: 3)  # torch's are 5 too by now
        np.testing.assert_array_equal(index.search(queries, 7), expected)
        assert faiss.omp_get_max_threads() == 5
    finally:
        faiss.omp_set_num_threads(before)


@pytest.mark.skipif(sys.platform != "linux", reason="which OpenMP a library finds is another matter elsewhere")
@pytest.mark.parametrize(
    ("first", "expected"), [("torch, faiss", True), ("wolpertinger, torch, faiss", True), ("faiss, torch", False)]
)
def test_faiss_divides_its_searches_if_torch_came_first(first, expected):
    code = f"""
import {first}
from wolpertinger.index.faiss_build import divides_itself
from wolpertinger.threads import set_threads
set_threads(2)
before = torch.get_num_threads(), faiss.omp_get_max_threads()
assert divides_itself() == {expected}
assert (torch.get_num_threads(), faiss.omp_get_max_threads()) == before
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_short_lookups_in_a_thread_end_in_a_scan(monkeypatch):
    set_threads(2)
    monkeypatch.setattr("wolpertinger.index.exact.CHUNK_BYTES", 64)  # so that few queries are divided
    rng = np.random.default_rng(0)
    vectors, queries = (rng.normal(size=(n, 4)).astype(np.float32) for n in (100, 32))
    index = FaissIndex(vectors, "Flat")
    monkeypatch.setattr(index, "candidates", lambda points, wanted, effort: np.full((len(points), wanted), -1))
    found = []
    thread = threading.Thread(target=lambda: found.append(index.search(queries, 5)), daemon=True)
    thread.start()
    thread.join(timeout=20)
    np.testing.assert_array_equal(found, [ExactIndex(vectors).search(queries, 5)])


def test_pools_are_kept(of_our_own):
    set_threads(2)
    divide(lambda rows: None, 10, least=1)
    pool = threads._pools[1]
    divide(lambda rows: None, 10, least=1)
    assert threads._pools[1] is pool
