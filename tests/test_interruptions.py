"""A push, ``advance`` or ``finish`` that is interrupted at any step is undone: the same again, and the rest, give the oracle's results."""

import sys
from dataclasses import replace

import pytest

import watersmeet as wm
from conditions import Condition
from harness import make, pairs, push
from interrupted_runs import BAND, WINDOWS, Case, some_run
from interruptions import every_step
from oracle import Oracle
from watersmeet.api import stream_join as join_module

SAMPLE = 40  # steps a case in the default suite; the slow tests take all of them


def cases() -> dict[str, Case]:
    found = {}
    for how in ("inner", "left", "full", "left_semi", "right_anti"):
        for window in WINDOWS:
            for at, where in ((3, "push"), (6, "finish")):
                run = some_run(window, how, cores=1 + (how == "full"), subwindow=3)
                found[f"{how}-{window}-{where}"] = Case(run, at, {})
    for window in ("rows", "range"):  # the second push brings both schemas, or the first and then the other
        for at in (0, 2):
            run = some_run(window, "left", "r" * 8 + "srsr" * 3, declared=False)
            found[f"schema-{window}-{at}"] = Case(run, at, {})
    ones = some_run("rows", "inner", "rrss" * 6, size=2)
    found["short way"] = Case(ones, 9, {})
    found["short way, expiring"] = Case(replace(ones, subwindow=2), 10, {})
    for index in ("hash", "rap_table", "wib_tree", "scan"):
        condition = BAND
        if index == "hash":
            condition = Condition("r.x = s.a", lambda r, s: r["x"] == s["a"], ("r.x", "s.a"), ("hash",))
        run = replace(some_run("rows", "full", subwindow=4), condition=condition, index=index)
        found[index] = Case(run, 3, {})
    return found


CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_operation_is_undone(name: str) -> None:
    CASES[name].interrupt(SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_operation_interrupted_at_any_step_is_undone(name: str) -> None:
    CASES[name].interrupt(None)


def test_a_clock_whose_move_is_interrupted_stands_as_before() -> None:
    run = some_run("range", "full")
    oracle = Oracle(run.condition.predicate, run.r, run.s, run.how)
    for stream, row in run.events:
        oracle.arrive(stream, row)
    wanted = sorted(oracle.advance("r", 60).pairs), sorted(oracle.advance("s", 50).pairs)

    def make_join() -> wm.StreamJoin:
        join = make(run)
        for events in run.pushes:
            push(join, run, events)
        return join

    def check(join: wm.StreamJoin, moved: wm.Result) -> None:
        assert pairs(moved) == wanted[0]
        assert pairs(join.advance(s=50)) == wanted[1] != []

    assert every_step(make_join, lambda join: join.advance(r=60), check, at_most=60) > 60


def test_an_undo_that_is_struck_itself_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(10), s=wm.Rows(10))
    join.push(r={"k": [1, 2, 3]})
    restore = join_module.restore
    strikes = iter([KeyboardInterrupt(), MemoryError()])

    def struck(*given: object) -> None:
        strike = next(strikes, None)
        if strike is not None:
            raise strike
        restore(*given)

    monkeypatch.setattr(join_module, "restore", struck)
    with pytest.raises(KeyboardInterrupt):
        join.push(s={"k": ["a text, which does not compare"]})
    with pytest.raises(MemoryError):
        join.push(s={"k": [1]})
    assert join.push(s={"k": [1, 2, 3]}).count == 3


def test_a_call_from_within_a_push_is_refused() -> None:
    join = wm.StreamJoin("r.k = s.k", r=wm.Rows(10), s=wm.Rows(10))
    join.push(r={"k": [1]}, s={"k": [1]})
    heard: list[str] = []

    def handler(
        frame: object, event: str, arg: object
    ) -> None:  # as a signal handler would, in the middle of a push
        if event == "call" and not heard and getattr(frame, "f_code").co_name == "write_down":  # noqa: B009
            for call in (lambda: join.push(r={"k": [5]}), join.finish, lambda: join.save("nowhere")):
                try:
                    call()
                except wm.StateError as error:
                    heard.append(str(error))
            heard.append(str(join.stats()["pushes"]))

    sys.setprofile(handler)
    try:
        assert join.push(r={"k": [1]}).count == 1
    finally:
        sys.setprofile(None)
    assert [text[:56] for text in heard] == [
        "a join must have ended one push before the next call; go"
    ] * 3 + ["1"]
    assert join.stats()["streams"]["r"]["arrived"] == 2
