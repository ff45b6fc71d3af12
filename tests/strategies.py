"""Runs of a join, drawn by Hypothesis: what is joined, within which windows, and how the rows come.

A run is a list of pushes, each a list of (stream, row) in arrival order. Rows are plain dicts; times are
whole numbers of the run's unit, so that the oracle can do arithmetic with them. Column ``id``
numbers the rows of a stream, late ones included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from conditions import COLUMNS, Condition, conditions
from oracle import Event, Window

INDEXES = ("scan", "hash", "bi_sort", "rap_table", "wib_tree", "grid")
HOWS = (
    "inner",
    "left",
    "right",
    "full",
    "semi",
    "anti",
    "left_semi",
    "left_anti",
    "right_semi",
    "right_anti",
)
TIMES = {  # unit -> types of a time column that counts it; the two streams may have different ones
    "": (pa.int64(), pa.int32(), pa.uint16(), pa.float64()),
    "s": (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("ns")),
    "d": (pa.date32(), pa.timestamp("us")),
}


def in_pushes(events: Sequence[Event], sizes: Sequence[int]) -> tuple[tuple[Event, ...], ...]:
    """Rows in pushes of ``sizes``, the last of them again and again."""
    pushes, start = [], 0
    while start < len(events):
        size = sizes[min(len(pushes), len(sizes) - 1)]
        pushes.append(tuple(events[start : start + size]))
        start += size
    return tuple(pushes)


@dataclass(frozen=True)
class Run:
    """One join and the rows that are pushed into it."""

    condition: Condition
    r: Window
    s: Window
    pushes: tuple[tuple[Event, ...], ...]
    unit: str = ""
    time: tuple[pa.DataType, pa.DataType] = (pa.int64(), pa.int64())
    declared: bool = True  # the schemas are given; else the first batches fix them
    how: str = "inner"
    index: str = "auto"
    cores: int = 1
    subwindow: int | None = None

    @property
    def events(self) -> list[Event]:
        return [event for push in self.pushes for event in push]

    def split(self, sizes: Sequence[int]) -> "Run":
        """The same rows in pushes of ``sizes``, the last of them again and again."""
        return replace(self, pushes=in_pushes(self.events, sizes))

    def schema(self, stream: str) -> pa.Schema:
        names = [name[2:] for name in self.condition.columns if name.startswith(stream)]
        fields = [(name, COLUMNS[f"{stream}.{name}"][0]) for name in names]
        return pa.schema([("id", pa.int64()), ("ts", self.time["rs".index(stream)]), *fields])


_counts = st.integers(1, 10).map(lambda n: ("rows", n))
_ranges = st.builds(lambda t, late: ("range", t, "ts", late), st.integers(0, 8), st.integers(0, 6))
_unbounded = st.just(("unbounded",))
windows = st.one_of(_counts, _counts, _ranges, _ranges, _unbounded)


@st.composite
def events(draw: st.DrawFn, condition: Condition, max_rows: int = 40) -> list[Event]:
    """Rows of both streams in arrival order; time moves on, with steps back now and then."""
    streams = draw(st.lists(st.sampled_from("rs"), max_size=max_rows))
    columns = {side: [name[2:] for name in condition.columns if name.startswith(side)] for side in "rs"}
    rows = {
        side: st.fixed_dictionaries({name: COLUMNS[f"{side}.{name}"][1] for name in columns[side]})
        for side in "rs"
    }
    now, seen, found = 0, {"r": 0, "s": 0}, []
    for stream in streams:
        now = max(0, now + draw(st.sampled_from([0, 0, 1, 1, 2, 3, -1, -3, -7])))
        found.append((stream, {"id": seen[stream], "ts": now, **draw(rows[stream])}))
        seen[stream] += 1
    return found


@st.composite
def runs(
    draw: st.DrawFn,
    index: str | None = None,
    how: str = "inner",
    window: st.SearchStrategy[Window] = windows,
    max_rows: int = 40,
) -> Run:
    """A run for ``index`` (any that fits when None), in pushes of any size."""
    condition = draw(conditions(index))
    unit = draw(st.sampled_from(list(TIMES)))
    run = Run(
        condition,
        draw(window),
        draw(window),
        (tuple(draw(events(condition, max_rows))),),
        unit=unit,
        time=(draw(st.sampled_from(TIMES[unit])), draw(st.sampled_from(TIMES[unit]))),
        declared=draw(st.booleans()),
        how=how,
        index=index or draw(st.sampled_from(("auto", "scan", *condition.indexes))),
        cores=draw(st.sampled_from([1, 1, 2])),
        subwindow=draw(st.sampled_from([None, 2, 3, 8])),
    )
    return run.split(draw(st.lists(st.integers(1, 16), min_size=1, max_size=5)))


def column(rows: Sequence[dict[str, Any]], field: pa.Field, unit: str) -> pa.Array:
    """One column of ``rows``; times are whole numbers of ``unit``."""
    values = [row[field.name] for row in rows]
    if field.name != "ts":
        return pa.array(values, field.type)
    if not pa.types.is_temporal(field.type):
        return pa.array(values, pa.int64()).cast(field.type)
    if unit == "d":
        return pa.array(values, pa.int32()).cast(pa.date32()).cast(field.type)
    return pa.array(values, pa.int64()).cast(pa.timestamp("s")).cast(field.type)


def batch(rows: Sequence[dict[str, Any]], run: Run, stream: str) -> pa.RecordBatch:
    """``rows`` of a stream as a record batch."""
    schema = run.schema(stream)
    return pa.RecordBatch.from_arrays([column(rows, field, run.unit) for field in schema], schema=schema)
