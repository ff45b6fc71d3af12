"""Decimals and decimal literals beside floats: always the nearest float, as Python's own conversions have it."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from watersmeet.codes.rounding import decimal_to_float32, decimal_to_float64, nearest_float32

WIDTHS = {32: (pa.decimal32, 9), 64: (pa.decimal64, 18), 128: (pa.decimal128, 38), 256: (pa.decimal256, 76)}
TENTHS = [i / 10 for i in range(-20, 21)]


def column(numbers: list[int | None], type: pa.DataType) -> pa.Array:
    """A decimal column of these unscaled numbers, not at the start of its buffers; Arrow cannot read some scales."""
    numbers = [7, 7, 7, *numbers]
    data = b"".join((n or 0).to_bytes(type.bit_width // 8, "little", signed=True) for n in numbers)
    valid = pa.array([n is not None for n in numbers]).buffers()[1]
    return pa.Array.from_buffers(type, len(numbers), [valid, pa.py_buffer(data)]).slice(3)


@pytest.mark.parametrize("width", WIDTHS)
@given(data=st.data())
def test_a_decimal_of_any_width_and_scale_becomes_the_nearest_float(width: int, data: st.DataObject) -> None:
    make, most = WIDTHS[width]
    precision = data.draw(st.integers(1, most))
    scale = data.draw(st.integers(-30, precision + 5))
    top = 10**precision - 1
    whole = st.integers(-top, top) | st.integers(-(10**9), 10**9).filter(lambda n: abs(n) <= top)
    numbers = data.draw(st.lists(st.none() | whole, min_size=1, max_size=8))
    made = column(numbers, make(precision, scale))
    doubles, singles = decimal_to_float64(made), decimal_to_float32(made)
    for number, double, single in zip(numbers, doubles, singles, strict=True):
        if number is not None:
            with localcontext() as context:
                context.prec = 200
                assert double == float(Decimal(number).scaleb(-scale))
            assert single == nearest_float32(Fraction(number) / Fraction(10) ** scale)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.sampled_from([-1, 0, 1]))
def test_a_number_beside_the_middle_of_two_float32_goes_to_its_own_side(low: float, side: int) -> None:
    high = float(np.nextafter(np.float32(low), np.float32(np.inf)))
    if math.isfinite(high):
        middle = (Fraction(low) + Fraction(high)) / 2
        even = low if int(np.float32(low).view(np.int32)) % 2 == 0 else high
        expected = {-1: low, 0: even, 1: high}[side]
        assert nearest_float32(middle + Fraction(side, 10**400)) == np.float32(expected)


def test_a_float32_is_not_rounded_twice() -> None:
    # Its nearest double is the middle of 2**24 and 2**24 + 2, which would go to the even one.
    made = pa.array([Decimal("16777217.000000000001")], pa.decimal128(30, 12))
    assert float(np.float32(float(made[0].as_py()))) == 16777216.0
    assert decimal_to_float32(made)[0] == 16777218.0


def pairs(condition: str, left: list[Any], right: list[Any], **options: Any) -> int:
    join = wm.StreamJoin(condition, l=wm.Unbounded(), r=wm.Unbounded(), **options)
    return join.push(l={"x": pa.array(left)}, r={"y": pa.array(right)}).count


@pytest.mark.parametrize("index", ["scan", "bi_sort", "wib_tree"])
@pytest.mark.parametrize("literal", ["0.3", "0.3D", "3e-1", "CAST(0.3 AS DOUBLE)", "CAST('0.3' AS DOUBLE)"])
@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("ABS(l.x - r.y) < {}", lambda x, y: abs(x - y) < 0.3),
        ("ABS(l.x - r.y) <= {}", lambda x, y: abs(x - y) <= 0.3),
        ("l.x + r.y < {}", lambda x, y: x + y < 0.3),
        ("l.x + {} = r.y", lambda x, y: x + 0.3 == y),
        ("l.x < {} AND r.y >= {}", lambda x, y: x < 0.3 <= y),
    ],
)
def test_a_decimal_literal_beside_doubles_is_the_nearest_double(
    text: str, holds: Any, literal: str, index: str
) -> None:
    condition = text.replace("{}", literal)
    expected = sum(holds(x, y) for x in TENTHS for y in TENTHS)
    assert pairs(condition, TENTHS, TENTHS, index="scan" if "AND" in condition else index) == expected


def test_explain_shows_the_literal_as_it_was_written() -> None:
    join = wm.StreamJoin("ABS(l.x - r.y) < 0.3", l=wm.Unbounded(), r=wm.Unbounded())
    join.push(l={"x": [0.1]}, r={"y": [0.2]})
    assert "0.3" in str(join.explain())
    assert "0.30000000000000004" not in str(join.explain())


@pytest.mark.parametrize("index", ["scan", "hash", "bi_sort", "rap_table", "wib_tree"])
@pytest.mark.parametrize("width", [32, 64, 128, 256])
def test_decimals_meet_the_doubles_of_the_same_text(width: int, index: str) -> None:
    hundredths = [Decimal(i) / 100 for i in range(-500, 500)]
    decimals = pa.array(hundredths, WIDTHS[width][0](9, 2))
    join = wm.StreamJoin("l.m = r.f", l=wm.Unbounded(), r=wm.Unbounded(), index=index)
    assert join.push(l={"m": decimals}, r={"f": [float(x) for x in hundredths]}).count == 1000
