"""The joins that users bring: market data, clicks and impressions, sensors, flights and weather; arithmetic as a residual.

What stays true: a row is a function of its number, so any part of a stream can be made again; ``selectivity`` is the mean number of
results of an arriving row once the windows are full; and ``holds`` is the condition once more, in NumPy.

Both streams have the same number of rows a second, and the same window. In ``values``, which a recount reads, a text is a number, one for
each text, and NULL is NaN or -1; ``rows`` writes the texts out.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.workloads.scatter import below, share, uuids

SYMBOLS = 2_000
AIRPORTS = 400
CENTS = 1_000  # prices of one symbol, and its bids, lie within so many cents
MOST_SPREAD = 4  # cents
PLANE = 1_000.0  # both coordinates of a sensor's reading lie below
UNKNOWN = 1 << 40  # ids from here on belong to no impression
START = 1_767_604_200_000_000  # microseconds: 2026-01-05 09:10 UTC

Values = dict[str, np.ndarray]
Texts = Callable[[np.ndarray], pa.Array]
Near = tuple[str, np.ndarray, np.ndarray]  # a column of the other stream, and a range that has all matches


@dataclass(frozen=True)
class Stream:
    """The columns of a stream as functions of its row numbers; ``texts`` writes those of them that are numbers of texts."""

    columns: Callable[[np.ndarray], Values]
    texts: Mapping[str, Texts]


@dataclass(frozen=True)
class UserWorkload:
    """Two streams in keyword order, a condition, and windows that hold ``window`` rows of each."""

    name: str
    title: str
    condition: str
    comparisons: tuple[str, ...]  # the same, as comparisons of two sides that are all to hold
    streams: Mapping[str, Stream]
    window: int
    seconds: int | None  # None: windows count rows
    selectivity: float
    candidate_share: float  # of a window: what a join on the equality, or on the first band, has to look at
    equal: str | None  # a column of both streams that must be equal
    near: Callable[[str, Values], Near] | None  # of the rows of a probing stream
    holds: Callable[[Values, Values], np.ndarray]
    how: str = "inner"
    disorder: int = 0  # rows are out of order by up to so many
    lateness: int = 0  # rows that are waited for, if they are more

    def __post_init__(self) -> None:
        if self.seconds is not None and self.seconds * 1_000_000 % self.window:
            raise OptionError(
                f"{self.seconds} s must be whole microseconds for each of the window's rows; got {self.window} rows"
            )

    @property
    def kind(self) -> str:
        """market, clicks, sensors, flights or arithmetic."""
        return self.name.split("-")[0]

    @property
    def late(self) -> int:
        """Rows that lateness covers."""
        return max(self.disorder, self.lateness)

    @property
    def step(self) -> int:
        """Microseconds from a row to the next one."""
        return 1000 if self.seconds is None else self.seconds * 1_000_000 // self.window

    def values(self, stream: str, numbers: np.ndarray) -> Values:
        """The rows with these numbers, for a recount; ``ts`` is in microseconds."""
        back = below(numbers, 3 + list(self.streams).index(stream), self.disorder + 1)
        return {"ts": START + (numbers - back) * self.step, **self.streams[stream].columns(numbers)}

    def rows(self, stream: str, first: int, count: int) -> pa.RecordBatch:
        """Rows ``first`` to ``first + count - 1`` as they are pushed."""
        values, texts = self.values(stream, np.arange(first, first + count)), self.streams[stream].texts
        columns = {
            name: texts[name](column) if name in texts else pa.array(column, from_pandas=True)
            for name, column in values.items()
        }
        return pa.RecordBatch.from_pydict({**columns, "ts": columns["ts"].cast(pa.timestamp("us"))})


def disordered(work: UserWorkload, rows: int) -> UserWorkload:
    """The same with rows out of order by up to so many; lateness covers them all."""
    return replace(
        work,
        name=f"{work.name}-disorder",
        title=f"{work.title}, out of order by up to {rows:,}",
        disorder=rows,
    )


def patient(work: UserWorkload, rows: int) -> UserWorkload:
    """The same with so many rows of lateness."""
    return replace(work, name=f"{work.name}-late", title=f"{work.title}, {rows:,} of lateness", lateness=rows)


def integer_keys(work: UserWorkload) -> UserWorkload:
    """The same with a whole number for each text."""
    plain = {name: Stream(stream.columns, {}) for name, stream in work.streams.items()}
    return replace(work, name=f"{work.name}-integers", title=f"{work.title}, integer keys", streams=plain)


def market(window: int = 1_000_000, seconds: int | None = 10, symbols: int = SYMBOLS) -> UserWorkload:
    """Trades within the bid and ask of a quote of their symbol; prices have two decimals."""
    names = {"sym": _named([_letters(k, 3) for k in range(symbols)])}
    lasts = "count windows" if seconds is None else f"{seconds} s"

    def near(stream: str, rows: Values) -> Near:
        if stream == "t":
            return "bid", rows["price"] - (MOST_SPREAD + 1) / 100, rows["price"]
        return "price", rows["bid"], rows["ask"]

    return UserWorkload(
        name=f"market-{'rows' if seconds is None else f'{seconds}s'}-{window}",
        title=f"market data, {lasts}, {window:,} rows held",
        condition="t.sym = q.sym AND t.price BETWEEN q.bid AND q.ask",
        comparisons=("t.sym = q.sym", "t.price >= q.bid", "t.price <= q.ask"),
        streams={
            "t": Stream(lambda n: _trades(n, symbols), names),
            "q": Stream(lambda n: _quotes(n, symbols), names),
        },
        window=window,
        seconds=seconds,
        selectivity=window / symbols * (1 + (MOST_SPREAD + 1) / 2) / CENTS,
        candidate_share=1 / symbols,
        equal="sym",
        near=near,
        holds=lambda t, q: (t["sym"] == q["sym"]) & (t["price"] >= q["bid"]) & (t["price"] <= q["ask"]),
    )


def _trades(numbers: np.ndarray, symbols: int) -> Values:
    symbol = below(numbers, 10, symbols)
    cents = _cheapest(symbol) + below(numbers, 11, CENTS)
    return {"sym": symbol, "price": cents / 100, "size": 100 * (1 + below(numbers, 12, 100))}


def _quotes(numbers: np.ndarray, symbols: int) -> Values:
    symbol = below(numbers, 20, symbols)
    bid = _cheapest(symbol) + below(numbers, 21, CENTS)
    ask = bid + 1 + below(numbers, 22, MOST_SPREAD)
    return {"sym": symbol, "bid": bid / 100, "ask": ask / 100}


def _cheapest(symbol: np.ndarray) -> np.ndarray:
    return 2_000 + below(symbol, 30, 48_000)


def clicks(window: int = 1_000_000, seconds: int = 10) -> UserWorkload:
    """Impressions and the clicks on them, UUIDs in both; an impression without a click comes out alone.

    A click comes up to 1.2 windows after its impression: a sixth of them too late. One in ten belongs to no impression.
    """
    names = {"impression": uuids}
    clicked = 0.9 / 1.2

    def click(numbers: np.ndarray) -> Values:
        shown = numbers - below(numbers, 41, max(1, window * 6 // 5))
        unknown = (shown < 0) | (share(numbers, 42) < 0.1)
        return {
            "impression": np.where(unknown, UNKNOWN + numbers, shown),
            "position": below(numbers, 43, 500),
        }

    return UserWorkload(
        name=f"clicks-{window}",
        title=f"clicks and impressions, left join, {seconds} s, {window:,} rows held",
        condition="i.impression = c.impression",
        comparisons=("i.impression = c.impression",),
        streams={
            "i": Stream(lambda n: {"impression": n.astype(np.int64), "campaign": below(n, 40, 1000)}, names),
            "c": Stream(click, names),
        },
        window=window,
        seconds=seconds,
        selectivity=(clicked + math.exp(-clicked)) / 2,
        candidate_share=1 / window,
        equal="impression",
        near=None,
        holds=lambda i, c: i["impression"] == c["impression"],
        how="left",
    )


def sensors(window: int = 100_000, seconds: int = 10) -> UserWorkload:
    """Readings of two kinds near each other in two float columns, about one match a row."""
    width = max(0.01, round(PLANE / 2 / math.sqrt(window), 2))

    def bands(a: Values, b: Values) -> np.ndarray:
        held = [(a[name] >= b[name] - width) & (a[name] <= b[name] + width) for name in ("x", "y")]
        return np.asarray(held[0] & held[1])

    def near(stream: str, rows: Values) -> Near:
        return "x", rows["x"] - 1.01 * width, rows["x"] + 1.01 * width

    def readings(salt: int) -> Stream:
        def columns(numbers: np.ndarray) -> Values:
            x, y = (PLANE * share(numbers, salt + place) for place in (0, 1))
            return {"x": x, "y": y, "sensor": below(numbers, salt + 2, 10_000)}

        return Stream(columns, {})

    parts = [(f"a.{name} >= b.{name} - {width}", f"a.{name} <= b.{name} + {width}") for name in ("x", "y")]
    return UserWorkload(
        name=f"sensors-{window}",
        title=f"sensors, two float bands, {seconds} s, {window:,} rows held",
        condition=" AND ".join(
            f"a.{name} BETWEEN b.{name} - {width} AND b.{name} + {width}" for name in ("x", "y")
        ),
        comparisons=(*parts[0], *parts[1]),
        streams={"a": readings(50), "b": readings(60)},
        window=window,
        seconds=seconds,
        selectivity=window * (2 * width / PLANE - (width / PLANE) ** 2) ** 2,
        candidate_share=2 * width / PLANE,
        equal=None,
        near=near,
        holds=bands,
    )


def flights(window: int = 100_000, seconds: int = 10, airports: int = AIRPORTS) -> UserWorkload:
    """Flights and reports of more wind than they may land in, at their airport; any of the columns is at times NULL."""
    names = {"airport": _named([f"K{_letters(k, 3)}" for k in range(airports)])}
    stronger = 8 / 15 * (math.exp(-25 / 8) - math.exp(-40 / 8))

    def flight(numbers: np.ndarray) -> Values:
        limit = np.where(share(numbers, 72) < 0.05, np.nan, 25 + 15 * share(numbers, 71))
        return {
            "airport": _sometimes_null(numbers, 70, airports),
            "most_wind": limit,
            "flight": below(numbers, 73, 9000),
        }

    def report(numbers: np.ndarray) -> Values:
        wind = np.where(share(numbers, 82) < 0.05, np.nan, -8 * np.log1p(-share(numbers, 81)))
        return {"airport": _sometimes_null(numbers, 80, airports), "wind": wind}

    def near(stream: str, rows: Values) -> Near:
        if stream == "f":
            return "wind", rows["most_wind"], np.full(rows["ts"].size, np.inf)
        return "most_wind", np.full(rows["ts"].size, -np.inf), rows["wind"]

    return UserWorkload(
        name=f"flights-{window}",
        title=f"flights and weather, with NULLs, {seconds} s, {window:,} rows held",
        condition="f.airport = w.airport AND w.wind > f.most_wind",
        comparisons=("f.airport = w.airport", "w.wind > f.most_wind"),
        streams={"f": Stream(flight, names), "w": Stream(report, names)},
        window=window,
        seconds=seconds,
        selectivity=window / airports * stronger * 0.95**2 * 0.98**2,
        candidate_share=1 / airports,
        equal="airport",
        near=near,
        holds=lambda f, w: (
            (f["airport"] == w["airport"]) & (f["airport"] >= 0) & (w["wind"] > f["most_wind"])
        ),
    )


def _sometimes_null(numbers: np.ndarray, salt: int, values: int) -> np.ndarray:
    return np.where(share(numbers, salt + 5) < 0.02, -1, below(numbers, salt, values))


def arithmetic(window: int = 1_000, symbols: int = SYMBOLS) -> UserWorkload:
    """Prices of two symbols a tenth apart, in count windows: nothing that an index could be asked for by equality."""
    names = {"sym": _named([_letters(k, 3) for k in range(symbols)])}

    def prices(salt: int) -> Stream:
        def columns(numbers: np.ndarray) -> Values:
            cents = 10_000 + below(numbers, salt + 1, 1_200)
            return {"sym": below(numbers, salt, symbols), "price": cents / 100}

        return Stream(columns, names)

    def near(stream: str, rows: Values) -> Near:
        ends = np.full(rows["ts"].size, np.inf)
        if stream == "t":
            return "price", rows["price"] * 1.1, ends
        return "price", -ends, rows["price"]

    cents = np.arange(10_000, 11_200) / 100
    apart = float(np.mean(cents[:, None] * 1.1 < cents))
    return UserWorkload(
        name=f"arithmetic-{window}",
        title=f"residual of arithmetic, {window:,} rows held",
        condition="t.sym <> q.sym AND t.price * 1.1 < q.price",
        comparisons=("t.sym <> q.sym", "t.price * 1.1 < q.price"),
        streams={"t": prices(90), "q": prices(95)},
        window=window,
        seconds=None,
        selectivity=window * (1 - 1 / symbols) * apart,
        candidate_share=apart,
        equal=None,
        near=near,
        holds=lambda t, q: (t["sym"] != q["sym"]) & (t["price"] * 1.1 < q["price"]),
    )


def _named(names: list[str]) -> Texts:
    texts = pa.array(names)
    return lambda numbers: texts.take(pa.array(numbers, mask=numbers < 0))


def _letters(number: int, least: int) -> str:
    """AAA, AAB, ...: a text of at least so many letters for each number."""
    text = ""
    while number or len(text) < least:
        number, letter = divmod(number, 26)
        text = chr(ord("A") + letter) + text
    return text
