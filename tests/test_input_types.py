"""Every Arrow type, in every form that it may have, in changing batches of one stream: joined the same, or refused in our own words."""

import uuid
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples, pairs
from test_exact import ENCODINGS, KINDS, column, stored, values_of
from watersmeet.errors import SchemaError, WatersmeetError
from watersmeet.streams.schema import stored_type

WINDOWS = {"r": wm.Rows(100), "s": wm.Rows(100)}
DAYS = pa.array([0, 1, 19_000, None, 1], pa.int32()).cast(pa.date32())
# Columns that say the same in different types: whichever comes first, the others convert.
FORMS: dict[str, list[pa.Array]] = {
    "integers": [pa.array([1, 2, 3, None, 1], kind) for kind in (pa.int64(), pa.int8(), pa.uint64(), pa.float64(), pa.decimal128(9, 2))],
    "floats": [pa.array(np.array([0.5, 2, 3, 4, 0.5], dtype)) for dtype in (np.float64, np.float32, np.float16)],
    "decimals": [pa.array([1, 2, 3, None, 1], kind) for kind in (pa.decimal128(9, 2), pa.decimal32(4, 0), pa.decimal256(50, 9))],
    "texts": [pa.array(["a", "bc", "", None, "a"], kind) for kind in (pa.string(), pa.large_string(), pa.string_view())],
    "binaries": [pa.array([b"abc", b"xyz", None], kind) for kind in (pa.binary(), pa.binary(3), pa.large_binary(), pa.binary_view())],
    "dates": [DAYS, DAYS.cast(pa.date64()), DAYS.cast(pa.timestamp("s")), DAYS.cast(pa.timestamp("ns"))],
    "instants": [DAYS.cast(pa.timestamp("ms")).cast(pa.timestamp("ms", zone)) for zone in ("UTC", "Etc/UTC", "Europe/Berlin")],
    "times": [pa.array([0, 60, 3600, None, 0], pa.time32("s")).cast(kind) for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("ns"))],
    "durations": [pa.array([0, 60, -5, None, 0], pa.duration("s")).cast(kind) for kind in (pa.duration("s"), pa.duration("ns"))],
    "booleans": [pa.array([True, False, True, None, True])],
}  # fmt: skip
LAYOUTS = st.tuples(st.sampled_from(list(ENCODINGS)), st.booleans(), st.booleans())


def laid_out(array: pa.Array, layout: tuple[str, bool, bool]) -> pa.RecordBatch:
    """The column beside a key, encoded, with other nullability and metadata."""
    encoding, not_null, noted = layout
    with suppress(pa.ArrowNotImplementedError):  # Arrow cannot encode every type
        array = ENCODINGS[encoding](array)
    metadata = {"from": "elsewhere"} if noted else None
    fields = [
        pa.field("k", pa.int64(), nullable=not not_null, metadata=metadata),
        pa.field("x", array.type, metadata=metadata),
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(range(len(array))), array], schema=pa.schema(fields, metadata)
    )


@examples(60)
@given(
    st.sampled_from(list(FORMS)).flatmap(
        lambda name: st.lists(
            st.tuples(st.sampled_from("rs"), st.sampled_from(FORMS[name]), LAYOUTS), min_size=2, max_size=6
        )
    ),
    st.sampled_from(["r.x = s.x", "r.x <= s.x", "r.x <=> s.x", "r.k = s.k"]),
)
def test_the_form_of_a_batch_changes_no_result(pushes: list[Any], condition: str) -> None:
    plain = wm.StreamJoin(condition, **WINDOWS, how="full")
    mixed = wm.StreamJoin(condition, **WINDOWS, how="full")
    usual = pushes[0][1]
    for side, array, layout in pushes:
        expected = plain.push({side: {"k": list(range(len(usual))), "x": usual}})
        assert pairs(mixed.push({side: laid_out(array, layout)})) == pairs(expected)
    expected, found = plain.finish(), mixed.finish()
    assert pairs(found) == pairs(expected)


@examples(120)
@given(
    st.data(),
    st.lists(st.tuples(st.sampled_from("rs"), st.sampled_from(KINDS), LAYOUTS), min_size=1, max_size=5),
    st.sampled_from(["r.k = s.k", "r.x = s.x", "r.x < s.x"]),
)
def test_whatever_comes_is_kept_as_it_is_or_refused(
    data: st.DataObject, pushes: list[Any], condition: str
) -> None:
    join = wm.StreamJoin(condition, r=wm.Unbounded(), s=wm.Unbounded(), how="left_anti", select="r.x")
    kept: list[Any] = []
    for side, kind, layout in pushes:
        array = column(kind, data.draw(st.lists(st.none() | values_of(kind), max_size=3)))
        before = join.stats()["streams"][side]["rows"]
        try:
            join.push({side: laid_out(array, layout)})
        except WatersmeetError:
            assert join.stats()["streams"][side]["rows"] == before
            continue
        kept += stored(array) if side == "r" else []
    rest = join.finish()
    if None not in join._known.schemas:
        found = stored(rest.to_arrow().column("x").combine_chunks())
        assert found == [kept[row] for row in rest.pairs()["r"]]


class Untold(pa.ExtensionType):
    """Over a dictionary that has no type yet, of which no two can become one."""

    def __init__(self) -> None:
        super().__init__(pa.nulls(1).dictionary_encode().type, "test.untold")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


def test_what_arrow_cannot_gather_is_refused_with_the_first_batch() -> None:
    rows = pa.ExtensionArray.from_storage(Untold(), pa.nulls(2).dictionary_encode())
    join = wm.StreamJoin("r.k = s.k", r=wm.Unbounded(), s=wm.Unbounded())
    with pytest.raises(SchemaError, match="must have a type whose rows Arrow can gather"):
        join.push(r=pa.table({"k": [1, 2], "x": rows}))
    assert join.push(r={"k": [1]}, s={"k": [1]}).count == 1


