"""How a join of many streams is planned, shown and refused: orders, indexes, time axes of several types, errors by their text."""

import json
import re
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.api.stream_join import StreamJoin
from watersmeet.streams.clock import axis_domain

CHAIN = "a.k = b.k AND b.y BETWEEN c.x - 5 AND c.x + 5"


def chained(**options: object) -> StreamJoin:
    return wm.StreamJoin(CHAIN, a=wm.Rows(500), b=wm.Rows(500), c=wm.Rows(500), **options)  # type: ignore[arg-type]


def rows(random: np.random.Generator, count: int) -> dict[str, dict[str, np.ndarray]]:
    return {
        "a": {"k": random.integers(0, 100, count)},
        "b": {"k": random.integers(0, 100, count), "y": random.integers(0, 1000, count)},
        "c": {"x": random.integers(0, 1000, count)},
    }


def test_explain_shows_orders_drivers_and_measured_fanouts() -> None:
    join, random = chained(), np.random.default_rng(1)
    assert "waiting for the first batch, and so the schema, of all streams" in join.explain()
    for _ in range(3):
        join.push(**rows(random, 400))
    text = join.explain()
    assert text.startswith("StreamJoin inner of a, b and c, 1 core(s)")
    assert re.search(r"order a +-> b by a\.k = b\.k +\(about .* for each, .* measured\)", text)
    assert re.search(r"\n +-> c by b\.y between c\.x - 5 and c\.x \+ 5", text)
    assert "warning" not in text
    facts = json.loads(json.dumps(join.describe()))
    assert [step["stream"] for step in facts["plan"]["orders"]["c"]] == ["b", "a"]


def test_a_stream_has_an_index_for_each_key_that_is_asked_for() -> None:
    join = chained(index="bi_sort")
    join.push(**rows(np.random.default_rng(2), 100))
    indexes = {name: stream["indexes"] for name, stream in join.stats()["streams"].items()}
    assert indexes == {"a": ["bi_sort"], "b": ["bi_sort", "bi_sort"], "c": ["bi_sort"]}


def test_a_product_is_warned_of() -> None:
    join = wm.StreamJoin("a.k = b.k", a=wm.Rows(5), b=wm.Rows(5), c=wm.Rows(5))
    assert join.push(a={"k": [1]}, b={"k": [1]}, c={"x": [7, 8]}).count == 2
    assert (
        "warning    no comparison leads to a and b from c: a product, which grows with the windows"
        in join.explain()
    )


def test_a_fixed_probe_order_is_kept_and_shown() -> None:
    join, free, random = chained(probe_order={"a": ["c", "b"]}), chained(), np.random.default_rng(3)
    for _ in range(4):
        batch = rows(random, 50)
        assert join.push(**batch).count == free.push(**batch).count
    steps = join.describe()["plan"]["orders"]
    assert [step["stream"] for step in steps["a"]] == ["c", "b"]
    assert steps["a"][0]["drivers"] == []


def test_orders_change_with_what_is_seen_and_results_do_not() -> None:
    """First b is the rare partner of a, then c: the order of a turns round, and a join that never learns gives the same."""
    windows = {name: wm.Rows(2_000) for name in "abc"}
    join = wm.StreamJoin("a.k = b.k AND a.j = c.j", windows=windows)
    fixed = wm.StreamJoin(
        "a.k = b.k AND a.j = c.j",
        windows=windows,
        probe_order={"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"]},
    )
    random, orders = np.random.default_rng(4), []
    for spread_k, spread_j in [(5_000, 40)] * 6 + [(40, 5_000)] * 30:
        batch = {
            "a": {"k": random.integers(0, spread_k, 500), "j": random.integers(0, spread_j, 500)},
            "b": {"k": random.integers(0, spread_k, 500)},
            "c": {"j": random.integers(0, spread_j, 500)},
        }
        found, expected = join.push(batch), fixed.push(batch)
        assert _listed(found) == _listed(expected)
        orders.append([step["stream"] for step in join.describe()["plan"]["orders"]["a"]])
    assert orders[5] == ["b", "c"]
    assert orders[-1] == ["c", "b"]


