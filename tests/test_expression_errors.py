"""Every condition or select list that is refused is refused in these words, with its place underlined."""

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import ConditionError
from watersmeet.sql import Select
from watersmeet.sql.condition import Condition
from watersmeet.sql.parse import FUNCTIONS
from watersmeet.sql.types import CAST_TARGETS

R = {
    "id": pa.int64(),
    "price": pa.float64(),
    "sym": pa.string(),
    "d": pa.date32(),
    "tags": pa.list_(pa.int64()),
    "t": pa.timestamp("us"),
    "z": pa.timestamp("us", "UTC"),
    "b": pa.bool_(),
}
S = {"id": pa.int64(), "amount": pa.float64(), "sym": pa.string(), "t": pa.timestamp("us")}
SCHEMAS = {"r": pa.schema(R), "s": pa.schema(S)}
COLUMNS = "r.id, r.price, r.sym, r.d, r.tags, r.t, r.z, r.b"
ALL = f"a column must be one of {COLUMNS}, s.id, s.amount, ..."
COMPARE = "must have values of types that compare; got"
SUBQUERY = "a condition must be an expression over the streams; got a subquery; join its result as a stream"
AGGREGATE = "a condition must be about one row of each stream; got an aggregate; aggregate the result"
STREAMS = "a condition must be an expression over the streams"
QUERY = f"{STREAMS}; got a whole query; give only what stands after ON"
BRACKETS = "a comparison of comparisons must have brackets; got none; write (a = b) < c or a = (b < c)"
VALID = "a condition must be valid SQL; got"
SCALAR = "must be a number, text, binary, boolean, date, time or duration; got"

