"""Joiners of the users' workloads under one interface: ours, and DuckDB and Polars joining each batch with the same window.

What stays true: every ``push`` returns the number of results of exactly the same rows, and has really made them: all columns of both
streams, as Arrow data (Polars: a frame). A peer keeps its windows as the columnar tables that it reads fastest; keeping them up to date is
part of its push, and so is, in a left join, remembering who has found a partner.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.bench.peers import MOST_CHUNKS, Database, peer_module
from watersmeet.workloads.users import UserWorkload
from watersmeet.workloads.users_feed import Push

MOST_CANDIDATES = 4_000_000  # that Polars makes rows of at a time
NUMBER = "arrived"  # the left rows' arrival numbers, where a peer must remember who has found a partner


class UserJoiner(Protocol):
    """Anything that joins the two streams of a workload, a push at a time."""

    name: str

    def push(self, batches: Push) -> int:
        """Take the batches, in order; return how many results they made."""

    def store(self, batches: Push) -> object:
        """Take the batches without asking for results: how windows are filled."""


class Ours:
    """Watersmeet as users write it: push, then ``to_arrow()``."""

    name = "ours"

    def __init__(self, work: UserWorkload, cores: int = 1) -> None:
        from watersmeet.api.stream_join import StreamJoin
        from watersmeet.streams.window import Range, Rows

        length, late = (timedelta(microseconds=rows * work.step) for rows in (work.window, work.late))
        window = Rows(work.window) if work.seconds is None else Range(length, time="ts", lateness=late)
        windows = dict.fromkeys(work.streams, window)
        self.join = StreamJoin(work.condition, windows=windows, how=work.how, cores=cores)

    def push(self, batches: Push) -> int:
        """Join, and gather the results."""
        return int(self.join.push(**batches).to_arrow().num_rows)

    def store(self, batches: Push) -> None:
        """Push without gathering."""
        self.join.push(**batches)


class _Window:
    """The rows of one stream that a peer still needs, as an Arrow table, in order of time."""

    def __init__(self, rows: int, micros: int | None) -> None:
        self._rows, self._micros = rows, micros
        self.table: pa.Table | None = None

    def add(self, rows: pa.Table) -> None:
        """Append; a window that counts rows lets go of the others at once."""
        table = rows if self.table is None else pa.concat_tables([self.table, rows])
        if self._micros is None:
            table = table.slice(max(0, table.num_rows - self._rows))
        self.table = table.combine_chunks() if table.column(0).num_chunks > MOST_CHUNKS else table

    @property
    def newest(self) -> int:
        """The time of the newest row."""
        assert self.table is not None
        return int(self.table.column("ts")[-1].value)

    def expire(self, watermark: int) -> pa.Table:
        """Let go of the rows that are more than the window's time below the watermark, and return them."""
        assert self.table is not None
        assert self._micros is not None
        over = 0
        for chunk in self.table.column("ts").chunks:
            times = chunk.view(pa.int64()).to_numpy()
            found = int(np.searchsorted(times, watermark - self._micros))
            over += found
            if found < times.size:
                break
        gone, self.table = self.table.slice(0, over), self.table.slice(over)
        return gone


class _BatchPeer:
    """A query engine that joins a whole batch with the opposite window, stream by stream."""

    name = ""

    def __init__(self, work: UserWorkload) -> None:
        if work.disorder:
            raise ValueError(f"a peer's windows must be in order of time; got {work.title}")
        self._work = work
        self._left, self._right = work.streams
        self._micros = None if work.seconds is None else work.window * work.step
        self._windows = {name: _Window(work.window, self._micros) for name in work.streams}
        self._matched = np.zeros(0, bool)  # of the left rows from self._first on
        self._first = self._arrived = 0

    def push(self, batches: Push) -> int:
        """Join each batch with the opposite window, then store it; then let go of what is over."""
        total = 0
        for stream, batch in batches.items():
            rows, other = self._rows(stream, batch), self._windows[self._other(stream)].table
            if other is not None:
                total += self._join(stream, rows, other)
            self._windows[stream].add(rows)
        return total + self._expire()

    def store(self, batches: Push) -> None:
        """Keep the rows without joining: how windows are filled. In a left join nobody would be remembered, so it joins."""
        if self._work.how == "left":
            self.push(batches)
            return
        for stream, batch in batches.items():
            self._windows[stream].add(self._rows(stream, batch))
        self._expire()

    def _other(self, stream: str) -> str:
        return self._right if stream == self._left else self._left

    def _rows(self, stream: str, batch: pa.RecordBatch) -> pa.Table:
        table = pa.Table.from_batches([batch])
        if self._work.how == "inner" or stream != self._left:
            return table
        numbers = np.arange(self._arrived, self._arrived + batch.num_rows)
        self._arrived += batch.num_rows
        self._matched = np.concatenate([self._matched, np.zeros(batch.num_rows, bool)])
        return table.append_column(NUMBER, pa.array(numbers))

    def _found(self, numbers: np.ndarray) -> None:
        """These left rows have partners."""
        self._matched[numbers - self._first] = True

    def _expire(self) -> int:
        """Drop what is over; of a left join, return how many rows have gone without a partner: they are results."""
        if self._micros is None:
            return 0
        watermark = min(window.newest for window in self._windows.values())
        gone = {stream: window.expire(watermark) for stream, window in self._windows.items()}
        if self._work.how == "inner":
            return 0
        over = gone[self._left]
        count = over.num_rows
        alone = over.filter(pa.array(~self._matched[:count]))
        self._matched, self._first = self._matched[count:], self._first + count
        return int(alone.num_rows)

    def _join(self, stream: str, probes: pa.Table, stored: pa.Table) -> int:
        raise NotImplementedError


