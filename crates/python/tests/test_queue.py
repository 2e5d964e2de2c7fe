import asyncio
import concurrent.futures
import gc
import itertools
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from processes import in_a_process

import streampool as sp


def rows(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 16), dtype=np.float32)


def test_requests_of_threads_become_batches(session, weight):
    with sp.BatchQueue(session, max_batch_size=16, max_wait=0.02) as queue, concurrent.futures.ThreadPoolExecutor(32) as pool:
        inputs = [rows(1 + seed % 3, seed) for seed in range(200)]
        for x, outputs in zip(inputs, pool.map(queue.infer, inputs), strict=True):
            np.testing.assert_allclose(outputs["y"], x @ weight, rtol=1e-5, atol=1e-5)
        told = queue.statistics()
        assert told["requests"]["completed"] == 200 and told["batch_rows"]["count"] < 200, told


def test_a_function_sees_rows_of_several_calls():
    seen, gate = [], threading.Event()

    @sp.batched(max_batch_size=8, max_wait=5.0, max_in_flight=1)
    def double(x):
        seen.append(len(x))
        return x * 2

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: double(np.full((1, 2), n)), range(8)))
    gate.set()
    for n, answer in enumerate(answers):
        np.testing.assert_array_equal(answer, np.full((1, 2), 2 * n))
    assert sum(seen) == 8 and len(seen) < 8
    assert double.queue.is_open
    double.queue.close()
    with pytest.raises(sp.Closed):
        double(np.zeros((1, 2)))


def test_a_function_of_several_arrays_gives_several():
    with sp.BatchQueue(lambda a, b: (a + b, a - b)) as queue:
        total, rest = queue.infer((np.array([[3]]), np.array([[1]])))
        assert total.tolist() == [[4]] and rest.tolist() == [[2]]


class Guilty(Exception):
    pass


def test_only_the_guilty_rows_fail_and_keep_their_exception():
    def refuse(x):
        if (x < 0).any():
            raise Guilty("negative")
        return x

    with sp.BatchQueue(refuse, max_batch_size=16, max_wait=0.05) as queue:
        tickets = [queue.submit(np.array([-1 if n == 5 else n])) for n in range(12)]
        for n, ticket in enumerate(tickets):
            if n == 5:
                with pytest.raises(Guilty, match="negative") as caught:
                    ticket.result(60)
                assert any(entry.name == "refuse" for entry in caught.traceback)
            else:
                assert ticket.result(60).tolist() == [n]


def test_a_function_that_gives_nonsense_is_told_so():
    with sp.BatchQueue(lambda x: x[:0]) as queue, pytest.raises(sp.FunctionFailed, match="rows"):
        queue.infer(np.zeros((2, 2)))
    with sp.BatchQueue(lambda x: "text") as queue, pytest.raises(sp.Error):
        queue.infer(np.zeros((2, 2)))


def test_a_full_queue_says_when_to_come_again():
    gate = threading.Event()

    def slow(x):
        gate.wait(60)
        return x

    queue = sp.BatchQueue(slow, max_batch_size=1, capacity=2, max_in_flight=1)
    tickets = [queue.submit(np.zeros((1, 1)))]
    with pytest.raises(sp.Overloaded) as caught:
        for _ in range(50):
            tickets.append(queue.submit(np.zeros((1, 1))))
    assert caught.value.retry_after > 0
    gate.set()
    for ticket in tickets:
        ticket.result(60)
    queue.close()


def test_a_cancelled_request_never_runs():
    gate, seen = threading.Event(), []

    def slow(x):
        gate.wait(60)
        seen.extend(x[:, 0].tolist())
        return x

    queue = sp.BatchQueue(slow, max_batch_size=1, max_in_flight=1)
    tickets = [queue.submit(np.array([[n]])) for n in range(6)]
    assert tickets[4].cancel() and tickets[4].cancelled()

    async def cancelled():
        task = asyncio.ensure_future(queue.infer_async(np.array([[99]])))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    # What was withdrawn is told to the queue by another thread.
    threading.Event().wait(3)
    gate.set()
    for n in (0, 1, 2, 3, 5):
        tickets[n].result(60)
    queue.close()
    assert seen == [0, 1, 2, 3, 5]