class Celsius(pa.ExtensionType):
    """An extension type that nobody has registered, and that has no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__(pa.float64(), "test.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, data: bytes) -> "Celsius":
        return cls()


IDS = pa.array([uuid.UUID(int=i).bytes for i in (1, 2)], pa.uuid())
NESTED: dict[str, pa.Array] = {
    "list": pa.array([[1], None]),
    "large list": pa.array([[1], None], pa.large_list(pa.int64())),
    "list of views": pa.array([["a"], None], pa.list_(pa.string_view())),
    "list view": pa.array([[1], None], pa.list_view(pa.int64())),
    "fixed list": pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
    "not null inside": pa.array([[1], None], pa.list_(pa.field("element", pa.int64(), nullable=False))),
    "struct": pa.array([{"a": 1, "b": {"c": "x"}}, None]),
    "dictionary in struct": pa.StructArray.from_arrays([pa.array(["a", "b"]).dictionary_encode()], ["a"]),
    "runs in list": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pc.run_end_encode(pa.array([1, 1]))),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    "dense union": pa.UnionArray.from_dense(pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["a"])]),
    "sparse union": pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
    "interval": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    "uuid": IDS,
    "list of uuid": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), IDS),
    "json": pa.array(["{}", None], pa.json_()),
    "own extension": pa.ExtensionArray.from_storage(Celsius(), pa.array([1.5, None])),
    "tensor": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int64(), [2]), pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))),
    "dictionary of dictionaries": pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.array(["a"]).dictionary_encode()),
    "wide dictionary": pa.array(["a", None]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_nested_and_extension_columns_are_carried_through(name: str, tmp_path: Any) -> None:
    array = NESTED[name]
    rows = pa.table({"k": [1, 2], "x": array})
    join = wm.StreamJoin("r.k = s.k", **WINDOWS, how="left")
    for _ in range(40):  # small chunks are merged on the way
        join.push(r=rows.slice(0, 1))
        join.push(r=rows.slice(1))
    found = join.push(s={"k": [2, 1]}).to_arrow().sort_by("s_k")
    found.validate(full=True)
    assert found.column("x").to_pylist() == [array[0].as_py()] * 40 + [array[1].as_py()] * 40
    assert found.schema.field("x").type == stored_type(array.type)
    join.push(r=rows)
    rest = join.finish()
    assert rest.count == 0
    other = wm.StreamJoin("r.k = s.k", **WINDOWS, how="full", select="r.x AS rx, s.x AS sx")
    other.push(r=rows, s={"k": [5], "x": [1]})
    assert other.finish().to_arrow().column("rx").to_pylist() == [*array.to_pylist(), None]


@pytest.mark.parametrize("name", [name for name in NESTED if pt.is_nested(NESTED[name].type)])
def test_a_nested_key_is_refused_in_our_words(name: str) -> None:
    join = wm.StreamJoin("r.x = s.x", **WINDOWS)
    rows = pa.table({"k": [1, 2], "x": NESTED[name]})
    join.push(r=rows)
    with pytest.raises(wm.ConditionError, match=r"'r.x' must be a number, text.*got r.x"):
        join.push(s=rows)


def test_many_dictionaries_are_one_column() -> None:
    """pandas gives each frame's categories an int8 index of their own; together they are more than int8 can count."""
    join = wm.StreamJoin("r.c = s.c", r=wm.Unbounded(), s=wm.Unbounded(), result="pairs")
    for i in range(300):
        rows = pa.table(
            {"c": pa.array([f"c{i}"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))}
        )
        assert join.push(r=rows, s=rows).count == 1
    assert join.push(s={"c": ["c7", "c299", "c300"]}).count == 2


def test_a_type_that_cannot_be_gathered_is_refused_on_arrival() -> None:
    kind = pa.sparse_union([pa.field("a", pa.string_view()), pa.field("b", pa.int64())])
    array = pa.UnionArray.from_sparse(
        pa.array([0, 1], pa.int8()), [pa.array(["a", "b"], pa.string_view()), pa.array([1, 2])]
    )
    array = pa.UnionArray.from_buffers(
        kind, 2, array.buffers()[:2], children=[array.field(0), array.field(1)]
    )
    with pytest.raises(
        SchemaError, match=r"'x' of stream 'r' must have a type whose rows Arrow can gather; got sparse_union"
    ):
        wm.StreamJoin("r.k = s.k", **WINDOWS).push(r=pa.table({"k": [1, 2], "x": array}))


def test_a_state_goes_on_with_all_types(tmp_path: Any) -> None:
    rows = pa.table({"k": [1, 2], **NESTED, "nothing": pa.nulls(2), "deep": pa.array([[], [None]])})
    join = wm.StreamJoin("r.k = s.k", **WINDOWS)
    for _ in range(3):
        join.push(r=rows)
    join.save(tmp_path)
    again = wm.StreamJoin.load(tmp_path)
    again.push(r=rows)  # also the extension type that was saved as what it stores
    found = again.push(s={"k": [1]}).to_arrow()
    assert found.num_rows == 4
    assert found.column("list").to_pylist() == [[1]] * 4
    more = {name: NESTED[name] for name in NESTED} | {
        "k": [1, 1],
        "nothing": ["a", None],
        "deep": [[2.5], []],
    }
    again.push(r=more)
    assert again.push(s={"k": [1]}).to_arrow().column("deep").to_pylist() == [[]] * 4 + [[2.5], []]
