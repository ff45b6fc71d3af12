"""A predicate as a rule: what constants decide of it, and the rest.

A predicate is a conjunction. ``key = constant`` (or ``IN`` constants) is an equality, ``key < constant`` and its like a range, where a key
is any expression of the rows; both are decided by codes, in the domain in which the text compares them (``codes/``), so that NULL (never
true), NaN, -0.0 and mixed types are what they are in the text. What codes do not decide, or not alone (texts in order, wide
decimals), is the *rest*: it is evaluated on the rows that codes let pass.

Rules have the same *shape* if the same keys, coded alike, have equalities and ranges with the same ends: ``rules.py`` finds the
rows of all of them at once. Their constants and their rests may be any.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from watersmeet.codes import Domain, Interval, common_domain
from watersmeet.codes.text import BytesDomain
from watersmeet.sql.evaluate import evaluate
from watersmeet.sql.tree import Call, Expr, columns_of, conjunction, conjuncts, negation_pushed

MOST = 1024  # values of the equalities of one rule, in combination; further IN lists belong to the rest
_FLIPPED = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTERVALS = {
    "=": Interval(0, 0),
    "<=>": Interval(0, 0),
    "<": Interval(None, 0, high_open=True),
    "<=": Interval(None, 0),
    ">": Interval(0, None, low_open=True),
    ">=": Interval(0, None),
}
LOW, HIGH = "low", "high"
Values: TypeAlias = (
    "np.ndarray | pa.Array"  # codes; or texts, which get theirs from the rules that they are compared with
)


class Key:
    """An expression of the rows, and how its values are coded."""

    def __init__(self, expr: Expr, domain: Domain) -> None:
        self.expr, self.domain = expr, domain
        self.texts = isinstance(domain, BytesDomain) and not domain.ordered
        # By its text, as blocks are: keys with the same give a row the same code.
        self.identity = (repr(expr), domain.name, domain.ordered)


@dataclass(frozen=True)
class Range:
    """The codes of a key that satisfy a rule, both ends included; low > high: none does. ``ends``: which ends the text has."""

    key: Key
    low: int
    high: int
    ends: frozenset[str]

    def within(self, other: Range) -> Range:
        """What satisfies both."""
        return Range(self.key, max(self.low, other.low), min(self.high, other.high), self.ends | other.ends)


@dataclass(frozen=True)
class Rule:
    """``equal``: of each key the values that it may have, aligned: one combination of them must be a row's. All ranges must hold, and the
    rest.
    """

    equal: tuple[tuple[Key, Values], ...]
    ranges: tuple[Range, ...]
    rest: Expr | None
    shape: str

    @property
    def combinations(self) -> int:
        """How many combinations of values there are."""
        return len(self.equal[0][1]) if self.equal else 1


def rule_of(predicate: Expr) -> Rule | None:
    """The rule that means the same as a predicate; None: constants decide nothing of it."""
    equal: dict[Hashable, tuple[Key, Values]] = {}
    ranges: dict[Hashable, Range] = {}
    rest: list[Expr] = []
    combinations = 1
    for part in conjuncts(negation_pushed(predicate)):
        found = _equality(part)
        if found is not None and found[0].identity not in equal:
            key, values = found
            if combinations * len(values) <= max(MOST, len(values)):
                combinations *= len(values)
                equal[key.identity] = key, values
                continue
        one = _range(part)
        if one is None:
            rest.append(part)
            continue
        key = one.key
        ranges[key.identity] = one.within(ranges.get(key.identity, one))
        if not key.domain.exact:
            rest.append(part)
    if not equal and not ranges:
        return None
    keys, ends = sorted(equal, key=repr), sorted(ranges, key=repr)
    # A text knows its hash.
    shape = repr((keys, [(key, sorted(ranges[key].ends)) for key in ends]))
    combined = _combined([equal[key] for key in keys])
    return Rule(combined, tuple(ranges[key] for key in ends), conjunction(rest), shape)


def _combined(equal: Sequence[tuple[Key, Values]]) -> tuple[tuple[Key, Values], ...]:
    """Every combination of values, aligned."""
    if not equal:
        return ()
    places = np.indices([len(values) for _, values in equal]).reshape(len(equal), -1)
    return tuple((key, values.take(own)) for (key, values), own in zip(equal, places, strict=True))


def _sides(part: Expr) -> tuple[str, Expr, pa.Array] | None:
    """A comparison of a key with a constant, the key on the left."""
    if not isinstance(part, Call) or part.op not in _FLIPPED:
        return None
    (left, right), op = part.args, part.op
    if not columns_of(left):
        left, right, op = right, left, _FLIPPED[op]
    if not columns_of(left) or columns_of(right):
        return None
    constant = _constant(right)
    return None if constant is None else (op, left, constant)


def _constant(expr: Expr) -> pa.Array | None:
    """Its value; None: NULL, or one that cannot be computed, which is for the filter to say."""
    try:
        value = evaluate(expr, {}, 1)
    except (pa.ArrowException, ArithmeticError, ValueError):
        return None
    return None if value.null_count else value


def _equality(part: Expr) -> tuple[Key, Values] | None:
    """A key, and values that are told apart by codes: it must have one of them."""
    if isinstance(part, Call) and part.op == "in":
        return _listed(part)
    found = _sides(part)
    if found is None or found[0] not in ("=", "<=>"):
        return None
    return _values(found[1], [found[2]])


def _listed(part: Call) -> tuple[Key, Values] | None:
    """An IN list. All are compared in one type: lists of several are left to the rest, but for integers, which are what they are."""
    subject, *items = part.args
    if not columns_of(subject) or any(columns_of(item) for item in items):
        return None
    if len({item.type for item in items}) > 1 and not all(pa.types.is_integer(item.type) for item in items):
        return None
    constants = [constant for item in items if (constant := _constant(item)) is not None]
    return _values(subject, constants) if constants else None


def _values(expr: Expr, constants: Sequence[pa.Array]) -> tuple[Key, Values] | None:
    domains = [_domain(expr, constant, ordered=False) for constant in constants]
    known = [domain for domain in domains if domain is not None and domain.exact]
    key = Key(expr, known[0]) if known else None
    if key is None or len(known) < len(domains) or len({domain.name for domain in known}) > 1:
        return None
    if key.texts:
        return key, pa.concat_arrays(constants).unique()
    codes = [domain.codes(constant)[0] for domain, constant in zip(known, constants, strict=True)]
    return key, np.unique(np.concatenate(codes))


def _range(part: Expr) -> Range | None:
    """The codes of a key that a comparison lets pass; if they do not decide it, a few more."""
    found = _sides(part)
    if found is None:
        return None
    op, expr, constant = found
    domain = _domain(expr, constant, ordered=True)
    if domain is None:
        return None
    interval = _INTERVALS[op]
    (low,), (high,) = domain.bounds(domain.codes(constant)[0], interval, "right")
    ends = {LOW: interval.low, HIGH: interval.high}
    return Range(
        Key(expr, domain),
        int(low),
        int(high),
        frozenset(end for end, offset in ends.items() if offset is not None),
    )


def _domain(expr: Expr, constant: pa.Array, *, ordered: bool) -> Domain | None:
    if pa.types.is_null(expr.type):
        return None
    return common_domain(expr.type, constant.type, ordered=ordered)
