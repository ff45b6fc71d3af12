"""Aggregates the dull way: plain dicts, whole numbers and fractions, all rows looked at again for each answer. Imports nothing of ours."""

import math
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

Row = dict[str, Any]
Ask = tuple[str, str | None, str | None]  # function, column, by


def normal(value: Any) -> Any:
    """A value as a key: NaN is NaN, and -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def order(value: Any) -> Any:
    """A value's place in SQL order: NaN is the largest. Texts are in the order of their bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def answer(
    rows: list[tuple[int, Row]], keys: list[str], asks: dict[str, Ask], types: dict[str, Any]
) -> dict[tuple[Any, ...], Row]:
    """Groups by key; rows come with their arrival numbers. ``types`` of results: int, float, or (precision, scale)."""
    groups: dict[tuple[Any, ...], list[tuple[int, Row]]] = {} if keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(normal(row[1][key]) for key in keys), []).append(row)
    return {
        key: {name: one(members, *ask, types.get(name)) for name, ask in asks.items()}
        for key, members in groups.items()
    }


def one(rows: list[tuple[int, Row]], function: str, column: str | None, by: str | None, kind: Any) -> Any:
    if column is None:
        return len(rows)
    if by is not None:
        placed = [((order(row[by]), number), row[column]) for number, row in rows if row[by] is not None]
        return (min if function == "first" else max)(placed, key=lambda pair: pair[0])[1] if placed else None
    values = [row[column] for _, row in rows if row[column] is not None]
    if function == "count":
        return len(values)
    if function == "count_distinct":
        return len({normal(value) for value in values})
    if not values or (function.endswith("samp") and len(values) == 1):
        return None
    if function in ("min", "max"):
        return (min if function == "min" else max)(values, key=order)
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return (
            sum(value for value in values if not math.isfinite(value))
            if function in ("sum", "avg")
            else math.nan
        )
    return number([Fraction(value) for value in values], function, kind)


def number(values: list[Fraction], function: str, kind: Any) -> Any:
    total, n = sum(values, Fraction(0)), len(values)
    if function == "sum":
        return rounded(total, kind)
    if function == "avg":
        return rounded(total / n, kind)
    squares = sum((value * value for value in values), Fraction(0))
    variance = (n * squares - total * total) / (n * (n - function.endswith("samp")))
    return root(variance) if function.startswith("stddev") else nearest(variance)


def rounded(value: Fraction, kind: Any) -> Any:
    """A number in the type of the result; None: it does not fit."""
    if kind is float:
        return nearest(value)
    if kind is int:
        return int(value) if -(2**63) <= value < 2**63 else None
    precision, scale = kind
    with localcontext() as context:
        context.prec = 400
        exact = Decimal((value * 10**scale).numerator) / Decimal((value * 10**scale).denominator)
        whole = exact.quantize(Decimal(1), ROUND_HALF_UP)
        return whole.scaleb(-scale) if abs(whole) < 10**precision else None


def nearest(value: Fraction) -> float:
    """The nearest double: what Python's own division of whole numbers gives."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def root(value: Fraction) -> float:
    """The double nearest to the square root: of a root of many bits, plus a little if that is not all."""
    if not value:
        return 0.0
    up = max(0, 140 - value.numerator.bit_length() + value.denominator.bit_length())
    scaled = value * 4**up
    whole = math.isqrt(math.floor(scaled))
    more = whole * whole != scaled
    return nearest(Fraction(2 * whole + more, 2 ** (up + 1)))
