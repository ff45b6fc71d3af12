"""``watersmeet demo --queries``: a market's top ten, changing while queries come and go on a small script.

What stays true: every figure shown is measured in this run. The checks work the answers out again from the rows as they were pushed, with
plain Python and NumPy alone: every top ten value for value, and how many rows the selection and the join give. A difference ends the demo with failure.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import pyarrow as pa
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from watersmeet.looks import wide_console
from watersmeet.query.processor import Processor
from watersmeet.streams.window import Range
from watersmeet.workloads import market

PUSH_SECONDS = 0.25  # event time of one push
PUSHES_A_SECOND = 10
FEWEST_PUSHES, REHEARSED = 12, 60
LONG, SHORT = 5, 2  # seconds that the top ten is over, before and after it is altered
LARGE = 9500

TOP = """
    SELECT sym, COUNT(*) AS trades, SUM(price * size) AS turnover
    FROM last_range(trades, INTERVAL {} SECONDS) GROUP BY sym ORDER BY turnover DESC LIMIT 10"""
SELECTION = f"SELECT ts, sym, price * size AS turnover FROM trades WHERE size > {LARGE}"
HITS = f"""
    SELECT t.ts, t.sym, t.price, q.bid, q.ask FROM last_range(trades, INTERVAL {market.TRADE_WINDOW_MS} MILLISECONDS) t
    JOIN last_range(quotes, INTERVAL {market.QUOTE_WINDOW_MS} MILLISECONDS) q ON t.sym = q.sym AND t.price BETWEEN q.bid AND q.ask"""
CANDLES = """
    SELECT window.start, sym, FIRST(price) AS open, MAX(price) AS high, MIN(price) AS low, LAST(price) AS close
    FROM trades GROUP BY window(ts, '1 second'), sym"""


@dataclass(frozen=True)
class Step:
    """A line of the script: what is told to the processor, when (as a share of all pushes), and what the query then gives."""

    at: float
    statement: str
    meaning: str

    @property
    def title(self) -> str:
        """The statement's verb and query."""
        verb, _, name, *_ = self.statement.split()
        return f"{verb} {name}"


SCRIPT = (
    Step(0.0, f"CREATE QUERY top AS {TOP.format(LONG)}", f"turnover of the last {LONG} s, the ten largest"),
    Step(0.0, f"CREATE QUERY large AS {SELECTION}", f"trades of more than {LARGE:,}"),
    Step(0.2, f"CREATE QUERY hits AS {HITS}", "trades within bid and ask of a quote of the last 100 ms"),
    Step(
        0.4,
        f"CREATE QUERY candles START WARM BACKFILL AS {CANDLES}",
        "open, high, low and close of each second, also of those before",
    ),
    Step(
        0.6,
        f"ALTER QUERY top START WARM AS {TOP.format(SHORT)}",
        f"turnover of the last {SHORT} s, the ten largest",
    ),
    Step(0.8, "DROP QUERY large", ""),
)


@dataclass
class Told:
    """A statement that was carried out: at which push, how long it took, and the push that came next."""

    step: Step
    before: int  # the number of the push that came next
    at: float  # seconds since the start
    seconds: float
    next_push: float | None = None


@dataclass
class Given:
    """What a query has given: rows of the last push, and of all pushes with those of the past that it began with."""

    meaning: str
    last: int = 0
    rows: int = 0
    late: int = 0
    state: str = "running"


