"""TPC-H's Q1 and Q3 as stream queries have TPC-H's answers, in every order of arrival; and what deals the rows out loses none."""

import datetime as dt
from collections import deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from watersmeet.bench import tpch_data
from watersmeet.bench.tpch_data import COLUMNS, ORDERS, Tables, generator, pushes, tables
from watersmeet.bench.tpch_queries import QUERIES, OneShot, processor, same, streamed
from watersmeet.errors import DataError, OptionError
from watersmeet.query.processor import Processor
from watersmeet.streams.window import Rows

needs_generator = pytest.mark.skipif(generator() is None, reason="tpchgen-cli is not installed")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return tables(0.01, tmp_path_factory.mktemp("tpch"))


@pytest.fixture(scope="module")
def answers(found: Tables) -> dict[str, pa.Table]:
    pytest.importorskip("duckdb")
    peer = OneShot(found, 1)
    return {name: peer.answer(name)[0] for name in QUERIES}


@needs_generator
@pytest.mark.parametrize("order", ORDERS)
def test_the_final_answers_are_duckdbs(order: str, found: Tables, answers: dict[str, pa.Table]) -> None:
    running = processor(QUERIES, found, 1)
    for push in pushes(found, order, 1 << 14):
        running.push(push)
    last = running.finish()
    for name, wanted in answers.items():
        answer = last[name].to_arrow()
        assert same(answer, wanted), (answer.to_pylist(), wanted.to_pylist())
    assert [len(answer) for answer in answers.values()] == [4, 10]


@needs_generator
def test_a_query_alone_in_batches_of_64k_has_the_same_answer(
    found: Tables, answers: dict[str, pa.Table]
) -> None:
    for name, wanted in answers.items():
        answer, seconds = streamed(name, found, pushes(found, "mixed evenly", 1 << 16), 2)
        assert same(answer, wanted)
        assert seconds > 0


# ---- in windows, as the thesis runs it (7.3): results then depend on the order of arrival, which is "mixed evenly" -----------------

WINDOW = 1 << 10
DAY = dt.date(1995, 3, 15)
SELECTED: dict[str, Callable[[dict[str, Any]], bool]] = {
    "customer": lambda row: row["c_mktsegment"] == "BUILDING",
    "orders": lambda row: row["o_orderdate"] < DAY,
    "lineitem": lambda row: row["l_shipdate"] > DAY,
}


def sequence(found: Tables) -> list[str]:
    """The published interleaving: the stream of each row. Every stream has its rows in the order of the generator."""
    return [name for push in pushes(found, "mixed evenly", 1) for name in push]


def interleaved(found: Tables, batch: int) -> Iterator[tuple[dict[str, pa.Table], list[str]]]:
    """The same in pushes."""
    names, taken = sequence(found), dict.fromkeys(found, 0)
    for at in range(0, len(names), batch):
        part, push = names[at : at + batch], {}
        for name in dict.fromkeys(part):
            push[name] = found[name].slice(taken[name], part.count(name))
            taken[name] += part.count(name)
        yield push, part


def third_query_by_a_loop(found: Tables, selected_first: bool) -> list[tuple[Any, ...]]:
    """Q3 a row at a time: each row that comes meets the last 2^10 of the other two streams, of all rows or of those that are selected;
    what it meets is added to its group for good."""
    windows = {name: deque[dict[str, Any]](maxlen=WINDOW) for name in found}
    keys = {"customer": ["c_custkey"], "orders": ["o_custkey", "o_orderkey"], "lineitem": ["l_orderkey"]}
    indexes = {key: dict[int, list[dict[str, Any]]]() for names in keys.values() for key in names}
    groups: dict[tuple[Any, ...], Decimal] = {}
    rows = {name: iter(table.to_pylist()) for name, table in found.items()}
    for name in sequence(found):
        row = next(rows[name])
        passes = SELECTED[name](row)
        if selected_first and not passes:
            continue
        if len(windows[name]) == WINDOW:
            for key in keys[name]:
                indexes[key][windows[name][0][key]].pop(0)
        windows[name].append(row)
        for key in keys[name]:
            indexes[key].setdefault(row[key], []).append(row)
        if not passes:
            continue
        orders = (
            [row]
            if name == "orders"
            else indexes["o_custkey" if name == "customer" else "o_orderkey"].get(row[keys[name][0]], [])
        )
        for order in filter(SELECTED["orders"], orders):
            customers = [row] if name == "customer" else indexes["c_custkey"].get(order["o_custkey"], [])
            lines = [row] if name == "lineitem" else indexes["l_orderkey"].get(order["o_orderkey"], [])
            for _ in filter(SELECTED["customer"], customers):
                for line in filter(SELECTED["lineitem"], lines):
                    group = line["l_orderkey"], order["o_orderdate"], order["o_shippriority"]
                    revenue = line["l_extendedprice"] * (1 - line["l_discount"])
                    groups[group] = groups.get(group, Decimal(0)) + revenue
    top = sorted(groups.items(), key=lambda item: (-item[1], item[0][1]))[:10]
    return [(key, revenue, date, priority) for (key, date, priority), revenue in top]