CASES = [
    # names
    ("q.id = s.id", "a stream must be one of r, s; got 'q'; correct the name", "q.id"),
    ("r.prise = 1", f"a column must be one of {COLUMNS}; got 'prise'; did you mean r.price?", "r.prise"),
    ("r.zzz = 1", f"a column must be one of {COLUMNS}; got 'zzz'; correct the name", "r.zzz"),
    (
        "amont = 3",
        f"{ALL}; got 'amont'; did you mean s.amount?",
        "amont",
    ),
    ("id = 3", "a column name must be of one stream; got 'id', which several have; write r.id or s.id", "id"),
    ("r.a.b = 1", "a column must be written stream.column; got r.a.b; shorten it", "r.a.b"),
    # what the parser passes over
    ("r.id = s.id AS", f"{VALID} nothing beside 'AS'; correct the text here", "AS"),
    ("r.id IN (1, 2,)", f"{VALID} nothing beside ','; correct the text here", (13, 14)),
    # types
    (
        "r.price = s.sym",
        f"'r.price = s.sym' {COMPARE} r.price (double) and s.sym (string); CAST one side",
        "r.price = s.sym",
    ),
    (
        "r.id + s.sym > 3",
        "'r.id + s.sym' must calculate with numbers, or with moments and intervals; got r.id (int64) + "
        "s.sym (string); CAST one side",
        "r.id + s.sym",
    ),
    (
        "r.sym",
        "'r.sym' must be true or false; got r.sym (string); compare it, or CAST it AS BOOLEAN",
        "r.sym",
    ),
    (
        "r.b AND s.id",
        "'s.id' must be true or false; got s.id (int64); compare it, or CAST it AS BOOLEAN",
        "s.id",
    ),
    (
        "r.tags = 3",
        f"'r.tags' {SCALAR} r.tags (list<item: int64>); take a field of it into a column of its own",
        "r.tags",
    ),
    ("ABS(r.sym) = 1", "'r.sym' must be a number or an interval; got r.sym (string); CAST it", "r.sym"),
    ("UPPER(r.id) = 'A'", "'r.id' must be text; got r.id (int64); CAST it AS STRING", "r.id"),
    ("r.sym LIKE 3", "'3' must be text; got 3 (int32); CAST it AS STRING", "3"),
    ("YEAR(r.id) = 1", "'r.id' must be a date; got r.id (int64); CAST it AS DATE", "r.id"),
    (
        "r.t = r.z",
        f"'r.t = r.z' {COMPARE} r.t (timestamp[us]) and r.z (timestamp[us, tz=UTC]); CAST one side",
        "r.t = r.z",
    ),
    (
        "r.d > 'yesterday'",
        f"\"r.d > 'yesterday'\" {COMPARE} r.d (date) and 'yesterday' (string); CAST one side",
        "r.d > 'yesterday'",
    ),
    (
        "CAST(r.id AS DATE) = r.d",
        "a cast must be between types that have values in common; got r.id (int64) as date; use arithmetic "
        "or date functions",
        "r.id",
    ),
    (
        "CAST(r.id AS MAP<INT, INT>) = 1",
        f"a cast must be to one of {CAST_TARGETS}; got MAP<INT, INT>; use one",
        "MAP<INT, INT>",
    ),
    # syntax
    ("r.id = = s.id", f"{VALID} an operand or argument missing near '='; correct the text here", (7, 8)),
    ("r.id = (s.id", f"{VALID} ')' missing after 'id'; correct the text here", (10, 12)),
    ("r.id BETWEEN 1", f"{VALID} an operand or argument missing near '1'; correct the text here", "1"),
    ("r.id = s.id AND", f"{VALID} an operand or argument missing near 'AND'; correct the text here", "AND"),
    ("r.id = 'abc", f"{VALID} a quote or comment that is never closed; close it", "'abc"),
    ("r.id = 1 extra", f"{VALID} an unexpected 'extra'; correct it", "extra"),
    ("r.id = 1 extra more", f"{VALID} an unexpected 'more'; correct the text here", "more"),
    ("r.id = 1, 2", "a condition must be one expression; got several; join them with AND", (10, 11)),
    (
        "r.id = 1; s.id = 1",
        "a condition must be one piece of SQL; got several; remove ';' and set operations",
        "r.id = 1; s.id = 1",
    ),
    ("r.id = 1 FROM t", "a condition must be only expressions; got FROM; leave it out", "r.id = 1 FROM t"),
    ("r.id IN ()", "IN must have a list of values; got none; write IN (1, 2)", "r.id"),
    ("r.id = ?", "a condition must be an expression over columns; got ?; rewrite this part", None),
    (
        "r.d > DATE '2024-13-01'",
        "a moment must be like '2024-01-31' or '2024-01-31 12:30:00'; got '2024-13-01'; correct it",
        "'2024-13-01'",
    ),
    (
        "r.t > s.t + INTERVAL '3 foos'",
        "an INTERVAL must be like INTERVAL '10' SECOND or INTERVAL '1 hour 30 minutes'; got INTERVAL '3' FOOS"
        "; give a number and a unit",
        None,
    ),
    (
        "r.t - s.t < INTERVAL 1 MONTH",
        "an INTERVAL of months or years must be added to or taken from a date or timestamp, because months "
        "have no fixed length; got one that stands alone; use days, or ADD_MONTHS",
        None,
    ),
    # what is no expression over one row of each stream
    ("SUM(r.id) = 1", AGGREGATE, "SUM(r.id)"),
    ("COUNT(*) = 1", AGGREGATE, None),
    ("ROW_NUMBER() OVER (ORDER BY r.id) = 1", AGGREGATE, "ROW_NUMBER() OVER (ORDER BY r.id)"),
    ("r.id = (SELECT MAX(id) FROM s)", SUBQUERY, "MAX(id) FROM s"),
    ("r.id IN (SELECT id FROM s)", SUBQUERY, "r.id IN (SELECT id FROM s)"),
    ("EXISTS (SELECT r.id)", SUBQUERY, "r.id"),
    ("SELECT 1", QUERY, "SELECT 1"),
    ("SELECT * FROM r JOIN s ON r.id = s.id", QUERY, "SELECT * FROM r JOIN s ON r.id = s.id"),
    ("WITH a AS (SELECT 1) SELECT * FROM a JOIN s ON a.id = s.id", QUERY, None),
    ("r JOIN s ON r.id = s.id", QUERY, "r JOIN s ON r.id = s.id"),
    ("r.id FROM r JOIN s ON r.id = s.id", QUERY, None),
    ("FROM r JOIN s ON r.id = s.id", QUERY, None),
    ("ON r.id = s.id", f"{STREAMS}; got ON in front of it; give only what stands after ON", "ON"),
    ("on r.id = s.id", f"{STREAMS}; got ON in front of it; give only what stands after ON", "on"),
    (
        "WHERE r.id = s.id",
        f"{STREAMS}; got WHERE in front of it; give only what stands after ON or WHERE",
        "WHERE",
    ),
    # what Spark and the parser bracket differently
    ("r.b = s.id IN (1, 2)", BRACKETS, None),
    ("r.id BETWEEN 1 AND 2 = r.b", BRACKETS, None),
    ("r.b = s.id < r.id", BRACKETS, "r.b = s.id < r.id"),
    # numbers and functions
    ("r.id = 1e", "a number must be like 1, 0.5 or 1e-3; got 1e; correct it", "1e"),
    (
        "FLOOR(r.price, 1) = 1",
        "FLOOR must have one argument; got more; multiply before and divide after it",
        None,
    ),
    ("DATEDIFF(r.d) = 1", f"{VALID} a function with an argument missing; add it", None),
    ("SUBSTRING(r.sym) = 'a'", f"{VALID} a function with an argument missing; add it", None),
    (
        "my_udf(r.id) = 1",
        f"a function must be one of {FUNCTIONS}; got my_udf; use those, or add a column",
        "my_udf",
    ),
    *(
        (text, f"a function must be one of {FUNCTIONS}; got {name}; use those, or add a column", name)
        for text, name in [
            ("r.id = 1 AND DATE_TRUNC('day', r.t) = s.t", "DATE_TRUNC"),
            ("r.sym RLIKE s.sym", "RLIKE"),
            ("(r.sym) NOT REGEXP 'a'", "REGEXP"),
            ("UPPER(r.sym RLIKE 'a') = 'A'", "RLIKE"),
            ("lpad(r.sym, 3, 'x') = s.sym", "lpad"),
            ("TRIM(BOTH 'x' FROM r.sym) = 'a'", "TRIM"),
            ("ABS(EXTRACT(YEAR FROM r.d)) = 1", "EXTRACT"),
            ("r.d = CURRENT_DATE", "CURRENT_DATE"),
            ("TIME_TO_TIME_STR(r.sym) = 'a'", "TIME_TO_TIME_STR"),
        ]
    ),
    *(
        (text, f"a cast must be to one of {CAST_TARGETS}; got {name}; use one", name)
        for text, name in [
            ("CAST(r.id AS TIME) = 1", "TIME"),
            ("r.id::time = 1", "time"),
            ("CAST(CAST(r.id AS INT) AS TIME) = 1", "TIME"),
            ("CAST(CAST(r.id AS DECIMAL(3, 1)) AS TIME) = 1", "TIME"),
            ("CAST(5L AS TIME) = 1", "TIME"),
            ("CAST(r.id AS INT(3)) = 1", "INT(3)"),
            ("CAST(r.id AS DECIMAL(3, 1, 2)) = 1", "DECIMAL(3, 1, 2)"),
        ]
    ),
    (
        "LENGTH(r.sym, 'utf8') = 1",
        "LENGTH must be written in its plain form; got it with 'binary'; leave that out",
        "'utf8'",
    ),
    ("r.id = INT(s.id, 2)", "INT must have no more arguments than 1; got 2; leave out the rest", "INT"),
    (
        "TO_DATE(r.sym, 'yyyy') = r.d",
        "TO_DATE must have no more arguments than 1; got 2; leave out the rest",
        "TO_DATE",
    ),
    (
        "SOUNDEX(r.sym) = 'x'",
        f"a function must be one of {FUNCTIONS}; got SOUNDEX; use those, or add a column",
        None,
    ),
]


