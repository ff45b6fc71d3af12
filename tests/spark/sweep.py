"""Random join conditions over every type and function, in two texts: the one that a user writes, and Spark's own for the same.

The second differs from the first only in integer arithmetic, where it says in Spark's words what we do instead: BIGINT
that stops at its ends. Every pair of every condition is compared. The other differences that docs/conditions.md lists
are not drawn; it says which those are.
"""

# ruff: noqa: RUF005

from __future__ import annotations

import datetime as dt
import random
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

NAN, INF = float("nan"), float("inf")
DAY = 86_400_000_000
NINES = "9" * 38


def days(*dates: str) -> list[int]:
    return [(dt.date.fromisoformat(text) - dt.date(1970, 1, 1)).days for text in dates]


def micros(*moments: str) -> list[int]:
    return [
        (dt.datetime.fromisoformat(text) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
        for text in moments
    ]


def decimals(*texts: str) -> list[Decimal]:
    return [Decimal(text) for text in texts]


MOMENTS = micros(
    "2024-01-31T00:00:00",
    "2024-01-31T10:00:00.000001",
    "2024-02-29T23:59:59.999999",
    "2024-01-31T00:00:10",
    "1969-12-31T23:59:59.999999",
    "0001-01-01T00:00:00",
    "9999-12-31T23:59:59.999999",
    "1582-10-10T12:00:00",
) + [0, 2**61, -(2**61), 20_000 * 365 * DAY]

# Values that hurt: ends of types, ties, NaN, signed zeros, what rounds, texts that are almost something else.
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "k": (pa.int8(), [0, 1, -1, 2, 7, 127, -128]),
    "h": (pa.int16(), [0, 1, -3, 100, 32767, -32768]),
    "i": (pa.int32(), [0, 1, -1, 2, 3, 100, 2**31 - 1, -(2**31), 65_537]),
    "x": (
        pa.int64(),
        [0, 1, -1, 2, 5, 10**10, 2**63 - 1, -(2**63), 2**63 - 2, 2**53 + 1, -(2**31) - 1, 2**62 + 3],
    ),
    "f": (
        pa.float64(),
        [0.0, -0.0, 0.1, 0.2, 0.1 + 0.2, 0.3, 0.7, 1.0, 1.5, -2.5, 1e300, -1e300, 5e-324, NAN, INF, -INF, 2.0**53,
         2.0**63, -(2.0**63), 2147483647.5, 1.005, 1e-7, 123456789.125],
    ),
    "g": (
        pa.float32(),
        [0.0, -0.0, 0.1, 0.3, 1.5, -2.5, 16777216.0, 3e38, 1e-45, NAN, INF, -INF, 2.0**31, 1e10],
    ),
    "m": (pa.decimal128(10, 2), decimals("0", "0.10", "0.30", "1.50", "-3.25", "99999999.99", "-99999999.99", "0.01")),
    "n": (pa.decimal128(18, 4), decimals("0", "0.1", "0.3", "1.5", "-3.25", "99999999999999.9999", "0.0001", "2.675")),
    "w": (
        pa.decimal128(38, 18),
        decimals("0", "0.1", "0.3", "1.5", "9007199254740993", "99999999999999999999.999999999999999999",
                 "-12345678901234567890.123456789012345678", "0.000000000000000001", "16777217.000000000001"),
    ),
    "o": (pa.decimal128(38, 0), decimals("0", "1", "-2", NINES, f"-{NINES}", "9223372036854775808", "9007199254740993")),
    "q": (pa.decimal128(38, 38), decimals("0", "0.1", "0.3", "-0.5", "0." + "9" * 38, "0." + "0" * 37 + "1")),
    "t": (
        pa.string(),
        ["", "a", "A", "b", "ab", "a%b", "a_b", "abcdefghi", "abcdefghj", "é", "straße", "1", "1.5", " 12 ", "-7", "1e2",
         "0.3", "NaN", "Infinity", "99999999999999999999", "1d", ".5", "5.", "+1", "true", "F", "2024-01-31", "2024-02-30",
         "2024-1-5", "2024", "2024-01-31 10:00:00", "2024-01-31T10:00:00.000001", "0.1e", "-", ".", "\t3\n", "16777217.000000001",
         "O'Brien", "'", 'a"b'],
    ),
    "y": (pa.binary(), [b"", b"a", b"ab", b"\xff", b"\xc3\xa9", b"abcdefghi"]),
    "b": (pa.bool_(), [True, False]),
    "d": (
        pa.date32(),
        days("2024-01-31", "2024-02-29", "2023-02-28", "1970-01-01", "1969-07-20", "0001-01-01", "9999-12-31", "1582-10-10")
        + [20_000_000, -20_000_000],
    ),
    "u": (pa.timestamp("us"), MOMENTS),
    "z": (pa.timestamp("us", "UTC"), MOMENTS),
    "l": (pa.duration("us"), [0, 1, -1, 1_000_000, DAY, -2 * DAY, 3_600_000_000, 10**15]),
}  # fmt: skip
SCHEMA = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in VALUES.items())])
KINDS = {"int": "khix", "f64": "f", "f32": "g", "dec": "mnwoq", "text": "t", "bin": "y", "bool": "b", "date": "d",
         "ntz": "u", "ltz": "z", "span": "l"}  # fmt: skip