@needs_generator
@pytest.mark.parametrize("batch", [1 << 10, 1 << 14])
def test_the_third_query_in_windows_is_that_of_a_loop(found: Tables, batch: int) -> None:
    windows = dict.fromkeys(COLUMNS, Rows(WINDOW))
    qp = Processor(windows=windows, schemas={name: table.schema for name, table in found.items()})
    qp.create("Q3", QUERIES["Q3"], emit="complete")
    for push, order in interleaved(found, batch):
        qp.push(push, order=order)
    answer = [tuple(row.values()) for row in qp.finish()["Q3"].to_arrow().to_pylist()]
    assert answer == third_query_by_a_loop(found, selected_first=False)
    assert len(answer) == 10


@needs_generator
def test_tables_are_made_once(found: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tables(0.001, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["sf0.001"]
    monkeypatch.setattr(tpch_data, "generator", lambda: None)
    assert tables(0.001, tmp_path) == first
    assert {name: len(table) for name, table in first.items()} == {
        "customer": 150,
        "orders": 1500,
        "lineitem": 6005,
    }
    with pytest.raises(OptionError, match="TPC-H's rows must have tpchgen-cli; got none; do: pip install"):
        tables(0.002, tmp_path)


@needs_generator
def test_a_generator_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must make the rows of scale factor -1; it ended with code"):
        tables(-1, tmp_path)
    assert list(tmp_path.iterdir()) == []


def small() -> Tables:
    """Seven customers, twenty orders, ninety lines; the dates are not in order."""

    def days(count: int) -> list[dt.date]:
        return [dt.date(1995, 1, 1) + dt.timedelta(days=7 * number % 31) for number in range(count)]

    counts = {"customer": 7, "orders": 20, "lineitem": 90}
    keys = {name: pa.array(range(count)) for name, count in counts.items()}
    return {
        name: pa.table(
            {
                column: pa.array(days(counts[name])) if column.endswith("date") else keys[name]
                for column in columns
            }
        )
        for name, columns in COLUMNS.items()
    }


@pytest.mark.parametrize("order", ORDERS)
def test_every_row_comes_once(order: str) -> None:
    given = small()
    dealt = list(pushes(given, order, 16))
    assert [sum(len(rows) for rows in push.values()) for push in dealt] == [16] * 7 + [5]
    for name, table in given.items():
        rows = pa.Table.from_batches([push[name] for push in dealt if name in push])
        key = COLUMNS[name][0]
        assert rows.sort_by(key) == table


def test_the_orders_are_what_they_are_called() -> None:
    given = small()
    streams = {order: [list(push) for push in pushes(given, order, 16)] for order in ORDERS}
    assert streams["customers first"] == [["customer", "orders"], ["orders", "lineitem"], *[["lineitem"]] * 6]
    turned = [*[["lineitem"]] * 5, ["orders", "lineitem"], ["customer", "orders"], ["customer"]]
    assert streams["lines first"] == turned
    assert all(push == list(COLUMNS) for push in streams["mixed evenly"][:-1])
    ends = []
    for push in pushes(given, "by date", 16):
        days = [
            day
            for name, column in tpch_data.DATES.items()
            if name in push
            for day in push[name][column].to_pylist()
        ]
        ends.append((min(days), max(days)))
    assert all(before[1] <= after[0] for before, after in pairwise(ends))


def test_answers_are_compared_exactly() -> None:
    ours = pa.table({"a": [Decimal("1.250000")], "b": [Decimal("2.00")], "c": ["x"]})
    assert same(ours, pa.table({"a": [1.2500004], "b": [Decimal("2.000")], "c": ["x"]}))
    for column, value in (("a", 1.2500006), ("b", Decimal("2.001")), ("c", "y")):
        other = {name: ours[name] for name in ours.column_names} | {column: [value]}
        assert not same(ours, pa.table(other))
    assert not same(ours, ours.slice(1))
    assert not same(ours, ours.rename_columns(["a", "b", "d"]))
