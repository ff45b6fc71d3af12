"""Conditions as SQL text, each beside a Python predicate that means the same by the rules of Spark SQL.

NULL gives NULL; NaN equals NaN and is the largest value; -0.0 equals 0.0; strings compare by their UTF-8
bytes. An atom knows the columns it reads and which indexes can drive it; atoms of different columns may be
joined by AND.
"""

import datetime as dt
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

Truth = bool | None
Row = dict[str, Any]
Predicate = Callable[[Row, Row], Truth]

ORDERED = ("bi_sort", "rap_table", "wib_tree")
EQUAL = ("hash", *ORDERED)


# Three-valued logic and comparison.
def rank(value: Any) -> Any:
    """A sort key in which NaN is one value, above all others."""
    if isinstance(value, float | np.floating):
        return (1, 0.0) if value != value else (0, value)
    return (0, value)


def compare(op: str, a: Any, b: Any) -> Truth:
    if a is None or b is None:
        return None
    x, y = rank(a), rank(b)
    return bool({"=": x == y, "<>": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[op])


def both(*truths: Truth) -> Truth:
    if any(truth is False for truth in truths):
        return False
    return None if any(truth is None for truth in truths) else True


def either(*truths: Truth) -> Truth:
    if any(truth is True for truth in truths):
        return True
    return None if any(truth is None for truth in truths) else False


def between(value: Any, low: Any, high: Any) -> Truth:
    return both(compare(">=", value, low), compare("<=", value, high))


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is NULL when any argument is."""
    return lambda *args: None if any(arg is None for arg in args) else function(*args)


add = strict(lambda a, b: a + b)
sub = strict(lambda a, b: a - b)
mul = strict(lambda a, b: a * b)
distance = strict(lambda a, b: abs(a - b))
upper = strict(str.upper)
midnight = strict(lambda day: dt.datetime(day.year, day.month, day.day))
prefix = strict(lambda text, n: text[:n])
rem = strict(lambda a, b: int(np.fmod(a, b)))  # the sign of the dividend, as in SQL
add32 = strict(lambda a, b: np.float32(a) + np.float32(b))
with_nan = np.errstate(invalid="ignore")
distance32 = strict(with_nan(lambda a, b: abs(np.float32(a) - np.float32(b))))


def least(*values: Any) -> Any:
    return min((value for value in values if value is not None), default=None)


def most(*values: Any) -> Any:
    return max((value for value in values if value is not None), default=None)


# Columns: Arrow type and the values drawn for it. Few values, so that ties and duplicates are common.
def _some(values: Sequence[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from([*values, None])


_INTS = _some(range(-3, 10))
_DAYS = _some([dt.date(2024, 2, 27) + dt.timedelta(days) for days in range(6)])
_MOMENTS = _some([dt.datetime(2024, 2, 28, 23, 59, 57) + dt.timedelta(seconds=k / 2) for k in range(12)])
_TEXTS = _some(["", "a", "A", "ab", "aB", "abcdefgh", "abcdefgh\0", "abcdefghi", "abcdefghj", "é", "z", "日"])
_FLOATS = _some([-np.inf, -1.5, -0.0, 0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.5, 1.0, 2.0, 1e300, np.inf, np.nan])
_FLOATS32 = _some(
    [float(np.float32(v)) for v in (-np.inf, -1.5, -0.0, 0.0, 0.1, 1.1, 2.1, 3.0, np.inf, np.nan)]
)
_PRICES = _some([Decimal(cents) / 100 for cents in (-5, 0, 5, 10, 12, 15, 99999)])
_FINE_PRICES = _some([Decimal(mills) / 1000 for mills in (-50, 0, 49, 50, 51, 100, 150, 999990)])
_EXTREMES = _some([-(2**63), -(2**63) + 1, -5, 0, 5, 2**63 - 3, 2**63 - 1])
_LONGS = _some([0, 1, 2, 2**63 - 1, 2**63, 2**64 - 1])

COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "r.x": (pa.int64(), _INTS),
    "s.a": (pa.int64(), _INTS),
    "r.y": (pa.int32(), _INTS),
    "s.b": (pa.int64(), _INTS),
    "r.k": (pa.int64(), _some(range(4))),
    "s.k": (pa.int64(), _some(range(4))),
    "r.g": (pa.int8(), _some(range(3))),
    "s.g": (pa.int16(), _some(range(3))),
    "r.name": (pa.string(), _TEXTS),
    "s.name": (pa.large_string(), _TEXTS),
    "r.raw": (pa.binary(), _some([b"", b"\x00", b"\xff", b"abc"])),
    "s.raw": (pa.binary(), _some([b"", b"\x00", b"\xff", b"abc"])),
    "r.flag": (pa.bool_(), _some([True, False])),
    "s.flag": (pa.bool_(), _some([True, False])),
    "r.day": (pa.date32(), _DAYS),
    "s.day": (pa.date32(), _DAYS),
    "r.at": (pa.timestamp("us"), _MOMENTS),
    "s.at": (pa.timestamp("ms"), _MOMENTS),
    "r.price": (pa.decimal128(9, 2), _PRICES),
    "s.price": (pa.decimal128(12, 3), _FINE_PRICES),
    "r.f": (pa.float64(), _FLOATS),
    "s.f": (pa.float64(), _FLOATS),
    "r.h": (pa.float32(), _FLOATS32),
    "s.h": (pa.float32(), _FLOATS32),
    "r.big": (pa.int64(), _EXTREMES),
    "s.big": (pa.int64(), _EXTREMES),
    "r.u": (pa.uint64(), _LONGS),
    "s.u": (pa.uint64(), _LONGS),
}


@dataclass(frozen=True)
class Condition:
    """SQL text and the predicate that it means."""

    text: str
    predicate: Predicate
    columns: tuple[str, ...]  # "r.x", ...
    indexes: tuple[str, ...]  # that can drive it, besides scan
    bands: frozenset[str] = frozenset()  # columns of r with a two-sided band: two of them can drive a grid
    duckdb: str | None = ""  # how DuckDB spells it; "": the same text; None: it has no such comparison

    def __repr__(self) -> str:
        return self.text


def contradictory(atoms: Sequence[Condition]) -> bool:
    """Whether the conditions on x and a exclude each other; small numbers tell."""
    narrow = [atom for atom in atoms if set(atom.columns) == {"r.x", "s.a"}]
    some = range(-15, 16)
    return not any(all(atom.predicate({"x": x}, {"a": a}) for atom in narrow) for x in some for a in some)


def conjunction(atoms: Sequence[Condition]) -> Condition:
    """All of ``atoms`` at once."""
    spellings = [atom.text if atom.duckdb == "" else atom.duckdb for atom in atoms]
    known = [f"({text})" for text in spellings if text is not None]
    used = [name for atom in atoms for name in atom.columns]
    bands = frozenset(name for atom in atoms for name in atom.bands if used.count(f"r.{name}") == 1)
    indexes = {index for atom in atoms for index in atom.indexes} | ({"grid"} if len(bands) >= 2 else set())
    if contradictory(atoms):  # nothing is left that could drive an index
        indexes = set()
    return Condition(
        " AND ".join(f"({atom.text})" if " OR " in atom.text else atom.text for atom in atoms),
        lambda r, s: both(*(atom.predicate(r, s) for atom in atoms)),
        tuple(dict.fromkeys(itertools.chain.from_iterable(atom.columns for atom in atoms))),
        tuple(sorted(indexes)),
        bands,
        " AND ".join(known) if len(known) == len(atoms) else None,
    )


# Atoms. Each function draws its constants.
_small = st.integers(0, 4)


@st.composite
def band(draw: st.DrawFn, left: str = "x", right: str = "a") -> Condition:
    """An interval around the other stream's integer, in one of its spellings."""
    low, high = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    r, s = f"r.{left}", f"s.{right}"
    closed: Predicate = lambda p, q: between(p[left], sub(q[right], low), add(q[right], high))  # noqa: E731
    open_: Predicate = lambda p, q: both(  # noqa: E731
        compare(">", p[left], sub(q[right], low)), compare("<", p[left], add(q[right], high))
    )
    near: Predicate = lambda p, q: compare("<=", distance(p[left], q[right]), high)  # noqa: E731
    text, predicate = draw(
        st.sampled_from(
            [
                (f"{r} BETWEEN {s} - {low} AND {s} + {high}", closed),
                (f"{s} BETWEEN {r} - {high} AND {r} + {low}", closed),
                (f"{r} >= {s} - {low} AND {s} + {high} >= {r}", closed),
                (f"{r} - {s} BETWEEN -{low} AND {high}", closed),
                (f"{r} + {low} >= {s} AND {r} - {high} <= {s}", closed),
                (f"{r} > {s} - {low} AND {r} < {s} + {high}", open_),
                (f"ABS({r} - {s}) <= {high}", near),
                (f"ABS({s} - {r}) < {high + 1}", near),
            ]
        )
    )
    return Condition(text, predicate, (r, s), ORDERED, bands=frozenset([left]))


@st.composite
def half_open(draw: st.DrawFn) -> Condition:
    """One inequality, with arithmetic on either side."""
    op, c = draw(st.sampled_from(["<", "<=", ">", ">="])), draw(_small)
    text, predicate = draw(
        st.sampled_from(
            [
                (f"r.x {op} s.a", lambda r, s: compare(op, r["x"], s["a"])),
                (f"r.x {op} s.a + {c}", lambda r, s: compare(op, r["x"], add(s["a"], c))),
                (f"s.a - {c} {op} r.x", lambda r, s: compare(op, sub(s["a"], c), r["x"])),
                (f"2 * r.x {op} s.a + {c}", lambda r, s: compare(op, mul(2, r["x"]), add(s["a"], c))),
                (f"r.x - s.a {op} {c}", lambda r, s: compare(op, sub(r["x"], s["a"]), c)),
                (
                    f"r.x + {c} >= s.a AND r.x <= s.a + 1",
                    lambda r, s: between(r["x"], sub(s["a"], c), add(s["a"], 1)),
                ),
            ]
        )
    )
    return Condition(text, predicate, ("r.x", "s.a"), ORDERED)


@st.composite
def multi_band(draw: st.DrawFn) -> Condition:
    """OR of two or three bands on one attribute; they may overlap, touch or lie apart."""
    ends = draw(st.lists(st.tuples(st.integers(-6, 6), st.integers(0, 3)), min_size=2, max_size=3))
    ends = [(low, low + width) for low, width in ends]
    text = " OR ".join(f"r.x BETWEEN s.a + {low} AND s.a + {high}" for low, high in ends)
    return Condition(
        f"({text})",
        lambda r, s: either(*(between(r["x"], add(s["a"], low), add(s["a"], high)) for low, high in ends)),
        ("r.x", "s.a"),
        ORDERED,
    )


def comparison(op: str, left: str, right: str, indexes: tuple[str, ...]) -> Condition:
    text = f"r.{left} {op} s.{right}"
    return Condition(text, lambda r, s: compare(op, r[left], s[right]), (f"r.{left}", f"s.{right}"), indexes)


def null_safe(left: str, right: str) -> Condition:
    return Condition(
        f"r.{left} <=> s.{right}",
        lambda r, s: (
            r[left] is s[right] if r[left] is None or s[right] is None else compare("=", r[left], s[right])
        ),
        (f"r.{left}", f"s.{right}"),
        ("hash",),
        duckdb=f"r.{left} IS NOT DISTINCT FROM s.{right}",
    )


def expressions() -> list[Condition]:
    """Conditions that are more than a comparison of two columns; those without an index run as a scan."""

    def case(r: Row) -> int:
        return 1 if compare(">", r["x"], 3) else 0

    x_a = ("r.x", "s.a")
    return [
        Condition("r.x * s.a > 6", lambda r, s: compare(">", mul(r["x"], s["a"]), 6), x_a, ()),
        Condition("r.x % 3 = s.a % 3", lambda r, s: compare("=", rem(r["x"], 3), rem(s["a"], 3)), x_a, EQUAL),
        Condition(
            "LEAST(r.x, s.a) > 1 AND GREATEST(r.x, s.a) < 7",
            lambda r, s: both(compare(">", least(r["x"], s["a"]), 1), compare("<", most(r["x"], s["a"]), 7)),
            x_a,
            (),
        ),
        Condition(
            "COALESCE(r.x, 0) = s.a",
            lambda r, s: compare("=", 0 if r["x"] is None else r["x"], s["a"]),
            x_a,
            EQUAL,
        ),
        Condition(
            "CASE WHEN r.x > 3 THEN 1 ELSE 0 END = s.g",
            lambda r, s: compare("=", case(r), s["g"]),
            ("r.x", "s.g"),
            EQUAL,
        ),
        Condition(
            "r.x = s.a OR r.k = s.k",
            lambda r, s: either(compare("=", r["x"], s["a"]), compare("=", r["k"], s["k"])),
            (*x_a, "r.k", "s.k"),
            (),
        ),
        Condition("r.x IS NULL OR s.a IS NULL", lambda r, s: either(r["x"] is None, s["a"] is None), x_a, ()),
        Condition(
            "NOT (r.x < s.a) AND r.x > 0",
            lambda r, s: both(compare(">=", r["x"], s["a"]), compare(">", r["x"], 0)),
            x_a,
            ORDERED,
        ),
        Condition(
            "UPPER(r.name) = UPPER(s.name) AND r.name LIKE 'a%'",
            lambda r, s: both(
                compare("=", upper(r["name"]), upper(s["name"])), strict(str.startswith)(r["name"], "a")
            ),
            ("r.name", "s.name"),
            ("hash",),
        ),
        Condition(
            "SUBSTRING(r.name, 1, 2) = SUBSTRING(s.name, 1, 2)",
            lambda r, s: compare("=", prefix(r["name"], 2), prefix(s["name"], 2)),
            ("r.name", "s.name"),
            ("hash",),
        ),
        Condition(
            "CAST(r.x AS DOUBLE) / 2 <= s.f",
            lambda r, s: compare("<=", None if r["x"] is None else r["x"] / 2, s["f"]),
            ("r.x", "s.f"),
            ORDERED,
        ),
    ]


def _interval(column: str, unit: str, n: int, step: dt.timedelta) -> Condition:
    return Condition(
        f"r.{column} BETWEEN s.{column} - INTERVAL {n} {unit} AND s.{column} + INTERVAL {n} {unit}",
        lambda r, s: between(r[column], sub(s[column], step), add(s[column], step)),
        (f"r.{column}", f"s.{column}"),
        ORDERED,
        bands=frozenset([column]),
    )


def typed() -> list[Condition]:
    """At least one condition for every column type."""
    f, h, big, price = (("r." + c, "s." + c) for c in ("f", "h", "big", "price"))
    cent = Decimal("0.05")
    return [
        comparison("=", "name", "name", ("hash", *ORDERED)),
        comparison("<=", "name", "name", ORDERED),
        comparison(">", "name", "name", ORDERED),
        comparison("=", "raw", "raw", ("hash", *ORDERED)),
        comparison("<", "raw", "raw", ORDERED),
        comparison("=", "flag", "flag", EQUAL),
        comparison("<=", "flag", "flag", ORDERED),
        comparison("=", "day", "day", EQUAL),
        _interval("day", "DAYS", 2, dt.timedelta(days=2)),
        comparison("=", "at", "at", EQUAL),
        Condition(
            "r.day < s.at",
            lambda r, s: compare("<", midnight(r["day"]), s["at"]),
            ("r.day", "s.at"),
            ORDERED,
        ),
        _interval("at", "SECONDS", 1, dt.timedelta(seconds=1)),
        comparison("=", "price", "price", EQUAL),
        Condition(
            "r.price BETWEEN s.price - 0.05 AND s.price + 0.05",
            lambda r, s: between(r["price"], sub(s["price"], cent), add(s["price"], cent)),
            price,
            ORDERED,
            bands=frozenset(["price"]),
        ),
        comparison("=", "f", "f", EQUAL),
        comparison("<", "f", "f", ORDERED),
        comparison("<>", "f", "f", ORDERED),
        Condition(
            "r.f BETWEEN s.f - 0.1 AND s.f + 0.1",
            lambda r, s: between(r["f"], sub(s["f"], 0.1), add(s["f"], 0.1)),
            f,
            ORDERED,
            bands=frozenset(["f"]),
        ),
        Condition(
            "r.f + 0.1 >= s.f AND r.f - 0.2 <= s.f",
            lambda r, s: both(
                compare(">=", add(r["f"], 0.1), s["f"]), compare("<=", sub(r["f"], 0.2), s["f"])
            ),
            f,
            ORDERED,
        ),
        Condition(
            "ABS(r.f - s.f) <= 0.1", lambda r, s: compare("<=", distance(r["f"], s["f"]), 0.1), f, ORDERED
        ),
        comparison("=", "h", "h", EQUAL),
        comparison(">=", "h", "h", ORDERED),
        Condition(
            "r.h BETWEEN s.h - 1 AND s.h + 1",
            lambda r, s: between(r["h"], add32(s["h"], -1), add32(s["h"], 1)),
            h,
            ORDERED,
            bands=frozenset(["h"]),
        ),
        Condition(
            "ABS(r.h - s.h) <= 1", lambda r, s: compare("<=", distance32(r["h"], s["h"]), 1.0), h, ORDERED
        ),
        comparison("=", "x", "f", EQUAL),
        comparison("<", "x", "f", ORDERED),
        comparison("=", "u", "u", EQUAL),
        comparison("<=", "u", "u", ORDERED),
        Condition(
            "r.big BETWEEN s.big - 5 AND s.big + 5",
            lambda r, s: between(r["big"], sub(s["big"], 5), add(s["big"], 5)),
            big,
            ORDERED,
            bands=frozenset(["big"]),
            duckdb=None,  # overflow is an error there
        ),
        Condition(
            "ABS(r.big - s.big) <= 5",
            lambda r, s: compare("<=", distance(r["big"], s["big"]), 5),
            big,
            ORDERED,
            duckdb=None,
        ),
        comparison("<>", "big", "big", ORDERED),
    ]


def atoms() -> st.SearchStrategy[Condition]:
    """Any one condition."""
    return st.one_of(
        band(),
        half_open(),
        multi_band(),
        st.just(comparison("=", "k", "k", EQUAL)),
        st.just(comparison("<>", "x", "a", ORDERED)),
        st.just(comparison("<>", "name", "name", ORDERED)),
        st.just(null_safe("k", "k")),
        st.just(null_safe("name", "name")),
        st.sampled_from(expressions()),
        st.sampled_from(typed()),
    )


@st.composite
def conditions(draw: st.DrawFn, index: str | None = None) -> Condition:
    """A condition that ``index`` can drive: one to three atoms."""
    if index == "grid":
        first = [draw(band("x", "a")), draw(band("y", "b"))]
    elif index == "hash":
        keys = [("k", "k"), ("g", "g"), ("name", "name")][: draw(st.integers(1, 3))]
        first = [comparison("=", left, right, EQUAL) for left, right in keys]
    elif index in ORDERED:
        first = [draw(atoms().filter(lambda atom: index in atom.indexes))]
    else:
        first = [draw(atoms())]
    more = atoms().filter(lambda atom: index != "grid" or "r.x" not in atom.columns)
    return conjunction([*first, *draw(st.lists(more, max_size=1))])
