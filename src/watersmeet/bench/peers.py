"""Joiners under one interface: Watersmeet, and DuckDB and Polars joining each batch against the window.

What stays true: every ``push`` returns the number of result pairs of exactly the same rows, and has really
made them: as arrival numbers of both sides, in memory. A peer keeps only the columns that it needs (keys
and arrival numbers), and is given its window as the columnar frame that it reads fastest; keeping that
frame up to date is part of its push.
"""

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.extras import need
from watersmeet.workloads.catalog import Workload
from watersmeet.workloads.feed import STREAMS, Push

if TYPE_CHECKING:
    import polars as pl

MOST_CHUNKS = 64  # a window of many small batches is copied into one piece now and then


class Joiner(Protocol):
    """Anything that joins two streams within sliding windows, a push at a time."""

    name: str

    def push(self, batches: Push) -> int:
        """Take the batches, in order; return how many results they made."""


class Engine:
    """Watersmeet's own join, as a joiner. ``result`` is one of pairs, count and ranges."""

    def __init__(self, work: Workload, index: str = "auto", cores: int = 1, result: str = "pairs") -> None:
        from watersmeet.api.stream_join import StreamJoin
        from watersmeet.streams.window import Rows

        self.name = index
        self._pairs = result == "pairs"
        window = Rows(work.window)
        self.join = StreamJoin(work.condition, r=window, s=window, index=index, cores=cores, result=result)

    def push(self, batches: Push) -> int:
        """Join, and materialise the pairs unless the join was made not to."""
        result = self.join.push(**batches)
        return len(result.pairs()["r"]) if self._pairs else int(result.count)

    def store(self, batches: Push) -> None:
        """Push without asking for the results: how windows are filled."""
        self.join.push(**batches)


class SlidingTable:
    """The last ``size`` rows of one stream: keys and arrival numbers, as an Arrow table."""

    def __init__(self, size: int, keys: list[str]) -> None:
        self._size, self._keys, self._arrived = size, keys, 0
        self.table: pa.Table | None = None

    def numbered(self, batch: pa.RecordBatch) -> pa.Table:
        """The batch as the peer sees it; the rows are counted as arrived."""
        numbers = pa.array(np.arange(self._arrived, self._arrived + len(batch), dtype=np.int64))
        self._arrived += len(batch)
        return pa.table({**{key: batch.column(key) for key in self._keys}, "id": numbers})

    def add(self, rows: pa.Table) -> None:
        """Append, and drop what has left the window."""
        table = rows if self.table is None else pa.concat_tables([self.table, rows])
        table = table.slice(max(0, table.num_rows - self._size))
        self.table = table.combine_chunks() if table.column(0).num_chunks > MOST_CHUNKS else table


class _BatchPeer:
    """A query engine that joins a whole batch with the opposite window, stream by stream."""

    name = ""

    def __init__(self, work: Workload) -> None:
        self._work = work
        self._windows = {stream: SlidingTable(work.window, work.keys(stream)) for stream in STREAMS}

    def fill(self, held: dict[str, pa.Table]) -> None:
        """Start with these windows, without joining."""
        for stream, table in held.items():
            for batch in table.to_batches():
                self._windows[stream].add(self._windows[stream].numbered(batch))

    def push(self, batches: Push) -> int:
        """Join each batch with the opposite window, then store it."""
        total = 0
        for stream, batch in batches.items():
            rows = self._windows[stream].numbered(batch)
            other = self._windows["s" if stream == "r" else "r"].table
            if other is not None:
                total += self._join(stream, rows, other)
            self._windows[stream].add(rows)
        return total

    def _join(self, stream: str, probes: pa.Table, stored: pa.Table) -> int:
        raise NotImplementedError


class DuckDB(_BatchPeer):
    """DuckDB: one SQL query a batch over registered Arrow tables (its own range join or hash join)."""

    name = "DuckDB"

    def __init__(self, work: Workload, cores: int = 1, give_up: float = 30.0) -> None:
        super().__init__(work)
        self._database = Database(cores, give_up)

    def _join(self, stream: str, probes: pa.Table, stored: pa.Table) -> int:
        r, s = (probes, stored) if stream == "r" else (stored, probes)
        query = f"SELECT r.id AS r, s.id AS s FROM r JOIN s ON {self._work.condition}"
        return self._database.rows(query, {"r": r, "s": s})


class Database:
    """DuckDB, asked over Arrow tables; a query that takes longer than ``give_up`` seconds is interrupted."""

    def __init__(self, cores: int, give_up: float) -> None:
        duckdb = peer_module("duckdb")
        self._connection = duckdb.connect()
        self._connection.execute(f"SET threads = {cores}")
        self._interrupted: type[Exception] = duckdb.InterruptException
        self._give_up = give_up

    def rows(self, query: str, tables: Mapping[str, pa.Table]) -> int:
        """How many rows the query gives; they are made, as an Arrow table."""
        return int(self.table(query, tables).num_rows)

    def table(self, query: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """What the query gives."""
        for name, table in tables.items():
            self._connection.register(name, table)
        alarm = threading.Timer(self._give_up, self._connection.interrupt)
        alarm.start()
        try:
            return self._connection.sql(query).to_arrow_table()
        except self._interrupted as error:
            raise TimeoutError(f"DuckDB: one batch took more than {self._give_up:.0f} s; given up") from error
        finally:
            alarm.cancel()


class Polars(_BatchPeer):
    """Polars: an equality by ``join``, bands by ``join_where`` with the bounds computed on the batch."""

    name = "Polars"

    def __init__(self, work: Workload, cores: int = 1) -> None:
        # Polars uses all cores, or POLARS_MAX_THREADS, which it reads once, when it is imported.
        super().__init__(work)
        self._pl: Any = peer_module("polars")

    def _join(self, stream: str, probes: pa.Table, stored: pa.Table) -> int:
        pl = self._pl
        batch, window = pl.from_arrow(probes), pl.from_arrow(stored)
        ours = self._work.keys(stream)
        theirs = self._work.keys("s" if stream == "r" else "r")
        if self._work.equality:
            pairs = batch.join(window, left_on=ours, right_on=theirs)
        elif len(self._work.bands) == 1:
            pairs = self._band_join(batch, window, ours[0], theirs[0])
        else:
            pairs = batch.join_where(window, *self._predicates())
        return int(pairs.select("id", "id_right").height)

    def _band_join(
        self, batch: "pl.DataFrame", window: "pl.DataFrame", ours: str, theirs: str
    ) -> "pl.DataFrame":
        pl, width = self._pl, self._work.bands[0].width
        bounded = batch.with_columns(low=pl.col(ours) - width, high=pl.col(ours) + width)
        return bounded.join_where(window, pl.col(theirs) >= pl.col("low"), pl.col(theirs) <= pl.col("high"))

    def _predicates(self) -> list[Any]:
        pl = self._pl
        found = []
        for band in self._work.bands:
            found.append(pl.col(band.left) >= pl.col(band.right) - band.width)
            found.append(pl.col(band.left) <= pl.col(band.right) + band.width)
        return found


def peer_module(name: str) -> Any:
    """A peer's package; a clear error where it is not installed."""
    import importlib

    need("the benchmark's peers", name, "bench")
    return importlib.import_module(name)
