"""PanJoin: what the manager commands, and that workers who obey give the oracle's pairs, whoever of them is fast or slow."""

from collections import Counter
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from harness import check as check_threads
from harness import examples, expected, make, pairs, push, same_pairs
from mutants import is_found_out
from schedules import Schedule, schedules, step_by_step
from strategies import HOWS, INDEXES, Run, runs
from test_flow_order import check_order, never_late
from watersmeet.flow.driver.engine import FlowEngine
from watersmeet.flow.driver.running import Running
from watersmeet.flow.models.manager import Ask, Command, Create, Expire, Insert, Manager, Place, Reach, Seal
from watersmeet.flow.models.pan_join import Answer, Commands, PanJoinFlow, Reception, Worker
from watersmeet.flow.network import Message
from watersmeet.flow.runners.steps import Steps
from watersmeet.index.rap_table import RapTable

shapes = st.fixed_dictionaries(
    {
        "flow": st.just("pan_join"),
        "cores": st.integers(1, 4),
        "granularity": st.sampled_from([1, 2, 3, 7, None]),
        "queue": st.integers(1, 2),
    }
)
any_run = st.sampled_from(HOWS).flatmap(lambda how: runs(how=how))


def check(run: Run, shape: dict[str, Any], schedule: Schedule) -> None:
    """The oracle's pairs push by push, moved step by step."""
    wanted = expected(run)
    with closing(make(run, **shape)) as join:
        step_by_step(join, schedule)
        results = [push(join, run, events) for events in run.pushes] + [join.finish()]
        for number, (result, want) in enumerate(zip(results, wanted.pairs, strict=True)):
            same_pairs(pairs(result), want, f"push {number}, {shape}, {schedule}", run)


@pytest.mark.parametrize("index", INDEXES)
def test_every_index_gives_the_oracles_pairs_however_workers_move(index: str) -> None:
    examples(40)(given(runs(index), shapes, schedules)(check))()


@examples(80)
@given(any_run, shapes, schedules)
def test_every_join_type_gives_the_oracles_pairs_however_workers_move(
    run: Run, shape: dict[str, Any], schedule: Schedule
) -> None:
    check(run, shape, schedule)


@examples(40)
@given(any_run, shapes)
def test_threads_give_the_oracles_pairs(run: Run, shape: dict[str, Any]) -> None:
    check_threads(run, **shape)


def check_kind(
    run: Run, shape: dict[str, Any], schedule: Schedule, precision: int, kind: str = "outer"
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Running, "runner_class", partial(Steps, choose=schedule.begin()))
        check_order(replace(run, declared=True), kind, precision, **shape)


@pytest.mark.parametrize("kind", ["outer", "inner"])
def test_the_order_holds_however_workers_move(kind: str) -> None:
    @examples(40)
    @given(runs(window=never_late), shapes, schedules, st.sampled_from([1, 2, 5]))
    def holds(run: Run, shape: dict[str, Any], schedule: Schedule, precision: int) -> None:
        check_kind(run, shape, schedule, precision, kind)

    holds()


@pytest.mark.parametrize("mode", ["ranges", "count"])
def test_ranges_and_counts_equal_pairs(mode: str) -> None:
    @examples(40)
    @given(runs("bi_sort"), shapes)
    def holds(run: Run, shape: dict[str, Any]) -> None:
        wanted = expected(run).pairs
        with closing(make(run, result=mode, **shape)) as join:
            for number, events in enumerate(run.pushes):
                result = push(join, run, events)
                assert result.count == len(wanted[number])
                if mode == "ranges":
                    same_pairs(pairs(result), wanted[number], f"push {number}", run)

    holds()


def fail_at(patch: pytest.MonkeyPatch, moment: int, done: int) -> None:
    """Let the worker that gets message number ``moment`` fail, once, after it has done some of the commands."""
    receive, left = Worker.receive, [moment]

    def failing(self: Worker, port: int, message: Message) -> None:
        left[0] -= 1
        if left[0] == -1:
            if isinstance(message, Commands):
                self.obey(message.steps[:done])
            raise RuntimeError("a bit has flipped")
        receive(self, port, message)

    patch.setattr(Worker, "receive", failing)


@examples(60)
@given(runs(window=never_late), shapes, schedules, st.integers(0, 60), st.integers(0, 4), st.booleans())
def test_a_lost_worker_costs_no_pair_but_of_the_rows_that_are_named(
    run: Run, shape: dict[str, Any], schedule: Schedule, moment: int, done: int, ordered: bool
) -> None:
    wanted = expected(run).pairs
    more = {"on_core_failure": "continue", "order": "outer" if ordered else "none"}
    with (
        pytest.MonkeyPatch.context() as patch,
        closing(make(run, **{**shape, **more, "cores": shape["cores"] + 1})) as join,
    ):
        fail_at(patch, moment, done)
        step_by_step(join, schedule)
        for number, events in enumerate(run.pushes):
            result = push(join, run, events)
            absent = Counter(wanted[number]) - Counter(pairs(result))
            assert not Counter(pairs(result)) - Counter(wanted[number])
            missing = {side: set(rows.tolist()) for side, rows in result.missing.items()}
            for r, s in absent:
                assert r in missing.get("r", ()) or s in missing.get("s", ())


