"""Runs of joins of two to five streams, drawn by Hypothesis, and the runner that compares them with the oracle.

A run is a list of pushes, each a list of (stream, row) in arrival order, as in ``strategies.py``. A push whose streams come one
after the other is pushed in keyword order, any other one with ``order=``.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
from hypothesis import note
from hypothesis import strategies as st

import oracle
import watersmeet as wm
from harness import window
from multiway_conditions import NAMES, VALUES, Condition, column_type, conditions
from oracle import Combination, Event, MultiwayOutcome, Window
from strategies import TIMES, column, in_pushes
from watersmeet.join import short
from watersmeet.join.short import FEW

MOST_ROWS = {2: 40, 3: 40, 4: 36, 5: 30}  # in all streams together: the oracle looks at every combination


@dataclass(frozen=True)
class Run:
    """One join and the rows that are pushed into it."""

    condition: Condition
    windows: Mapping[str, Window]  # by stream, in the order in which the streams are written
    pushes: tuple[tuple[Event, ...], ...]
    time: Mapping[str, pa.DataType]
    unit: str = ""
    declared: bool = True  # the schemas are given; else the first batches fix them
    index: str = "auto"
    cores: int = 1
    subwindow: int | None = None
    few: int = FEW  # rows of a push that still go the short way

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.windows)

    @property
    def events(self) -> list[Event]:
        return [event for push in self.pushes for event in push]

    def split(self, sizes: Sequence[int]) -> "Run":
        """The same rows in pushes of ``sizes``, the last of them again and again."""
        return replace(self, pushes=in_pushes(self.events, sizes))

    def columns(self, stream: str) -> list[str]:
        """The columns of a stream that the condition reads."""
        return [name.split(".")[1] for name in self.condition.columns if name.startswith(f"{stream}.")]

    def schema(self, stream: str) -> pa.Schema:
        fields = [(name, column_type(stream, name)) for name in self.columns(stream)]
        return pa.schema([("id", pa.int64()), ("ts", self.time[stream]), *fields])


# ---- strategies -------------------------------------------------------------------------------------------------

_counts = st.integers(1, 8).map(lambda n: ("rows", n))
ranges = st.builds(lambda t, late: ("range", t, "ts", late), st.integers(0, 10), st.integers(0, 8))
unbounded = st.just(("unbounded",))
bounded = st.one_of(_counts, ranges)
windows = st.one_of(_counts, _counts, ranges, ranges, unbounded)


@st.composite
def events(
    draw: st.DrawFn, condition: Condition, names: Sequence[str], most: int | None = None
) -> list[Event]:
    """Rows of all streams in arrival order; time moves on, with steps back now and then."""
    most = most or MOST_ROWS[len(names)]
    size = draw(st.one_of(st.integers(most // 2, most), st.integers(0, most)))  # few rows seldom meet
    streams = draw(st.lists(st.sampled_from(names), min_size=size, max_size=size))
    columns = {
        name: [c.split(".")[1] for c in condition.columns if c.startswith(f"{name}.")] for name in names
    }
    rows = {name: st.fixed_dictionaries({c: VALUES[c] for c in columns[name]}) for name in names}
    now, seen, found = 0, dict.fromkeys(names, 0), []
    for stream in streams:
        now = max(0, now + draw(st.sampled_from([0, 0, 1, 1, 2, 3, -1, -3, -7])))
        found.append((stream, {"id": seen[stream], "ts": now, **draw(rows[stream])}))
        seen[stream] += 1
    return found


def in_blocks(run: Run, order: Sequence[str]) -> Run:
    """The streams of each push one after the other, in ``order``: pushes in keyword order."""
    pushes = [tuple(sorted(push, key=lambda event: order.index(event[0]))) for push in run.pushes]
    return numbered(replace(run, pushes=tuple(pushes)))


def numbered(run: Run) -> Run:
    """Ids count the rows of each stream as they come."""
    seen, pushes = dict.fromkeys(run.names, 0), []
    for push in run.pushes:
        fresh = []
        for stream, row in push:
            fresh.append((stream, {**row, "id": seen[stream]}))
            seen[stream] += 1
        pushes.append(tuple(fresh))
    return replace(run, pushes=tuple(pushes))


@st.composite
def runs(
    draw: st.DrawFn,
    streams: st.SearchStrategy[int] = st.integers(2, 5),  # noqa: B008
    shape: str | None = None,
    index: str | None = None,
    window: st.SearchStrategy[Window] = windows,
    most: int | None = None,
) -> Run:
    """A run of any number of streams, shape and windows, in pushes of any size."""
    names = draw(st.permutations(NAMES[: draw(streams)]))
    condition = draw(conditions(names, shape, index))
    unit = draw(st.sampled_from(list(TIMES)))
    run = Run(
        condition,
        {name: draw(window) for name in names},
        (tuple(draw(events(condition, names, most))),),
        {name: draw(st.sampled_from(TIMES[unit])) for name in names},
        unit=unit,
        declared=draw(st.booleans()),
        index=index or draw(st.sampled_from(("auto", "auto", "scan", *condition.indexes))),
        cores=draw(st.sampled_from([1, 1, 2])),
        subwindow=draw(st.sampled_from([None, 2, 3, 8])),
        few=draw(st.sampled_from([-1, 2, FEW])),
    ).split(draw(st.lists(st.integers(1, 16), min_size=1, max_size=5)))
    return in_blocks(run, draw(st.permutations(names))) if draw(st.booleans()) else run


# ---- the runner -------------------------------------------------------------------------------------------------


def batch(rows: Sequence[dict[str, Any]], run: Run, stream: str) -> pa.RecordBatch:
    """``rows`` of a stream as a record batch."""
    schema = run.schema(stream)
    return pa.RecordBatch.from_arrays([column(rows, field, run.unit) for field in schema], schema=schema)


def make(run: Run, **options: Any) -> wm.StreamJoin:
    """The join of a run, nothing pushed yet."""
    return wm.StreamJoin(
        run.condition.text,
        windows={name: window(spec, run.unit) for name, spec in run.windows.items()},
        schemas={name: run.schema(name) for name in run.names} if run.declared else None,
        **{"index": run.index, "cores": run.cores, "subwindow": run.subwindow, **options},
    )


def push(join: wm.StreamJoin, run: Run, events: Sequence[Event]) -> Any:
    """One push; ``order`` is left out when keyword order says the same; some pushes name streams without rows."""
    order = [stream for stream, _ in events]
    present = list(dict.fromkeys(order))
    options = {} if order == sorted(order, key=present.index) else {"order": order}
    if events and events[0][1]["id"] % 4 == 3:
        present += [name for name in run.names if name not in present]
    batches = {name: batch([row for stream, row in events if stream == name], run, name) for name in present}
    with patch.object(short, "FEW", run.few):
        return join.push(**batches, **options)


def combinations(result: Any, names: Sequence[str]) -> list[Combination]:
    """A result's arrival numbers, sorted, in the order of ``names``."""
    found = result.numbers() if len(names) > 2 else result.pairs()
    assert list(found) == list(names)
    assert all(numbers.dtype == "int64" and len(numbers) == result.count for numbers in found.values())
    return sorted(zip(*(found[name].tolist() for name in names), strict=True))