def test_deadlines_tenants_and_priorities(session):
    queue = sp.BatchQueue(session, tenants={"a": 2.0, "b": 1.0})
    queue.infer(rows(1), tenant="a", priority="high", timeout=60)
    with pytest.raises(sp.DeadlineExceeded):
        queue.infer(rows(1), timeout=0)
    with pytest.raises(sp.InvalidInput, match="priority"):
        queue.infer(rows(1), priority="urgent")
    with pytest.raises(TypeError, match="colour"):
        queue.infer(rows(1), colour="red")
    queue.close()


def in_order(how, **settings):
    """The order in which requests are served that come while the queue is at work; `how` says of each how it is asked."""
    gate, seen = threading.Event(), []

    def slow(x):
        gate.wait(60)
        seen.extend(x[:, 0].tolist())
        return x

    with sp.BatchQueue(slow, max_batch_size=1, max_in_flight=1, **settings) as queue:
        tickets = [queue.submit(np.array([[-1]]))]
        while queue.statistics()["queued_requests"] > 0:
            threading.Event().wait(0.01)
        try:
            tickets += [queue.submit(np.array([[n]]), **one) for n, one in enumerate(how)]
            # What is to go behind the others does.
            threading.Event().wait(0.05)
        finally:
            gate.set()
        for ticket in tickets:
            ticket.result(60)
    return seen[1:]


def test_some_requests_go_behind_others_after_a_time():
    assert in_order([{"behind_after": 0.001}, {}, {"behind_after": 60}, {"behind_after": 1e6}]) == [1, 2, 3, 0]
    with pytest.raises(sp.InvalidInput, match="behind_after"):
        in_order([{"behind_after": -1}])


def test_others_overtake_only_so_often():
    how = [{"priority": "low"}, *[{"priority": "high"}] * 4]
    assert in_order(how, max_overtakes=2) == [1, 2, 0, 3, 4]
    assert in_order(how, max_overtakes=100) == [1, 2, 3, 4, 0]


@pytest.mark.parametrize("settings", [{"capacity_of": {"low": 2}}, {"capacity_bytes": 3 * 8}])
def test_room_is_limited_in_several_ways(settings):
    with pytest.raises(sp.Overloaded):
        in_order([{"priority": "low"}] * 5, **settings)
    assert in_order([{"priority": "low"}], **settings) == [0]
    if "capacity_of" in settings:
        assert len(in_order([{"priority": "high"}] * 5, **settings)) == 5
        with pytest.raises(sp.InvalidInput, match="priority"):
            sp.BatchQueue(lambda x: x, capacity_of={"lowest": 1})


def test_a_closed_queue_opens_again(session):
    queue = sp.BatchQueue(session)
    queue.close()
    with pytest.raises(sp.Closed):
        queue.infer(rows(1))
    queue.restart()
    queue.infer(rows(1))
    queue.close(cancel=True)


def test_a_thousand_tasks(session, weight):
    async def run(queue):
        return await asyncio.gather(*(queue.infer_async(rows(1, seed)) for seed in range(1000)))

    with sp.BatchQueue(session, max_batch_size=64, capacity=2000) as queue:
        for seed, outputs in enumerate(asyncio.run(run(queue))):
            np.testing.assert_allclose(outputs["y"], rows(1, seed) @ weight, rtol=1e-5, atol=1e-5)


def test_a_list_of_inputs_in_batches(session, weight, capsys):
    inputs = [rows(1, seed) for seed in range(50)]
    outputs = list(sp.batch_inference(session, inputs, batch_size=8, progress=True))
    for x, output in zip(inputs, outputs, strict=True):
        np.testing.assert_allclose(output["y"], x @ weight, rtol=1e-5, atol=1e-5)
    assert "50" in capsys.readouterr().err
    endless = (rows(1, seed) for seed in iter(int, 1))
    assert next(sp.batch_inference(session, endless))["y"].shape == (1, 4)
    with pytest.raises(ValueError, match="batch_size"):
        next(sp.batch_inference(session, inputs, batch_size=0))


def test_nothing_that_is_neither_session_nor_function():
    with pytest.raises(sp.InvalidInput, match="Session"):
        sp.BatchQueue(3)
    with pytest.raises(sp.InvalidInput, match="when_full"):
        sp.BatchQueue(lambda x: x, when_full="maybe")
    with pytest.raises(sp.InvalidSetting):
        sp.BatchQueue(lambda x: x, max_batch_size=0)


EXITS = """
import threading, time
import numpy as np
import streampool as sp

def slow(x):
    time.sleep(0.05)
    return x

queue = sp.BatchQueue(slow, max_batch_size=1, capacity=1000)
tickets = [queue.submit(np.zeros((1, 1))) for _ in range(200)]
"""


