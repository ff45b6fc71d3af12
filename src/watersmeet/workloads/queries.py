"""Many queries over one market: joins with other windows, filters and select lists, selections, and rules of one symbol each.

What stays true: no two queries are the same text. ``Asked`` says what a query asks in numbers too, and ``MarketFeed.count`` recounts
what the newest push gives it by NumPy alone.
"""

from dataclasses import dataclass

import numpy as np

from watersmeet.workloads.users import UserWorkload, Values, market
from watersmeet.workloads.users_feed import Push, UserFeed, partners

SHARES = (1.0, 0.75, 0.5, 0.25)  # of the streams' own window, that joins take
LEAST = tuple(range(9_000, 10_000, 200))  # of sizes up to 10,000: a tenth of the trades, or less
JOIN = (
    "SELECT t.sym, t.price, q.bid * {scale} AS scaled FROM last_rows(t, {rows}) t JOIN last_rows(q, {rows}) q "
    "ON t.sym = q.sym AND t.price BETWEEN q.bid AND q.ask WHERE t.size > {least}"
)
SELECTION = "SELECT sym, price * {scale} AS scaled, size FROM t WHERE size > {least}"
RULE = "SELECT sym, price, size FROM t WHERE sym = '{symbol}' AND price > {price:.2f}"


@dataclass(frozen=True)
class Asked:
    """A query: its text, and the same in numbers. A selection has no ``rows``, and a rule one symbol and a price."""

    name: str
    sql: str
    least: int = 0  # trades must have a larger size
    rows: int = 0  # of the two windows that are joined
    symbol: int | None = None
    price: float = 0.0


def mixed(count: int, work: UserWorkload) -> list[Asked]:
    """So many queries over a market's two streams: a join, a selection, a join, ...; joins of 20 kinds, each select list another."""
    return [join(k, work) if k % 2 == 0 else selection(k) for k in range(count)]


def join(number: int, work: UserWorkload) -> Asked:
    """Trades of a least size within a quote's bid and ask, in windows of one of four lengths."""
    kind = number // 2
    rows = max(1, int(work.window * SHARES[kind % len(SHARES)]))
    least = LEAST[kind // len(SHARES) % len(LEAST)]
    return Asked(f"q{number}", JOIN.format(scale=number + 1, rows=rows, least=least), least, rows)


def selection(number: int) -> Asked:
    """Trades of a least size."""
    least = LEAST[number // 2 % len(LEAST)]
    return Asked(f"q{number}", SELECTION.format(scale=number + 1, least=least), least)


def rules(count: int, work: UserWorkload) -> list[Asked]:
    """So many rules, one symbol and a price each; about a tenth of a symbol's trades are above it."""
    symbols = work.streams["t"].texts["sym"]
    values = work.values("t", np.arange(64 * rule_symbols(count)))
    found = []
    for k in range(count):
        prices = np.sort(values["price"][values["sym"] == k])
        price = round(float(prices[int(prices.size * 0.9)]), 2)
        text = RULE.format(symbol=symbols(np.array([k]))[0].as_py(), price=price)
        found.append(Asked(f"rule{k}", text, symbol=k, price=price))
    return found


def rule_symbols(count: int) -> int:
    """How many symbols there are for so many rules."""
    return max(count, 10)


def rule_market(count: int, window: int) -> UserWorkload:
    """Trades whose symbols all have a rule."""
    return market(window, None, rule_symbols(count))


class MarketFeed(UserFeed):
    """A market's streams, in pushes, with recounts by query."""

    def pushes(self, batch: int, count: int, streams: tuple[str, ...] = ()) -> list[Push]:
        """The next ``count`` pushes; ``streams``: of these alone."""
        found = super().pushes(batch, count)
        return [{name: push[name] for name in streams or push} for push in found]

    def count(self, asked: Asked, rows: int, since: int = 0) -> int:
        """What a query gives for the newest push, of ``rows`` rows a stream; it knows the rows from number ``since`` on."""
        begin, end = self.pushed - rows, self.pushed
        if not asked.rows:
            return int(_chosen(asked, self._values("t", begin, end)).sum())
        # Trades come first: they see the quotes as they were, and the quotes see the new trades too.
        trades = _filtered(asked, self._values("t", begin, end))
        quotes = self._values("q", max(since, begin - asked.rows, 0), begin)
        found = partners(self.work, "t", trades, quotes).sum() if quotes["ts"].size else 0
        stored = _filtered(asked, self._values("t", max(since, end - asked.rows, 0), end))
        return int(found + partners(self.work, "q", self._values("q", begin, end), stored).sum())

    def symbols(self, asked: Asked, rows: int) -> int:
        """How many symbols the trades of the newest push have that a query asks for."""
        trades = _filtered(asked, self._values("t", self.pushed - rows, self.pushed))
        return int(np.unique(trades["sym"]).size)

    def counts(self, queries: list[Asked], rows: int) -> dict[str, int]:
        """The same of many that know all rows, those that ask the same counted once."""
        known: dict[tuple[int, int, int | None, float], int] = {}
        found = {}
        for asked in queries:
            key = asked.least, asked.rows, asked.symbol, asked.price
            if key not in known:
                known[key] = self.count(asked, rows)
            found[asked.name] = known[key]
        return found


def _chosen(asked: Asked, trades: Values) -> np.ndarray:
    chosen = trades["size"] > asked.least
    if asked.symbol is not None:
        chosen &= (trades["sym"] == asked.symbol) & (trades["price"] > asked.price)
    return chosen


def _filtered(asked: Asked, trades: Values) -> Values:
    chosen = _chosen(asked, trades)
    return {name: column[chosen] for name, column in trades.items()}
