"""``watersmeet demo --engine``: two joins of live generated streams, shown while they run, checked, and drawn.

What stays true: every figure shown is measured in this run; the checks recompute results with NumPy alone
(all pairs of the market, whole batches of the band join) and a difference ends the demo with failure. It
ends by itself.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from watersmeet.api.stream_join import StreamJoin
from watersmeet.looks import wide_console
from watersmeet.streams.window import Range, Rows
from watersmeet.workloads import market
from watersmeet.workloads.catalog import workload
from watersmeet.workloads.feed import Feed

WINDOW = 1 << 18
BATCH = 16_384
MARKET_SECONDS = 0.25  # event time of one push
MOST_MARKET_PUSHES = 240  # so that everything can be recomputed in a few seconds


@dataclass
class Story:
    """What one join has done so far."""

    title: str
    join: StreamJoin
    rates: list[tuple[float, float]] = field(
        default_factory=list
    )  # (seconds since the start, rows/s of the engine)
    rows: int = 0
    results: int = 0
    late: int = 0
    checked: str = ""
    agrees: bool = True

    def push(self, batches: dict[str, pa.RecordBatch], started: float) -> Any:
        """Push, and note the rate at which the engine took these rows."""
        before = time.perf_counter()
        result = self.join.push(**batches)
        spent = time.perf_counter() - before
        count = sum(batch.num_rows for batch in batches.values())
        self.rows, self.results = self.rows + count, self.results + result.count
        self.late += sum(batch.num_rows for batch in result.late.values())
        self.rates.append((time.perf_counter() - started, count / spent))
        return result

    def line(self) -> tuple[str, ...]:
        """Title, rows, rows/s while busy, results, late rows and the state's size."""
        rate = float(np.median([rate for _, rate in self.rates])) if self.rates else 0.0
        held = self.join.stats()["streams"].values()
        state = f"{sum(s['rows'] for s in held):,} rows, {sum(s['bytes'] for s in held) / 1e6:.1f} MB"
        return self.title, f"{self.rows:,}", f"{rate:,.0f}", f"{self.results:,}", f"{self.late:,}", state


def run_demo(
    seconds: float = 10.0, picture: Path | None = None, cores: int = 1, console: Console | None = None
) -> bool:
    """Run both joins for about ``seconds``; True iff every check agreed."""
    console = console or wide_console()
    console.print("[bold]Watersmeet[/]: two joins of live streams. The very first run compiles ...")
    started = time.perf_counter()
    band, feed = _band_join(cores)
    trades, source = _market_join(cores)
    pairs: list[np.ndarray] = []
    band.push(feed.pushes(BATCH, 1)[0], started)
    pairs.append(_packed(trades.push(source.take(MARKET_SECONDS), started)))
    band.rates.clear()  # the first push of each has compiled or loaded its kernels
    trades.rates.clear()
    begin = time.perf_counter()
    with _live(console) as view:

        def show() -> None:
            view(_table((band, trades)))

        _stream_band(band, feed, begin, begin + seconds * 0.45, show)
        _stream_market(trades, source, begin, begin + seconds * 0.9, pairs, show)
    if not console.is_terminal:
        console.line()  # Live ends its last line on a terminal only
    sample = _check_band(band, feed)
    _check_market(trades, source, pairs)
    example = trades.push(source.take(MARKET_SECONDS), begin).to_arrow()
    trades.rates.pop()
    _print_end((band, trades), example, console)
    if picture is not None:
        _draw((band, trades), sample, example, picture)
        console.print(f"picture: {picture}", markup=False, highlight=False, soft_wrap=True)
    return band.agrees and trades.agrees