@pytest.mark.parametrize("end", ["", "del queue", "queue.close(cancel=True)", "import os; os._exit(0)"])
def test_the_interpreter_ends_with_requests_in_a_queue(end):
    in_a_process(EXITS + ("del tickets[:190]\n" if end == "del queue" else "") + end)


def test_tickets_keep_their_queue_alive():
    queue = sp.BatchQueue(lambda x: x + 1, max_batch_size=4)
    tickets = [queue.submit(np.array([[n]])) for n in range(50)]
    del queue
    gc.collect()
    assert [ticket.result(60).item() for ticket in tickets] == list(range(1, 51))


def test_memory_is_flat_over_many_calls(session):
    with sp.BatchQueue(session, max_batch_size=8) as queue:
        x = rows(1)

        def some(count):
            for _ in range(count):
                session.run(x)
                queue.infer(x)
            for ticket in [queue.submit(x) for _ in range(100)] + [session.submit(x) for _ in range(100)]:
                ticket.result(60)
            gc.collect()

        some(2000)
        tracemalloc.start()
        before, references = tracemalloc.get_traced_memory()[0], sys.getrefcount(x)
        some(5000)
        after = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    assert after - before < 64 << 10
    assert sys.getrefcount(x) == references


def test_the_earlier_forms_really_coalesce(session, weight):
    seen, gate = [], threading.Event()

    def double(x):
        gate.wait(60)
        seen.append(len(x))
        return x * 2

    queue = sp.BatchQueue(batch_size=8, num_workers=1)
    assert isinstance(queue, sp.OperationQueue)
    queue.start()
    tickets = [queue.submit(np.full((1, 3), n), double) for n in range(17)]
    others = [queue.submit(rows(1, n), session) for n in range(5)]
    gate.set()
    for n, ticket in enumerate(tickets):
        assert (ticket.result(60) == 2 * n).all()
    for n, ticket in enumerate(others):
        np.testing.assert_allclose(ticket.result(60)["y"], rows(1, n) @ weight, rtol=1e-5, atol=1e-5)
    # While the first was held back the others came together; how, is for the queue to say.
    assert sum(seen) == 17 and len(seen) <= 8 and max(seen) == 8
    queue.stop()
    with pytest.raises(sp.Closed, match="start"):
        queue.submit(rows(1), session)
    with queue:
        queue.submit(rows(1), session).result(60)


