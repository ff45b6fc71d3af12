"""Decimals in int64 are Arrow's, value for value, or are left to it; short texts are told apart; sums of few groups are exact."""

import importlib
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.aggregate.aggregation import Aggregation
from watersmeet.aggregate.dictionary import Dictionary
from watersmeet.aggregate.spec import Aggregate, Grouping
from watersmeet.kernels.narrow import WIDE, narrow, widen
from watersmeet.sql import types
from watersmeet.sql.evaluate import evaluate
from watersmeet.sql.tree import Call, Column, Expr, Literal

evaluation = importlib.import_module("watersmeet.sql.evaluate")  # the package has a function of that name
# Ends of int64, with what is just outside; ends of 38 digits.
ENDS = [s * n for n in (0, 1, 9, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 10**18, 10**37) for s in (1, -1)]


def decimal(number: int, scale: int) -> Decimal:
    """Without rounding, which a context would do."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


@st.composite
def columns(draw: st.DrawFn, name: str, rows: int) -> tuple[Column, pa.Array]:
    """A column of decimals, or of integers, with NULLs; most are short, whatever their type allows."""
    if draw(st.integers(0, 3)) == 0:
        values = draw(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), min_size=rows, max_size=rows))
        return Column(pa.int32(), "s", name), pa.array(values, pa.int32())
    precision = draw(st.integers(1, 38))
    kind = pa.decimal128(precision, draw(st.integers(0, precision)))
    most = min(10**precision - 1, draw(st.sampled_from([9, 10**4, 10**18, 10**38])))
    numbers = st.integers(-most, most) | st.sampled_from([n for n in ENDS if abs(n) <= most])
    values = draw(st.lists(st.none() | numbers, min_size=rows, max_size=rows))
    scaled = [None if one is None else decimal(one, kind.scale) for one in values]
    return Column(kind, "s", name), pa.array(scaled, kind)


def call(op: str, left: Expr, right: Expr) -> Call | None:
    kind = types.arithmetic(op, left.type, right.type)
    return Call(kind, op, (left, right)) if kind is not None and pa.types.is_decimal128(kind) else None


def by_arrow(expr: Expr, found: dict[tuple[str, str], pa.Array], rows: int) -> pa.Array:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "is_whole", lambda expr: False)
        return evaluate(expr, found, rows)


@given(st.data())
def test_decimals_are_arrows(data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 5))
    given_ = [data.draw(columns(name, rows)) for name in "abc"]
    found = {("s", column.name): array for column, array in given_}
    one = Literal(pa.int32(), data.draw(st.sampled_from([1, -1, 100, 2**31 - 1])))
    exprs: list[Expr] = [*(column for column, _ in given_), one]
    for _ in range(3):
        op = data.draw(st.sampled_from("+-*"))
        left, right = data.draw(st.sampled_from(exprs)), data.draw(st.sampled_from(exprs))
        made = call(op, left, right)
        if made is not None and (left, right) != (one, one):
            exprs.append(made)
    for expr in exprs[4:]:
        got, wanted = evaluate(expr, found, rows), by_arrow(expr, found, rows)
        assert got.type == expr.type
        assert got.to_pylist() == wanted.to_pylist(), (str(expr), found)
        got.validate(full=True)


def test_short_values_do_not_come_to_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """TPC-H's charge: its type has 38 digits, and fewer than the product has."""
    kind = pa.decimal128(15, 2)
    price, discount, tax = (Column(kind, "s", name) for name in ("price", "discount", "tax"))
    one = Literal(pa.int32(), 1)
    less, more = call("-", one, discount), call("+", one, tax)
    assert less is not None
    assert more is not None
    first = call("*", price, less)
    assert first is not None
    charge = call("*", first, more)
    assert charge is not None
    assert charge.type == pa.decimal128(38, 6)
    found = {
        ("s", "price"): pa.array([Decimal("104949.50"), None, Decimal("-0.01")], kind),
        ("s", "discount"): pa.array([Decimal("0.10"), Decimal("0.02"), Decimal("0.03")], kind),
        ("s", "tax"): pa.array([Decimal("0.08"), Decimal("0.01"), None], kind),
    }
    for name in ("add", "subtract", "multiply"):
        monkeypatch.setattr(evaluation.arithmetic, name, lambda *_: pytest.fail("came to Arrow"))
    assert evaluate(charge, found, 3).to_pylist() == [Decimal("102010.914000"), None, None]


def test_what_does_not_fit_a_word_is_left_to_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, called = pa.decimal128(19, 0), []
    a, plain = Column(kind, "s", "a"), evaluation.arithmetic.add
    both = call("+", a, a)
    assert both is not None
    monkeypatch.setattr(evaluation.arithmetic, "add", lambda *given: called.append(1) or plain(*given))
    for number, by_hand in ((2**61, True), (-(2**61), True), (2**62, False), (2**63, False)):
        called.clear()
        found = {("s", "a"): pa.array([Decimal(number), Decimal(1)], kind)}
        assert evaluate(both, found, 2).to_pylist() == [Decimal(2 * number), Decimal(2)]
        assert bool(called) is not by_hand, number


