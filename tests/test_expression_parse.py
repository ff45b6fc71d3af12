"""Nothing that was written is dropped on the way from sqlglot's tree to ours, and quotes are read as Spark reads them."""

import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp
from sqlglot.parsers.spark import SparkParser

from watersmeet.errors import ConditionError
from watersmeet.sql import Select, parse
from watersmeet.sql.condition import Condition
from watersmeet.sql.syntax import Source

SAMPLES = [
    *(f"r.a {op} r.b" for op in "+ - * / % DIV = <> < <= > >= <=> AND OR || LIKE ILIKE".split()),  # noqa: SIM905
    *(f"{name}(r.a)" for name in "ABS UPPER LOWER LENGTH SQRT FLOOR CEIL YEAR MONTH DAY TO_DATE DATE".split()),  # noqa: SIM905
    *(f"{name}(r.a, r.b)" for name in "NULLIF POWER ADD_MONTHS COALESCE LEAST GREATEST CONCAT".split()),  # noqa: SIM905
    "NOT r.a", "(r.a)", "-r.a", "TRUE", "NULL", "X'61'", "INTERVAL '1' DAY", "CAST(r.a AS INT)", "1", "'a'",
    "DATE '2024-01-31'", "r.a BETWEEN 1 AND 2", "r.a IN (1, 2)", "r.a IS NULL", "r.a IS DISTINCT FROM r.b",
    "r.a LIKE r.b ESCAPE '/'", "CASE WHEN r.a THEN 1 ELSE 2 END", "IF(r.a, 1, 2)", "SUBSTRING(r.a, 1, 2)",
    "DATE_ADD(r.a, 1)", "DATEDIFF(r.a, r.b)", "r.*", "*", "r.a AS b",
]  # fmt: skip


def root(text: str) -> exp.Expr:
    statement = sqlglot.parse_one("SELECT " + text, read=parse.Dialect)
    return statement.expressions[0]


def translate(text: str, node: exp.Expr) -> None:
    parse.Translator(Source(text, "select list")).item(node)


def unread_parts() -> list[tuple[str, type[exp.Expr], str]]:
    """Every part that some node of a sample may have, and that nothing reads."""
    found = {}
    for text in SAMPLES:
        for node in root(text).walk():
            kind = type(node)
            for part in (
                set(kind.arg_types)
                - parse._READ.get(kind, set(kind.arg_types))
                - parse._MARKS.get(kind, set())
            ):
                found.setdefault((kind, part), text)
    return [(text, kind, part) for (kind, part), text in found.items()]


def test_the_samples_have_every_kind_of_node() -> None:
    kinds = {type(node) for text in SAMPLES for node in root(text).walk()}
    translated = {
        *parse.Translator(Source("1", "condition")).special,
        *parse._BINARY,
        *parse._UNARY,
        *parse._LISTS,
    }
    assert {*translated, *parse._CHAINS} <= set(parse._READ)
    assert set(parse._READ) <= kinds
    for table in (parse._READ, parse._MARKS):
        assert all(parts <= set(kind.arg_types) for kind, parts in table.items())
    for text in SAMPLES:
        translate(text, root(text))


@pytest.mark.parametrize(("text", "kind", "part"), sorted(unread_parts(), key=str))
def test_a_part_of_a_node_that_nothing_reads_is_refused_by_name(
    text: str, kind: type[exp.Expr], part: str
) -> None:
    if kind is exp.Star:
        text = f"{text} {part}"
    tree = root(text.removesuffix(f" {part}") if kind is exp.Star else text)
    next(node for node in tree.walk() if type(node) is kind).set(part, exp.Literal.string("more"))
    with pytest.raises(ConditionError, match=f"(?i){part.strip('_')}"):
        translate(text, tree)


@pytest.mark.parametrize("arguments", range(1, 7))
def test_no_function_loses_an_argument(arguments: int) -> None:
    """Some of the parser's functions look at their first arguments only."""
    columns = {f"c{place}" for place in range(arguments)}
    taken, lost = set(), []
    for name in {*SparkParser.FUNCTIONS, *SparkParser.FUNCTION_PARSERS}:
        text = f"{name}({', '.join(sorted(columns))})"
        try:
            names = parse.parse_condition(text).names()
        except ConditionError:
            continue
        taken.add(name)
        lost += [text] if not columns <= names else []
    assert not lost
    assert taken >= {"COALESCE", "CONCAT"}


LITERALS = [
    ("'O''Brien'", "O'Brien"), ("''''", "'"), ("''", ""), ("'a' 'b'", "ab"), ("'a'\n'b' 'c'", "abc"), ("'''a'", "'a"),
    ("'a'''", "a'"), ('"a""b"', 'a"b'), ('""""', '"'), ("'a\"\"b'", 'a""b'), ("\"a''b\"", "a''b"), ("'it\\'s'", "it's"),
    ("'\\\\'''", "\\'"), ("'a'\"b\"", "ab"), ("'a''' '''b'", "a''b"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), LITERALS)
def test_a_doubled_quote_is_one_quote(text: str, value: str) -> None:
    bound = Select(f"{text} AS a, UPPER({text}) AS b").bind({"r": pa.schema([])})
    assert bound.evaluate({}, 1).to_pylist() == [{"a": value, "b": value.upper()}]
    schemas = {stream: pa.schema({"n": pa.string()}) for stream in "rs"}
    rows = pa.record_batch({"n": [value, value + "x"]})
    for condition in (f"r.n = {text}", f"r.n IN ('q', {text})"):
        assert Condition(condition).bind(schemas).passes("r", rows).tolist() == [True, False]
    if "\\" not in value:
        assert Condition(f"r.n LIKE {text}").bind(schemas).passes("r", rows).tolist() == [True, False]
    assert Select(str(Select(text).bind(schemas).expressions[0])).bind(schemas).evaluate({}, 1).column(
        0
    ).to_pylist() == [value]


def test_brackets_and_words_in_quotes_are_no_words() -> None:
    schemas = {stream: pa.schema({"n": pa.string(), "x": pa.int64()}) for stream in "rs"}
    text = (
        "r.n IN ('(', ')', 'JOIN', ',') AND INT(IF(s.n = ',', r.x, s.x)) = s.x AND CONCAT('INT', '(') <> r.n"
    )
    assert str(Condition(text).bind(schemas))
    assert Select("r.*, ' EXCEPT ' AS e").bind(schemas).schema.names == ["n", "x", "e"]
    for wrong in ("INT(r.x, ')') = 1", "r.n = '(' AND INT(r.x, 2) = 1"):
        with pytest.raises(ConditionError, match=r"^INT must have no more arguments than 1; got 2"):
            Condition(wrong)


def test_one_line_keeps_a_number_with_a_letter() -> None:
    assert parse.one_line("r.x  = 5L -- why\n AND r.y > 0.3D") == "r.x = 5L AND r.y > 0.3D"


def test_a_number_with_a_letter_is_a_literal_and_a_cast_is_none() -> None:
    assert parse.parse_condition("5L").value == (5, pa.int64())
    assert parse.parse_condition("CAST(5 AS BIGINT)").op == "cast"


def test_one_line_keeps_quotes_and_what_stands_between_them() -> None:
    assert parse.one_line("r.n = 'O''Brien'\n  OR r.n = 'a'  'b'") == "r.n = 'O''Brien' OR r.n = 'a' 'b'"