def _listed(result: wm.Result) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.tolist() for column in result.numbers().values()), strict=True))


def test_times_of_several_units_lie_on_one_axis() -> None:
    kinds = [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us")]
    domain = axis_domain(kinds)
    assert domain is not None
    assert domain.name == "timestamp[us]"
    assert axis_domain([*kinds, pa.timestamp("us", "UTC")]) is None
    start = datetime(2024, 5, 1)
    times = [
        [start, start + timedelta(seconds=3)],
        [start + timedelta(milliseconds=2500)],
        [start + timedelta(microseconds=1)],
    ]
    join = wm.StreamJoin(
        "a.k = b.k AND b.k = c.k",
        **{name: wm.Range("2 s", time="ts", lateness="1 min") for name in "abc"},  # type: ignore[arg-type]
    )
    batches = {
        name: pa.table({"k": pa.array([1] * len(column)), "ts": pa.array(column, kind)})
        for name, kind, column in zip("abc", kinds, times, strict=True)
    }
    # a(0) and c(0.000001) are 2.5 s from b(2.5); a(3) is near b and too far from c.
    assert join.push(**batches).count == 0
    near = pa.table({"k": [1], "ts": pa.array([start + timedelta(seconds=1, microseconds=1)], kinds[2])})
    assert _listed(join.push(c=near)) == [(1, 0, 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"how": "left"},
            "how='left' must have two streams; got 3; chain two-way joins: push what one gives to the next",
        ),
        ({"result": "ranges"}, "result='ranges' must have two streams; got 3; use result='pairs' or 'count'"),
        ({"flow": "split_join"}, "flow='split_join' must have two streams; got 3"),
        ({"order": "outer"}, "order='outer' must have two streams; got 3"),
        (
            {"probe_order": ["a"]},
            "probe_order= must be a dict from a stream to the others in order, such as {'a': ['b', 'c']}",
        ),
        ({"probe_order": {"z": ["a", "b"]}}, "probe_order= must name the streams 'a', 'b', 'c'; got 'z'"),
        (
            {"probe_order": {"a": ["b"]}},
            "probe_order= of stream 'a' must name each of 'b', 'c' once; got ['b']",
        ),
    ],
)
def test_what_many_streams_cannot_have_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(wm.OptionError, match=re.escape(message)):
        chained(**options)


def test_a_probe_order_needs_three_streams() -> None:
    with pytest.raises(wm.OptionError, match="probe_order= must have three streams or more; got 'r' and 's'"):
        wm.StreamJoin("r.x = s.x", r=wm.Rows(1), s=wm.Rows(1), probe_order={"r": ["s"]})


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("hash", "index='hash' needs an equality between streams whose types compare exactly"),
        ("grid", "index='grid' needs two bands with both ends between the same two streams"),
    ],
)
def test_an_index_that_no_step_can_use_is_refused(index: str, message: str) -> None:
    schemas = {name: {"x": pa.int64()} for name in "abc"}
    with pytest.raises(wm.OptionError, match=re.escape(message)):
        wm.StreamJoin(
            "a.x < b.x AND b.x < c.x", index=index, schemas=schemas, **{name: wm.Rows(1) for name in "abc"}
        )  # type: ignore[arg-type]


def test_names_of_streams_are_told_in_errors() -> None:
    join = chained()
    with pytest.raises(wm.OptionError, match=re.escape("push() takes the streams 'a', 'b' and 'c'; got 'd'")):
        join.push(d={"k": [1]})
    with pytest.raises(
        wm.OptionError,
        match=re.escape("order= must hold only the names 'a', 'b' and 'c'; got 'x' at place 0"),
    ):
        join.push(a={"k": [1]}, order=["x"])