def drive(
    run: Run, between: Callable[[int, wm.StreamJoin], wm.StreamJoin] | None = None, **options: Any
) -> tuple[list[list[Combination]], list[dict[str, list[int]]]]:
    """Push everything, then finish: combinations and late ids by push. ``between`` may swap the join after each."""
    join = make(run, **options)
    found, refused = [], []
    for number, events in enumerate(run.pushes):
        result = push(join, run, events)
        found.append(combinations(result, run.names))
        refused.append(
            {name: rows.column("id").to_pylist() for name, rows in result.late.items() if rows.num_rows}
        )
        if between is not None:
            join = between(number, join)
    assert join.finish().count == 0  # an inner join keeps nothing back
    return found, refused


def whole(run: Run, **options: Any) -> list[Combination]:
    """All combinations of a run, in one sorted list."""
    return sorted(one for found in drive(run, **options)[0] for one in found)


def expected(run: Run) -> MultiwayOutcome:
    """What the rule says, a row at a time."""
    return oracle.run_multiway(run.pushes, run.condition.predicate, run.windows)


def late_ids(events: Sequence[Event]) -> dict[str, list[int]]:
    """The ids of late rows, by stream."""
    found: dict[str, list[int]] = {}
    for stream, row in events:
        found.setdefault(stream, []).append(row["id"])
    return found


def same(got: Sequence[Combination], wanted: Sequence[Combination], where: str, run: Run) -> None:
    """Equal as multisets; else show what is missing and what is too much."""
    if sorted(got) == sorted(wanted):
        return
    missing = sorted((Counter(wanted) - Counter(got)).elements())
    extra = sorted((Counter(got) - Counter(wanted)).elements())
    raise AssertionError(f"{where}: {', '.join(run.names)}: missing {missing}; extra {extra}\n{script(run)}")


