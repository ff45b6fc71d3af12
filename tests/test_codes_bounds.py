"""Bounds select exactly the opposite values that satisfy the text's own computation, in the order of keys.

The other side of every comparison is plain Python or NumPy: exact fractions cut off where the engine
saturates, float64 and float32 arithmetic as it rounds. Since the satisfying values are contiguous, looking at
a pool of awkward values and at the neighbours of both ends is looking at all of them.
"""

import itertools
import math
import os
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.codes import Domain, Interval, common_domain

# Many pairs of types, each with many checks an example: half of the profile's examples for each of them.
FEWER = settings(max_examples=max(4, settings().max_examples // 2))
Side = Literal["left", "right"]
FORMS = ("add_right", "add_left", "difference")
SIDES: tuple[Side, ...] = ("left", "right")
MIN, MAX = -(2**63), 2**63 - 1
INFINITY = {np.float64: 0x7FF0000000000000, np.float32: 0x7F800000}


def in_order(keys: np.ndarray, domain: Domain, interval: Interval, probing: Side) -> None:
    """Sorted keys give sorted bounds; only empty ones at the ends of int64 may not, first or last."""
    lo, hi = domain.bounds(np.sort(keys), interval, probing)
    assert (hi.astype(object) - lo >= -1).all()
    some = lo <= hi
    assert (lo[some][1:] >= lo[some][:-1]).all()
    assert (hi[some][1:] >= hi[some][:-1]).all()
    if lo.size and some[0] and some[-1]:
        assert (lo[1:] >= lo[:-1]).all()
        assert (hi[1:] >= hi[:-1]).all()


# --- floats ---

TINY = [5e-324, 2.2250738585072014e-308, 1e-45, 1.1754943508222875e-38, 1e-300]
USUAL = [0.0, 0.1, 0.3, 1.0, 1.0000001, 1.5, 2.0, 10.0, 1e7, 16777217.0, 1e16, 2.0**53, 2.0**53 + 2]
HUGE = [3.4028234663852886e38, 1.7e308, 1.7976931348623157e308, math.inf]
POOL = [sign * x for x in TINY + USUAL + HUGE for sign in (1, -1)] + [math.nan]


def rounded(values: list[float], real: type[np.floating]) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.array(values, np.float64).astype(real)


def at_most(a: Any, b: Any, strict: bool) -> bool:
    """SQL's a <= b or a < b: NaN is above all and equals itself."""
    if np.isnan(a) or np.isnan(b):
        return bool(np.isnan(b) and not (strict and np.isnan(a)))
    return bool(a < b if strict else a <= b)


def float_holds(left: Any, right: Any, interval: Interval, real: type[np.floating]) -> bool:
    low = None if interval.low is None else real(interval.low)
    high = None if interval.high is None else real(interval.high)
    with np.errstate(all="ignore"):
        if interval.form == "difference":
            below, above, what = low, high, left - right
            return (
                not np.isnan(what)
                and (below is None or at_most(below, what, interval.low_open))
                and (above is None or at_most(what, above, interval.high_open))
            )
        if interval.form == "add_right":
            return (low is None or at_most(right + low, left, interval.low_open)) and (
                high is None or at_most(left, right + high, interval.high_open)
            )
        return (low is None or at_most(right, left + -low, interval.low_open)) and (
            high is None or at_most(left + -high, right, interval.high_open)
        )


def float_of(code: int, real: type[np.floating]) -> Any:
    """The float with this code, worked out apart from the kernels."""
    infinity = INFINITY[real]
    if code > infinity:
        return real(math.nan)
    integer = np.int64 if real is np.float64 else np.int32
    magnitude = np.array([abs(code)], integer).view(real)[0]
    return -magnitude if code < 0 else magnitude


@st.composite
def float_intervals(draw: st.DrawFn, single: bool) -> Interval:
    form = draw(st.sampled_from(FORMS))
    limit = 3e38 if single else 1.7e308
    finite = [x for x in POOL if abs(x) <= limit]
    offset = st.sampled_from(finite) | st.floats(-limit, limit) | st.floats(-4, 4) | st.integers(-9, 9)
    low = draw(st.none() | offset)
    high = draw(offset if low is None else st.none() | offset)
    if low is not None and high is not None and low > high and draw(st.booleans()):
        low, high = high, low
    return Interval(low, high, draw(st.booleans()), draw(st.booleans()), form)


@pytest.mark.parametrize("real", [np.float64, np.float32])
@given(data=st.data())
def test_float_bounds_answer_for_the_rounded_computation(
    real: type[np.floating], data: st.DataObject
) -> None:
    single = real is np.float32
    type = pa.float32() if single else pa.float64()
    domain = common_domain(type, type, ordered=True)
    assert domain is not None
    interval = data.draw(float_intervals(single))
    offsets = [float(x) for x in (interval.low, interval.high) if x is not None]
    some = st.sampled_from(POOL + offsets) | st.floats() | st.floats(-8, 8)
    keys = rounded(data.draw(st.lists(some, min_size=1, max_size=6)), real)
    pool = rounded(POOL + data.draw(st.lists(some, max_size=4)) + offsets, real)
    key_codes, pool_codes = (domain.codes(pa.array(column, type))[0] for column in (keys, pool))
    for probing in SIDES:
        lo, hi = domain.bounds(key_codes, interval, probing)
        for key, first, last in zip(keys, lo.tolist(), hi.tolist(), strict=True):
            opposite = list(zip(pool, pool_codes.tolist(), strict=True))
            for code in (first - 1, first, first + 1, last - 1, last, last + 1):
                if abs(code) <= INFINITY[real] or code == INFINITY[real] + 1:
                    opposite.append((float_of(code, real), code))
            for value, code in opposite:
                left, right = (key, value) if probing == "left" else (value, key)
                expected = float_holds(left, right, interval, real)
                assert (first <= code <= last) == expected, (left, right, interval)
        in_order(np.concatenate([key_codes, pool_codes]), domain, interval, probing)


def test_every_float32_sum_near_a_tie_is_found() -> None:
    """A key where thousands of neighbouring opposite values give one and the same sum."""
    domain = common_domain(pa.float32(), pa.float32(), ordered=True)
    assert domain is not None
    steps = np.arange(-900, 900)
    opposite = (np.float32(1e-6).view(np.int32) + steps).astype(np.int32).view(np.float32)
    codes, _ = domain.codes(pa.array(opposite))
    for key in (16.0, 15.999999, 16.000002, 15.9999):
        for form, open in itertools.product(FORMS, (False, True)):
            interval = Interval(16 - 1e-6, 16 + 1e-6, open, open, form)  # type: ignore[arg-type]
            probe, _ = domain.codes(pa.array([key], pa.float32()))
            lo, hi = domain.bounds(probe, interval, "left")
            found = (codes >= lo[0]) & (codes <= hi[0])
            expected = [float_holds(np.float32(key), x, interval, np.float32) for x in opposite]
            assert found.tolist() == expected


# --- integers, decimals, temporal types ---

EDGES = [MIN, MIN + 1, MIN + 7, -(2**62), -5, -1, 0, 1, 2, 5, 2**62, MAX - 7, MAX - 1, MAX]


class Exact:
    """Two column types, what raw values are worth, and where the text's sums saturate (None: nowhere)."""

    def __init__(
        self, left: pa.DataType, right: pa.DataType, worth: tuple[Any, Any], ends: tuple[int, int] | None
    ) -> None:
        self.types, self.worth, self.ends = (
            {"left": left, "right": right},
            dict(zip(SIDES, worth, strict=True)),
            ends,
        )

    def __repr__(self) -> str:
        return f"{self.types['left']}-{self.types['right']}"

    def column(self, side: Side, raw: list[int]) -> pa.Array:
        type = self.types[side]
        if pa.types.is_decimal(type):
            return pa.array([Decimal(f"{x}e{-type.scale}") for x in raw], type)
        if pa.types.is_temporal(type):
            return pa.array(raw, pa.int32() if type.bit_width == 32 else pa.int64()).view(type)
        return pa.array(raw, type)

    def limits(self, side: Side) -> tuple[int, int]:
        type = self.types[side]
        if pa.types.is_decimal(type):
            return 1 - 10**type.precision, 10**type.precision - 1
        if pa.types.is_unsigned_integer(type):
            return 0, 2**type.bit_width - 1
        return -(2 ** (type.bit_width - 1)), 2 ** (type.bit_width - 1) - 1

    def raws(self, side: Side) -> st.SearchStrategy[int]:
        low, high = self.limits(side)
        edges = [x for x in (*EDGES, low, low + 1, high - 1, high) if low <= x <= high]
        return st.sampled_from(edges) | st.integers(low, high) | st.integers(max(low, -20), 20)

    def cut(self, sum: Fraction) -> Fraction:
        if self.ends is None or sum.denominator != 1:
            return sum
        return min(max(sum, Fraction(self.ends[0])), Fraction(self.ends[1]))

    def holds(self, left: Fraction, right: Fraction, interval: Interval) -> bool:
        low, high = (None if x is None else Fraction(x) for x in (interval.low, interval.high))  # type: ignore[arg-type]
        if interval.form == "add_right":
            low_sides = low is not None and (self.cut(right + low), left)
            high_sides = high is not None and (left, self.cut(right + high))
        elif interval.form == "add_left":
            low_sides = low is not None and (right, self.cut(left - low))
            high_sides = high is not None and (self.cut(left - high), right)
        else:
            whole = left - right if self.ends is None else Fraction(min(max(left - right, MIN), MAX))
            low_sides, high_sides = low is not None and (low, whole), high is not None and (whole, high)
        return all(
            not sides or (sides[0] < sides[1] if open else sides[0] <= sides[1])
            for sides, open in ((low_sides, interval.low_open), (high_sides, interval.high_open))
        )


WHOLE, INT64, CENT = Fraction(1), (MIN, MAX), Fraction(1, 100)
PAIRS = [
    Exact(pa.int64(), pa.int64(), (WHOLE, WHOLE), INT64),
    Exact(pa.int32(), pa.uint32(), (WHOLE, WHOLE), INT64),
    Exact(pa.int8(), pa.int64(), (WHOLE, WHOLE), INT64),
    Exact(pa.uint64(), pa.uint64(), (WHOLE, WHOLE), None),
    Exact(pa.uint64(), pa.uint16(), (WHOLE, WHOLE), None),
    Exact(pa.timestamp("us"), pa.timestamp("us"), (WHOLE, WHOLE), INT64),
    Exact(pa.duration("s"), pa.duration("s"), (WHOLE, WHOLE), INT64),
    Exact(pa.date32(), pa.date32(), (WHOLE, WHOLE), (-(2**31), 2**31 - 1)),
    Exact(pa.decimal128(18, 2), pa.decimal128(18, 2), (CENT, CENT), None),
    Exact(pa.decimal128(9, 1), pa.decimal64(12, 2), (Fraction(1, 10), CENT), None),
    Exact(pa.int32(), pa.decimal128(7, 2), (WHOLE, CENT), None),
]
SUPERSETS = [
    Exact(pa.uint64(), pa.int64(), (WHOLE, WHOLE), None),
    Exact(pa.timestamp("s"), pa.timestamp("us"), (Fraction(10**6), WHOLE), None),
    Exact(pa.date32(), pa.timestamp("ns"), (Fraction(86_400 * 10**9), WHOLE), None),
    Exact(pa.duration("ns"), pa.duration("ms"), (WHOLE, Fraction(10**6)), INT64),
    Exact(pa.int64(), pa.decimal128(20, 3), (WHOLE, Fraction(1, 1000)), None),
    Exact(pa.decimal128(38, 10), pa.decimal256(60, 2), (Fraction(1, 10**10), CENT), None),
]


@st.composite
def exact_intervals(draw: st.DrawFn) -> Interval:
    whole = (
        st.integers(-20, 20)
        | st.sampled_from([MIN - 1, MAX + 1, 2 * MAX, *EDGES])
        | st.integers(2 * MIN, 2 * MAX)
    )
    fraction = st.sampled_from([Fraction(5, 2), -0.5, Decimal("0.01"), Decimal("-7.125"), Fraction(1, 3)])
    low = draw(st.none() | whole | fraction)
    high = draw(st.none() | whole | fraction)
    return Interval(low, high, draw(st.booleans()), draw(st.booleans()), draw(st.sampled_from(FORMS)))


def check_exact(pair: Exact, data: st.DataObject, exact: bool) -> None:
    domain = common_domain(pair.types["left"], pair.types["right"], ordered=True)
    assert domain is not None
    assert domain.exact == exact
    interval = data.draw(exact_intervals())
    raws = {side: data.draw(st.lists(pair.raws(side), min_size=1, max_size=4)) for side in SIDES}
    drawn = {side: raws[side][:2] for side in SIDES}
    for side, other in zip(SIDES, reversed(SIDES), strict=True):  # meet the bounds, wherever they are
        for raw, offset in itertools.product(drawn[side], (interval.low, interval.high)):
            if offset is not None:
                sign = 1 if side == "right" else -1
                near = math.floor((raw * pair.worth[side] + sign * Fraction(offset)) / pair.worth[other])  # type: ignore[arg-type]
                low, high = pair.limits(other)
                raws[other] += [x for x in (near - 1, near, near + 1, near + 2) if low <= x <= high]
    codes = {side: domain.codes(pair.column(side, raws[side]))[0] for side in SIDES}
    for probing, opposite in zip(SIDES, reversed(SIDES), strict=True):
        lo, hi = domain.bounds(codes[probing], interval, probing)
        for (key, first, last), (value, code) in itertools.product(
            zip(raws[probing], lo.tolist(), hi.tolist(), strict=True),
            zip(raws[opposite], codes[opposite].tolist(), strict=True),
        ):
            worths = {probing: key * pair.worth[probing], opposite: value * pair.worth[opposite]}
            expected = pair.holds(worths["left"], worths["right"], interval)
            found = first <= code <= last
            assert found == expected if exact else found >= expected, (probing, key, value, interval)
        in_order(codes[probing], domain, interval, probing)


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
@FEWER
@given(data=st.data())
def test_integer_bounds_are_exact_and_never_wrap(pair: Exact, data: st.DataObject) -> None:
    check_exact(pair, data, exact=True)


@pytest.mark.parametrize("pair", SUPERSETS, ids=repr)
@FEWER
@given(data=st.data())
def test_bounds_of_an_inexact_domain_lose_nothing(pair: Exact, data: st.DataObject) -> None:
    check_exact(pair, data, exact=False)


@given(data=st.data())
def test_decimal_and_double_are_compared_as_doubles(data: st.DataObject) -> None:
    domain = common_domain(pa.decimal128(10, 2), pa.float64(), ordered=True)
    assert domain is not None
    assert domain.exact
    interval = data.draw(float_intervals(single=False))
    decimals = data.draw(
        st.lists(st.integers(-(10**9), 10**9).map(lambda n: Decimal(n).scaleb(-2)), min_size=1, max_size=5)
    )
    doubles = np.array(
        data.draw(st.lists(st.sampled_from(POOL) | st.floats(-1e7, 1e7), min_size=1, max_size=5))
    )
    doubles = np.concatenate([doubles, [float(x) for x in decimals]])
    left, right = (
        domain.codes(pa.array(decimals, pa.decimal128(10, 2)))[0],
        domain.codes(pa.array(doubles))[0],
    )
    for probing, keys, opposite in (("left", left, right), ("right", right, left)):
        lo, hi = domain.bounds(keys, interval, probing)  # type: ignore[arg-type]
        found = (lo[:, None] <= opposite) & (opposite <= hi[:, None])
        found = found if probing == "left" else found.T
        expected = [[float_holds(np.float64(x), y, interval, np.float64) for y in doubles] for x in decimals]
        assert (found == np.array(expected)).all()
        in_order(keys, domain, interval, probing)  # type: ignore[arg-type]


# --- text ---

COMPARISONS = {
    ">=": Interval(0),
    ">": Interval(0, low_open=True),
    "<": Interval(None, 0, high_open=True),
    "=": Interval(0, 0),
}


@pytest.mark.parametrize("comparison", COMPARISONS)
@given(
    st.lists(st.text("ab\0é", max_size=10), min_size=1, max_size=6),
    st.lists(st.text("ab\0é", max_size=10), max_size=6),
)
def test_text_bounds_lose_nothing(comparison: str, left: list[str], right: list[str]) -> None:
    domain = common_domain(pa.string(), pa.large_string(), ordered=True)
    assert domain is not None
    codes = [domain.codes(pa.array(column, pa.string()))[0] for column in (left, right + left)]
    lo, hi = domain.bounds(codes[0], COMPARISONS[comparison], "left")
    for (a, first, last), (b, code) in itertools.product(
        zip(left, lo, hi, strict=True), zip(right + left, codes[1], strict=True)
    ):
        x, y = a.encode(), b.encode()
        if {">=": x >= y, ">": x > y, "<": x < y, "=": x == y}[comparison]:
            assert first <= code <= last
    in_order(codes[0], domain, COMPARISONS[comparison], "left")


# --- without the compiler ---


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="this is the run without the compiler")
def test_codes_and_bounds_hold_without_the_compiler() -> None:
    """The same tests in a process of their own, where Numba compiles nothing and a warning is an error."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    here = Path(__file__).resolve()
    few = (
        "rounded_computation or (wrap and int64) or (values and float) or (hashes and layout) or text_bounds"
    )
    files = [here.name, "test_codes_order.py", "-k", few]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-W",
            "error",
            "-p",
            "no:cacheprovider",
            "--hypothesis-profile=no_jit",
            *files,
        ],
        cwd=here.parent,
        env={**outside, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
