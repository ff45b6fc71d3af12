"""Several threads at one join with a flow: producers, a consumer, somebody who asks or closes. Nobody waits for ever."""

import gc
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from test_flow_faults import threads
from watersmeet.flow.catalog import FLOWS
from watersmeet.flow.models.core import Core

LONG = 20.0  # seconds after which somebody is taken to wait for ever
CLOSED = (
    r"it was closed; rows from the last complete push on are to be pushed again|got a push after close\(\)"
)


class Actor(threading.Thread):
    """A thread whose exception, or result, is asked for when it has ended."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._act = act
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._act()
        except BaseException as error:
            self.error = error

    def ended(self) -> "Actor":
        self.join(LONG)
        assert not self.is_alive(), "waits for ever"
        return self


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    gc.collect()  # joins that other tests have left behind
    yield
    deadline = time.monotonic() + 5
    while threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads() == []


def equi_join(flow: str, **given: Any) -> wm.StreamJoin:
    """Windows without an end: whichever push comes first, the pairs of values are the same."""
    schemas = {"r": pa.schema([("x", pa.int64())]), "s": pa.schema([("a", pa.int64())])}
    cores = 1 if flow == "three_step" else 2
    options = {"flow": flow, "cores": cores, "granularity": 4, "queue": 1, "schemas": schemas, **given}
    return wm.StreamJoin("r.x = s.a", r=wm.Unbounded(), s=wm.Unbounded(), **options)


def rest(blocks: Iterator[wm.Result]) -> list[wm.Result]:
    """What still comes; it must end."""
    consumer = Actor(lambda: list(blocks)).ended()
    assert consumer.error is None
    return list(consumer.result)


def rows_of(producer: int, number: int) -> dict[str, Any]:
    """The rows of one push: producers 0 and 2 have stream r, producer 1 has s."""
    values = np.arange(10, dtype=np.int64) * (producer + 1) % 7 + number % 3
    return {"s": {"a": values}} if producer == 1 else {"r": {"x": values}}


def all_pairs(producers: int, pushes: int) -> Counter[int]:
    """How many pairs there are of each value."""
    counts: dict[str, Counter[int]] = {"r": Counter(), "s": Counter()}
    for producer in range(producers):
        for number in range(pushes):
            for stream, columns in rows_of(producer, number).items():
                counts[stream].update(next(iter(columns.values())).tolist())
    return Counter({value: n * counts["s"][value] for value, n in counts["r"].items() if counts["s"][value]})


def values(results: list[wm.Result]) -> Counter[int]:
    tables = [result.to_arrow().to_pydict() for result in results]
    assert all(table["x"] == table["a"] for table in tables)
    return Counter(chain.from_iterable(table["x"] for table in tables))


def produce(join: wm.StreamJoin, producer: int, pushes: int) -> list[wm.Result]:
    return [join.push(rows_of(producer, number)) for number in range(pushes)]


def finish(join: wm.StreamJoin, producers: list[Actor]) -> list[wm.Result]:
    for producer in producers:
        producer.ended()
    return [join.finish()]


@pytest.mark.parametrize(("flow", "collect"), [*((flow, None) for flow in FLOWS), ("pan_join", 0.002)])
def test_several_producers_and_a_consumer_give_every_pair_once(flow: str, collect: float | None) -> None:
    join = equi_join(flow, collect=collect)
    blocks = join.results()
    consumer = Actor(lambda: list(blocks))
    producers = [Actor(lambda k=k: produce(join, k, 12)) for k in range(3)]  # type: ignore[misc]
    end = Actor(lambda: finish(join, producers)).ended()
    consumer.ended()
    assert [actor.error for actor in (*producers, consumer, end)] == [None] * 5
    assert values(consumer.result) == all_pairs(3, 12)
    stats = join.stats()
    assert (stats["pushes"], stats["results"]) == (36, sum(all_pairs(3, 12).values()))


@pytest.mark.parametrize("flow", FLOWS)
def test_several_producers_that_wait_for_their_results_get_every_pair_once(flow: str) -> None:
    join = equi_join(flow)
    producers = [Actor(lambda k=k: produce(join, k, 8)) for k in range(3)]  # type: ignore[misc]
    last = Actor(lambda: finish(join, producers)).ended()
    found = [actor.result for actor in (*producers, last)]
    assert values(list(chain(*found))) == all_pairs(3, 8)


def blocked(join: wm.StreamJoin, producers: int = 1) -> list[Actor]:
    """Producers of which one is held up by full queues, and the others by it."""
    actors = [Actor(lambda k=k: produce(join, k, 10_000)) for k in range(producers)]  # type: ignore[misc]
    arrived = -1
    deadline = time.monotonic() + LONG
    while arrived != join._engine.ledger.arrivals.counts.sum() and time.monotonic() < deadline:
        arrived = join._engine.ledger.arrivals.counts.sum()
        time.sleep(0.15)
    assert all(actor.is_alive() for actor in actors)
    return actors


@pytest.mark.parametrize("flow", FLOWS)
def test_a_consumer_may_ask_for_the_state_while_a_producer_is_blocked(flow: str) -> None:
    join = equi_join(flow)
    blocks = join.results()
    producers = blocked(join, 2)

    def take() -> int:
        next(blocks)
        assert flow in join.explain()
        return int(join.stats()["streams"]["r"]["arrived"])

    consumer = Actor(take).ended()
    assert consumer.error is None
    assert consumer.result > 0
    Actor(join.close).ended()
    for producer in producers:
        producer.ended()


@pytest.mark.parametrize("flow", FLOWS)
def test_close_wakes_blocked_producers_with_a_clear_error(flow: str) -> None:
    join = equi_join(flow)
    blocks = join.results()
    producers = blocked(join, 3)
    started = time.monotonic()
    assert Actor(join.close).ended().error is None
    for producer in producers:
        error = producer.ended().error
        assert isinstance(error, wm.StateError)
        with pytest.raises(wm.StateError, match=CLOSED):
            raise error
    assert time.monotonic() - started < 10
    assert rest(blocks) == []


@pytest.mark.parametrize("flow", FLOWS)
def test_close_wakes_a_finish_that_is_blocked(flow: str) -> None:
    """Nobody takes: the end of the streams does not get into the full queues."""
    join = equi_join(flow, granularity=1)
    blocks = join.results()
    assert flow == "handshake" or join.push(rows_of(0, 0)).count == 0
    stuck = Actor(lambda: [*produce(join, 1, 3), join.finish()])
    stuck.join(0.3)
    if stuck.is_alive():
        Actor(join.close).ended()
        assert isinstance(stuck.ended().error, wm.StateError)
    Actor(join.close).ended()
    assert rest(blocks) == []


@pytest.mark.parametrize("flow", FLOWS)
def test_close_interrupts_a_push_that_waits_for_its_results_and_undoes_it(
    flow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = equi_join(flow)
    for producer in (0, 1):
        join.push(rows_of(producer, 0))
    at_work, go_on = threading.Event(), threading.Event()
    whole = Core.step

    def slow(self: Core, choice: int) -> None:
        at_work.set()
        go_on.wait(LONG)
        whole(self, choice)

    monkeypatch.setattr(Core, "step", slow)
    producer = Actor(lambda: join.push(rows_of(0, 1)))
    assert at_work.wait(LONG)
    closing = Actor(join.close)
    assert isinstance(producer.ended().error, wm.StateError)
    with pytest.raises(wm.StateError, match=CLOSED):
        raise producer.error  # type: ignore[misc]
    go_on.set()
    closing.ended()
    assert join.stats()["streams"]["r"]["arrived"] == 10


@pytest.mark.parametrize("flow", FLOWS)
def test_a_core_takes_no_push_after_its_finish_although_the_end_was_not_taken(flow: str) -> None:
    join = equi_join(flow, queue=None)
    blocks = join.results()
    join.push(rows_of(0, 0))
    join._engine.finish()
    join._engine.commit()
    with pytest.raises(wm.StateError, match=r"got a push after finish\(\)"):
        join.push(rows_of(1, 0))
    assert sum(block.count for block in rest(blocks)) == 0