# ---- commands -------------------------------------------------------------------------------------------------------


class Ledger:
    """Everything that was commanded and answered: messages by worker, in order."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[int, Commands]] = []
        self.answers: list[Answer] = []
        send, note = PanJoinFlow.send, PanJoinFlow.note

        def sending(flow: PanJoinFlow, load: Any) -> Any:
            for link, message in send(flow, load):
                self.sent.append((flow.entries.index(link), message))
                yield link, message

        def noting(flow: PanJoinFlow, message: Message) -> None:
            if isinstance(message, Answer):
                self.answers.append(message)
            note(flow, message)

        patch.setattr(PanJoinFlow, "send", sending)
        patch.setattr(PanJoinFlow, "note", noting)

    def of(self, kind: type[Command]) -> list[tuple[int, Any]]:
        return [
            (worker, step)
            for worker, commands in self.sent
            for step in commands.steps
            if isinstance(step, kind)
        ]


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    return Ledger(monkeypatch)


def band_join(window: wm.Rows | wm.Range, **given: Any) -> wm.StreamJoin:
    schemas = {"r": {"x": "int64", "ts": "int64"}, "s": {"a": "int64", "ts": "int64"}}
    options = {"flow": "pan_join", "schemas": {k: list(v.items()) for k, v in schemas.items()}, **given}
    return wm.StreamJoin("r.x BETWEEN s.a - 2 AND s.a + 2", r=window, s=window, **options)


def rows(column: str, count: int, start: int = 0) -> dict[str, np.ndarray]:
    numbers = np.arange(start, start + count)
    return {column: numbers * 7919 % 1000, "ts": numbers}


def flow_of(join: wm.StreamJoin) -> PanJoinFlow:
    assert isinstance(join._engine, FlowEngine)
    assert isinstance(join._engine.running.flow, PanJoinFlow)
    return join._engine.running.flow


def test_workers_with_nothing_to_probe_get_no_probe(ledger: Ledger) -> None:
    join = band_join(wm.Rows(100), cores=3, subwindow=4, granularity=4)
    join.push(s=rows("a", 4))
    assert ledger.of(Ask) == []
    join.push(r=rows("x", 4))
    assert [(worker, step.ids) for worker, step in ledger.of(Ask)] == [(1, [0])]
    assert [worker for worker, _ in ledger.of(Insert)] == [1, 0]
    join.push(s=rows("a", 8, 4))  # sub-windows of s are now at workers 1, 2 and 0
    ledger.sent.clear()
    join.push(r=rows("x", 4, 4))
    assert sorted(worker for worker, _ in ledger.of(Ask)) == [0, 1, 2]
    join.close()


def test_only_sub_windows_that_a_probe_may_see_are_asked(ledger: Ledger) -> None:
    join = band_join(wm.Range(10, time="ts"), cores=4, subwindow=10, granularity=10)
    join.push(s=rows("a", 40))  # four sub-windows, at workers 1, 2, 3 and 0
    ledger.sent.clear()
    join.push(r=rows("x", 5, 42))  # times 42 to 46 see 32 and later
    assert [worker for worker, _ in ledger.of(Ask)] == [0]
    join.close()


def test_rows_that_can_match_nothing_ask_nobody(ledger: Ledger) -> None:
    join = band_join(wm.Rows(100), cores=2)
    join.push(s=rows("a", 4))
    join.push(r={"x": [None, None], "ts": [1, 2]})
    assert ledger.of(Ask) == []
    join.close()


@examples(30)
@given(any_run, shapes, schedules)
def test_what_is_commanded_makes_sense(run: Run, shape: dict[str, Any], schedule: Schedule) -> None:
    """One message a worker and load. Of each sub-window: create, inserts, at most one seal, expire; probes only while it has rows."""
    with (
        pytest.MonkeyPatch.context() as patch,
        closing(make(replace(run, declared=True), **shape)) as join,
    ):
        ledger = Ledger(patch)
        step_by_step(join, schedule)
        join._engine.planning.replans = []  # one network for the whole run
        for events in run.pushes:
            push(join, run, events)
        loads = [(worker, commands.load.number) for worker, commands in ledger.sent]
        assert len(set(loads)) == len(loads)
        for worker in range(shape["cores"]):
            filled: dict[int, int] = {}
            sealed: set[int] = set()
            for step in chain.from_iterable(c.steps for w, c in ledger.sent if w == worker):
                if isinstance(step, Create):
                    assert step.id not in filled
                    filled[step.id] = 0
                elif isinstance(step, Insert):
                    assert step.id not in sealed
                    filled[step.id] += step.block.count
                elif isinstance(step, Seal):
                    assert step.id not in sealed
                    sealed.add(step.id)
                elif isinstance(step, Ask):
                    assert step.ids
                    assert all(filled[number] > 0 for number in step.ids)
                else:
                    for number in step.ids:
                        del filled[number]


def test_sub_windows_go_round_the_workers_and_both_streams_start_apart(ledger: Ledger) -> None:
    join = band_join(wm.Rows(60), cores=3, subwindow=10, granularity=5)
    for start in range(0, 100, 10):
        join.push(r=rows("x", 10, start), s=rows("a", 10, start))
    for side in (0, 1):
        created = [(worker, step.base) for worker, step in ledger.of(Create) if step.side == side]
        assert created == [((k + side) % 3, 10 * k) for k in range(10)]
    join.close()


@pytest.mark.parametrize("window", [wm.Rows(100), wm.Range(100, time="ts")])
def test_whole_sub_windows_expire_and_memory_stays_bounded(ledger: Ledger, window: Any) -> None:
    join = band_join(window, cores=2, subwindow=20, granularity=10)
    sizes = []
    for start in range(0, 3000, 30):
        join.push(r=rows("x", 30, start), s=rows("a", 30, start))
        flow = flow_of(join)
        for side in (0, 1):
            subs = [sub for worker in flow.workers for sub in worker.subwindows(side)]
            assert sum(sub.count for sub in subs) <= 100 + 30 + 2 * 20
            # The manager knows as much as the workers do.
            assert sorted((place.base, place.end) for place in flow.manager.chains[side]) == sorted(
                (sub.base, sub.end) for sub in subs
            )
        sizes.append(join.stats()["streams"]["r"]["bytes"])
    assert max(sizes[50:]) <= 1.5 * max(sizes[10:50])
    alive = [place.id for chain_ in flow.manager.chains for place in chain_]
    assert flow.manager.reported.keys() == set(alive)
    assert len(ledger.of(Create)) - sum(len(step.ids) for _, step in ledger.of(Expire)) == len(alive)
    join.close()


def test_ranges_are_read_against_the_very_arrays_that_were_searched(ledger: Ledger) -> None:
    join = band_join(wm.Rows(4000), cores=2, subwindow=2000, result="ranges", index="bi_sort")
    for start in range(0, 12_000, 1500):
        join.push(r=rows("x", 1500, start), s=rows("a", 1500, start))
    manager = flow_of(join).manager
    last = [records for answer in ledger.answers[-2:] for records in answer.matches.ranges]
    runs_ = {id(run) for run in manager.mirror.values()}
    assert last
    assert any(id(records.rows) in runs_ for records in last)
    assert manager.mirror.keys() <= {place.id for chain_ in manager.chains for place in chain_}
    join.close()


def test_a_rap_table_learns_only_from_sealed_sub_windows(ledger: Ledger) -> None:
    join = band_join(wm.Rows(4000), cores=2, subwindow=1000, granularity=500, index="rap_table")
    for start in range(0, 8000, 500):
        join.push(r=rows("x", 500, start), s=rows("a", 500, start))
    given_on = [step.predecessor for _, step in ledger.of(Create)]
    assert all(isinstance(index, RapTable) and index.count == 1000 for index in given_on[-4:])
    join.close()


# ---- mutations: what is taken away is missed ------------------------------------------------------------------------


def few(run: Run, schedule: Schedule) -> None:
    check(run, {"flow": "pan_join", "cores": 2, "granularity": 2}, schedule)


def test_an_expiry_that_is_one_row_early_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    expire = Manager._expire

    def early(self: Manager, side: int, end: int | None, gone: int, plan: Any) -> None:
        expire(self, side, None if end is None else end + 1, gone, plan)

    monkeypatch.setattr(Manager, "_expire", early)
    assert is_found_out(few, runs(), schedules)


def test_a_reach_that_is_too_short_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    meets = Reach.meets

    def short(self: Reach, place: Place, timed: bool) -> bool:
        return meets(self, place, timed) and place.base + 1 < self.stop

    monkeypatch.setattr(Reach, "meets", short)
    assert is_found_out(few, runs(), schedules)


def test_interleaved_rows_that_probe_before_all_are_stored_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    obey = Worker.obey

    def hasty(self: Worker, steps: list[Command]) -> Any:
        ranks = {Create: 0, Ask: 1}
        return obey(self, sorted(steps, key=lambda step: ranks.get(type(step), 2)))

    monkeypatch.setattr(Worker, "obey", hasty)
    assert is_found_out(few, runs(), schedules)


def test_a_reception_that_does_not_wait_for_all_who_were_asked_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hasty(self: Reception, port: int, message: Message) -> None:
        if isinstance(message, Answer):
            self.outputs[0].put(message)
        else:
            receive(self, port, message)

    receive = Reception.receive
    monkeypatch.setattr(Reception, "receive", hasty)
    shape = {"flow": "pan_join", "cores": 3, "granularity": 2}
    assert is_found_out(
        lambda run, schedule: check_kind(run, shape, schedule, 1), runs(window=never_late), schedules
    )
