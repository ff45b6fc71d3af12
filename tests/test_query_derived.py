"""Joins of derived streams against the dull oracle, in every split, saved and loaded anywhere; against DuckDB; refusals; interruptions."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from derived_oracle import LATENESS, TABLE, Distinct, Join, Row, Stream, UnionAll, Window, Windows, written
from harness import examples
from strategies import in_pushes
from test_processor_state import again
from test_processor_warm import WATERMARK

SCHEMA = pa.schema({"k": pa.string(), "x": pa.int64(), "ts": pa.int64()})
Arrival = tuple[str, Row]
OWN = {name: wm.Range(5, time="ts", lateness=LATENESS) for name in "abc"}
SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=8)


@st.composite
def arrivals(draw: st.DrawFn, most: int = 20) -> list[Arrival]:
    """Times move on, with some disorder: some rows are late."""
    one = st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["a", "a", "b", None]),
        st.sampled_from([None, 0, 1, 2]),
        st.integers(0, 6),
    )
    return [
        (name, {"k": k, "x": x, "ts": number // 2 + early})
        for number, (name, k, x, early) in enumerate(draw(st.lists(one, max_size=most)))
    ]


def processor(watermark: str = "row", own: Any = OWN) -> wm.Processor:
    table = pa.Table.from_pylist(TABLE, SCHEMA)
    return wm.Processor(
        windows=own, schemas=dict.fromkeys("abc", SCHEMA), tables={"t": table}, watermark=watermark
    )


def push(qp: wm.Processor, events: Sequence[Arrival]) -> Any:
    names = [name for name, _ in events]
    present = list(dict.fromkeys(names))
    batches = {
        name: pa.RecordBatch.from_pylist([row for one, row in events if one == name], SCHEMA)
        for name in present
    }
    in_turn = names == sorted(names, key=present.index)
    return qp.push(batches, **({} if in_turn else {"order": names}))


def rows_of(result: wm.Result) -> Counter[Any]:
    table = result.to_arrow()
    found = Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert sum(found.values()) == result.count
    return found


# ---- what can be asked ----------------------------------------------------------------------------------------------

STREAM = st.sampled_from("abc").map(Stream)
HOWS = st.sampled_from(
    ["inner", "inner", "left", "right", "full", "semi", "anti", "right semi", "right anti"]
)


@st.composite
def derived(draw: st.DrawFn, depth: int) -> Any:
    kinds = ["union", "distinct", "windows", *["join"] * (2 * (depth > 0))]
    kind = draw(st.sampled_from(kinds))
    some = STREAM if depth < 1 else STREAM | derived(depth - 1)
    if kind == "union":
        return UnionAll(tuple(draw(st.lists(some, min_size=2, max_size=2))))
    if kind == "distinct":
        return Distinct(draw(some))
    if kind == "windows":
        source = draw(some.filter(lambda one: one.ticks() is not None))
        return Windows(source, draw(st.integers(1, 4)))
    return draw(joins(some))


@st.composite
def joins(draw: st.DrawFn, some: Any, of_derived: bool = False) -> Join:
    """A join that is not refused. ``of_derived``: one input at least is no stream."""
    inputs = [draw(some) for _ in range(draw(st.sampled_from([2, 2, 2, 3])))]
    if of_derived and all(isinstance(one, Stream) for one in inputs):
        inputs[draw(st.integers(0, len(inputs) - 1))] = draw(derived(0))
    if draw(st.integers(0, 4)) == 0:
        inputs[draw(st.integers(1, len(inputs) - 1))] = Stream("t")
    how = "inner" if len(inputs) > 2 else draw(HOWS)
    kept = [k for k, one in enumerate(inputs) if one != Stream("t")]
    kinds = ["unbounded"]
    if all(inputs[k].ticks() is not None for k in kept):
        kinds += ["range", "range"]
    if all(inputs[k].placed for k in kept):
        kinds += ["rows", "rows"]
    kind = draw(st.sampled_from(kinds))
    windows: list[Window] = []
    for k in range(len(inputs)):
        if k not in kept or kind == "unbounded" or (kind == "rows" and draw(st.integers(0, 3)) == 0):
            windows.append(("unbounded", 0))
        else:
            windows.append((kind, draw(st.integers(1, 4))))
    time = draw(st.sampled_from(kept))
    if kind == "range" and len(kept) > 1 and how == "inner":
        time = draw(st.sampled_from([*kept, -1]))
    return Join(tuple(inputs), tuple(windows), how, draw(st.booleans()), time)


ROOTS = joins(STREAM | derived(1), of_derived=True)


def told_by(root: Join, units: Any, ended: bool) -> Counter[Any]:
    return Counter(tuple(one.row.values()) for one in root.rows(units, ended))


def in_units(pushes: Sequence[Sequence[Arrival]], watermark: str) -> Any:
    return pushes if watermark == "push" else [[row] for push in pushes for row in push]


@examples(60)
@given(ROOTS, arrivals(), SIZES, WATERMARK, st.integers(0, 6))
def test_joins_of_derived_streams_give_what_the_rule_says(
    root: Join, rows: list[Arrival], sizes: list[int], watermark: str, saved: int
) -> None:
    """After each push all that was given so far is what the rule gives for all that has come: so splits do not matter."""
    note(written(root))
    qp = processor(watermark)
    qp.create("q", written(root))
    told: Counter[Any] = Counter()
    pushes = in_pushes(rows, sizes)
    for number, events in enumerate(pushes):
        told += rows_of(push(qp, events)["q"])
        assert told == told_by(root, in_units(pushes[: number + 1], watermark), ended=False)
        if number == saved:
            qp = again(qp)
    told += rows_of(qp.finish()["q"])
    assert told == told_by(root, in_units(pushes, watermark), ended=True)
