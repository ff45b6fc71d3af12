"""TPC-H's Q1 and Q3, the same text for DuckDB and as stream queries; both ways to the final answer, and whether two answers are the same.

What stays true: windows are unbounded, so the answer after the last row is TPC-H's, whatever the order of arrival.
"""

import time
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from watersmeet.bench.tpch_data import COLUMNS, Push, Tables
from watersmeet.query.processor import Processor
from watersmeet.streams.window import Unbounded

QUERIES = {
    "Q1": """
        SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price,
          SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
          SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
          AVG(l_quantity) AS avg_qty, AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc, COUNT(*) AS count_order
        FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    "Q3": """
        SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
        FROM customer, orders, lineitem
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
          AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10""",
}


def processor(names: Iterable[str], found: Tables, cores: int) -> Processor:
    """The three streams, and these queries. With the schemas, as a query would wait for a stream that has not begun."""
    windows = {name: Unbounded() for name in COLUMNS}
    schemas = {name: table.schema for name, table in found.items()}
    made = Processor(windows=windows, schemas=schemas, keep="queries", cores=cores)
    for name in names:
        made.create(name, QUERIES[name], emit="complete")
    return made


def streamed(name: str, found: Tables, rows: Iterable[Push], cores: int) -> tuple[pa.Table, float]:
    """The answer after all pushes, each of which gives the answer so far, and the seconds until it is there."""
    running = processor([name], found, cores)
    begin = time.perf_counter()
    for push in rows:
        running.push(push)
    answer = running.finish()[name].to_arrow()
    seconds = time.perf_counter() - begin
    running.close()
    return answer, seconds


class OneShot:
    """DuckDB with the same rows in tables of its own."""

    def __init__(self, found: Tables, cores: int) -> None:
        import duckdb

        self._database = duckdb.connect(config={"threads": cores})
        for name, table in found.items():
            self._database.register("given", table)
            self._database.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            self._database.unregister("given")

    def answer(self, name: str) -> tuple[pa.Table, float]:
        """The query's answer, and its seconds."""
        begin = time.perf_counter()
        answer = self._database.sql(QUERIES[name]).to_arrow_table()
        return answer, time.perf_counter() - begin

    def close(self) -> None:
        self._database.close()


def same(ours: pa.Table, theirs: pa.Table) -> bool:
    """Whether two answers have the same rows in the same order. Everything exactly, but averages of decimals: DuckDB's are doubles, and
    ours must be what they are when they are rounded.
    """
    if ours.column_names != theirs.column_names or len(ours) != len(theirs):
        return False
    pairs = zip(ours.itercolumns(), theirs.itercolumns(), strict=True)
    return all(
        _equal(a, b)
        for left, right in pairs
        for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)
    )


def _equal(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, Decimal) and isinstance(theirs, float):
        return ours == round(Decimal(theirs), -int(ours.as_tuple().exponent))
    return bool(ours == theirs)
