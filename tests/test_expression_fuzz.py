"""Whatever text is given as a condition or select list, it is taken or refused by our own error: nothing else comes out."""

# ruff: noqa: SIM905  (words are easier to read as words)

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness import examples
from watersmeet.errors import ConditionError
from watersmeet.sql import BoundSelect, Select, evaluate
from watersmeet.sql.condition import Condition

COLUMNS = {
    "x": pa.int64(),
    "i": pa.int8(),
    "u": pa.uint64(),
    "f": pa.float64(),
    "g": pa.float32(),
    "m": pa.decimal128(10, 2),
    "w": pa.decimal256(70, 30),
    "n": pa.string(),
    "y": pa.binary(),
    "b": pa.bool_(),
    "d": pa.date32(),
    "t": pa.timestamp("us"),
    "z": pa.timestamp("ns", "UTC"),
    "l": pa.duration("ms"),
    "c": pa.time64("us"),
    "e": pa.list_(pa.int64()),
    "o": pa.null(),
}
SCHEMAS = {"r": pa.schema(COLUMNS), "s": pa.schema(COLUMNS)}
NAMES = [f"{stream}.{name}" for stream in "rs" for name in COLUMNS]
FUNCTIONS = """ABS LEAST GREATEST COALESCE NULLIF IF UPPER LOWER SUBSTRING LENGTH CONCAT CAST TRY_CAST SQRT POWER FLOOR CEIL
DATE_ADD DATE_SUB DATEDIFF ADD_MONTHS YEAR MONTH DAY IFNULL NVL EXTRACT TRIM ROUND COUNT SUM EXISTS my_udf DATE TIMESTAMP""".split()
WORDS = """AND OR NOT IN LIKE ILIKE RLIKE BETWEEN IS NULL TRUE FALSE CASE WHEN THEN ELSE END INTERVAL DAY DAYS MONTH HOUR SECOND TO
AS DATE TIMESTAMP TIMESTAMP_NTZ INT BIGINT TINYINT DOUBLE FLOAT DECIMAL STRING BINARY BOOLEAN SELECT FROM WHERE JOIN ON DISTINCT
GROUP BY ORDER LIMIT UNION ALL WITH VALUES ESCAPE FROM OVER LATERAL VIEW SET USING INNER LEFT x r s q all""".split()
MARKS = """ ( ) ( ) , . ; = == <> != < <= > >= <=> + - * / % || | & ^ ~ ! : :: ? @ $ # { } [ ] -> => \\ '
\" ` -- /* */ /*+ // := .. """.split()
LITERALS = """0 1 -1 0.3 .5 5. 0.3D 5L 1e400 -1e-400 1e5 99999999999999999999 1.5BD 1.5F 3S 3Y 0x1F X'0G' X'0F' X'1' 'a' '' '%' '1'
'2024-01-31' '9999999-01-01' '1 day' '-5' 'NaN' 'é' "b" `x` 1.2.3 1_000 1e 00000 '10:00' 'x' 'inf' N'a' r'a' b'1'
123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890""".split()
SPACE = [" ", "\n", "\t", " -- c\n", " /* c */ ", "\x00", "\u00a0", "\ufeff"]

tokens = st.one_of(
    *(st.sampled_from(pool) for pool in (NAMES, NAMES, FUNCTIONS, WORDS, MARKS, LITERALS, SPACE))
)
texts = (
    st.lists(tokens, max_size=14).map(" ".join)
    | st.lists(tokens, max_size=8).map("".join)
    | st.text(max_size=20)
)

OPERANDS = [*NAMES, *LITERALS, "NULL", "TRUE", "INTERVAL 1 DAY", "INTERVAL '2' MONTH", "DATE '2024-01-31'"]
OPERATORS = "+ - * / % DIV = <=> <> < <= > >= AND OR || LIKE ILIKE".split()
TYPES = "INT BIGINT TINYINT DOUBLE FLOAT DECIMAL DECIMAL(38,30) STRING BINARY BOOLEAN DATE TIMESTAMP TIMESTAMP_LTZ".split()
SHAPES = [
    "({a} {op} {b})",
    "({a} {op} {b})",
    "({a} {op} {b})",
    "{a} {op} {b}",
    "{f}({a})",
    "{f}({a}, {b})",
    "{f}({a}, {b}, {c})",
    "CAST({a} AS {t})",
    "({a} BETWEEN {b} AND {c})",
    "{a} IN ({b}, {c})",
    "CASE WHEN {a} THEN {b} ELSE {c} END",
    "({a} IS NULL)",
    "(NOT {a})",
    "(- {a})",
    "INTERVAL {a} DAY",
]