NUMBERS = ("int", "f64", "f32", "dec")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
LEAST, MOST = "CAST('-9223372036854775808' AS DECIMAL(38,0))", "CAST('9223372036854775807' AS DECIMAL(38,0))"


LONG = re.compile(r"[rs]\.[woq]|9999|0000|CAST|[*/]")  # decimals that may have more than 34 digits


def table(seed: random.Random, rows: int) -> pa.Table:
    """Every value of every column at least once if there is room, in random order, and some NULLs."""
    columns = [pa.array(range(rows), pa.int64())]
    for kind, values in VALUES.values():
        drawn = [*values, None, None][:rows] + seed.choices([*values, None], k=max(0, rows - len(values) - 2))
        seed.shuffle(drawn)
        columns.append(pa.array(drawn, kind))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


@dataclass(frozen=True)
class Text:
    """An expression as a user writes it, and as Spark is asked for what we promise."""

    ours: str
    spark: str

    @staticmethod
    def of(template: str, **parts: Text | str) -> Text:
        ours = {name: part.ours if isinstance(part, Text) else part for name, part in parts.items()}
        spark = {name: part.spark if isinstance(part, Text) else part for name, part in parts.items()}
        return Text(template.format(**ours), template.format(**spark))


def same(text: str) -> Text:
    return Text(text, text)


def saturated(exact: str) -> str:
    return f"IF({exact} IS NULL, NULL, CAST(LEAST(GREATEST({exact}, {LEAST}), {MOST}) AS BIGINT))"


