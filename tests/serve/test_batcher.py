"""Batches, the bounded queue, deadlines and the end, with an answer that the test lets go."""

import asyncio
import threading

import numpy as np
import pytest

from wolpertinger.serve.batcher import Batcher
from wolpertinger.serve.limits import Limits
from wolpertinger.serve.refused import RefusedError
from wolpertinger.serve.served import Question, Request


def request(number, states=1):
    return Request(Question("pick"), {"observation": np.full((states, 1), number)})


class Policy:
    """Answers with the number of the request, when it may."""

    def __init__(self):
        self.may = threading.Event()
        self.may.set()
        self.batches = []

    def answer(self, requests):
        self.may.wait(10)
        self.batches.append([int(one.parts["observation"][0, 0]) for one in requests])
        return [ValueError("seven") if number == 7 else number for number in self.batches[-1]]


def run(work, **limits):
    """`work(policy, batcher)` in a loop of its own."""

    async def whole():
        policy = Policy()
        batcher = Batcher(policy.answer, Limits(**limits))
        batcher.start()
        try:
            return await work(policy, batcher)
        finally:
            policy.may.set()
            await batcher.stop()

    return asyncio.run(whole())


async def _begin(batcher, numbers):
    tasks = [asyncio.create_task(batcher.ask(request(number))) for number in numbers]
    await asyncio.sleep(0.05)
    return tasks


def test_what_comes_while_the_policy_is_busy_is_one_batch():
    async def work(policy, batcher):
        policy.may.clear()
        tasks = [*await _begin(batcher, [1]), *await _begin(batcher, range(2, 6))]
        policy.may.set()
        assert await asyncio.gather(*tasks) == [1, 2, 3, 4, 5]
        return policy.batches

    first, *others = run(work)
    assert first == [1]
    assert others == [[2, 3, 4, 5]]


def test_a_batch_is_no_larger_than_it_may_be():
    async def work(policy, batcher):
        policy.may.clear()
        tasks = await _begin(batcher, range(10))
        policy.may.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        return [len(batch) for batch in policy.batches]

    assert max(run(work, batch=4)) == 4


def test_an_error_is_told_to_whom_it_belongs():
    async def work(policy, batcher):
        return await asyncio.gather(*await _begin(batcher, (6, 7, 8)), return_exceptions=True)

    six, seven, eight = run(work)
    assert (six, eight) == (6, 8)
    assert str(seven) == "seven"


def test_a_full_queue_refuses_at_once_and_takes_again_when_there_is_room():
    async def work(policy, batcher):
        policy.may.clear()
        tasks = [*await _begin(batcher, [1]), *await _begin(batcher, range(2, 6))]  # one is being answered
        with pytest.raises(RefusedError, match="4 states are waiting already") as refused:
            await batcher.ask(request(9))
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
        policy.may.set()
        await asyncio.gather(*tasks)
        return await batcher.ask(request(9))

    assert run(work, queue=4, batch=4) == 9


def test_a_deadline_ends_the_waiting_and_nobody_works_for_it():
    async def work(policy, batcher):
        policy.may.clear()
        (first,) = await _begin(batcher, [1])
        with pytest.raises(RefusedError, match=r"no answer within 0\.05 s") as refused:
            await batcher.ask(request(2), seconds=0.05)
        assert refused.value.status == 504
        policy.may.set()
        await first
        await batcher.ask(request(3))
        return policy.batches

    assert run(work) == [[1], [3]]


def test_at_the_end_what_was_accepted_is_answered():
    async def work(policy, batcher):
        policy.may.clear()
        tasks = await _begin(batcher, range(1, 4))
        ending = asyncio.create_task(batcher.stop())
        await asyncio.sleep(0.05)
        with pytest.raises(RefusedError, match="the service is ending"):
            await batcher.ask(request(4))
        policy.may.set()
        await ending
        return await asyncio.gather(*tasks)

    assert run(work) == [1, 2, 3]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"batch": 0}, "batch=0: give a whole number of at least 1"),
        ({"queue": 8}, "queue=8: give room for one batch at least, 256 states"),
        ({"wait": -1}, "wait=-1"),
        ({"deadline": 0}, "deadline=0"),
    ],
)
def test_limits_that_are_none_are_refused(limits, message):
    with pytest.raises(ValueError, match=message):
        Limits(**limits)
