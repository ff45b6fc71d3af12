"""Aggregates by meter in windows of every kind: ours, DuckDB a batch, Pathway in a process of its own.

What stays true: the check compares rows of answers, not their number, and pushes until there are some. DuckDB keeps the rows that are
still needed and is asked only when something has come to its end: for tumbling and hopping windows once a window, in sliding ones and
sessions once a push. Of a sliding window it gives all groups, ours those that differ.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.bench.measure import Point, isolated
from watersmeet.bench.peers import MOST_CHUNKS, Database
from watersmeet.bench.queries_plan import GROUPS, QueriesCase, QueriesOutcome, QueriesPlan, timed
from watersmeet.query.processor import Processor
from watersmeet.streams.window import Range
from watersmeet.workloads.readings import KINDS, SECOND, Readings, ReadingsFeed, answer_rows
from watersmeet.workloads.users import START
from watersmeet.workloads.users_feed import Push

OURS, DUCKDB = "ours", "DuckDB"
SUMS = "k, COUNT(*) AS n, CAST(SUM(v) AS BIGINT) AS total"
SESSIONS = f"""
    WITH marked AS (SELECT *, CASE WHEN ts - LAG(ts) OVER meter > {{gap}} THEN 1 ELSE 0 END AS fresh FROM rows
                    WINDOW meter AS (PARTITION BY k ORDER BY ts)),
         numbered AS (SELECT *, SUM(fresh) OVER (PARTITION BY k ORDER BY ts) AS session FROM marked)
    SELECT MIN(ts) AS start, {SUMS}, MAX(ts) AS last FROM numbered GROUP BY k, session"""
OPEN = "SELECT rows.* FROM rows JOIN sessions ON rows.k = sessions.k AND rows.ts >= sessions.start"


class OurAnswers:
    """The query in a processor."""

    name = OURS

    def __init__(self, work: Readings, cores: int) -> None:
        window = Range("1 s", time="ts")
        self.processor = Processor(t=window, schemas={"t": work.batch(0, 0).schema}, cores=cores)
        self.processor.create("answer", work.sql)
        self.answer = pa.table({})

    def push(self, batches: Push) -> int:
        """Push, and gather what it gives."""
        self.answer = self.processor.push(batches)["answer"].to_arrow()
        return self.answer.num_rows

    def agrees(self, feed: ReadingsFeed, batch: int) -> bool:
        """Whether further pushes, until one has rows, give the recounted ones."""
        return _agree(self, feed, batch, lambda: feed.answer(batch))


class DuckDBAnswers:
    """The rows that are still needed in an Arrow table, and a query of DuckDB over them."""

    name = DUCKDB

    def __init__(self, work: Readings, cores: int, give_up: float) -> None:
        self._work, self._database = work, Database(cores, give_up)
        self._rows: pa.Table | None = None
        self._ask: Callable[[int], list[pa.Table]] = {
            "sliding": self._sliding,
            "session": self._sessions,
        }.get(work.kind, self._windows)
        self._slide = SECOND if work.kind == "tumbling" else SECOND // 2
        self._end = START // self._slide * self._slide + self._slide  # of the next window that will be over
        self.answer = pa.table({})

    def push(self, batches: Push) -> int:
        """Append, ask for what is over, and let go of what is no longer needed."""
        batch = pa.Table.from_batches([batches["t"]])
        batch = batch.set_column(0, "ts", batch.column("ts").cast(pa.int64()))
        table = batch if self._rows is None else pa.concat_tables([self._rows, batch])
        self._rows = table.combine_chunks() if table.column(0).num_chunks > MOST_CHUNKS else table
        found = self._ask(batch.column("ts")[-1].as_py())
        self.answer = pa.concat_tables(found) if found else pa.table({})
        return self.answer.num_rows

    def _windows(self, now: int) -> list[pa.Table]:
        found = []
        while self._end <= now:
            start = self._end - SECOND
            text = f"SELECT {start} AS start, {SUMS} FROM rows WHERE ts >= {start} AND ts < {self._end} GROUP BY k"
            found.append(self._database.table(text, {"rows": self._rows}))
            self._end += self._slide
            self._forget(self._end - SECOND)
        return found

    def _sliding(self, now: int) -> list[pa.Table]:
        self._forget(now - SECOND)
        return [self._database.table(f"SELECT {SUMS} FROM rows GROUP BY k", {"rows": self._rows})]

    def _forget(self, before: int) -> None:
        """Rows are in order of time."""
        assert self._rows is not None
        place = int(np.searchsorted(self._rows.column("ts").to_numpy(), before))
        self._rows = self._rows.slice(place)

    def _sessions(self, now: int) -> list[pa.Table]:
        gap = self._work.gap
        found = self._database.table(SESSIONS.format(gap=gap), {"rows": self._rows})
        over = np.asarray(found.column("last").to_numpy() + gap < now)
        tables = {"rows": self._rows, "sessions": found.filter(pa.array(~over))}
        self._rows = self._database.table(f"{OPEN} ORDER BY rows.ts", tables)
        return [found.filter(pa.array(over)).drop_columns(["last"])]

    def agrees(self, feed: ReadingsFeed, batch: int) -> bool:
        """Whether further pushes, until one has rows, give the recounted ones; of a sliding window all of them."""
        sliding = self._work.kind == "sliding"
        return _agree(self, feed, batch, feed.standing if sliding else lambda: feed.answer(batch))


def _agree(
    joiner: OurAnswers | DuckDBAnswers, feed: ReadingsFeed, batch: int, wanted: Callable[[], np.ndarray]
) -> bool:
    while True:
        joiner.push(feed.pushes(batch, 1)[0])
        rows = wanted()
        given = answer_rows(joiner.answer) if joiner.answer.num_rows else rows[:0]
        if len(rows) or len(given):
            return bool(np.array_equal(given, rows))


def group_cases(plan: QueriesPlan) -> Iterator[QueriesCase]:
    """Every kind of window over the groups by ours, and with those of the targets by the peers."""
    for kind in KINDS:
        for groups in plan.groups:
            yield QueriesCase(f"{kind}, {groups:,} groups · {OURS}", _case(kind, groups, OURS))
        yield QueriesCase(f"{kind}, {GROUPS:,} groups · {DUCKDB}", _case(kind, GROUPS, DUCKDB), "peer")
        if kind in plan.pathway:
            yield QueriesCase(f"{kind}, {GROUPS:,} groups · Pathway", _pathway(kind), "peer")


def _case(kind: str, groups: int, joiner: str) -> Any:
    def measure(plan: QueriesPlan, outcome: QueriesOutcome) -> list[Point]:
        work = Readings(groups, plan.second, kind)
        one: OurAnswers | DuckDBAnswers = OurAnswers(work, plan.cores)
        if joiner == DUCKDB:
            one = DuckDBAnswers(work, plan.cores, plan.give_up)
        feed, budget = ReadingsFeed(work), plan.budget if joiner == OURS else plan.peer_budget
        while feed.pushed <= work.window:
            one.push(feed.pushes(plan.group_batch, 1)[0])
        outcome.points.append(timed("groups", one, feed, plan.group_batch, budget, ("t",)))
        return outcome.points[-1:]

    return measure


def _pathway(kind: str) -> Any:
    def measure(plan: QueriesPlan, outcome: QueriesOutcome) -> list[Point]:
        rows, batch = plan.pathway_rows, plan.group_batch
        found = isolated("queries_pathway", kind, str(GROUPS), str(rows), str(batch), timeout=300)
        if found["seconds"] <= 0:
            raise RuntimeError(
                "the larger run was not the slower one: too much else is running to measure Pathway"
            )
        outcome.points.append(
            Point(
                "groups", f"{kind}-{GROUPS}", "Pathway", rows, batch, "arrow", found["rows"], found["seconds"], 1,
                found["results"], found["results"] == found["expected"],
                "windows are told as they change, and nothing is forgotten",
            )
        )  # fmt: skip
        return outcome.points[-1:]

    return measure