class UserDuckDB(_BatchPeer):
    """DuckDB: one SQL query a batch over registered Arrow tables.

    It is asked in the words that it is fastest with: comparisons with both ends of a band side by side (with two bands as two BETWEENs its
    range join takes the lower ends of both, 25 times slower), and the window's time as a check on what was found.
    """

    name = "DuckDB"

    def __init__(self, work: UserWorkload, cores: int = 1, give_up: float = 30.0) -> None:
        super().__init__(work)
        self._database = Database(cores, give_up)

    def _join(self, stream: str, probes: pa.Table, stored: pa.Table) -> int:
        tables = {stream: probes, self._other(stream): stored}
        found = self._database.table(self._query(tables), tables)
        if self._work.how == "left":
            self._found(found.column(f"{self._left}_{NUMBER}").to_numpy())
        return int(found.num_rows)

    def _query(self, tables: dict[str, pa.Table]) -> str:
        left, right = self._left, self._right
        names = (
            f"{stream}.{name} AS {stream}_{name}"
            for stream in (left, right)
            for name in tables[stream].column_names
        )
        conditions = list(self._work.comparisons)
        if self._micros is not None:
            conditions.append(f"abs(epoch_us({left}.ts) - epoch_us({right}.ts)) <= {self._micros}")
        return f"SELECT {', '.join(names)} FROM {left} JOIN {right} ON {' AND '.join(conditions)}"


class UserPolars(_BatchPeer):
    """Polars: ``join_where``, in pieces whose candidates fit into memory, then a filter by the window's time.

    With the time among its predicates it may join by that, and make rows of nearly all pairs first.
    """

    name = "Polars"

    def __init__(self, work: UserWorkload, cores: int = 1, give_up: float = 30.0) -> None:
        # Polars uses all cores, or POLARS_MAX_THREADS, which it reads once, when it is imported; and it cannot be interrupted.
        super().__init__(work)
        self._pl: Any = peer_module("polars")
        self._predicates = [self._predicate(text) for text in work.comparisons]
        self._times: list[Any] = []
        if self._micros is not None:
            left, right = (self._pl.col(f"{name}_ts") for name in work.streams)
            length = timedelta(microseconds=self._micros)
            self._times = [left >= right - length, left <= right + length]

    def _predicate(self, text: str) -> Any:
        for name in self._work.streams:
            text = text.replace(f"{name}.", f"{name}_")
        return self._pl.sql_expr(text)

    def _join(self, stream: str, probes: pa.Table, stored: pa.Table) -> int:
        window = self._frame(self._other(stream), stored)
        piece = max(1, int(MOST_CANDIDATES / max(1.0, window.height * self._work.candidate_share)))
        return sum(
            self._joined(part, window, stream) for part in self._frame(stream, probes).iter_slices(piece)
        )

    def _joined(self, probes: Any, window: Any, stream: str) -> int:
        left, right = (probes, window) if stream == self._left else (window, probes)
        found = left.join_where(right, *self._predicates)
        found = found.filter(self._times) if self._times else found
        if self._work.how == "left":
            self._found(found.get_column(f"{self._left}_{NUMBER}").to_numpy())
        return int(found.height)

    def _frame(self, stream: str, rows: pa.Table) -> Any:
        return self._pl.from_arrow(rows.rename_columns([f"{stream}_{name}" for name in rows.column_names]))


PEERS: dict[str, Callable[..., UserDuckDB | UserPolars]] = {"DuckDB": UserDuckDB, "Polars": UserPolars}
