"""Readings of many meters, for aggregates by meter in windows: tumbling, hopping, sliding and sessions.

What stays true: a row is a function of its number and comes in order of time, so any part of the stream can be made again; and
``ReadingsFeed.answer`` works out by NumPy alone which rows of the answer a push gives.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.workloads.scatter import below
from watersmeet.workloads.users import START
from watersmeet.workloads.users_feed import Push

SECOND = 1_000_000  # microseconds: how long windows are
KINDS = ("tumbling", "hopping", "sliding", "session")
COUNTED = "k, COUNT(*) AS n, SUM(v) AS total"
TEXTS = {
    "tumbling": f"SELECT window.start AS start, {COUNTED} FROM t GROUP BY window(ts, '1 second'), k",
    "hopping": f"SELECT window.start AS start, {COUNTED} FROM t GROUP BY window(ts, '1 second', '500 milliseconds'), k",
    "sliding": f"SELECT {COUNTED} FROM last_range(t, INTERVAL 1 SECOND) GROUP BY k",
    "session": "SELECT session_window.start AS start, "
    + COUNTED
    + " FROM t GROUP BY session_window(ts, '{gap} microseconds'), k",
}
GAP = 2  # of a session, as a multiple of the mean time between two readings of a meter

Rows = np.ndarray  # of an answer, sorted: start (sliding: 0), k, n, total


@dataclass(frozen=True)
class Readings:
    """A stream of ``rows`` readings a second, of so many meters."""

    groups: int
    rows: int
    kind: str = "tumbling"

    def __post_init__(self) -> None:
        if SECOND % self.rows:
            raise OptionError(f"a second must be whole microseconds for each row; got {self.rows} rows")

    @property
    def name(self) -> str:
        """The kind and the groups."""
        return f"{self.kind}-{self.groups}"

    @property
    def window(self) -> int:
        """Rows that a window of a second holds."""
        return self.rows

    @property
    def step(self) -> int:
        """Microseconds from a row to the next."""
        return SECOND // self.rows

    @property
    def gap(self) -> int:
        """Microseconds without a reading that end a session."""
        return GAP * self.groups * self.step

    @property
    def sql(self) -> str:
        """The query of the kind."""
        return TEXTS[self.kind].format(gap=self.gap)

    def values(self, first: int, end: int) -> dict[str, np.ndarray]:
        """Rows ``first`` to ``end - 1``."""
        numbers = np.arange(first, end)
        return {
            "ts": START + numbers * self.step,
            "k": below(numbers, 60, self.groups),
            "v": below(numbers, 61, 1_000),
        }

    def batch(self, first: int, end: int) -> pa.RecordBatch:
        """The same as they are pushed."""
        columns = {name: pa.array(column) for name, column in self.values(first, end).items()}
        return pa.RecordBatch.from_pydict({**columns, "ts": columns["ts"].cast(pa.timestamp("us"))})


class ReadingsFeed:
    """The stream in pushes."""

    def __init__(self, work: Readings) -> None:
        self.work = work
        self.pushed = 0

    def pushes(self, batch: int, count: int, streams: tuple[str, ...] = ()) -> list[Push]:
        """The next ``count`` pushes, each with ``batch`` rows."""
        block = self.work.batch(self.pushed, self.pushed + batch * count)
        self.pushed += batch * count
        return [{"t": block.slice(start, batch)} for start in range(0, batch * count, batch)]

    def expected(self, push: Push) -> int:
        """How many rows of the answer the newest push gives."""
        return len(self.answer(push["t"].num_rows))

    def answer(self, rows: int) -> Rows:
        """Which rows of the answer the newest push, of so many rows, gives."""
        begin, end = self.pushed - rows, self.pushed
        work = self.work
        if work.kind == "sliding":
            return self._differ(begin, end)
        before = START - SECOND if begin == 0 else START + (begin - 1) * work.step  # watermarks
        after = START + (end - 1) * work.step
        return self._sessions(before, after) if work.kind == "session" else self._closed(before, after)

    def standing(self) -> Rows:
        """All groups of the last second."""
        now = START + (self.pushed - 1) * self.work.step
        return self._window(now - SECOND, now, 0)

    def _closed(self, before: int, after: int) -> Rows:
        """Windows that are over, which they were not before."""
        slide = SECOND if self.work.kind == "tumbling" else SECOND // 2
        ends = range((before // slide + 1) * slide, after + 1, slide)
        found = [self._window(end - SECOND, end - 1, end - SECOND) for end in ends]
        return _sorted(np.concatenate([np.zeros((0, 4), np.int64), *found]))

    def _window(self, first: int, last: int, start: int) -> Rows:
        """The groups of all rows with times from first to last."""
        low, high = self._number(first), self._number(last + 1)
        found = self.work.values(low, min(high, self.pushed))
        counts = np.bincount(found["k"], minlength=self.work.groups)
        totals = np.bincount(found["k"], found["v"], minlength=self.work.groups).astype(np.int64)
        there = np.flatnonzero(counts)
        return np.stack([np.full(there.size, start), there, counts[there], totals[there]], axis=1)

    def _number(self, time: int) -> int:
        """The first row that is not before a time."""
        return max(0, -((START - time) // self.work.step))

    def _differ(self, begin: int, end: int) -> Rows:
        """Groups of the last second that are others than before the push; one that is gone has no rows."""
        answers = []
        for pushed in (begin, end):
            held = np.zeros((self.work.groups, 2), np.int64)
            now = START + (pushed - 1) * self.work.step
            rows = self._window(now - SECOND, now, 0) if pushed else np.zeros((0, 4), np.int64)
            held[rows[:, 1]] = rows[:, 2:]
            answers.append(held)
        old, new = answers
        changed = np.flatnonzero((old != new).any(axis=1))
        return np.concatenate([np.zeros((changed.size, 1), np.int64), changed[:, None], new[changed]], axis=1)

    def _sessions(self, before: int, after: int) -> Rows:
        """Sessions that no row can join any more, and could before."""
        rows, gap = self.work.values(0, self.pushed), self.work.gap
        order = np.argsort(rows["k"], kind="stable")
        k, ts, v = (rows[name][order] for name in ("k", "ts", "v"))
        fresh = np.ones(k.size, bool)
        fresh[1:] = (k[1:] != k[:-1]) | (ts[1:] - ts[:-1] > gap)
        starts = np.flatnonzero(fresh)
        sizes = np.diff([*starts, k.size])
        over = ts[starts + sizes - 1] + gap
        found = np.stack([ts[starts], k[starts], sizes, np.add.reduceat(v, starts)], axis=1)
        return _sorted(found[(over >= before) & (over < after)])


def _sorted(rows: Rows) -> Rows:
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))]


def answer_rows(answer: pa.Table) -> Rows:
    """What a query gave, in the form of ``ReadingsFeed.answer``."""
    columns = {name: answer.column(name) for name in answer.column_names if name != "operation"}
    start = columns.pop("start", None)
    numbers = [column.fill_null(0).to_numpy().astype(np.int64) for column in columns.values()]
    first = np.zeros(answer.num_rows, np.int64) if start is None else start.cast(pa.int64()).to_numpy()
    return _sorted(np.stack([first, *numbers], axis=1))
