"""The page's own demo: a market of trades and quotes in real time, and a few queries over it."""

from collections.abc import Iterator, Mapping
from typing import Any

from watersmeet.demo_queries import CANDLES, HITS, SELECTION, TOP
from watersmeet.page.feeding import Feeding
from watersmeet.query.processor import Processor
from watersmeet.streams.window import Range
from watersmeet.workloads import market

STEP = 0.1  # seconds of the market in a push
RATE = float(market.TRADES_A_SECOND + market.QUOTES_A_SECOND)
QUERIES = f"""
CREATE QUERY top AS {TOP.format(5)};
CREATE QUERY large AS {SELECTION};
CREATE QUERY hits AS {HITS};
CREATE QUERY spreads AS
    SELECT t.sym, COUNT(*) AS pairs, MIN(q.ask - q.bid) AS tightest
    FROM last_range(trades, INTERVAL {market.TRADE_WINDOW_MS} MILLISECONDS) t
    JOIN last_range(quotes, INTERVAL {market.QUOTE_WINDOW_MS} MILLISECONDS) q ON t.sym = q.sym AND t.price BETWEEN q.bid AND q.ask
    GROUP BY t.sym;
CREATE QUERY candles AS {CANDLES}"""


def market_demo(cores: int = 1, rate: float | None = RATE, step: float = STEP) -> tuple[Processor, Feeding]:
    """A processor on a market that goes on for ever. ``rate``: rows a second; by default those of the market's own clock. ``step``: seconds
    of the market in a push."""
    window = Range("10 s", time="ts", lateness=f"{market.LATENESS_MS} ms")
    schemas = {name: batch.schema for name, batch in market.Market().take(0.01).items()}
    processor = Processor(trades=window, quotes=window, schemas=schemas, cores=cores)
    processor.execute(QUERIES)
    feeding = Feeding(_pushes(step), lambda rows: _push(processor, rows), rate, lambda: None)
    return processor, feeding


def _push(processor: Processor, rows: Mapping[str, Any]) -> None:
    processor.push(rows)


def _pushes(step: float) -> Iterator[Mapping[str, Any]]:
    source = market.Market()
    while True:
        yield source.take(step)
        source.pushed.clear()  # nobody counts again here