@dataclass
class Play:
    """The market, the processor, and what has happened so far."""

    cores: int = 1
    source: market.Market = field(default_factory=market.Market)
    told: list[Told] = field(default_factory=list)
    given: dict[str, Given] = field(default_factory=dict)
    answers: list[list[tuple[str, int, float]]] = field(default_factory=list)  # of top, one a push
    spent: list[float] = field(default_factory=list)  # seconds, one a push
    rows: int = 0

    def __post_init__(self) -> None:
        window = Range("10 s", time="ts", lateness=f"{market.LATENESS_MS} ms")
        schemas = {name: batch.schema for name, batch in market.Market().take(0.01).items()}
        self.processor = Processor(trades=window, quotes=window, schemas=schemas, cores=self.cores)

    def run(self, pushes: int, seconds: float, show: Callable[["Play"], None]) -> None:
        """Push so often in about so many seconds, and follow the script on the way."""
        begin = time.perf_counter()
        waiting = list(SCRIPT)
        for number in range(pushes):
            while waiting and number >= waiting[0].at * pushes:
                self.tell(waiting.pop(0), number, begin)
            self.push()
            show(self)
            time.sleep(max(0.0, begin + seconds * (number + 1) / pushes - time.perf_counter()))

    def tell(self, step: Step, number: int, begin: float) -> None:
        """Carry out one statement, and note how long it took."""
        before = time.perf_counter()
        queries = self.processor.execute(step.statement)
        after = time.perf_counter()
        self.told.append(Told(step, number, before - begin, after - before))
        for name, query in queries.items():
            past = 0 if query.backfill is None else query.backfill.count
            given = self.given.setdefault(name, Given(step.meaning))
            given.meaning, given.rows = step.meaning, given.rows + past
            given.state = "altered" if query.generation else "running"
        for name in self.given.keys() - self.processor.queries().keys():
            self.given[name].state, self.given[name].last = "dropped", 0

    def push(self) -> None:
        """The next rows, through all queries."""
        batches = self.source.take(PUSH_SECONDS)
        before = time.perf_counter()
        results = self.processor.push(batches)
        self.spent.append(time.perf_counter() - before)
        self.rows += sum(batch.num_rows for batch in batches.values())
        for told in self.told:
            told.next_push = self.spent[-1] if told.next_push is None else told.next_push
        for name, result in results.items():
            given = self.given[name]
            given.last, given.rows = result.count, given.rows + result.count
            given.late += sum(batch.num_rows for batch in result.late.values())
        self.answers.append(_tuples(results["top"].to_arrow()))

    @property
    def rate(self) -> float:
        """Rows a second while busy: of the median push."""
        return self.rows / len(self.spent) / median(self.spent)

    def ran(self, name: str) -> list[dict[str, pa.RecordBatch]]:
        """The pushes that a query has seen, if it did not start warm."""
        moments = {
            told.step.title.split()[0]: told.before
            for told in self.told
            if told.step.title.endswith(f" {name}")
        }
        return self.source.pushed[moments["CREATE"] : moments.get("DROP")]


def run_queries_demo(seconds: float = 15.0, cores: int = 1, console: Console | None = None) -> bool:
    """Play the script for about ``seconds``; True iff every check agreed."""
    console = console or wide_console()
    console.print("[bold]Watersmeet[/]: queries that come and go. The very first run compiles ...")
    Play(cores).run(REHEARSED, 0.0, lambda play: None)  # whatever is compiled or loaded is in no figure
    play = Play(cores)
    pushes = max(FEWEST_PUSHES, round(seconds * PUSHES_A_SECOND))
    if console.is_terminal:
        with Live(console=console, refresh_per_second=8) as live:
            play.run(pushes, seconds, lambda now: live.update(_screen(now)))
    else:
        play.run(pushes, seconds, lambda now: None)
        console.print(_screen(play))
    return _print_checks(play, console)


# ---- checks ---------------------------------------------------------------------------------------------------------


def _print_checks(play: Play, console: Console) -> bool:
    checks = (
        (f"top: all {len(play.answers):,} answers, worked out with plain Python", _top_agrees(play)),
        (f"large: {play.given['large'].rows:,} rows, counted with NumPy", _large_agrees(play)),
        (f"hits: {play.given['hits'].rows:,} pairs, recounted with NumPy", _hits_agree(play)),
    )
    for text, agrees in checks:
        mark = "[green]agrees[/]" if agrees else "[bold red]DIFFERS[/]"
        console.print(f"{text}: {mark}", highlight=False, soft_wrap=True)
    return all(agrees for _, agrees in checks)


