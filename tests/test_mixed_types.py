"""Equality between different types: the same pairs with every index, alone and beside a second column."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import OptionError

DECIMALS = [Decimal("1.10"), Decimal("2.50"), None]
EXACT = {
    "int64 and float64": (pa.int64(), [1, 2, None], pa.float64(), [1.0, 2.5, 2.0]),
    "uint64 and int64": (pa.uint64(), [1, 2**63, 2], pa.int64(), [1, 2, -1]),
    "timestamps": (pa.timestamp("s"), [1, 2, 3], pa.timestamp("ms"), [1000, 2000, 2500]),
    "date and timestamp": (
        pa.date32(),
        [1, 2, 3],
        pa.timestamp("us"),
        [86_400_000_000, 2 * 86_400_000_000, 5],
    ),
    "decimal and float64": (pa.decimal128(10, 2), DECIMALS, pa.float64(), [1.1, 2.5, 3.0]),
    "texts": (pa.string(), ["a", "b", None], pa.large_string(), ["b", "a", "c"]),
}
ROUNDED = {
    "wide decimals": (pa.decimal128(38, 2), DECIMALS, pa.decimal128(30, 4), DECIMALS),
}


def joined(case: tuple[Any, ...], index: str, condition: str = "r.k = s.k") -> int:
    left_type, left, right_type, right = case
    join = wm.StreamJoin(condition, r=wm.Rows(100), s=wm.Rows(100), index=index)
    r = {"k": pa.array(left, left_type), "g": [7] * len(left)}
    s = {"k": pa.array(right, right_type), "g": [7] * len(right)}
    return join.push(r=r, s=s).count


@pytest.mark.parametrize("condition", ["r.k = s.k", "r.k = s.k AND r.g = s.g"])
@pytest.mark.parametrize("index", ["auto", "scan", "bi_sort", "rap_table", "wib_tree", "hash"])
@pytest.mark.parametrize("case", [*EXACT, *ROUNDED])
def test_equal_values_meet_whatever_their_types(case: str, index: str, condition: str) -> None:
    types = (EXACT | ROUNDED)[case]
    if index == "hash" and case in ROUNDED and "AND" not in condition:
        with pytest.raises(OptionError, match="compare exactly"):
            joined(types, index, condition)
    else:
        assert joined(types, index, condition) == 2


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize("constant", ["1e-1", "0.1D", "CAST(0.1 AS DOUBLE)"])
@pytest.mark.parametrize("difference", ["r.k - s.k", "ABS(r.k - s.k)"])
def test_a_difference_of_decimals_beside_a_double_is_compared_as_doubles(
    op: str, constant: str, difference: str
) -> None:
    tenths = [Decimal(i).scaleb(-1) for i in range(-3, 4)]
    join = wm.StreamJoin(f"{difference} {op} {constant}", r=wm.Unbounded(), s=wm.Unbounded())
    column = pa.array(tenths, pa.decimal128(10, 2))
    compare = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[
        op
    ]
    differences = [abs(x - y) if "ABS" in difference else x - y for x in tenths for y in tenths]
    wanted = sum(getattr(float(value), compare)(0.1) for value in differences)
    assert join.push(r={"k": column}, s={"k": column}).count == wanted
