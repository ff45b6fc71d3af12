"""Streams to try a design with: schemas, windows, queries that suit them, and generated rows that go on for ever.

Rows are a function of the seed and of how many came before, so that two runs of a design see the same.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.streams.window import Rows, Window

Push = dict[str, pa.RecordBatch]
Q3 = """CREATE QUERY q3 AS
SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate
FROM customer, orders, lineitem
WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate
ORDER BY revenue DESC, o_orderdate LIMIT 10"""
SHOP = """CREATE QUERY older AS
SELECT c.id, p.price FROM customers c JOIN products p ON c.id = p.customer
WHERE c.age > 25;

CREATE QUERY women AS
SELECT c.id, p.price FROM last_rows(customers, 1024) c JOIN last_rows(products, 1024) p ON c.id = p.customer
WHERE c.age > 25 AND c.gender = 'F'"""
PAIRS = "CREATE QUERY pairs AS\nSELECT r.k, r.x, s.x AS y FROM r JOIN s ON r.k = s.k"
SEGMENTS = ("AUTOMOBILE", "BUILDING", "MACHINERY")
DAY = 9204  # 1995-03-15, in days since 1970
_MONEY = pa.decimal128(12, 2)


@dataclass(frozen=True)
class Streams:
    """Some streams. ``rows``: the next push, from a generator of numbers, how many rows came before, and how many come."""

    name: str
    title: str
    windows: Mapping[str, Window]
    schemas: Mapping[str, pa.Schema]
    sql: str
    rows: Callable[[np.random.Generator, int, int], Push]

    def pushes(self, size: int, seed: int = 1) -> Iterator[Push]:
        """Pushes of so many rows of each stream, without end."""
        random, before = np.random.default_rng(seed), 0
        while True:
            yield self.rows(random, before, size)
            before += size


def _batch(schema: pa.Schema, *columns: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            column if isinstance(column, pa.Array) else pa.array(column).cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


def _cents(values: np.ndarray) -> pa.Array:
    """Whole cents as decimals, exactly."""
    words = np.zeros((values.size, 2), np.int64)
    words[:, 0], words[:, 1] = values, values >> 63
    return pa.Array.from_buffers(_MONEY, values.size, [None, pa.py_buffer(words.tobytes())])


_TPCH = {
    "customer": pa.schema({"c_custkey": pa.int32(), "c_mktsegment": pa.string()}),
    "orders": pa.schema({"o_orderkey": pa.int32(), "o_custkey": pa.int32(), "o_orderdate": pa.date32()}),
    "lineitem": pa.schema(
        {"l_orderkey": pa.int32(), "l_extendedprice": _MONEY, "l_discount": _MONEY, "l_shipdate": pa.date32()}
    ),
}


def _tpch(random: np.random.Generator, before: int, size: int) -> Push:
    keys = np.arange(before, before + size) % (1 << 30)
    near = np.maximum(keys - random.integers(0, 16, size), 0)
    segment = np.array(SEGMENTS)[random.integers(0, len(SEGMENTS), size)]
    dates = DAY + random.integers(-90, 30, size)
    return {
        "customer": _batch(_TPCH["customer"], keys, segment),
        "orders": _batch(_TPCH["orders"], keys, near, pa.array(dates.astype(np.int32)).cast(pa.date32())),
        "lineitem": _batch(
            _TPCH["lineitem"],
            near,
            _cents(random.integers(90_000, 10_000_000, size)),
            _cents(random.integers(0, 11, size)),
            pa.array((DAY + random.integers(-30, 90, size)).astype(np.int32)).cast(pa.date32()),
        ),
    }


_SHOP = {
    "customers": pa.schema({"id": pa.int32(), "age": pa.int32(), "gender": pa.string()}),
    "products": pa.schema({"customer": pa.int32(), "price": pa.float64()}),
}


def _shop(random: np.random.Generator, before: int, size: int) -> Push:
    return {
        "customers": _batch(
            _SHOP["customers"],
            random.integers(0, 128, size),
            random.integers(16, 90, size),
            np.array(["F", "M"])[random.integers(0, 2, size)],
        ),
        "products": _batch(
            _SHOP["products"], random.integers(0, 128, size), np.round(random.uniform(1, 100, size), 2)
        ),
    }


_PAIRS = {name: pa.schema({"k": pa.int32(), "x": pa.int32()}) for name in ("r", "s")}


def _pairs(random: np.random.Generator, before: int, size: int) -> Push:
    return {
        name: _batch(_PAIRS[name], random.integers(0, 64, size), random.integers(0, 1 << 20, size))
        for name in _PAIRS
    }


def _windows(schemas: Mapping[str, pa.Schema], rows: int) -> dict[str, Window]:
    return {name: Rows(rows) for name in schemas}


STREAMS: Mapping[str, Streams] = {
    one.name: one
    for one in (
        Streams("tpch", "TPC-H: customer, orders, lineitem", _windows(_TPCH, 1024), _TPCH, Q3, _tpch),
        Streams("shop", "Shop: customers, products", _windows(_SHOP, 512), _SHOP, SHOP, _shop),
        Streams("pairs", "Two streams of keys: r, s", _windows(_PAIRS, 64), _PAIRS, PAIRS, _pairs),
    )
}


def streams_of(name: str) -> Streams:
    """The streams of that name."""
    if name not in STREAMS:
        raise OptionError(f"streams must be one of {', '.join(STREAMS)}; got {name!r}")
    return STREAMS[name]
