"""A core that fails never hangs the join, loses nothing silently, and leaves no thread behind."""

import ctypes
import gc
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import watersmeet as wm
from harness import pairs
from mutants import is_found_out
from strategies import Run, runs
from test_flows import band_join, check_whole, numbers
from watersmeet.flow.catalog import FLOWS
from watersmeet.flow.models.core import Core
from watersmeet.flow.models.store import Held, Meeting
from watersmeet.flow.options import MODELS
from watersmeet.join.chain import SubWindow

MANY = [name for name in FLOWS if name != "three_step"]
GO_ON = [name for name, model in MODELS.items() if model.takes("on_core_failure")]


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("watersmeet core")]


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    gc.collect()
    assert threads() == []
    yield
    gc.collect()
    assert threads() == []


def break_core(monkeypatch: pytest.MonkeyPatch, position: int, when: Callable[[int], bool]) -> list[int]:
    """Let a core fail at the steps (counted from 1) that ``when`` picks."""
    steps = [0]
    whole = Core.step

    def step(self: Core, choice: int) -> None:
        if self.position == position and self.missing is None:
            steps[0] += 1
            if when(steps[0]):
                raise RuntimeError("a bit has flipped")
        whole(self, choice)

    monkeypatch.setattr(Core, "step", step)
    return steps


def fed_by_a_thread(join: wm.StreamJoin, pushes: int = 100) -> tuple[threading.Thread, list[BaseException]]:
    """A thread that pushes until it may not, and what then stopped it."""
    caught: list[BaseException] = []

    def feed() -> None:
        try:
            for rows in numbers(3, pushes, 40):
                join.push(rows)
        except (wm.CoreFailed, wm.StateError) as error:
            caught.append(error)

    producer = threading.Thread(target=feed)
    producer.start()
    return producer, caught


def whole_run(join: wm.StreamJoin, pushes: list[Any]) -> list[tuple[int, int]]:
    return sorted([pair for rows in pushes for pair in pairs(join.push(rows))] + pairs(join.finish()))


@pytest.mark.parametrize("flow", FLOWS)
def test_a_failed_core_is_named_and_the_push_can_be_repeated(
    flow: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cores = 1 if flow == "three_step" else 3
    pushes = numbers(11, 12, 40)
    wanted = whole_run(band_join(), pushes)
    join = band_join(flow=flow, cores=cores, granularity=8)
    got = [pair for rows in pushes[:6] for pair in pairs(join.push(rows))]
    with monkeypatch.context() as broken:
        break_core(broken, cores - 1, lambda step: step == 3)
        with pytest.raises(
            wm.CoreFailed, match=f"core {cores - 1} of {cores} failed: RuntimeError: a bit has flipped"
        ) as caught:
            join.push(pushes[6])
    assert caught.value.core == cores - 1
    assert caught.value.resume == {"r": 240, "s": 240}
    assert threads() == []
    join.save(tmp_path / "state")
    loaded = wm.StreamJoin.load(tmp_path / "state")
    for again in (join, loaded):
        rest = [pair for rows in pushes[6:] for pair in pairs(again.push(rows))] + pairs(again.finish())
        assert sorted(got + rest) == wanted


@pytest.mark.parametrize("flow", FLOWS)
def test_a_killed_thread_is_noticed(flow: str) -> None:
    join = band_join(flow=flow, cores=1 if flow == "three_step" else 2)
    join.push(numbers(1, 1, 40)[0])
    victim = next(thread for thread in threading.enumerate() if thread.name == "watersmeet core 0")
    kill(victim)
    with pytest.raises(wm.CoreFailed, match=r"core 0 of . failed: (SystemExit|its thread has ended)"):
        for _ in range(5):
            join.push(numbers(2, 1, 40)[0])
    assert join.push(numbers(3, 1, 40)[0]).count >= 0
    join.close()


def kill(thread: threading.Thread) -> None:
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))