@pytest.mark.parametrize(("text", "message", "place"), CASES, ids=[text for text, _, _ in CASES])
def test_a_condition_is_refused_in_these_words(
    text: str, message: str, place: str | tuple[int, int] | None
) -> None:
    with pytest.raises(ConditionError) as caught:
        Condition(text).bind(SCHEMAS)
    said, line, carets = str(caught.value).split("\n")
    assert said == message
    assert line == f"    {text}"
    assert set(carets.strip()) == {"^"}
    if place is not None:
        start, end = (text.index(place), text.index(place) + len(place)) if isinstance(place, str) else place
        assert carets == " " * (4 + start) + "^" * (end - start)


def test_the_line_with_the_fault_is_shown() -> None:
    with pytest.raises(ConditionError) as caught:
        Condition("r.id = s.id\n\tAND r.prise > 0\n  AND TRUE").bind(SCHEMAS)
    assert str(caught.value).split("\n")[1:] == ["    \tAND r.prise > 0", "    \t    ^^^^^^^"]


def test_bad_syntax_is_found_before_there_are_schemas() -> None:
    with pytest.raises(ConditionError, match="valid SQL"):
        Condition("r.id = = 1")
    with pytest.raises(ConditionError, match="empty text"):
        Condition("  ")


def test_names_differ_in_case_only_where_that_is_unambiguous() -> None:
    assert Condition("R.ID = S.Id").bind(SCHEMAS).columns == {"r": ["id"], "s": ["id"]}
    twins = {"r": pa.schema({"a": pa.int64(), "A": pa.int64()}), "s": pa.schema({"b": pa.int64()})}
    assert Condition("r.A = s.b").bind(twins).columns["r"] == ["A"]
    doubled = {"r": pa.schema([("a", pa.int64()), ("a", pa.int64())]), "s": pa.schema({"b": pa.int64()})}
    with pytest.raises(ConditionError, match="must occur once in its stream; got 'a' twice in r"):
        Condition("r.a = s.b").bind(doubled)