def test_expressions_that_only_look_alike_have_keys_of_their_own() -> None:
    """0.1 is a decimal and 1e-1 a double: 3 * 0.1 is 0.3 in the one and a little more in the other."""
    text = "a.x * 0.1 = b.y AND a.x * 1e-1 = c.y"
    windows = {name: wm.Rows(5) for name in "abc"}
    for y, expected in ((3 * 0.1, 1), (0.3, 0)):
        join = wm.StreamJoin(text, windows=windows)
        assert join.push(a={"x": [3]}, b={"y": [0.3]}, c={"y": [y]}).count == expected


@pytest.mark.parametrize("first", [1000, -1000])
def test_what_an_untimed_row_has_seen_follows_the_axis_of_time(first: int) -> None:
    """b comes while times are seconds, c makes them microseconds. b has seen a's clock at first + 50: only a(first + 50) is with b."""
    windows = {name: wm.Range("10 s", time="ts", lateness="100 s") for name in "ac"}
    join = wm.StreamJoin("TRUE", windows={"a": windows["a"], "b": wm.Rows(9), "c": windows["c"]})
    join.push(a={"ts": pa.array([first, first + 50], pa.timestamp("s"))})
    join.push(b={"x": [1]})
    assert join.push(c={"ts": pa.array([(first + 5) * 10**6], pa.timestamp("us"))}).count == 0
    assert _listed(join.push(c={"ts": pa.array([(first + 45) * 10**6], pa.timestamp("us"))})) == [(1, 0, 1)]


@pytest.mark.parametrize("orders", [{"a": None}, {"a": 5}, {"a": ["b", 3]}, {"a": {"b", "c"}}, {"a": "bc"}])
def test_a_probe_order_is_a_list_of_names(orders: object) -> None:
    with pytest.raises(wm.OptionError, match="probe_order= of stream 'a' must name each of 'b', 'c' once"):
        chained(probe_order=orders)


def test_sixteen_streams_in_all_pairs() -> None:
    """120 bands, of which each step compares up to 15."""
    names = [f"s{i}" for i in range(16)]
    text = " AND ".join(f"{a}.k = {b}.k" for i, a in enumerate(names) for b in names[i + 1 :])
    join = wm.StreamJoin(text, windows={name: wm.Rows(3) for name in names})
    assert join.push({name: {"k": [1, 2]} for name in names}).count == 2


def test_independent_parts_are_multiplied_also_beyond_int64() -> None:
    """Nothing links twenty streams of sixteen rows: 16 ** 20 combinations, counted one stream at a time."""
    names = [f"s{i}" for i in range(20)]
    join = wm.StreamJoin("TRUE", windows={name: wm.Rows(16) for name in names}, result="count")
    assert join.push({name: {"k": list(range(16))} for name in names}).count == 16**20
    assert join.stats()["results"] == 16**20


def test_what_equalities_imply_is_used_and_shown() -> None:
    """a = b and b = c: rows of a look for c by a's own key, and a star of one key is counted without listing."""
    join = wm.StreamJoin(
        "a.k = b.k AND b.k = c.k", a=wm.Rows(50), b=wm.Rows(50), c=wm.Rows(50), result="count"
    )
    random, seen, expected = np.random.default_rng(5), {name: [] for name in "abc"}, 0
    for _ in range(10):
        batch = {name: random.integers(0, 7, 5).tolist() for name in "abc"}
        for name, keys in batch.items():
            for key in keys:
                others = [seen[other][-50:].count(key) for other in "abc" if other != name]
                expected += others[0] * others[1]
                seen[name].append(key)
        join.push({name: {"k": keys} for name, keys in batch.items()})
    assert join.stats()["results"] == expected
    drivers = [step["drivers"] for step in join.describe()["plan"]["orders"]["a"]]
    assert sorted(drivers) == [["a.k = b.k"], ["a.k = c.k"]]


def test_equal_columns_of_one_stream_are_all_compared() -> None:
    join = wm.StreamJoin("a.k = b.k AND a.j = b.k AND b.k = c.k", a=wm.Rows(9), b=wm.Rows(9), c=wm.Rows(9))
    assert join.push(a={"k": [1, 1], "j": [1, 2]}, b={"k": [1]}, c={"k": [1]}).count == 1
    assert join.push(a={"k": [2, 1], "j": [1, 1]}).count == 1
