"""Generated streams whose row n is always the same row: no Spark in here, only NumPy and Arrow.

What stays true: rows are made in blocks of a fixed size, each from a random generator that knows nothing but the seed,
the stream and the block's number. So a range of row numbers has the same content however it is asked for, before and after
a restart, on any machine: what exactly-once needs of a source.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.spark.sources.options import Options
from watersmeet.workloads import market
from watersmeet.workloads.catalog import KEY_RANGE, SPLITJOIN_RANGE, workload

BLOCK = 8192
YIELDED = 8  # blocks in one Arrow batch
TIME = pa.timestamp("us", tz="UTC")

Columns = dict[str, pa.Array]
MakeBlock = Callable[[np.random.Generator, int, np.ndarray], Columns]  # (random, first row, times in micros)


class GeneratedStream:
    """One stream. ``take(start, end)`` gives its rows of these numbers."""

    def __init__(self, options: Options, number: int, make: MakeBlock, per_second: float) -> None:
        self._options, self._number, self._make, self.per_second = options, number, make, per_second
        self.schema = self._block(0).schema

    def take(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Rows ``start`` to ``end - 1``, in batches."""
        while start < end:
            stop = min(end, (start // BLOCK + YIELDED) * BLOCK)
            parts = []
            for block in range(start // BLOCK, -(-stop // BLOCK)):
                first = block * BLOCK
                low, high = max(start, first), min(stop, first + BLOCK)
                parts.append(self._block(block).slice(low - first, high - low))
            yield pa.concat_batches(parts)
            start = stop

    def _block(self, block: int) -> pa.RecordBatch:
        random = np.random.default_rng([self._options.seed, self._number, block])
        times = self._times(random, block * BLOCK)
        columns = self._make(random, block * BLOCK, times)
        late = {"ts": pa.array(self._out_of_order(random, times)).cast(TIME)}
        return pa.RecordBatch.from_pydict({**late, **columns})

    def _times(self, random: np.random.Generator, first: int) -> np.ndarray:
        place = np.arange(first, first + BLOCK, dtype=np.float64)
        return self._options.start + (place * (1e6 / self.per_second)).astype(np.int64)

    def _out_of_order(self, random: np.random.Generator, times: np.ndarray) -> np.ndarray:
        options = self._options
        if options.disorder:
            times = times - random.integers(0, options.disorder + 1, times.size)
        if options.lateness:
            times = times - (random.random(times.size) < options.stragglers) * options.lateness
        return times


def power_law(share: np.ndarray, values: int, exponent: float) -> np.ndarray:
    """Whole numbers below ``values`` for quantiles ``share``: k comes about as often as (k + 1) ** -exponent."""
    if exponent == 0:
        return (share * values).astype(np.int64)
    if exponent == 1:
        spread = np.exp(share * np.log(values + 1.0))
    else:
        power = 1.0 - exponent
        spread = (share * ((values + 1.0) ** power - 1.0) + 1.0) ** (1.0 / power)
    return np.clip(spread.astype(np.int64) - 1, 0, values - 1)


# ---- the benchmark streams of workloads/catalog.py -----------------------------------------------------------------

WORKLOAD_STREAMS = ("r", "s")


def workload_rows(options: Options) -> GeneratedStream:
    """Stream r or s of a workload, with its row number ``n`` and a time ``ts``."""
    work = workload(options.workload, options.window)
    generate, key = work.generators[options.stream], work.keys(options.stream)[0]
    domain = _domain(options)

    def make(random: np.random.Generator, first: int, times: np.ndarray) -> Columns:
        columns = generate(random, first, times.size)
        if options.skew:
            low, high = domain
            drawn = low + power_law(random.random(times.size), high - low, options.skew)
            columns[key] = pa.array(drawn).cast(columns[key].type)
        return {"n": pa.array(np.arange(first, first + times.size, dtype=np.int64)), **columns}

    return GeneratedStream(options, WORKLOAD_STREAMS.index(options.stream), make, options.rate)


def _domain(options: Options) -> tuple[int, int]:
    name = options.workload
    if name == "splitjoin":
        return 1, SPLITJOIN_RANGE + 1
    if name.startswith("band-"):
        return 0, KEY_RANGE
    if name.startswith("equality-"):
        return 0, max(1, options.window // int(name.split("-")[1]))
    if options.skew:
        raise OptionError(
            f"option skew must be left out with workload {name!r}, whose keys have a law of their own"
        )
    return 0, 1


# ---- trades and quotes -------------------------------------------------------------------------------------------

MARKET_STREAMS = ("trades", "quotes")


def market_rows(options: Options) -> GeneratedStream:
    """Trades, or quotes, of the fifty symbols of bench/market.py; prices swing with event time, alike for both."""
    symbols = market.SYMBOLS.size
    fixed = np.random.default_rng([options.seed, 99])
    level, phase = fixed.uniform(20, 200, symbols), fixed.uniform(0, 2 * np.pi, (2, symbols))

    def make(random: np.random.Generator, first: int, times: np.ndarray) -> Columns:
        symbol = power_law(random.random(times.size), symbols, options.skew)
        seconds = (times - options.start) / 1e6
        swing = 0.01 * np.sin(seconds / 7 + phase[0][symbol]) + 0.004 * np.sin(
            seconds / 1.7 + phase[1][symbol]
        )
        columns = _priced(random, options.stream, level[symbol] * (1 + swing))
        number = np.arange(first, first + times.size, dtype=np.int64)
        return {"n": pa.array(number), "sym": pa.array(market.SYMBOLS[symbol]), **columns}

    return GeneratedStream(options, MARKET_STREAMS.index(options.stream), make, options.rate)


def _priced(random: np.random.Generator, stream: str, middle: np.ndarray) -> Columns:
    if stream == "trades":
        price = np.round(middle * (1 + random.normal(0, 0.0015, middle.size)), 2)
        return {"price": pa.array(price), "size": pa.array(random.integers(1, 100, middle.size) * 100)}
    middle = middle * (1 + random.normal(0, 0.001, middle.size))
    half = middle * random.uniform(0.0002, 0.0006, middle.size)
    return {"bid": pa.array(np.round(middle - half, 2)), "ask": pa.array(np.round(middle + half, 2))}


# ---- orders and their line items, as in TPC-H --------------------------------------------------------------------

TPCH_STREAMS = ("orders", "lineitem")
LINES = 4  # line items an order in the mean; 1 to 7 in each: any two neighbouring orders have 8 together
CUSTOMERS, PARTS, SUPPLIERS = 150_000, 200_000, 10_000
PRIORITIES = np.array(["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"])
MICROS_A_DAY = 86_400_000_000


def tpch_rows(options: Options) -> GeneratedStream:
    """Orders at ``rate`` a second, or their line items, four times as many, at about the same time."""
    if options.stream == "orders":
        return GeneratedStream(options, 0, lambda *block: _orders(options, *block), options.rate)
    return GeneratedStream(options, 1, lambda *block: _lines(options, *block), LINES * options.rate)


def _orders(options: Options, random: np.random.Generator, first: int, times: np.ndarray) -> Columns:
    rows = times.size
    return {
        "o_orderkey": pa.array(np.arange(first, first + rows, dtype=np.int64)),
        "o_custkey": pa.array(power_law(random.random(rows), CUSTOMERS, options.skew)),
        "o_orderstatus": _choice(random, np.array(["F", "O", "P"]), rows),
        "o_totalprice": _money(random.integers(90_000, 50_000_000, rows)),
        "o_orderdate": _date(times),
        "o_orderpriority": _choice(random, PRIORITIES, rows),
        "o_shippriority": pa.array(np.zeros(rows, np.int32)),
    }


def _lines(options: Options, random: np.random.Generator, first: int, times: np.ndarray) -> Columns:
    rows = times.size
    counts = random.integers(1, 2 * LINES, rows // (2 * LINES))
    counts = np.column_stack([counts, 2 * LINES - counts]).ravel()  # two orders, eight lines
    order = np.repeat(np.arange(counts.size), counts)
    line = np.arange(rows) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    quantity = random.integers(1, 51, rows)
    shipped = times + random.integers(1, 122, rows) * MICROS_A_DAY
    return {
        "l_orderkey": pa.array(order + first // LINES),
        "l_partkey": pa.array(power_law(random.random(rows), PARTS, options.skew)),
        "l_suppkey": pa.array(random.integers(0, SUPPLIERS, rows)),
        "l_linenumber": pa.array(line.astype(np.int32)),
        "l_quantity": _money(quantity * 100),
        "l_extendedprice": _money(quantity * random.integers(90_000, 200_000, rows)),
        "l_discount": _money(random.integers(0, 11, rows)),
        "l_tax": _money(random.integers(0, 9, rows)),
        "l_returnflag": _choice(random, np.array(["A", "N", "R"]), rows),
        "l_linestatus": _choice(random, np.array(["F", "O"]), rows),
        "l_shipdate": _date(shipped),
        "l_receiptdate": _date(shipped + random.integers(1, 31, rows) * MICROS_A_DAY),
    }


def _choice(random: np.random.Generator, values: np.ndarray, rows: int) -> pa.Array:
    return pa.array(values).take(pa.array(random.integers(0, values.size, rows)))


def _money(cents: np.ndarray) -> pa.Array:
    """Whole cents, not negative, as decimal(15, 2): 128 bits each, the upper half zero."""
    halves = np.zeros((cents.size, 2), np.int64)
    halves[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(15, 2), cents.size, [None, pa.py_buffer(halves)])


def _date(micros: np.ndarray) -> pa.Array:
    return pa.array((micros // MICROS_A_DAY).astype(np.int32)).cast(pa.date32())