def _top_agrees(play: Play) -> bool:
    altered = next(told.before for told in play.told if told.step.statement.startswith("ALTER"))
    found = True
    for number, answer in enumerate(play.answers):
        found &= answer == top_ten(play.source.pushed[: number + 1], LONG if number < altered else SHORT)
    return found


def top_ten(pushed: list[dict[str, pa.RecordBatch]], seconds: int) -> list[tuple[str, int, float]]:
    """Symbol, trades and turnover of the last seconds, the largest turnover first. Sums are exact, and rounded once."""
    enough = round((seconds + 1) / PUSH_SECONDS)  # rows are at most 0.54 s older than their push
    rows = pa.Table.from_batches([push["trades"] for push in pushed[-enough:]])
    times = rows.column("ts").cast(pa.int64()).to_numpy()
    kept = rows.filter(pa.array(times >= times.max() - seconds * 1_000_000))
    turnovers: dict[str, list[float]] = {}
    for sym, price, size in zip(
        *(kept.column(name).to_pylist() for name in ("sym", "price", "size")), strict=True
    ):
        turnovers.setdefault(sym, []).append(price * size)
    answer = [(sym, len(each), math.fsum(each)) for sym, each in turnovers.items()]
    return sorted(answer, key=lambda row: row[2], reverse=True)[:10]


def _large_agrees(play: Play) -> bool:
    sizes = [push["trades"].column("size").to_numpy() for push in play.ran("large")]
    return int((np.concatenate(sizes) > LARGE).sum()) == play.given["large"].rows


def _hits_agree(play: Play) -> bool:
    pairs, late = market.recount(play.ran("hits"))
    return (pairs.size, late) == (play.given["hits"].rows, play.given["hits"].late)


# ---- what is shown --------------------------------------------------------------------------------------------------


def _screen(play: Play) -> Group:
    """The top ten on the left; the queries and what was done to them on the right."""
    sides = Table.grid(padding=(0, 1))
    sides.add_row(_top_table(play), Group(_queries_table(play), *_script_lines(play)))
    clock = len(play.spent) * PUSH_SECONDS
    line = f"{play.rows:,} rows, {clock:.1f} s of the market; {play.rate:,.0f} rows/s while busy"
    meanings = [Text.assemble((f"{name:8}", "bold"), given.meaning) for name, given in play.given.items()]
    return Group(sides, Text(line), *meanings)


def _top_table(play: Play) -> Table:
    over = SHORT if any(told.step.statement.startswith("ALTER") for told in play.told) else LONG
    table = Table("sym", title=f"Turnover, last {over} s")
    table.add_column("trades", justify="right")
    table.add_column("millions", justify="right")
    table.add_column("")
    answer, before = play.answers[-1], [sym for sym, _, _ in (play.answers[-2] if play.answers[1:] else ())]
    for place, (sym, trades, turnover) in enumerate(answer):
        was = before.index(sym) if sym in before else len(before)
        mark = Text("▲", "green") if was > place else Text("▼", "red") if was < place else Text("")
        table.add_row(sym, f"{trades:,}", f"{turnover / 1e6:,.1f}", mark)
    return table


def _queries_table(play: Play) -> Table:
    table = Table("query", title="Rows of each query")
    table.add_column("a push", justify="right")
    table.add_column("so far", justify="right")
    table.add_column("state")
    for name, given in play.given.items():
        style = "dim" if given.state == "dropped" else None
        table.add_row(name, f"{given.last:,}", f"{given.rows:,}", given.state, style=style)
    return table


def _script_lines(play: Play) -> list[Text]:
    return [
        Text.assemble(
            (f"{told.at:4.1f} s {told.step.title:14}", "bold"),
            f" {told.seconds * 1e3:5.1f} ms, next push {1e3 * (told.next_push or 0.0):3.0f} ms",
        )
        for told in play.told
    ]


def _tuples(table: pa.Table) -> list[tuple[str, int, float]]:
    return [(row["sym"], row["trades"], row["turnover"]) for row in table.to_pylist()]
