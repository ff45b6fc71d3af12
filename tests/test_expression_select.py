"""A select list names, types and computes the columns of a result."""

import pyarrow as pa
import pytest

from watersmeet.sql import Select

R = pa.record_batch(
    {
        "id": pa.array([1, 2], pa.int32()),
        "name": pa.array(["a", None]).dictionary_encode(),
        "tags": pa.array([[1], None], pa.list_(pa.int64())),
    }
)
S = pa.record_batch({"id": [10, None], "price": [1.5, 2.5]})
SCHEMAS = {"r": R.schema, "s": S.schema}
COLUMNS = {("r", name): R.column(name) for name in R.schema.names} | {
    ("s", name): S.column(name) for name in S.schema.names
}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("*", ["r_id", "name", "tags", "s_id", "price"]),
        ("r.*", ["id", "name", "tags"]),
        ("s.*, r.id", ["s_id", "price", "r_id"]),
        ("* EXCEPT (tags, s.id)", ["id", "name", "price"]),
        ("r.* EXCEPT (Name)", ["id", "tags"]),
        ("r.* EXCEPT (r.id, tags), s.* EXCEPT (`price`)", ["name", "id"]),
        ("s.id, r.* EXCEPT (id)", ["id", "name", "tags"]),
        ("r.* EXCEPT (id, name, tags)", []),
        ("r.id", ["id"]),
        ("r.id, s.id", ["r_id", "s_id"]),
        ("r.id AS a, s.id", ["a", "id"]),
        ("name, price * 2 AS twice", ["name", "twice"]),
        ("r.id + s.id", ["r.id + s.id"]),
        ("r.id AS `a b`, UPPER(name)", ["a b", "UPPER(r.name)"]),
    ],
)
def test_names_are_kept_and_clashes_get_their_stream(text: str, names: list[str]) -> None:
    bound = Select(text).bind(SCHEMAS, ["r", "s"])
    assert bound.schema.names == names
    result = bound.evaluate(COLUMNS, 2)
    assert result.schema == bound.schema
    assert result.num_rows == 2


def test_the_order_of_streams_is_the_one_given() -> None:
    assert Select("*").bind(SCHEMAS, ["s", "r"]).schema.names == ["s_id", "price", "r_id", "name", "tags"]


def test_plain_columns_come_out_as_they_were_stored() -> None:
    bound = Select("*").bind(SCHEMAS)
    assert [bound.schema.field(i).type for i in range(3)] == [R.schema.field(i).type for i in range(3)]
    assert bound.evaluate(COLUMNS, 2).column("tags").equals(R.column("tags"))


def test_only_the_columns_in_use_are_needed() -> None:
    bound = Select("r.id + 1 AS a, s.price").bind(SCHEMAS)
    assert bound.columns == {"r": ["id"], "s": ["price"]}
    assert Select("1 AS one").bind(SCHEMAS).columns == {"r": [], "s": []}


def test_expressions_are_computed_over_both_rows() -> None:
    bound = Select("r.id + s.id AS total, COALESCE(name, 'none') AS name, 7 AS seven").bind(SCHEMAS)
    assert bound.evaluate(COLUMNS, 2).to_pylist() == [
        {"total": 11, "name": "a", "seven": 7},
        {"total": None, "name": "none", "seven": 7},
    ]


def test_no_rows_and_chunks_are_no_special_case() -> None:
    bound = Select("*, r.id * 2 AS twice").bind(SCHEMAS)
    empty = {key: column.slice(0, 0) for key, column in COLUMNS.items()}
    assert bound.evaluate(empty, 0).schema == bound.schema
    chunked = {
        key: pa.chunked_array([column.slice(0, 1), column.slice(1)]) for key, column in COLUMNS.items()
    }
    assert bound.evaluate(chunked, 2).to_pylist() == bound.evaluate(COLUMNS, 2).to_pylist()


def test_streams_without_columns_give_rows_without_columns() -> None:
    bound = Select("*").bind({"r": pa.schema([]), "s": pa.schema([])})
    assert (bound.evaluate({}, 3).num_rows, bound.evaluate({}, 3).num_columns) == (3, 0)


def test_a_missing_partner_is_null() -> None:
    columns = COLUMNS | {("s", "id"): pa.nulls(2, pa.int64()), ("s", "price"): pa.nulls(2, pa.float64())}
    rows = Select("r.id, s.price, s.id + 1 AS next").bind(SCHEMAS).evaluate(columns, 2).to_pylist()
    assert rows == [{"id": 1, "price": None, "next": None}, {"id": 2, "price": None, "next": None}]