class Sweep:
    """Draws conditions; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.streams = "rs"

    def pick(self, choices: Any) -> Any:
        return self.random.choice(choices)

    def condition(self) -> Text:
        """Half of them have the shape of bands, which indexes answer; the others are anything."""
        one = self.band() if self.random.random() < 0.6 else self.truth(2)
        if self.random.random() < 0.3:
            other = self.band() if self.random.random() < 0.6 else self.truth(1)
            one = Text.of("({a}) {op} ({b})", a=one, b=other, op=self.pick(["AND", "AND", "OR"]))
        return Text.of("NOT ({a})", a=one) if self.random.random() < 0.1 else one

    def of_stream(self, stream: str, kind: str, depth: int) -> Text:
        before, self.streams = self.streams, stream
        try:
            return self.value(kind, depth)
        finally:
            self.streams = before

    # bands: one side of r, the other of s

    def band(self) -> Text:
        left, right = self.pick([("r", "s"), ("s", "r")])
        kind = self.pick([*NUMBERS, *NUMBERS, *KINDS])
        other = self.pick(NUMBERS) if kind in NUMBERS else kind
        if kind == "ntz" and self.random.random() < 0.3:
            other = "date"
        a, b = (
            self.of_stream(stream, one, self.pick([0, 0, 0, 1]))
            for stream, one in ((left, kind), (right, other))
        )
        op = self.pick(COMPARISONS)
        shapes = ["{a} {op} {b}"]
        if kind in NUMBERS or kind in ("date", "ntz", "ltz", "span"):
            return self._moved_band(kind, other, a, b, op)
        return Text.of(self.pick([*shapes, "{a} BETWEEN {b} AND {b}", "{a} IN ({b}, {a})"]), a=a, b=b, op=op)

    def _moved_band(self, kind: str, other: str, a: Text, b: Text, op: str) -> Text:
        if self.random.random() < 0.25:
            return Text.of("{a} {op} {b}", a=a, b=b, op=op)
        c, e = self._offset(kind), self._offset(kind)
        plus, minus = self.plus(other, b, c, "+"), self.plus(other, b, e, "-")
        draw = self.random.random()
        if draw < 0.3:
            return Text.of("{a} {op} {b}", a=a, b=plus, op=op)
        if draw < 0.6:
            return Text.of(
                self.pick(["{a} BETWEEN {e} AND {c}", "{a} NOT BETWEEN {e} AND {c}"]), a=a, c=plus, e=minus
            )
        if kind in NUMBERS:
            sign = self.pick("-+")
            apart = self.arithmetic(kind, other, a, b, sign)
            if self.random.random() < 0.5:
                apart = self.absolute(self._both(kind, other), apart)
            return Text.of("{a} {op} {c}", a=apart, c=c, op=op)
        if kind == "date":
            return Text.of(
                "DATEDIFF({a}, {b}) {op} {c}", a=a, b=b, op=op, c=str(self.random.randint(-40, 40))
            )
        apart = Text.of("({a} - {b})", a=a, b=b)
        if self.random.random() < 0.5:
            apart = Text.of("ABS({a})", a=apart)
        return Text.of("{a} {op} {c}", a=apart, op=op, c=self.interval())

    def _offset(self, kind: str) -> Text:
        if kind in NUMBERS:
            return self.literal(
                self.pick(["int", "dec", "f64"]) if kind != "int" else self.pick(["int", "int", "dec"])
            )
        return same(str(self.random.randint(0, 40))) if kind == "date" else same(self.interval())

    def _both(self, kind: str, other: str) -> str:
        if kind == other:
            return kind
        pair = {kind, other}
        if "f64" in pair or pair == {"f32", "dec"}:
            return "f64"
        return "f32" if "f32" in pair else "dec"

    def plus(self, kind: str, a: Text, b: Text, sign: str) -> Text:
        if kind in NUMBERS:
            return self.arithmetic(
                kind, "int" if re.fullmatch(r"-?\d{1,19}L?", b.ours) else "dec", a, b, sign
            )
        if kind == "date" and not b.ours.isdigit():
            return a
        return Text.of("({a} {op} {b})", a=a, b=b, op=sign)

    # integers: the one thing that Spark does otherwise

    def arithmetic(self, kind: str, other: str, a: Text, b: Text, op: str) -> Text:
        if kind != "int" or other != "int" or op == "/":
            return Text.of("({a} {op} {b})", a=a, b=b, op=op)
        ours = f"({a.ours} {op} {b.ours})"
        if op in "+-*":
            return Text(
                ours, saturated(f"(CAST({a.spark} AS DECIMAL(38,0)) {op} CAST({b.spark} AS DECIMAL(38,0)))")
            )
        first, second = f"CAST({a.spark} AS BIGINT)", f"CAST({b.spark} AS BIGINT)"
        if op == "%":
            return Text(ours, f"({first} % {second})")
        opposite = saturated(f"(0 - CAST({a.spark} AS DECIMAL(38,0)))")
        return Text(ours, f"(CASE WHEN {second} = -1 THEN {opposite} ELSE {first} DIV {second} END)")

    def negative(self, kind: str, a: Text) -> Text:
        if kind == "dec" and LONG.search(a.ours):
            return a
        if kind != "int":
            return Text.of("(- {a})", a=a)
        return Text(f"(- {a.ours})", saturated(f"(0 - CAST({a.spark} AS DECIMAL(38,0)))"))

    def absolute(self, kind: str, a: Text) -> Text:
        if kind == "dec" and LONG.search(a.ours):
            return a
        if kind != "int":
            return Text.of("ABS({a})", a=a)
        return Text(f"ABS({a.ours})", saturated(f"ABS(CAST({a.spark} AS DECIMAL(38,0)))"))

    # values of a kind

    def value(self, kind: str, depth: int) -> Text:
        if depth <= 0:
            return self.leaf(kind)
        if self.random.random() < 0.25:
            return self.choice(kind, depth - 1)
        return getattr(self, f"_{kind}")(depth - 1)

    def leaf(self, kind: str) -> Text:
        if self.random.random() < 0.75 or kind in (
            "bool",
            "ltz",
        ):  # a TIMESTAMP has a zone only directly beside one
            return self.column(KINDS[kind])
        return self.literal(kind)

    def column(self, names: str) -> Text:
        return same(f"{self.pick(self.streams)}.{self.pick(names)}")

    def literal(self, kind: str) -> Text:
        texts = {
            "int": [
                "0",
                "1",
                "2",
                "-1",
                "7",
                "100",
                "3000000000",
                "-9223372036854775808",
                "9223372036854775807",
                "5L",
            ],
            "f64": [
                "0.3D",
                "1e-1",
                "0.7D",
                "1e300",
                "-2.5D",
                "0D",
                "CAST('NaN' AS DOUBLE)",
                "CAST(0.3 AS DOUBLE)",
            ],
            "f32": ["CAST(0.3 AS FLOAT)", "CAST(1 AS FLOAT)", "0.1F", "CAST('Infinity' AS FLOAT)"],
            "dec": [
                "0.3",
                "0.1",
                "1.50",
                "-2.5",
                "0.70",
                "9999999999.9999",
                "0.000000000000000001",
                "1.5BD",
                "0.0",
            ],
            "text": [
                "''",
                "'a'",
                "'ab'",
                "'1'",
                "'0.3'",
                "'é'",
                "'b'",
                "'2024-01-31'",
                "'O''Brien'",
                "''''",
                "'a' 'b'",
                '"a""b"',
            ],
            "bin": ["X'61'", "X''", "X'C3A9'"],
            "date": ["DATE '2024-01-31'", "DATE '1970-01-01'", "DATE '2024-02-29'"],
            "ntz": ["TIMESTAMP_NTZ '2024-01-31 00:00:10'", "TIMESTAMP_NTZ '1969-12-31 23:59:59.999999'"],
            "ltz": ["TIMESTAMP '2024-01-31 00:00:10'", "TIMESTAMP '2024-01-31 12:00:00'"],
            "span": [self.interval()],
        }
        return same(self.pick(texts[kind]))

    def interval(self) -> str:
        sign = self.pick(["", "", "-"])
        return (
            f"INTERVAL '{sign}{self.random.randint(0, 40)}' {self.pick(['SECOND', 'MINUTE', 'HOUR', 'DAY'])}"
        )

    def choice(self, kind: str, depth: int) -> Text:
        """CASE and its relatives over values of one kind; of numbers also of different kinds, as long as the result is."""
        mixed = {"f64": NUMBERS, "dec": ("dec", "dec", "int")}.get(kind, (kind,))
        a, b = self.value(kind, depth), self.value(self.pick(mixed), depth)
        if self.random.random() < 0.5:
            a, b = b, a
        test = self.truth(0)
        shape = self.pick(
            ["CASE WHEN {t} THEN {a} ELSE {b} END", "IF({t}, {a}, {b})", "COALESCE({a}, {b})", "LEAST({a}, {b})",
             "GREATEST({a}, {b}, {a})", "CASE WHEN {t} THEN {a} END", "NULLIF({a}, {b})"]
        )  # fmt: skip
        if shape.startswith(("NULLIF", "CASE WHEN {t} THEN {a} END")):
            a = self.value(kind, depth)
        return Text.of(shape, a=a, b=b, t=test)

    def _int(self, depth: int) -> Text:
        shape = self.pick(
            [
                "op",
                "op",
                "op",
                "negative",
                "abs",
                "cast",
                "cast",
                "floor",
                "length",
                "part",
                "datediff",
                "div",
            ]
        )
        if shape == "op":
            op = self.pick(["+", "-", "*", "%", "DIV"])
            return self.arithmetic("int", "int", self.value("int", depth), self.value("int", depth), op)
        if shape == "div":
            return Text.of("({a} DIV {b})", a=self.column("mn"), b=self.column("mnkh"))
        if shape in ("negative", "abs"):
            return (self.negative if shape == "negative" else self.absolute)("int", self.value("int", depth))
        if shape == "cast":
            kind = self.pick([*NUMBERS, *NUMBERS, "text", "bool"])
            to = self.pick(["TINYINT", "SMALLINT", "INT", "BIGINT"])
            return Text.of("CAST({a} AS {t})", a=self.value(kind, depth), t=to)
        if shape == "floor":
            return Text.of(
                "{f}({a})", f=self.pick(["FLOOR", "CEIL"]), a=self.value(self.pick(["f64", "f32"]), depth)
            )
        if shape == "length":
            return Text.of("LENGTH({a})", a=self.value("text", depth))
        if shape == "datediff":
            return Text.of("DATEDIFF({a}, {b})", a=self.value("date", depth), b=self.value("date", depth))
        return Text.of(
            "{f}({a})", f=self.pick(["YEAR", "MONTH", "DAY"]), a=self.value(self.pick(["date", "ntz"]), depth)
        )

    def _dec(self, depth: int) -> Text:
        shape = self.pick(["op", "op", "op", "rest", "negative", "abs", "cast", "floor"])
        if shape == "op":
            kinds = self.pick([("dec", "dec"), ("dec", "int"), ("int", "dec")])
            a, b = (self.value(kind, depth) for kind in kinds)
            return Text.of("({a} {op} {b})", a=a, b=b, op=self.pick("+-*/"))
        if shape == "rest":
            return Text.of("({a} % {b})", a=self.column("mn"), b=self.column("mnkhi"))
        if shape == "cast":
            kind = self.pick(["int", "dec", "text", "bool"])
            size = self.pick(["(10,2)", "(38,18)", "(38,0)", "(5,5)", "(38,38)", "", "(20,3)"])
            floats = self.column("fg") if self.random.random() < 0.3 else self.value(kind, depth)
            return Text.of("CAST({a} AS DECIMAL{t})", a=floats, t=size)
        if shape == "floor":
            return Text.of("{f}({a})", f=self.pick(["FLOOR", "CEIL"]), a=self.value("dec", depth))
        return (self.negative if shape == "negative" else self.absolute)("dec", self.value("dec", depth))

    def _f64(self, depth: int) -> Text:
        shape = self.pick(["op", "op", "op", "ratio", "negative", "abs", "cast", "sqrt", "power"])
        if shape == "op":
            kinds = ["f64", self.pick(NUMBERS)]
            self.random.shuffle(kinds)
            a, b = (self.value(kind, depth) for kind in kinds)
            return Text.of("({a} {op} {b})", a=a, b=b, op=self.pick("+-*/%"))
        if shape == "ratio":
            return Text.of("({a} / {b})", a=self.value("int", depth), b=self.value("int", depth))
        if shape == "cast":
            return Text.of("CAST({a} AS DOUBLE)", a=self.value(self.pick([*NUMBERS, "text"]), depth))
        if shape == "power":  # only where Java's and C's results are exact: elsewhere the last bit may differ
            whole = self.random.random() < 0.5
            ends = ["CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "CAST('-Infinity' AS FLOAT)"]
            by = self.pick(["0", "1", "2", "3"] if whole else ["0", "1", *ends])
            return Text.of("POWER({a}, {b})", a=self.column("kh" if whole else "fgmkix"), b=by)
        if shape == "sqrt":
            return Text.of("SQRT({a})", a=self.value(self.pick(NUMBERS), depth))
        return (self.negative if shape == "negative" else self.absolute)("f64", self.value("f64", depth))

    def _f32(self, depth: int) -> Text:
        shape = self.pick(["op", "op", "negative", "abs", "cast"])
        if shape == "op":
            kinds = ["f32", self.pick(["f32", "int"])]
            self.random.shuffle(kinds)
            a, b = (self.value(kind, depth) for kind in kinds)
            return Text.of("({a} {op} {b})", a=a, b=b, op=self.pick("+-*%"))
        if shape == "cast":
            return Text.of("CAST({a} AS FLOAT)", a=self.value(self.pick([*NUMBERS, "text"]), depth))
        return (self.negative if shape == "negative" else self.absolute)("f32", self.value("f32", depth))

    def _text(self, depth: int) -> Text:
        shape = self.pick(["case", "case", "substring", "concat", "cast", "cast"])
        if shape == "case":
            return Text.of("{f}({a})", f=self.pick(["UPPER", "LOWER"]), a=self.value("text", depth))
        if shape == "substring":
            start, length = self.random.randint(-4, 4), self.pick(["", ", 0", ", 2", ", -1", ", 2147483647"])
            return Text.of("SUBSTRING({a}, {b}{c})", a=self.value("text", depth), b=str(start), c=length)
        if shape == "concat":
            a, b = self.value("text", depth), self.value("text", depth)
            return Text.of(self.pick(["CONCAT({a}, {b})", "({a} || {b})"]), a=a, b=b)
        # Java before 19 writes some doubles with a digit too many, so that only plain columns are turned into text.
        inner = self.column("khixfgmnwoqbduz") if self.random.random() < 0.8 else self.value("int", depth)
        return Text.of("CAST({a} AS STRING)", a=inner)

    def _bin(self, depth: int) -> Text:
        return Text.of("CAST({a} AS BINARY)", a=self.value("text", depth))

    def _bool(self, depth: int) -> Text:
        return self.truth(depth)

    def _date(self, depth: int) -> Text:
        n = str(self.random.randint(0, 40))
        shape = self.pick(
            ["({a} + {n})", "({a} - {n})", "DATE_ADD({a}, {n})", "DATE_SUB({a}, {k})", "ADD_MONTHS({a}, {n})",
             "({a} + INTERVAL '{n}' DAY)", "({a} - INTERVAL '{n}' MONTH)", "CAST({u} AS DATE)", "CAST({t} AS DATE)"]
        )  # fmt: skip
        u, t = self.value(self.pick(["ntz", "ltz"]), depth), self.value("text", depth)
        return Text.of(shape, a=self.value("date", depth), n=n, k=self.column("k"), u=u, t=t)

    def _ntz(self, depth: int) -> Text:
        if self.random.random() < 0.2:
            return Text.of("CAST({a} AS TIMESTAMP_NTZ)", a=self.value("date", depth))
        return self._later("ntz", depth)

    def _ltz(self, depth: int) -> Text:
        return self._later("ltz", depth)

    def _later(self, kind: str, depth: int) -> Text:
        by = self.pick([self.interval(), self.interval(), "INTERVAL '1' MONTH", "INTERVAL '2' YEAR"])
        return Text.of("({a} {op} {b})", a=self.value(kind, depth), op=self.pick("+-"), b=by)

    def _span(self, depth: int) -> Text:
        shape = self.pick(
            ["({u} - {v})", "({d} - {e})", "({a} + {b})", "({a} - {b})", "({a} * {k})", "(- {a})", "ABS({a})"]
        )
        kind = self.pick(["ntz", "ltz"])
        return Text.of(
            shape, u=self.leaf(kind), v=self.leaf(kind), d=self.leaf("date"), e=self.leaf("date"),
            a=self.column("l"), b=same(self.interval()), k=self.column("k"),
        )  # fmt: skip

    def truth(self, depth: int) -> Text:
        """Any condition."""
        if depth <= 0 and self.random.random() < 0.15:
            return self.column("b")
        shape = self.pick(
            ["compare", "compare", "compare", "between", "null", "in", "like", "logic", "not", "cast"]
        )
        kind = self.pick([*NUMBERS, *KINDS])
        other = self.pick(NUMBERS) if kind in NUMBERS else kind
        inner = max(depth, 0)
        if kind == "bool" and inner == 0:
            return self.column("b")
        if shape == "logic" and depth > 0:
            parts = {"a": self.truth(depth - 1), "b": self.truth(depth - 1)}
            return Text.of("({a} {op} {b})", op=self.pick(["AND", "OR"]), **parts)
        if shape == "not" and depth > 0:
            return Text.of("(NOT {a})", a=self.truth(depth - 1))
        if shape == "cast":
            source = self.pick([*NUMBERS, "text"])
            return Text.of("CAST({a} AS BOOLEAN)", a=self.value(source, inner - 1))
        if shape == "like":
            pattern = self.pick(
                [
                    "'%a%'",
                    "'a_b'",
                    "'A%'",
                    "'_'",
                    "''",
                    "'%'",
                    "'%\\\\%b'",
                    "'é'",
                    "'%SS%'",
                    "'%''%'",
                    '"%""%"',
                ]
            )
            pattern = same(pattern) if self.random.random() < 0.8 else self.column("t")
            like = self.pick(["LIKE", "ILIKE", "NOT LIKE"])
            return Text.of("({a} {op} {b})", a=self.value("text", inner), op=like, b=pattern)
        a = self.value(kind, inner)
        if shape == "null":
            return Text.of("({a} IS {n}NULL)", a=a, n=self.pick(["", "NOT "]))
        b = self.value(other, inner)
        if shape == "between":
            return Text.of("({a} BETWEEN {b} AND {c})", a=a, b=b, c=self.value(other, 0))
        if shape == "in":
            return Text.of(self.pick(["({a} IN ({b}, {c}))", "({a} IN ({c}, {d}, NULL))"]), a=a, b=b,
                           c=self._in_list(kind), d=self._in_list(kind))  # fmt: skip
        return Text.of("({a} {op} {b})", a=a, b=b, op=self.pick(COMPARISONS))

    def _in_list(self, kind: str) -> Text:
        return same("TRUE") if kind == "bool" else self.literal(kind)
