"""A market of trades and quotes, out of order and at times late, with an independent recount of their join.

What stays true: ``recount`` decides with NumPy alone which rows are late and which pairs match, from the
rows as they were pushed; arrival numbers count the rows that were not late, as in the engine.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

CONDITION = "trades.sym = quotes.sym AND trades.price BETWEEN quotes.bid AND quotes.ask"
QUOTE_WINDOW_MS, TRADE_WINDOW_MS, LATENESS_MS = 100, 20, 50
SYMBOLS = np.array([f"{a}{b}{c}" for a in "ABCDE" for b in "LMNOP" for c in "XY"])
QUOTES_A_SECOND, TRADES_A_SECOND = 20_000, 5_000
STRAGGLERS = 0.001  # share of rows that come after the lateness is over


@dataclass
class Market:
    """Trades and quotes of fifty symbols; prices wander, rows jitter by up to 40 ms."""

    seed: int = 1
    pushed: list[dict[str, pa.RecordBatch]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._clock = 0.0  # seconds of event time
        self._middle = self._random.uniform(20, 200, SYMBOLS.size)

    def take(self, seconds: float) -> dict[str, pa.RecordBatch]:
        """The next ``seconds`` of event time, as one push."""
        self._middle *= np.exp(self._random.normal(0, 0.002, SYMBOLS.size))
        push = {"trades": self._trades(seconds), "quotes": self._quotes(seconds)}
        self._clock += seconds
        self.pushed.append(push)
        return push

    def _rows(self, rows: int, seconds: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        random = self._random
        times = self._clock + np.sort(random.random(rows)) * seconds - random.random(rows) * 0.04
        times -= (random.random(rows) < STRAGGLERS) * 0.5
        symbol = random.integers(0, SYMBOLS.size, rows)
        micros = (np.maximum(times, 0.0) * 1e6).astype(np.int64)
        return micros, symbol, self._middle[symbol]

    def _trades(self, seconds: float) -> pa.RecordBatch:
        micros, symbol, middle = self._rows(int(TRADES_A_SECOND * seconds), seconds)
        price = np.round(middle * (1 + self._random.normal(0, 0.0015, middle.size)), 2)
        size = self._random.integers(1, 100, middle.size) * 100
        return _batch(micros, symbol, price=price, size=size)

    def _quotes(self, seconds: float) -> pa.RecordBatch:
        micros, symbol, middle = self._rows(int(QUOTES_A_SECOND * seconds), seconds)
        middle = middle * (1 + self._random.normal(0, 0.001, middle.size))
        half = middle * self._random.uniform(0.0002, 0.0006, middle.size)
        return _batch(micros, symbol, bid=np.round(middle - half, 2), ask=np.round(middle + half, 2))


def _batch(micros: np.ndarray, symbol: np.ndarray, **columns: np.ndarray) -> pa.RecordBatch:
    start = np.int64(1_767_604_200_000_000)  # 2026-01-05 09:10 UTC
    times = pa.array(start + micros).cast(pa.timestamp("us"))
    names = pa.array(SYMBOLS[symbol])
    arrays = {name: pa.array(values) for name, values in columns.items()}
    return pa.RecordBatch.from_pydict({"ts": times, "sym": names, **arrays})


def recount(pushed: list[dict[str, pa.RecordBatch]]) -> tuple[np.ndarray, int]:
    """All result pairs as ``trade << 32 | quote`` in ascending order, and how many rows were late."""
    rows = {stream: _columns(pushed, stream) for stream in ("trades", "quotes")}
    late = _late(rows, [[len(push[stream]) for stream in ("trades", "quotes")] for push in pushed])
    kept = {}
    for stream, columns in rows.items():
        kept[stream] = {name: values[~late[stream]] for name, values in columns.items()}
    pairs = [_pairs_of(kept["trades"], kept["quotes"], symbol) for symbol in range(SYMBOLS.size)]
    return np.sort(np.concatenate(pairs)), int(sum(mask.sum() for mask in late.values()))


def _columns(pushed: list[dict[str, pa.RecordBatch]], stream: str) -> dict[str, np.ndarray]:
    table = pa.Table.from_batches([push[stream] for push in pushed]).combine_chunks()
    found = {name: table.column(name).to_numpy() for name in table.schema.names if name not in ("ts", "sym")}
    found["ts"] = table.column("ts").cast(pa.int64()).to_numpy()
    found["sym"] = np.searchsorted(SYMBOLS, np.asarray(table.column("sym").to_pylist()))
    return found


def _late(rows: dict[str, dict[str, np.ndarray]], sizes: list[list[int]]) -> dict[str, np.ndarray]:
    """Row by row in arrival order (within a push trades come first): below the watermark before the row."""
    floor = np.iinfo(np.int64).min // 2
    newest, place = {"trades": floor, "quotes": floor}, {"trades": 0, "quotes": 0}
    late = {stream: np.zeros(columns["ts"].size, bool) for stream, columns in rows.items()}
    for counts in sizes:
        for stream, count in zip(newest, counts, strict=True):
            other = newest["quotes" if stream == "trades" else "trades"]
            span = slice(place[stream], place[stream] + count)
            times = rows[stream]["ts"][span]
            seen = np.maximum.accumulate(np.concatenate([[newest[stream]], times]))
            late[stream][span] = times < np.minimum(seen[:-1], other) - LATENESS_MS * 1000
            newest[stream], place[stream] = int(seen[-1]), place[stream] + count
    return late


def _pairs_of(trades: dict[str, np.ndarray], quotes: dict[str, np.ndarray], symbol: int) -> np.ndarray:
    trade, quote = (np.flatnonzero(side["sym"] == symbol) for side in (trades, quotes))
    quote = quote[np.argsort(quotes["ts"][quote], kind="stable")]
    times, at = quotes["ts"][quote], trades["ts"][trade]
    low = np.searchsorted(times, at - QUOTE_WINDOW_MS * 1000, side="left")
    high = np.searchsorted(times, at + TRADE_WINDOW_MS * 1000, side="right")
    probe = np.repeat(trade, high - low)
    within = np.arange(probe.size) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
    found = quote[np.repeat(low, high - low) + within]
    price = trades["price"][probe]
    holds = (price >= quotes["bid"][found]) & (price <= quotes["ask"][found])
    return (probe[holds].astype(np.int64) << 32) | found[holds]
