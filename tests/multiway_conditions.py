"""Conditions over two to five streams as SQL text, each beside a Python predicate that means the same.

A condition is a conjunction of atoms. An atom names its streams; which atoms there are makes the shape of the join
graph: a chain, a star, a cycle, a product. Values are few, so that combinations of five rows still match.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from conditions import EQUAL, ORDERED, Truth, add, between, both, compare, distance, either, most, rem, sub

Rows = dict[str, dict[str, Any]]  # one row of each stream, by name
Predicate = Callable[[Rows], Truth]

NAMES = ("a", "b", "c", "d", "e")
SHAPES = ("chain", "star", "cycle", "product", "three", "any")


def _some(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([*values, *values, *values, None])


# Every stream has the same columns; their types differ from stream to stream.
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "k": _some(0, 0, 0, 1, 2),
    "x": _some(*range(6)),
    "y": _some(*range(-2, 4)),
    "name": _some("", "a", "A", "é"),
    "price": _some(*(Decimal(cents) / 100 for cents in (0, 5, 10))),
    "f": _some(-0.0, 0.0, 0.1, 0.2, 0.1 + 0.2, np.inf, np.nan),
}
TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "k": (pa.int64(), pa.int32(), pa.int8()),
    "x": (pa.int64(), pa.int64(), pa.int32()),
    "y": (pa.int32(), pa.int64()),
    "name": (pa.string(), pa.large_string()),
    "price": (pa.decimal128(9, 2), pa.decimal128(12, 3)),
    "f": (pa.float64(),),
}


def column_type(stream: str, column: str) -> pa.DataType:
    """The type of a column in a stream."""
    types = TYPES[column]
    return types[NAMES.index(stream) % len(types)]


@dataclass(frozen=True)
class Condition:
    """SQL text and the predicate that it means."""

    text: str
    predicate: Predicate
    columns: tuple[str, ...] = ()  # "a.x", ...
    indexes: tuple[str, ...] = ()  # that can drive every step, besides scan
    duckdb: str = ""  # how DuckDB spells it; "": the same text

    def __repr__(self) -> str:
        return self.text


def conjunction(atoms: Sequence[Condition], indexes: Sequence[str] = ()) -> Condition:
    """All of ``atoms`` at once; of none: TRUE."""
    if not atoms:
        return Condition("TRUE", lambda rows: True)
    return Condition(
        " AND ".join(f"({atom.text})" if " OR " in atom.text else atom.text for atom in atoms),
        lambda rows: both(*(atom.predicate(rows) for atom in atoms)),
        tuple(dict.fromkeys(itertools.chain.from_iterable(atom.columns for atom in atoms))),
        tuple(indexes),
        " AND ".join(f"({atom.duckdb or atom.text})" for atom in atoms),
    )


# ---- atoms of two streams ---------------------------------------------------------------------------------------


def comparison(op: str, p: str, left: str, q: str, right: str, indexes: Sequence[str] = ORDERED) -> Condition:
    """A column of one stream compared with a column of another."""
    return Condition(
        f"{p}.{left} {op} {q}.{right}",
        lambda rows: compare(op, rows[p][left], rows[q][right]),
        (f"{p}.{left}", f"{q}.{right}"),
        tuple(indexes),
    )


def equality(p: str, q: str, column: str = "k") -> Condition:
    """Equal keys."""
    return comparison("=", p, column, q, column, EQUAL)


def null_safe(p: str, q: str) -> Condition:
    """Equal keys, where NULL equals NULL."""

    def same(rows: Rows) -> Truth:
        left, right = rows[p]["k"], rows[q]["k"]
        return left is right if left is None or right is None else left == right

    return Condition(
        f"{p}.k <=> {q}.k",
        same,
        (f"{p}.k", f"{q}.k"),
        ("hash",),
        f"{p}.k IS NOT DISTINCT FROM {q}.k",
    )


def band(p: str, q: str, low: int = 1, high: int = 1, column: str = "x") -> Condition:
    """Integers near each other."""
    return Condition(
        f"{p}.{column} BETWEEN {q}.{column} - {low} AND {q}.{column} + {high}",
        lambda rows: between(rows[p][column], sub(rows[q][column], low), add(rows[q][column], high)),
        (f"{p}.{column}", f"{q}.{column}"),
        ORDERED,
    )


def _near(p: str, q: str, width: int) -> Condition:
    return Condition(
        f"ABS({p}.x - {q}.x) <= {width}",
        lambda rows: compare("<=", distance(rows[p]["x"], rows[q]["x"]), width),
        (f"{p}.x", f"{q}.x"),
        ORDERED,
    )


def _float_band(p: str, q: str) -> Condition:
    return Condition(
        f"{p}.f BETWEEN {q}.f - 0.1 AND {q}.f + 0.1",
        lambda rows: between(rows[p]["f"], sub(rows[q]["f"], 0.1), add(rows[q]["f"], 0.1)),
        (f"{p}.f", f"{q}.f"),
        ORDERED,
    )


def _remainder(p: str, q: str) -> Condition:
    return Condition(
        f"{p}.x % 3 = {q}.x % 3",
        lambda rows: compare("=", rem(rows[p]["x"], 3), rem(rows[q]["x"], 3)),
        (f"{p}.x", f"{q}.x"),
        EQUAL,
    )


def _either_key(p: str, q: str) -> Condition:
    return Condition(
        f"{p}.k = {q}.k OR {p}.x = {q}.x",
        lambda rows: either(
            compare("=", rows[p]["k"], rows[q]["k"]), compare("=", rows[p]["x"], rows[q]["x"])
        ),
        (f"{p}.k", f"{q}.k", f"{p}.x", f"{q}.x"),
    )


@st.composite
def link(draw: st.DrawFn, p: str, q: str, index: str | None = None) -> Condition:
    """An atom between two streams, one that ``index`` can drive."""
    low, high, op = (
        draw(st.integers(0, 2)),
        draw(st.integers(0, 2)),
        draw(st.sampled_from(["<", "<=", ">", ">="])),
    )
    if draw(st.booleans()):
        p, q = q, p
    if index == "grid":
        return conjunction([band(p, q, 1 + low, 1 + high), band(p, q, 2, 2, "y")])
    wide = [
        equality(p, q),
        band(p, q, low, high + 1),
        _near(p, q, 1 + low),
        comparison(op, p, "x", q, draw(st.sampled_from("xy"))),
        comparison("<>", p, "k", q, "k"),
        null_safe(p, q),
        _either_key(p, q),
    ]
    narrow = [
        equality(p, q, draw(st.sampled_from(["name", "price", "f"]))),
        comparison(op, p, "price", q, "price"),
        comparison("=", p, "x", q, "f", EQUAL),
        _float_band(p, q),
        _remainder(p, q),
    ]
    atoms = [*wide, *wide, *narrow]  # a chain of narrow ones seldom has a result
    return draw(st.sampled_from([atom for atom in atoms if index is None or index in atom.indexes]))


# ---- atoms of one stream, and of three and more -----------------------------------------------------------------


def filters(p: str) -> list[Condition]:
    """Conditions on one stream."""
    x, k, name = (f"{p}.x",), (f"{p}.k",), (f"{p}.name",)
    return [
        Condition(f"{p}.x > 1", lambda rows: compare(">", rows[p]["x"], 1), x),
        Condition(f"{p}.x IS NOT NULL", lambda rows: rows[p]["x"] is not None, x),
        Condition(f"{p}.k IS NULL OR {p}.k < 2", lambda rows: _null_or_small(rows[p]["k"]), k),
        Condition(f"{p}.name <> 'a'", lambda rows: compare("<>", rows[p]["name"], "a"), name),
    ]


def _null_or_small(value: int | None) -> bool:
    return value is None or value < 2


def of_three(p: str, q: str, t: str) -> list[Condition]:
    """Conditions that need three streams."""
    x = tuple(f"{name}.x" for name in (p, q, t))
    k = tuple(f"{name}.k" for name in (p, q, t))
    return [
        Condition(
            f"{p}.x + {q}.x > {t}.x",
            lambda rows: compare(">", add(rows[p]["x"], rows[q]["x"]), rows[t]["x"]),
            x,
        ),
        Condition(
            f"{p}.x + {q}.x = {t}.x + 2",
            lambda rows: compare("=", add(rows[p]["x"], rows[q]["x"]), add(rows[t]["x"], 2)),
            x,
        ),
        Condition(
            f"{p}.x BETWEEN {q}.x AND {t}.x",
            lambda rows: between(rows[p]["x"], rows[q]["x"], rows[t]["x"]),
            x,
        ),
        Condition(
            f"GREATEST({p}.x, {q}.x) >= {t}.x",
            lambda rows: compare(">=", most(rows[p]["x"], rows[q]["x"]), rows[t]["x"]),
            x,
        ),
        Condition(
            f"{p}.k = {q}.k OR {q}.k = {t}.k",
            lambda rows: either(
                compare("=", rows[p]["k"], rows[q]["k"]), compare("=", rows[q]["k"], rows[t]["k"])
            ),
            k,
        ),
        Condition(
            f"{p}.x > 3 OR {q}.k = {t}.k",
            lambda rows: either(compare(">", rows[p]["x"], 3), compare("=", rows[q]["k"], rows[t]["k"])),
            (x[0], *k[1:]),
        ),
    ]


def _of_all(names: Sequence[str]) -> Condition:
    """A condition over all streams at once."""

    def total(rows: Rows) -> Any:
        value: Any = 0
        for name in names:
            value = add(value, rows[name]["x"])
        return value

    return Condition(
        f"{' + '.join(f'{name}.x' for name in names)} <= {3 * len(names)}",
        lambda rows: compare("<=", total(rows), 3 * len(names)),
        tuple(f"{name}.x" for name in names),
    )


# ---- shapes -----------------------------------------------------------------------------------------------------


@st.composite
def edges(draw: st.DrawFn, names: Sequence[str], shape: str) -> list[tuple[str, str]]:
    """The pairs of streams that a shape links; its streams stand in any order."""
    order = draw(st.permutations(names))
    chain = list(itertools.pairwise(order))
    if shape == "star":
        return [(order[0], name) for name in order[1:]]
    if shape == "cycle":
        return [*chain, (order[-1], order[0])] if len(order) > 2 else chain
    if shape == "product":
        return chain[: draw(st.integers(0, len(chain) - 1))]
    if shape == "three":
        return chain[:-1] if len(order) > 2 else chain
    if shape == "any":
        pairs = list(itertools.combinations(order, 2))
        return draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=len(order), unique=True))
    return chain


@st.composite
def conditions(
    draw: st.DrawFn, names: Sequence[str], shape: str | None = None, index: str | None = None
) -> Condition:
    """A condition over ``names``; with an index, one whose every link the index can drive."""
    if index is not None:
        shape = shape or draw(st.sampled_from(["chain", "star", "cycle"]))
    shape = shape or draw(st.sampled_from(SHAPES))
    atoms = [draw(link(p, q, index)) for p, q in draw(edges(names, shape))]
    driven = [set(atom.indexes) for atom in atoms] if shape in ("chain", "star", "cycle") else []
    indexes = set.intersection(*driven) if driven else set()
    if len(names) >= 3 and (shape == "three" or draw(st.integers(0, 3)) == 0):
        chosen = draw(st.permutations(names))[:3]
        atoms.append(draw(st.sampled_from(of_three(*chosen))))
    if draw(st.integers(0, 3)) == 0:
        atoms.append(draw(st.sampled_from(filters(draw(st.sampled_from(names))))))
    if draw(st.integers(0, 7)) == 0:
        atoms.append(_of_all(names))
    return conjunction(atoms, [index] if index is not None else sorted(indexes))
