"""Drives the engine through a run, compares it with the oracle, and shows missing and extra pairs."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import note, settings

import oracle
import watersmeet as wm
from oracle import Event, Outcome, Pair
from strategies import Run, batch
from watersmeet.join import engine, shared, short
from watersmeet.join.plan import Plan

engine.PARALLEL = shared.PARALLEL = 2  # so that a handful of rows wakes the threads
short.FEW = 3  # so that pushes of some runs go the short way, others the long one, many both


def examples(n: int) -> settings:
    """``n`` examples in the default profile, in proportion more in a profile that asks for more."""
    default = settings.get_profile("ci").max_examples
    return settings(max_examples=max(1, n * settings().max_examples // default))


def driver_of(join: wm.StreamJoin) -> Any:
    """What drives the index of a join of two streams that has a plan."""
    plan = join._engine.planning.plan
    assert isinstance(plan, Plan)
    return plan.driver


def duration(n: int, unit: str, as_text: bool = True) -> Any:
    """``n`` units: a number, or a text or timedelta if the time column is a point in time."""
    if not unit:
        return n
    return f"{n} {unit}" if as_text else timedelta(**{{"s": "seconds", "d": "days"}[unit]: n})


def window(spec: oracle.Window, unit: str) -> Any:
    """The engine's window for the oracle's."""
    if spec[0] == "rows":
        return wm.Rows(spec[1])
    if spec[0] == "unbounded":
        return wm.Unbounded()
    return wm.Range(duration(spec[1], unit), time=spec[2], lateness=duration(spec[3], unit, as_text=False))


def make(run: Run, **options: Any) -> wm.StreamJoin:
    """The join of a run, nothing pushed yet."""
    return wm.StreamJoin(
        run.condition.text,
        r=window(run.r, run.unit),
        s=window(run.s, run.unit),
        schemas={side: run.schema(side) for side in "rs"} if run.declared else None,
        **{"how": run.how, "index": run.index, "cores": run.cores, "subwindow": run.subwindow, **options},
    )


def push(join: wm.StreamJoin, run: Run, events: tuple[Event, ...]) -> Any:
    """One push; ``order`` is left out when keyword order says the same; some pushes name a stream without rows."""
    rows = {side: [row for stream, row in events if stream == side] for side in "rs"}
    order = [stream for stream, _ in events]
    options = {} if order == sorted(order) else {"order": order}
    empty_too = bool(events) and events[0][1]["id"] % 4 == 3
    batches = {side: batch(rows[side], run, side) for side in "rs" if rows[side] or empty_too}
    return join.push(**batches, **options)


def pairs(result: Any) -> list[Pair]:
    """A result's pairs, sorted."""
    found = result.pairs()
    r, s = found["r"], found["s"]
    assert r.dtype == s.dtype == "int64"
    assert len(r) == len(s) == result.count
    return sorted(zip(r.tolist(), s.tolist(), strict=True))


def late(result: Any) -> dict[str, list[int]]:
    """The ids of a result's late rows, by stream."""
    return {side: rows.column("id").to_pylist() for side, rows in result.late.items() if rows.num_rows}


def late_ids(events: list[Event]) -> dict[str, list[int]]:
    found = {side: [row["id"] for stream, row in events if stream == side] for side in "rs"}
    return {side: ids for side, ids in found.items() if ids}


def drive(
    run: Run, between: Callable[[int, wm.StreamJoin], wm.StreamJoin] | None = None, **options: Any
) -> tuple[list[list[Pair]], list[dict[str, list[int]]]]:
    """Push everything, then finish: pairs and late ids by push. ``between`` may swap the join after each."""
    join = make(run, **options)
    found, refused = [], []
    for number, events in enumerate(run.pushes):
        result = push(join, run, events)
        found.append(pairs(result))
        refused.append(late(result))
        if between is not None:
            join = between(number, join)
    found.append(pairs(join.finish()))
    return found, refused


def expected(run: Run) -> Outcome:
    """What the three-step procedure says."""
    return oracle.run(run.pushes, run.condition.predicate, run.r, run.s, run.how)


def same_pairs(got: list[Pair], wanted: list[Pair], where: str, run: Run | None = None) -> None:
    """Equal as multisets; else show what is missing and what is too much."""
    if sorted(got) == sorted(wanted):
        return
    missing = sorted((Counter(wanted) - Counter(got)).elements())
    extra = sorted((Counter(got) - Counter(wanted)).elements())
    raise AssertionError(f"{where}: missing {missing}; extra {extra}" + (f"\n{script(run)}" if run else ""))


def check(run: Run, **options: Any) -> None:
    """The engine's answer is the oracle's, push by push: pairs, outer rows and late rows."""
    note(script(run))
    wanted = expected(run)
    found, refused = drive(run, **options)
    for number, (got, want) in enumerate(zip(found, wanted.pairs, strict=True)):
        where = f"push {number}" if number < len(run.pushes) else "finish"
        same_pairs(got, want, where, run)
    assert refused == [late_ids(events) for events in wanted.late]


def script(run: Run) -> str:
    """The run as a program that repeats it."""
    lines = [
        f"StreamJoin({run.condition.text!r}, r={window(run.r, run.unit)}, s={window(run.s, run.unit)}, "
        f"how={run.how!r}, index={run.index!r}, cores={run.cores}, subwindow={run.subwindow})",
        f"times: {run.time[0]} and {run.time[1]}; schemas {'given' if run.declared else 'from the batches'}",
    ]
    for events in run.pushes:
        lines.append("push " + "; ".join(f"{stream} {row}" for stream, row in events))
    return "\n".join(lines)


def reload(join: wm.StreamJoin, folder: Path) -> wm.StreamJoin:
    """Save, and load what was saved."""
    join.save(folder)
    return wm.StreamJoin.load(folder)
