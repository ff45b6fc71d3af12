"""Several threads push: a push is atomic, and together the pushes give exactly what they give one after the other."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import watersmeet as wm
from watersmeet.api.result import SHARED
from watersmeet.join.pool import Pool, Task

PUSHES, ROWS = 60, 20


def together(*jobs: Callable[[], None]) -> None:
    """Run the jobs at once, each on a thread of its own; what one of them raises is raised here."""
    failures: list[BaseException] = []
    start = threading.Barrier(len(jobs))

    def run(job: Callable[[], None]) -> None:
        try:
            start.wait()
            job()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def pushing(join: wm.StreamJoin, stream: str, column: str, found: list[wm.Result], key: int = 1) -> Any:
    """A producer: pushes equal rows and keeps what it is given."""
    rows = {column: np.full(ROWS, key)}
    return lambda: found.extend(join.push({stream: rows}) for _ in range(PUSHES))


@pytest.mark.parametrize("options", [{}, {"cores": 2}, {"how": "full"}, {"index": "hash"}], ids=str)
def test_a_thread_a_stream_finds_every_pair_once(options: dict[str, Any]) -> None:
    join = wm.StreamJoin("r.x = s.a", r=wm.Unbounded(), s=wm.Unbounded(), **options)
    found: list[wm.Result] = []
    together(pushing(join, "r", "x", found), pushing(join, "s", "a", found))
    found.append(join.finish())
    r = np.concatenate([result.pairs()["r"] for result in found])
    s = np.concatenate([result.pairs()["s"] for result in found])
    rows = PUSHES * ROWS
    assert r.size == rows * rows
    assert np.unique(r * rows + s).size == rows * rows
    stats = join.stats()
    assert (stats["pushes"], stats["results"]) == (2 * PUSHES, rows * rows)


def test_rows_of_one_push_follow_on_one_another_whoever_else_pushes() -> None:
    """Count windows see how pushes are interleaved: within a push of r rows nobody else arrives."""
    join = wm.StreamJoin("r.x = s.a", r=wm.Rows(ROWS), s=wm.Rows(ROWS))
    found: list[wm.Result] = []
    together(*(pushing(join, stream, column, found) for stream, column in (("r", "x"), ("s", "a")) * 2))
    for result in found:  # each row of a push sees the last ROWS rows of the other stream, which are one push
        r, s = (set((result.pairs()[side] // ROWS).tolist()) for side in "rs")
        assert len(r) <= 1
        assert len(s) <= 1


def test_others_may_ask_and_save_while_a_thread_pushes(tmp_path: Path) -> None:
    join = wm.StreamJoin("r.x = s.a", r=wm.Rows(50), s=wm.Rows(50), how="left")
    found: list[wm.Result] = []
    seen: Counter[bool] = Counter()

    def ask() -> None:
        for number in range(20):
            stats = join.stats()
            seen[stats["streams"]["r"]["arrived"] % ROWS == 0] += 1
            assert "StreamJoin left" in join.explain()
            join.save(tmp_path / str(number))
            loaded = wm.StreamJoin.load(tmp_path / str(number)).stats()["streams"]["r"]
            assert loaded["arrived"] % ROWS == 0  # never half of a push

    together(pushing(join, "r", "x", found), pushing(join, "s", "a", found), ask)
    assert seen == {True: 20}


def test_asyncio_tasks_push_through_threads() -> None:
    join = wm.StreamJoin("r.x = s.a", r=wm.Unbounded(), s=wm.Unbounded(), result="count")

    async def producer(stream: str, column: str) -> int:
        rows = {column: np.ones(ROWS, np.int64)}
        return sum([(await asyncio.to_thread(join.push, {stream: rows})).count for _ in range(PUSHES)])

    async def both() -> int:
        return sum(await asyncio.gather(producer("r", "x"), producer("s", "a")))

    assert asyncio.run(both()) == (PUSHES * ROWS) ** 2


def test_a_join_that_is_closed_while_others_push_refuses_the_rest_in_clear_words() -> None:
    join = wm.StreamJoin("r.x = s.a", r=wm.Rows(50), s=wm.Rows(50), cores=2)
    found: list[wm.Result] = []
    refused: list[str] = []

    def push() -> None:
        try:
            for _ in range(10_000):
                found.append(join.push(r={"x": np.ones(5000, np.int64)}))
        except wm.WatersmeetError as error:
            refused.append(str(error))

    def close() -> None:
        while not found:
            pass
        join.close()

    together(push, push, close)
    assert (
        refused
        == ["the join must be open to be pushed to; got a push after close(); make a new StreamJoin"] * 2
    )
    assert join.stats()["streams"]["r"]["arrived"] == 5000 * len(found)


def test_rows_of_results_are_the_same_gathered_by_one_thread_or_several_also_after_close() -> None:
    numbers = np.arange(SHARED + 100)
    rows = {"x": numbers, "text": [f"row {n}" for n in numbers], "flag": numbers % 3 == 0}
    tables = []
    for cores, closed in ((1, False), (2, False), (2, True)):
        others = set(threading.enumerate())  # of joins that earlier tests have left open
        join = wm.StreamJoin("r.x = s.x", r=wm.Unbounded(), s=wm.Unbounded(), cores=cores)
        result = join.push(r=rows, s=rows)
        if closed:
            join.close()
        tables.append(result.to_arrow().sort_by("r_x"))
        own = set(threading.enumerate()) - others
        assert any(thread.name.startswith("watersmeet") for thread in own) == (cores == 2 and not closed)
        join.close()
    assert tables[0] == tables[1] == tables[2]
    assert tables[0].column("s_text").to_pylist() == rows["text"]


def test_who_gathers_does_not_wait_for_threads_that_others_keep_busy() -> None:
    pool, busy, done = Pool(2), threading.Event(), threading.Event()

    def wait(buffer: object) -> None:
        busy.set()
        assert done.wait(60)

    occupied = threading.Thread(target=pool.run, args=([wait, wait], True))
    occupied.start()
    busy.wait(60)
    assert pool.all_of([lambda: 1, lambda: 2]) == [1, 2]  # both threads of the pool wait meanwhile
    done.set()
    occupied.join()
    pool.close()


def test_what_one_of_several_calls_raises_is_raised_when_all_have_ended() -> None:
    def fail() -> int:
        raise MemoryError("no room")

    pool, ended = Pool(2), []
    pool.run([lambda _: None, lambda _: None], parallel=True)
    with pytest.raises(MemoryError, match="no room"):
        pool.all_of([lambda: ended.append(1), fail, lambda: ended.append(2)])
    pool.close()
    assert pool.all_of([lambda: 3]) == [3]


@pytest.mark.parametrize("raised", [MemoryError, KeyboardInterrupt])
def test_an_interruption_while_others_work_leaves_nobody_at_work(
    raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is raised while the caller waits for a helper, the helper has ended when the caller gets it."""
    pool, begun, may_end = Pool(2), threading.Event(), threading.Event()
    worked: list[str] = []
    wait = threading.Event.wait

    def long_task(buffer: object) -> None:
        begun.set()
        wait(may_end, 10)
        time.sleep(0.05)
        worked.append("a helper")

    def short_task(buffer: object) -> None:
        wait(begun)

    def interrupted(event: threading.Event, timeout: float | None = None) -> bool:
        if not may_end.is_set():  # the first time that the caller waits
            may_end.set()
            raise raised("while it waited")
        return wait(event, timeout)

    pool.run([_by_thread(lambda _: None, lambda _: None)] * 2, parallel=True)  # the thread is there
    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(raised, match="while it waited"):
        # The caller takes one task, the helper the other: each waits for the helper's to begin.
        pool.run([_by_thread(long_task, short_task)] * 2, parallel=True)
    assert worked == ["a helper"]
    pool.close()


def _by_thread(of_helper: Task, of_caller: Task) -> Task:
    caller = threading.get_ident()
    return lambda buffer: (of_caller if threading.get_ident() == caller else of_helper)(buffer)