def test_batches_inside_with(session, weight):
    inputs = [rows(1, seed) for seed in range(20)]
    whole = np.concatenate(inputs)
    with sp.batch_inference(batch_size=8):
        answers, of_whole = session(inputs), session(whole)
    for x, answer in zip(inputs, answers, strict=True):
        np.testing.assert_allclose(answer["y"], x @ weight, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(of_whole["y"], whole @ weight, rtol=1e-5, atol=1e-5)
    assert session(whole)["y"].shape == (20, 4)
    with pytest.raises(ValueError, match="batch_size"), sp.batch_inference(batch_size=0):
        pass


def test_settings_of_queues_to_come():
    told = in_a_process("""
        import numpy as np, streampool as sp
        sp.configure_batch_queue(max_batch_size=3, max_wait=5.0, max_in_flight=1)
        seen = []
        with sp.BatchQueue(lambda x: (seen.append(len(x)), x)[1]) as queue:
            tickets = [queue.submit(np.zeros((1, 1))) for _ in range(6)]
            [ticket.result(60) for ticket in tickets]
        try:
            sp.configure_batch_queue(colour="red")
        except sp.InvalidSetting as why:
            print(max(seen) <= 3, "colour" in str(why))
    """)
    assert told.split() == ["True", "True"]


def test_requests_are_filled_up_to_go_together():
    seen = []

    def count(x, lengths):
        seen.append((x.shape, lengths.tolist()))
        return x * 2, x.sum(axis=1, keepdims=True)

    padding = {"axis": 1, "multiple": 4, "tell": "lengths", "inputs": [0], "outputs": [0]}
    with sp.BatchQueue(count, max_batch_size=3, max_wait=5.0, max_in_flight=1, padding=padding) as queue:
        tickets = [queue.submit(np.full((1, length), 1.0)) for length in (5, 6, 8, 2)]
        for ticket, length in zip(tickets, (5, 6, 8, 2), strict=True):
            doubled, total = ticket.result(60)
            assert (doubled == np.full((1, length), 2.0)).all() and total.item() == length
    # What came first may go alone; the others of eight go together.
    assert {shape[1] for shape, _ in seen} == {8, 4} and sorted(sum((told for _, told in seen), [])) == [2, 5, 6, 8]
    with sp.BatchQueue(lambda x: x, padding={"axis": 1, "sizes": [4, 16]}) as queue:
        assert queue.infer(np.ones((1, 3))).shape == (1, 4)


@pytest.mark.parametrize(
    ("padding", "said"),
    [
        ({"multiple": 4}, "axis"),
        ({"axis": 1}, "sizes"),
        ({"axis": 1, "multiple": 4, "sizes": [3]}, "either"),
        ({"axis": 1, "multiple": 4, "colour": "red"}, "colour"),
        ({"axis": 1, "multiple": 4, "tell": "all"}, "all"),
    ],
)
def test_a_padding_that_is_none_is_refused(padding, said):
    with pytest.raises(sp.InvalidInput, match=said):
        sp.BatchQueue(lambda x: x, padding=padding)


def test_a_cancelled_ticket_says_so():
    gate = threading.Event()
    with sp.BatchQueue(lambda x: (gate.wait(60), x)[1], max_batch_size=1, max_in_flight=1) as queue:
        first, second = queue.submit(np.zeros((1, 1))), queue.submit(np.zeros((1, 1)))
        assert second.cancel()
        with pytest.raises(sp.Cancelled) as caught:
            second.result()
        assert isinstance(caught.value, concurrent.futures.CancelledError)
        with pytest.raises(sp.Cancelled):
            second.exception()
        gate.set()
        first.result(60)


def test_tasks_wait_for_room_without_holding_up_the_loop():
    gate = threading.Event()
    queue = sp.BatchQueue(lambda x: (gate.wait(60), x)[1], max_batch_size=1, capacity=2, max_in_flight=1, when_full="block")

    async def main():
        tasks = [asyncio.ensure_future(queue.infer_async(np.array([[n]]))) for n in range(100)]
        # The loop goes round although the queue is full.
        for _ in range(50):
            await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        tasks[50].cancel()
        gate.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(answers.pop(50), asyncio.CancelledError)
        return [answer.item() for answer in answers]

    assert asyncio.run(main()) == [n for n in range(100) if n != 50]
    queue.close()


def test_tasks_get_errors_and_may_outlive_nothing():
    def refuse(x):
        if (x < 0).any():
            raise StopIteration("refused") if x[0, 0] == -2 else Guilty("negative")
        return x

    async def main(queue):
        asks = (queue.infer_async(np.array([[n]])) for n in [3, -1, -2, 4] * 20)
        return await asyncio.gather(*asks, queue.infer_async(np.zeros((1, 1)), colour="red"), return_exceptions=True)

    with sp.BatchQueue(refuse, max_batch_size=8) as queue:
        # One loop after the other, and one that ends with requests under way.
        for _ in range(2):
            *answers, unknown = asyncio.run(main(queue))
            assert isinstance(unknown, TypeError)
            for n, answer in zip([3, -1, -2, 4] * 20, answers, strict=True):
                kind = {-1: Guilty, -2: (RuntimeError, TypeError)}.get(n, np.ndarray)
                assert isinstance(answer, kind), answer

        async def left():
            for _ in range(40):
                asyncio.ensure_future(queue.infer_async(np.zeros((1, 1))))
            await asyncio.sleep(0)

        asyncio.run(left())
        assert queue.infer(np.ones((1, 1))).item() == 1


def test_no_round_of_the_loop_takes_all_requests():
    """A thousand tasks begin and are answered at once: in each round of the loop only some are handed in or told."""
    gate, told = threading.Event(), []

    async def one(queue, number):
        await queue.infer_async(np.zeros((1, 1)))
        told[-1] += 1

    async def main(queue):
        tasks = [asyncio.ensure_future(one(queue, number)) for number in range(1000)]
        handed_in = []
        while not handed_in or handed_in[-1] < 1000:
            await asyncio.sleep(0)
            handed_in.append(queue.statistics()["requests"]["submitted"])
        gate.set()
        while not all(task.done() for task in tasks):
            told.append(0)
            await asyncio.sleep(0)
        return handed_in

    with sp.BatchQueue(lambda x: (gate.wait(60), x)[1], max_batch_size=1000, capacity=2000) as queue:
        handed_in = asyncio.run(main(queue))
    assert max(after - before for before, after in itertools.pairwise([0, *handed_in])) <= 33, handed_in
    assert sum(told) == 1000 and max(told) <= 33, max(told)