def test_keywords_and_quoted_names_can_be_streams_and_columns() -> None:
    schemas = {
        "order": pa.schema({"end": pa.int64(), "a b": pa.int64()}),
        "left": pa.schema({"date": pa.int64()}),
    }
    bound = Condition("order.end = left.date AND order.`a b` > 0").bind(schemas)
    assert str(bound.filters["order"]) == "order.`a b` > 0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("r.id AS x, s.id AS x", "each column its own name; got 'x' 2 times; use AS"),
        ("q.*", "a stream must be one of r, s; got 'q'"),
        ("r.nope", "a column must be one of .* got 'nope'"),
        ("SUM(r.id)", "a select list must be about one row of each stream; got an aggregate"),
        ("", "a select list must be SQL text; got an empty text"),
        ("WHERE r.id", "got WHERE in front of it; give only what stands between SELECT and FROM"),
        ("r.id FROM r", "a select list must be only expressions; got FROM"),
        ("id", "a column name must be of one stream; got 'id'"),
        (
            "SELECT r.id FROM r JOIN s ON r.id = s.id",
            "got a whole query; give only what stands between SELECT and FROM",
        ),
    ],
)
def test_a_select_list_is_refused_in_these_words(text: str, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        Select(text).bind(SCHEMAS)


STAR = "a star must stand alone or with EXCEPT (a, b); got"
LIST = "EXCEPT must have a list of columns in brackets; got something else; write * EXCEPT (a, b)"


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        *(
            (text, f"{STAR} {name}; list the columns one by one", name)
            for text, name in [
                ("r.* EXCLUDE (id)", "EXCLUDE"),
                ("r.id, * REPLACE (1 AS id)", "REPLACE"),
                ("r.* RENAME (id AS x)", "RENAME"),
                ("* ILIKE 'i%'", "ILIKE"),
                ("r.* EXCEPT (id) REPLACE (1 AS b)", "REPLACE"),
            ]
        ),
        ("r.* EXCEPT id", LIST, "EXCEPT"),
        ("r.* EXCEPT ()", LIST, "EXCEPT"),
        ("r.* EXCEPT (id + 1)", LIST, "EXCEPT"),
        ("r.* EXCEPT (b, prise)", f"a column must be one of {COLUMNS}; got 'prise'; did you mean r.price?", "prise"),
        ("r.* EXCEPT (s.amount)", "a stream must be one of r; got 's'; correct the name", "s.amount"),
        ("* EXCEPT (sym)", "a column name must be of one stream; got 'sym', which several have; write r.sym or s.sym", "sym"),
        ("r.* EXCEPT (id, ID)", "EXCEPT must name a column once; got 'id' again; leave one out", "ID"),
    ],
)  # fmt: skip
def test_what_stands_behind_a_star_is_refused_in_these_words(text: str, message: str, place: str) -> None:
    with pytest.raises(ConditionError) as caught:
        Select(text).bind(SCHEMAS)
    said, line, carets = str(caught.value).split("\n")
    assert (said, line) == (message, f"    {text}")
    assert carets == " " * (4 + text.index(place)) + "^" * len(place)


def test_a_wrong_stream_is_refused_before_any_schema_is_known() -> None:
    windows = {"r": wm.Rows(9), "s": wm.Rows(9)}
    message = (
        r"^a stream must be one of r, s; got 'x'; correct the name\n    r.id = x.id\n           \^\^\^\^$"
    )
    with pytest.raises(ConditionError, match=message):
        wm.StreamJoin("r.id = x.id", windows=windows)
    for text in ("r.id, ABS(x.id)", "x.*", "* EXCEPT (x.id)"):
        with pytest.raises(ConditionError, match=r"^a stream must be one of r, s; got 'x'; correct the name"):
            wm.StreamJoin("r.id = s.id", windows=windows, select=text)
    with pytest.raises(ConditionError, match=r"^a stream must be one of r; got 's'; correct the name"):
        wm.StreamJoin("r.id = s.id", windows=windows, how="left_semi", select="s.id")
    wm.StreamJoin("R.id = s.id AND nobody_knows > 1", windows=windows, select="S.*")
