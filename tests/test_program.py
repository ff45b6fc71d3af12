"""Residuals as programs: whatever the machine takes on, it gives what Arrow compute gives, NULL, NaN and overflow included."""

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples
from watersmeet.index.base import Keys, PairBuffer
from watersmeet.join.chain import Block
from watersmeet.join.pair_test import PairTest
from watersmeet.sql import evaluate
from watersmeet.sql.bind import Binder
from watersmeet.sql.condition import Condition
from watersmeet.sql.parse import parse_condition
from watersmeet.sql.program import Program, compiled
from watersmeet.sql.syntax import Source
from watersmeet.sql.tree import Expr

MAX, MIN, NAN, INF = 2**63 - 1, -(2**63), math.nan, math.inf
START = dt.datetime(2026, 1, 5)
COLUMNS = {
    "i": pa.array([3, -2, 0, None, 2**31 - 1, -(2**31), 7], pa.int32()),
    "b": pa.array([MAX, MIN, None, -1, 0, 3_037_000_500, 2**62], pa.int64()),
    "f": pa.array([1.5, -0.0, NAN, None, INF, -INF, 1e300], pa.float64()),
    "g": pa.array([0.1, 2.5, NAN, None, -INF, 0.0, 1e30], pa.float32()),
    "u": pa.array([0, 1, 255, None, 7, 8, 9], pa.uint8()),
    "t": pa.array([START, None, *(START + dt.timedelta(days=day) for day in range(5))], pa.timestamp("us")),
    "o": pa.array([True, False, None, True, False, None, True], pa.bool_()),
}
SCHEMA = pa.schema({name: column.type for name, column in COLUMNS.items()})
SCHEMAS = {"r": SCHEMA, "s": SCHEMA}
ROWS = len(COLUMNS["i"])

names = st.sampled_from(["r.i", "s.i", "r.b", "s.b", "r.f", "s.f", "r.g", "s.g", "r.u", "s.u"])
constants = st.sampled_from(
    ["0", "2", "-3", "1.1", "0.3", "1e300", "9223372036854775807", "CAST(0.1 AS FLOAT)"]
)
numbers = st.recursive(
    names | constants,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        inner.map(lambda x: f"ABS({x})"),
        inner.map(lambda x: f"(- {x})"),
        inner.map(lambda x: f"SQRT({x})"),
        inner.map(lambda x: f"POWER({x}, 2)"),
        inner.map(lambda x: f"CAST({x} AS DOUBLE)"),
    ),
    max_leaves=6,
)
compared = st.tuples(numbers, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), numbers).map(" ".join)
truths = st.recursive(
    st.one_of(
        compared,
        numbers.map(lambda x: f"{x} IS NULL"),
        st.sampled_from(["r.t < s.t", "r.t >= s.t", "r.o", "s.o", "r.o = s.o", "r.o <> s.o"]),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda x: f"NOT ({x})"),
    ),
    max_leaves=4,
)


def bound(text: str) -> Expr:
    return Binder(Source(text, "condition"), SCHEMAS).boolean(parse_condition(text))


def by_machine(program: Program, probing: str) -> set[tuple[int, int]]:
    """The pairs (row of r, row of s) that a program keeps of all."""
    batch = pa.RecordBatch.from_arrays(list(COLUMNS.values()), schema=SCHEMA)
    mine, stored = (program.inputs(stream, batch) for stream in (probing, "s" if probing == "r" else "r"))
    keys = Keys(np.zeros(ROWS, np.int64), np.arange(ROWS, dtype=np.int32))
    test = PairTest(program, probing, Block(0, ROWS, keys, mine, None, nulls=bool(mine[-1].any())), 0)
    pairs = PairBuffer()
    many = 30 * ROWS * ROWS  # more than a lot
    pairs.probe[:many] = np.tile(np.repeat(np.arange(ROWS), ROWS), 30)
    pairs.row[:many] = np.tile(np.arange(ROWS), 30 * ROWS)
    kept = test.among(np.array(stored), bool(stored[-1].any()))(pairs, many)
    found = [(int(p), int(q)) for p, q in zip(pairs.probe[:kept], pairs.row[:kept], strict=True)]
    assert len(found) == 30 * len(set(found))
    return {(p, q) if probing == "r" else (q, p) for p, q in found}