@st.composite
def shaped(draw: st.DrawFn, depth: int = 3) -> str:
    """Texts with the shape of expressions, so that more of them pass the parser and reach binding and folding."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(OPERANDS))
    shape = draw(st.sampled_from(SHAPES))
    inner = {place: draw(shaped(depth - 1)) for place in "abc" if f"{{{place}}}" in shape}
    others = {"op": OPERATORS, "f": FUNCTIONS, "t": TYPES}
    drawn = {name: draw(st.sampled_from(pool)) for name, pool in others.items() if f"{{{name}}}" in shape}
    return shape.format(**inner, **drawn)


def rows() -> dict[tuple[str, str], pa.Array]:
    return {(stream, name): pa.nulls(2, type) for stream in "rs" for name, type in COLUMNS.items()}


def check(text: str) -> None:
    for kind in (Condition, Select):
        try:
            bound = kind(text).bind(SCHEMAS)
        except ConditionError as error:
            assert "; got " in str(error)  # noqa: PT017
        else:
            str(bound)
            trees = bound.expressions if isinstance(bound, BoundSelect) else bound.filters.values()
            for tree in trees:
                evaluate(tree, rows(), 2)


@examples(400)
@given(texts)
@example("-- only a comment")
@example("/* only a comment */")
@example(";")
@example("; r.x = s.x")
@example("/*+ hint */ r.x = s.x")
def test_any_tokens_are_taken_or_refused_by_our_own_error(text: str) -> None:
    check(text)


@examples(400)
@given(shaped())
@example("CAST(INTERVAL CAST(99999999999999999999 AS INT) DAY AS INT)")
@example("CAST(.5 AS INT)")
def test_any_expression_is_taken_or_refused_by_our_own_error(text: str) -> None:
    check(text)


@pytest.mark.parametrize("text", ["-- c", "/* c */", ";", " ; ", "--", "/**/", "-- c\n-- d"])
def test_a_text_without_an_expression_is_refused_as_empty(text: str) -> None:
    for kind, what in ((Condition, "condition"), (Select, "select list")):
        with pytest.raises(
            ConditionError, match=f"^a {what} must be SQL text; got an empty text; write an expression"
        ):
            kind(text)


@pytest.mark.parametrize(
    "text", ["-- why\nr.x = s.x", "/* why */ r.x = s.x", "r.x = s.x -- why", "r.x = s.x /* why */ ;"]
)
def test_comments_around_a_condition_are_passed_over(text: str) -> None:
    assert str(Condition(text).bind(SCHEMAS)) == "band      r.x = s.x"


def test_a_text_too_deep_for_python_is_refused() -> None:
    with pytest.raises(
        ConditionError, match=r"^a condition must be nested less deeply; got 20001 characters"
    ):
        Condition("(" * 10_000 + "1" + ")" * 10_000)
    with pytest.raises(ConditionError, match=r"^a condition must be nested less deeply"):
        Condition(" + ".join(["r.x"] * 5_000) + " > s.x").bind(SCHEMAS)


@pytest.mark.parametrize("terms", range(220, 320, 20))
def test_what_is_nearly_too_deep_is_refused_at_once_or_works_to_the_end(terms: int) -> None:
    """Binding takes the most of Python's stack for each level: what is bound can be shown, compared and evaluated."""
    for text in (
        " + ".join(["r.x"] * terms) + " > s.x",
        "NOT " * terms + "r.b",
        "r.x" + "::INT::BIGINT" * terms + " > s.x",
    ):
        check(text)


@pytest.mark.parametrize(
    ("text", "mark"),
    [("r.x = {}", " OR "), ("r.x <> {}", " AND "), ("r.x <> s.x + {}", " AND "), ("r.x = s.x + {}", " OR "),
     ("(r.x <> {} OR s.n = 'a')", " AND "), ("NOT (r.x = {})", " AND ")],
)  # fmt: skip
def test_thousands_of_terms_are_no_deeper_than_two(text: str, mark: str) -> None:
    terms = 2_000
    bound = Condition("r.i = s.i AND (" + mark.join(text.format(i) for i in range(terms)) + ")").bind(SCHEMAS)
    assert str(bound)
    values = {"x": 5, "i": 1, "n": "a"}
    rows = pa.record_batch({name: pa.array([values.get(name)], type) for name, type in COLUMNS.items()})
    passes = all(bound.passes(stream, rows) in (None, [True]) for stream in "rs")
    keys = {stream: [band.keys(stream, rows)[0] for band in bound.bands] for stream in "rs"}
    for band, left, right in zip(bound.bands, keys["r"], keys["s"], strict=True):
        passes = passes and any(lo[0] <= left[0] <= hi[0] for lo, hi in band.bounds("s", right))
    expected = {"r.x = {}": True, "r.x = s.x + {}": True, "(r.x <> {} OR s.n = 'a')": True}.get(text, False)
    assert (passes and bool(bound.holds(rows, rows)[0])) == expected


def test_a_list_of_a_thousand_columns_is_no_chain() -> None:
    assert str(Condition("r.x IN (" + ", ".join(["s.x + r.i"] * 1_000) + ")").bind(SCHEMAS))
    assert str(Condition(" || ".join(["r.n"] * 1_000) + " = s.n").bind(SCHEMAS))