@pytest.mark.parametrize("order", ["none", "outer"])
@pytest.mark.parametrize("flow", GO_ON)
def test_the_others_go_on_and_the_result_says_what_is_missing(
    flow: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushes = numbers(13, 10, 60)
    plain = band_join()
    wanted = [Counter(pairs(plain.push(rows))) for rows in pushes]
    join = band_join(flow=flow, cores=3, granularity=16, on_core_failure="continue", order=order)
    for place in range(5):
        assert Counter(pairs(join.push(pushes[place]))) == wanted[place]
    with monkeypatch.context() as broken:
        break_core(broken, 1, lambda step: step == 2)
        result = join.push(pushes[5])
    got = Counter(pairs(result))
    absent = wanted[5] - got
    assert not got - wanted[5]
    assert absent, "the failed core had something to find"
    missing = {name: set(result.missing.get(name, np.empty(0)).tolist()) for name in "rs"}
    for r, s in absent:
        assert r in missing["r"] or s in missing["s"]
    assert all(len(rows) < 200 for rows in missing.values())
    for place in range(6, 10):  # the others have taken over the rows
        result = join.push(pushes[place])
        assert Counter(pairs(result)) == wanted[place]
        assert result.missing == {}
    assert f"flow       {flow} on 2 core(s)" in join.explain()
    join.close()


@pytest.mark.parametrize("flow", GO_ON)
def test_when_the_last_core_fails_nobody_goes_on(flow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    join = band_join(flow=flow, cores=2, on_core_failure="continue")
    monkeypatch.setattr(Core, "step", lambda self, choice: 1 / 0)
    with pytest.raises(wm.CoreFailed, match="ZeroDivisionError"):
        join.push(numbers(1, 1, 50)[0])


@pytest.mark.parametrize("flow", FLOWS)
def test_a_failure_reaches_both_who_pushes_and_who_takes(flow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    join = band_join(flow=flow, cores=1 if flow == "three_step" else 2, granularity=4, queue=1)
    blocks = join.results()
    break_core(monkeypatch, 0, lambda step: step > 20)
    producer, caught = fed_by_a_thread(join, 200)
    with pytest.raises((wm.CoreFailed, wm.StateError)):
        for _ in blocks:
            pass
    producer.join(20)
    assert not producer.is_alive()
    assert len(caught) == 1
    join.close()


@pytest.mark.parametrize("flow", FLOWS)
def test_close_returns_also_with_full_queues(flow: str) -> None:
    join = band_join(flow=flow, cores=1 if flow == "three_step" else 2, granularity=2, queue=1)
    blocks = join.results()
    producer, caught = fed_by_a_thread(join)
    producer.join(0.3)
    assert producer.is_alive()
    started = time.monotonic()
    join.close()
    assert time.monotonic() - started < 5
    producer.join(5)
    assert len(caught) == 1
    with pytest.raises(wm.StateError, match="the join must be open to be pushed to"):
        join.push(numbers(1, 1, 1)[0])
    assert list(blocks) == []


@pytest.mark.parametrize("flow", FLOWS)
def test_ctrl_c_leaves_no_thread_behind_and_the_push_undone(flow: str, tmp_path: Path) -> None:
    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    random = np.random.default_rng(1)
    big = wm.StreamJoin(
        "r.x = s.a", r=wm.Unbounded(), s=wm.Unbounded(), index="scan", flow=flow, granularity=64, cores=1
    )
    rows = {"r": {"x": random.integers(0, 10**9, 100_000)}, "s": {"a": random.integers(0, 10**9, 100_000)}}
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        with pytest.raises(KeyboardInterrupt):
            big.push(rows)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert threads() == []
    assert big.stats()["streams"]["r"]["arrived"] == 0
    assert big.push(r={"x": np.array([1])}, s={"a": np.array([1])}).count <= 1
    big.close()


def test_a_join_that_nobody_holds_ends_its_threads() -> None:
    join = wm.StreamJoin(
        "r.x = s.a AND length(r.t) < s.a", r=wm.Rows(9), s=wm.Rows(9), flow="split_join", cores=2
    )
    join.push(r={"x": np.array([3]), "t": np.array(["ab"])}, s={"a": np.array([3])})
    assert len(threads()) == 2
    del join
    gc.collect()
    deadline = time.monotonic() + 5
    while threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads() == []


def test_a_consumer_that_goes_away_frees_the_producer() -> None:
    join = band_join(flow="split_join", cores=2, granularity=4, queue=1)
    blocks = join.results()
    producer, _ = fed_by_a_thread(join)
    next(blocks)
    blocks.close()  # type: ignore[attr-defined]
    producer.join(10)
    assert not producer.is_alive()
    join.close()


@pytest.mark.parametrize("flow", FLOWS)
def test_without_the_range_check_the_property_test_fails(flow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removing the validity range from the code must make the comparison with the oracle fail."""

    def holds(run: Run) -> None:
        check_whole(run, flow=flow, cores=1 if flow == "three_step" else 2, granularity=2)

    assert not is_found_out(holds, runs(max_rows=30), tries=20)
    for kind in (SubWindow, Held, Meeting):
        monkeypatch.setattr(kind, "_validity_filters", lambda self, probe: [])
    assert is_found_out(holds, runs(max_rows=30))


@pytest.mark.parametrize("flow", FLOWS)
def test_rows_of_an_undone_push_leave_no_partner_behind(flow: str) -> None:
    """A consumer goes away in the middle of a push: the rows that get its numbers next have found nobody."""
    join = band_join(flow=flow, how="left")
    join.push(r={"x": np.array([90])}, s={"a": np.array([1])})
    blocks = join.results()
    join.push(s={"a": np.array([1])}, r={"x": np.array([1])})
    assert next(blocks).count > 0
    blocks.close()  # type: ignore[attr-defined]
    assert join.stats()["streams"]["r"]["arrived"] == 1
    join.push(r={"x": np.array([70])})
    assert pairs(join.finish()) == [(0, -1), (1, -1)]


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("flow", GO_ON)
def test_rows_that_go_with_a_lost_answer_are_named_though_they_were_over(
    flow: str, interleaved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails last: rows may be pushed out of their windows by the very rows whose answer is lost."""
    random = np.random.default_rng(29)
    pushes = [
        {"r": {"x": random.integers(0, 2, 12)}, "s": {"a": random.integers(0, 2, 12)}} for _ in range(6)
    ]
    orders = [random.permutation(["r"] * 12 + ["s"] * 12).tolist() if interleaved else None for _ in pushes]
    whole = Core.finding

    def joined(**options: Any) -> wm.StreamJoin:
        return wm.StreamJoin("r.x = s.a", r=wm.Rows(1), s=wm.Rows(2), subwindow=1, **options)

    plain = joined()
    wanted = [
        Counter(pairs(plain.push(rows, order=order))) for rows, order in zip(pushes, orders, strict=True)
    ]
    lost = 0
    for moment in range(1, 40, 2):
        left = [moment]

        def failing(self: Core, *args: Any, left: list[int] = left) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise RuntimeError("a bit has flipped")
            return whole(self, *args)

        with monkeypatch.context() as broken:
            broken.setattr(Core, "finding", failing)
            join = joined(flow=flow, cores=3, granularity=3, on_core_failure="continue")
            for rows, order, want in zip(pushes, orders, wanted, strict=True):
                result = join.push(rows, order=order)
                got = Counter(pairs(result))
                missing = {name: set(result.missing.get(name, np.empty(0)).tolist()) for name in "rs"}
                assert not got - want
                lost += (want - got).total()
                assert all(r in missing["r"] or s in missing["s"] for r, s in want - got)
            join.close()
    assert lost, "nothing was ever lost"