def by_arrow(expr: Expr) -> set[tuple[int, int]]:
    places = {"r": np.repeat(np.arange(ROWS), ROWS), "s": np.tile(np.arange(ROWS), ROWS)}
    columns = {
        (stream, name): column.take(pa.array(places[stream]))
        for stream in "rs"
        for name, column in COLUMNS.items()
    }
    holds = evaluate(expr, columns, ROWS * ROWS).to_pylist()
    return {divmod(at, ROWS) for at, value in enumerate(holds) if value}


@examples(150)
@given(truths)
@example("ABS(r.b) = s.b")
@example("r.b = ABS(r.b)")
def test_a_program_gives_what_the_text_says(text: str) -> None:
    expr = bound(text)
    program = compiled(expr, "rs")
    note(f"{text}: {'unknown' if program is None else program.registers}")
    if program is not None:
        wanted = by_arrow(expr)
        assert by_machine(program, "r") == wanted
        assert by_machine(program, "s") == wanted


@pytest.mark.parametrize(
    "text",
    [
        "(r.f - s.f) * (r.f - s.f) + (r.u - s.u) * (r.u - s.u) < 25",
        "POWER(r.f - s.f, 2) + POWER(r.i - s.i, 2) < 25",
        "SQRT(ABS(r.f * s.f)) / s.i > 0.3",
        "r.b * s.b > 5 OR s.b - r.b = 9223372036854775807",
        "r.b + s.i <= -r.b AND NOT (r.i * s.i = 0)",
        "r.o OR s.o IS NULL",
        "r.t < s.t OR r.i + s.i > 3",
    ],
)
def test_the_machine_knows_what_users_write(text: str) -> None:
    expr = bound(text)
    program = compiled(expr, "rs")
    assert program is not None
    assert by_machine(program, "s") == by_machine(program, "r") == by_arrow(expr)
    assert by_arrow(expr)


@pytest.mark.parametrize(
    "text",
    ["r.g * s.g < 1", "CAST(r.f * s.f AS INT) = 3", "r.i % s.i = 1", "CAST(r.f + s.f AS STRING) = '3'"],
)
def test_what_it_does_not_know_stays_with_arrow(text: str) -> None:
    assert compiled(bound(text), "rs") is None
    program, residual = Condition(f"{text} AND r.f * s.f < 7 AND r.i = s.i").bind(SCHEMAS).compiled
    assert program is not None
    assert residual is not None
    assert str(residual.expr) == str(bound(text))


@examples(20)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 40]), st.sampled_from(["inner", "left", "full", "anti"]))
def test_joins_with_a_program_are_those_of_a_wide_scan(seed: int, size: int, how: str) -> None:
    """Beside an equality, in a scan, in pushes that are sliced and merged; with NULLs now and then."""
    random = np.random.default_rng(seed)
    text = "(r.x - s.x) * (r.x - s.x) + (r.y - s.y) * (r.y - s.y) < 4 OR r.y * s.y IS NULL"
    windows = {"r": wm.Rows(30), "s": wm.Range(20, time="ts")}
    joins = [
        wm.StreamJoin(condition, windows=windows, how=how)
        for condition in (
            text,
            f"({text}) AND r.k = s.k",
            f"({text}) AND CAST(r.k AS STRING) = CAST(s.k AS STRING)",
        )
    ]
    oracle = wm.StreamJoin(text, windows=windows, how=how, flow="three_step")  # evaluates it by Arrow
    for at in range(120 // size):
        rows = {}
        for stream in "rs":
            y = [None if value > 8 else value for value in random.uniform(0, 9, size).tolist()]
            rows[stream] = {
                "k": random.integers(0, 3, size),
                "x": random.uniform(0, 9, size),
                "y": y,
                "ts": np.full(size, at),
            }
        found = [_pairs(join.push(rows)) for join in (*joins, oracle)]
        assert found[0] == found[3]
        assert found[1] == found[2]


def _pairs(result: wm.Result) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.tolist() for column in result.pairs().values()), strict=True))


@pytest.mark.parametrize("rows", [20, 300])  # the short way, and the other one
def test_one_stream_may_have_more_columns_in_the_text_than_the_other(rows: int) -> None:
    random = np.random.default_rng(rows)
    r = {name: random.integers(0, 9, rows) for name in "abc"}
    s = {"x": random.integers(0, 9, rows)}
    join = wm.StreamJoin("r.a * s.x + r.b > s.x - r.c + 9", r=wm.Unbounded(), s=wm.Unbounded())
    a, b, c = (column[:, None] for column in r.values())
    assert join.push(r=r, s=s).count == int((a * s["x"] + b > s["x"] - c + 9).sum())