@contextmanager
def _live(console: Console) -> Iterator[Callable[[Table], None]]:
    """Shows a table that changes; where the output is no terminal, only its last state."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=8) as live:
            yield live.update
        return
    last: list[Table] = []
    yield lambda table: last.__setitem__(slice(None), [table])
    for table in last:
        console.print(table)


def _band_join(cores: int) -> tuple[Story, Feed]:
    work = workload("splitjoin", WINDOW)
    join = StreamJoin(work.condition, r=Rows(WINDOW), s=Rows(WINDOW), cores=cores)
    return Story("SplitJoin's two-dimensional band, windows of 262,144 rows", join), Feed(work)


def _market_join(cores: int) -> tuple[Story, market.Market]:
    late = f"{market.LATENESS_MS} ms"
    windows = {
        "trades": Range(f"{market.TRADE_WINDOW_MS} ms", time="ts", lateness=late),
        "quotes": Range(f"{market.QUOTE_WINDOW_MS} ms", time="ts", lateness=late),
    }
    select = "trades.ts, trades.sym, trades.price, quotes.bid, quotes.ask, quotes.ts AS quoted"
    join = StreamJoin(market.CONDITION, windows=windows, select=select, cores=cores)
    return Story("trades that hit a quote of the last 100 ms", join), market.Market()


def _stream_band(story: Story, feed: Feed, begin: float, end: float, show: Callable[[], None]) -> None:
    while not story.rates or time.perf_counter() < end:  # at least once, however slow the machine
        story.push(feed.pushes(BATCH, 1)[0], begin)
        show()


def _stream_market(
    story: Story,
    source: market.Market,
    begin: float,
    end: float,
    pairs: list[np.ndarray],
    show: Callable[[], None],
) -> None:
    pause = max(0.0, end - time.perf_counter()) / MOST_MARKET_PUSHES
    while not story.rates or (time.perf_counter() < end and len(source.pushed) < MOST_MARKET_PUSHES):
        due = min(time.perf_counter() + pause, end)
        pairs.append(_packed(story.push(source.take(MARKET_SECONDS), begin)))
        show()
        time.sleep(max(0.0, due - time.perf_counter()))


def _packed(result: Any) -> np.ndarray:
    pairs = result.pairs()
    return (pairs["trades"] << 32) | pairs["quotes"]


def _check_band(story: Story, feed: Feed) -> pa.Table:
    """Three more pushes: the count of each must equal a recount. Returns the rows of the last."""
    checked, rows = 0, None
    for _ in range(3):
        push = feed.pushes(BATCH, 1)[0]
        result = story.push(push, time.perf_counter())
        story.rates.pop()
        checked += result.count
        story.agrees &= result.count == feed.expected(push)
        rows = result.to_arrow()
    story.checked = f"{checked:,} pairs of 3 pushes recounted"
    return rows


def _check_market(story: Story, source: market.Market, pairs: list[np.ndarray]) -> None:
    expected, late = market.recount(source.pushed)
    found = np.sort(np.concatenate(pairs))
    story.agrees = bool(np.array_equal(found, expected)) and late == story.late
    story.checked = f"all {expected.size:,} pairs and {late:,} late rows recomputed"


def _table(stories: tuple[Story, ...]) -> Table:
    table = Table("live join", "rows", "rows/s", "results", "late", "state")
    for story in stories:
        table.add_row(*story.line())
    return table


def _print_end(stories: tuple[Story, ...], example: pa.Table, console: Console) -> None:
    rows = Table(*(escape(name) for name in example.schema.names), title="Some results of the last push")
    step = max(1, example.num_rows // 5)
    for number in range(0, example.num_rows, step)[:5]:
        rows.add_row(*(escape(str(example.column(name)[number])) for name in example.schema.names))
    console.print(rows)
    for story in stories:
        mark = "[green]agrees[/]" if story.agrees else "[bold red]DIFFERS[/]"
        console.print(f"{story.title}: {story.checked} with NumPy: {mark}", highlight=False, soft_wrap=True)
    text = f"\nHow the second one is joined:\n{stories[1].join.explain()}"
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _draw(stories: tuple[Story, ...], sample: pa.Table, example: pa.Table, path: Path) -> None:
    from watersmeet.looks import draw_plane, pyplot

    plt = pyplot()
    figure, (plane, prices, rates) = plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
    draw_plane(plane, sample, 300, "Pairs of the last push, one corner of the plane")
    _draw_prices(prices, example)
    for story in stories:
        at, rate = zip(*story.rates, strict=True)
        rates.plot(at, rate, ".", markersize=3, label=story.title)
    rates.set(title="Rate of every push", xlabel="seconds", ylabel="rows a second", yscale="log")
    rates.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_prices(axes: Any, example: pa.Table) -> None:
    """One symbol: the quotes that trades have hit, and the trades."""
    symbol = str(market.SYMBOLS[0])
    rows = example.filter(pc.equal(example.column("sym"), symbol))
    at, quoted = (rows.column(name).cast(pa.int64()).to_numpy() / 1e3 for name in ("ts", "quoted"))
    start = min([*at, *quoted], default=0.0)
    axes.vlines(
        quoted - start,
        rows.column("bid").to_numpy(),
        rows.column("ask").to_numpy(),
        color="#3c9a4e",
        label="quote",
    )
    axes.plot(at - start, rows.column("price").to_numpy(), "o", markersize=4, color="#c23b54", label="trade")
    axes.set(title=f"{symbol}: trades and the quotes they hit", xlabel="milliseconds", ylabel="price")
    axes.legend(fontsize=7)