@given(st.lists(st.sampled_from(ENDS), min_size=1, max_size=6), st.sampled_from([1, 2, 4]), st.data())
def test_words_are_made_narrow_and_wide(numbers: list[int], step: int, data: st.DataObject) -> None:
    fits = [-(2 ** (64 * step - 1)) <= n < 2 ** (64 * step - 1) for n in numbers]
    numbers = [n for n, fit in zip(numbers, fits, strict=True) if fit] or [0]
    words = np.frombuffer(b"".join(n.to_bytes(8 * step, "little", signed=True) for n in numbers), np.int64)
    there = data.draw(st.none() | st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers)))
    valid = np.empty(0, np.bool_) if there is None else np.array(there)
    wanted = [n if there is None or there[i] else 0 for i, n in enumerate(numbers)]
    out = np.empty(len(numbers), np.int64)
    sizes = int(narrow(words.copy(), step, valid, out))
    if any(not -(2**63) <= n < 2**63 for n in wanted):
        assert sizes == WIDE
        return
    assert out.tolist() == wanted
    assert max(n if n >= 0 else -n - 1 for n in wanted) <= sizes
    assert sizes.bit_length() == max((n if n >= 0 else -n - 1).bit_length() for n in wanted)
    back = np.empty(step * len(numbers), np.int64)
    widen(out, step, back)
    assert [
        int.from_bytes(back[step * i : step * i + step].tobytes(), "little", signed=True)
        for i in range(len(numbers))
    ] == wanted


@given(st.data())
def test_sums_of_few_groups_are_exact(data: st.DataObject) -> None:
    """Totals of one word where numbers are small, limbs where they are not, in turns, with NULLs, and taken away again."""
    kind = data.draw(st.sampled_from([pa.decimal128(38, 3), pa.decimal128(12, 0), pa.int64(), pa.int16()]))
    most = 10**kind.precision - 1 if pa.types.is_decimal(kind) else 2 ** (kind.bit_width - 1) - 1
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    small = st.integers(-min(most, 999), min(most, 999))
    large = small | st.sampled_from([n for n in ENDS if abs(n) <= most]) | st.sampled_from([most, -most])
    schema = pa.schema({"g": pa.int64(), "x": kind})
    sums = Aggregation(
        Grouping(("g",), (Aggregate("sum", "x", "s"), Aggregate("count", "x", "n"))), schema, retracts=True
    )
    held: list[tuple[int, int | None]] = []
    for _ in range(data.draw(st.integers(1, 4))):
        of = small if data.draw(st.booleans()) else large
        of = of if data.draw(st.booleans()) else st.none() | of
        batch = [(g % 2, x) for g, x in enumerate(data.draw(st.lists(of, min_size=8, max_size=24)))]
        values = [None if x is None else decimal(x, scale) if scale else x for _, x in batch]
        rows = pa.record_batch([pa.array([g for g, _ in batch]), pa.array(values, kind)], schema=schema)
        sums.add(rows)
        if data.draw(st.booleans()):
            sums.retract(rows)
        else:
            held += batch
        result = sums.schema.field("s").type
        limit = Fraction(10 ** (result.precision - scale) if pa.types.is_decimal(result) else 2**63)
        for row in sums.answer().to_pylist():
            there = [x for g, x in held if g == row["g"] and x is not None]
            total = Fraction(sum(there), 10**scale)
            assert row["n"] == len(there)
            fits = -limit <= total < limit and (scale == 0 or -limit < total)
            assert row["s"] == (total if there and fits else None)


@given(st.lists(st.lists(st.none() | st.text("ab\0é", max_size=9), max_size=30), max_size=4))
def test_equal_texts_have_one_number_however_short(batches: list[list[str | None]]) -> None:
    """Also once some are forgotten: then another text may have their number."""
    texts, numbers = Dictionary(pa.string()), {}
    for at, batch in enumerate(batches):
        found = texts.encode(pa.array(batch, pa.string()))[:, 0].tolist()
        for text, number in zip(batch, found, strict=True):
            if text is not None:
                assert numbers.setdefault(text, number) == number
        assert len(set(numbers.values())) == len(numbers)
        held = [text for text in numbers if len(text) != at]
        numbers = {text: numbers[text] for text in held}
        texts.keep([np.array(list(numbers.values()), np.int64)])
        codes = np.array(list(numbers.values()), np.int64).reshape(-1, 1)
        assert texts.decode(codes).to_pylist() == held