def check(run: Run, **options: Any) -> None:
    """The engine's answer is the oracle's, push by push: combinations and late rows."""
    note(script(run))
    wanted = expected(run)
    found, refused = drive(run, **options)
    for number, (got, want) in enumerate(zip(found, wanted.combinations, strict=True)):
        same(got, want, f"push {number}", run)
    assert refused == [late_ids(events) for events in wanted.late]


def script(run: Run) -> str:
    """The run as a program that repeats it."""
    streams = ", ".join(f"{name}={window(spec, run.unit)}" for name, spec in run.windows.items())
    lines = [
        f"StreamJoin({run.condition.text!r}, {streams}, index={run.index!r}, cores={run.cores}, subwindow={run.subwindow})",
        f"the short way for pushes of up to {run.few} rows; "
        f"times: {', '.join(f'{name} {kind}' for name, kind in run.time.items())}; "
        f"schemas {'given' if run.declared else 'from the batches'}",
    ]
    for events in run.pushes:
        lines.append("push " + "; ".join(f"{stream} {row}" for stream, row in events))
    return "\n".join(lines)


# ---- the rule once more, as SQL over all rows at once -----------------------------------------------------------


def by_duckdb(run: Run) -> list[Combination]:
    """The combinations by one query over the whole sequence of arrival, windows included."""
    with duckdb.connect() as connection:
        for name in run.names:
            connection.register(f"pushed_{name}", _placed(run, name))
        times = " UNION ALL ".join(
            f"SELECT '{name}' AS stream, place, ts - {run.windows[name][3]} AS mark FROM pushed_{name}"
            for name in run.names
            if run.windows[name][0] == "range"
        )
        for name in run.names:
            kept = f"ts >= {_watermark(run, times)}" if run.windows[name][0] == "range" else "TRUE"
            connection.execute(
                f"CREATE TABLE rows_{name} AS SELECT *, row_number() OVER (ORDER BY place) - 1 AS number "
                f"FROM pushed_{name} p WHERE {kept}"
            )
        pairs = [(p, q) for p in run.names for q in run.names if p != q]
        valid = " AND ".join(f"({_valid(run, p, q)})" for p, q in pairs)
        query = (
            f"SELECT {', '.join(f'{name}.number' for name in run.names)} "
            f"FROM {', '.join(f'rows_{name} {name}' for name in run.names)} "
            f"WHERE ({run.condition.duckdb or run.condition.text}) AND {valid}"
        )
        return sorted(connection.execute(query).fetchall())


def _placed(run: Run, stream: str) -> pa.Table:
    """All pushed rows of a stream, with their places in the sequence and times as plain numbers."""
    mine = [(place, row) for place, (name, row) in enumerate(run.events) if name == stream]
    columns = {c: pa.array([row[c] for _, row in mine], column_type(stream, c)) for c in run.columns(stream)}
    places = pa.array([place for place, _ in mine], pa.int64())
    return pa.table({"place": places, "ts": pa.array([row["ts"] for _, row in mine], pa.int64()), **columns})


def _watermark(run: Run, times: str) -> str:
    """The watermark before the row ``p``; a late row is below every clock, so it may be counted among the times."""
    timed = sum(spec[0] == "range" for spec in run.windows.values())
    newest = f"SELECT max(mark) AS mark FROM ({times}) t WHERE t.place < p.place GROUP BY stream"
    return f"(SELECT CASE WHEN count(*) = {timed} THEN min(mark) ELSE -1000000 END FROM ({newest}))"


def _valid(run: Run, p: str, q: str) -> str:
    """``q`` may be seen by ``p`` if ``p`` came later."""
    window = run.windows[q]
    if window[0] == "unbounded":
        return "TRUE"
    between = f"FROM rows_{q} z WHERE z.place < {p}.place"
    if window[0] == "rows":  # fewer than n rows came after it
        return f"{p}.place < {q}.place OR (SELECT count(*) {between} AND z.place > {q}.place) < {window[1]}"
    if run.windows[p][0] == "range":  # whoever came first
        return f"{p}.ts <= {q}.ts + {window[1]}"
    return f"{p}.place < {q}.place OR {q}.ts + {window[1]} >= (SELECT max(z.ts) {between})"
