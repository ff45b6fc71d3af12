"""Joiners of N streams under one interface: ours, a chain of our own two-way joins, DuckDB and Polars a batch.

What stays true: every ``push`` returns the number of results of exactly the same rows, and has really made them: as arrival
numbers of all streams, in memory (unless ours was told to count). DuckDB and Polars keep keys and arrival numbers alone.
"""

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from watersmeet.bench.peers import Database, SlidingTable, peer_module
from watersmeet.workloads.multiway import MultiwayWorkload, Push


class MultiwayJoiner(Protocol):
    """Anything that joins N streams within sliding windows, a push at a time."""

    name: str

    def push(self, batches: Push) -> int:
        """Take the batches, in order; return how many results they made."""

    def store(self, batches: Push) -> object:
        """Take the batches without asking for results: how windows are filled."""

    def state_bytes(self) -> int:
        """Bytes of what is kept."""


class Multiway:
    """Watersmeet's own join of N streams. ``options`` go to ``StreamJoin``."""

    def __init__(self, work: MultiwayWorkload, cores: int = 1, result: str = "pairs", **options: Any) -> None:
        from watersmeet.api.stream_join import StreamJoin
        from watersmeet.streams.window import Rows

        self.name = "ours" if result == "pairs" else f"ours, {result}"
        self._listed = result == "pairs"
        self._order = {"order": "t"} if work.interleaved else {}
        self._numbers = "numbers" if len(work.streams) > 2 else "pairs"
        windows = {name: Rows(work.window) for name in work.streams}
        self.join = StreamJoin(work.condition, windows=windows, cores=cores, result=result, **options)

    def push(self, batches: Push) -> int:
        """Join, and list the arrival numbers unless the join was made to count."""
        result = self.join.push(**batches, **self._order)
        if not self._listed:
            return int(result.count)
        return len(next(iter(getattr(result, self._numbers)().values())))

    def store(self, batches: Push) -> None:
        """Push without listing the results."""
        self.join.push(**batches, **self._order)

    def state_bytes(self) -> int:
        """Bytes of all streams' rows and indexes."""
        return _bytes(self.join)


class PrintedParallelMJ(Multiway):
    """Parallel-MJ as the thesis prints it: every window is split over the cores, and what lies on different ones is not found."""

    name = "parallel_mj as printed"

    def __init__(self, work: MultiwayWorkload, cores: int) -> None:
        from watersmeet.flow.catalog import FANOUT, QUEUE
        from watersmeet.flow.driver.engine import FlowEngine
        from watersmeet.flow.driver.loading import StepLoading
        from watersmeet.flow.models.multiway.parallel import PrintedParallelMJFlow

        super().__init__(work, cores, flow="parallel_mj")
        self.name = PrintedParallelMJ.name
        core = self.join._engine
        assert isinstance(core, FlowEngine)
        assert isinstance(core.loading, StepLoading)
        core.loading.make_flow = lambda work, model, busiest: PrintedParallelMJFlow(work, QUEUE, FANOUT)


class TwoWayChain:
    """The same join as a chain of our own two-way joins: (s1 with s2) with s3, and so on; every step stores its input.

    An intermediate result is joinable until the first of its rows leaves its window, which no window of two-way joins can say. It
    can where all pushes bring blocks of the same sizes: then the last W rows are the last W / size blocks, and ``Range`` over the
    number of the block is the same as ``Rows``. An intermediate result has the time of its newest row, and ``until`` is a condition.
    """

    name = "two-way chain"

    def __init__(self, work: MultiwayWorkload, batch: int, cores: int = 1) -> None:
        from watersmeet.api.stream_join import StreamJoin
        from watersmeet.streams.window import Range

        streams, sizes = work.streams, work.sizes(batch)
        uneven = [size for size in sizes.values() if work.window % size]
        if uneven:
            raise ValueError(f"the window of {work.window} rows must be whole blocks; got blocks of {uneven}")
        lasts = {name: work.window // sizes[name] * len(streams) - 1 for name in streams}
        self._streams, self.joins = streams, []
        self._begun = [True] + [False] * (len(streams) - 2)  # which steps have had an intermediate result
        for place in range(1, len(streams)):
            left, right = streams[:place], streams[place]
            self.joins.append(
                StreamJoin(
                    _step_condition(work, left, right),
                    l=Range(max(lasts[name] for name in left), time="t"),
                    r=Range(lasts[right], time="t"),
                    select=_step_select(work, left, right, lasts),
                    cores=cores,
                )
            )

    def push(self, batches: Push) -> int:
        """Block by block through all steps; the last one's rows are gathered."""
        total = 0
        for stream, batch in batches.items():
            place = self._streams.index(stream)
            first = max(place - 1, 0)
            rows = self.joins[first].push(**{"l" if place == 0 else "r": batch}).to_arrow()
            for step in range(first + 1, len(self.joins)):
                if not rows.num_rows:
                    break
                self._begun[step] = True
                rows = self.joins[step].push(l=rows).to_arrow()
            else:
                total += rows.num_rows
        self._move_on(next(reversed(batches.values())))
        return total

    store = push

    def _move_on(self, newest: pa.RecordBatch) -> None:
        """Steps that got no intermediate results must learn what time it is, or nothing would leave their windows."""
        now = newest.column("t")[-1].as_py()
        for begun, join in zip(self._begun[1:], self.joins[1:], strict=True):
            if begun:
                join.advance(l=now)

    def state_bytes(self) -> int:
        """Bytes of all steps' rows and indexes."""
        return sum(_bytes(join) for join in self.joins)


def _step_condition(work: MultiwayWorkload, left: tuple[str, ...], right: str) -> str:
    first = len(left) == 1
    links = [(other, ours, theirs) for other, ours, theirs in work.linked(right) if other in left]
    texts = [f"{_place(other, theirs, right, first)} = r.{ours}" for other, ours, theirs in links]
    return " AND ".join(texts if first else [*texts, "r.t <= l.until"])


def _step_select(work: MultiwayWorkload, left: tuple[str, ...], right: str, lasts: dict[str, int]) -> str:
    """Arrival numbers so far, the keys that later steps read, the time of the newest row, and how long all of them last."""
    first = len(left) == 1
    after = work.streams[len(left) + 1 :]
    read = [(other, theirs) for name in after for other, _, theirs in work.linked(name)]
    names = [(name, column) for name in (*left, right) for column in (*work.columns(name), "v")]
    kept = [
        f"{_place(name, column, right, first)} AS {name}_{column}"
        for name, column in names
        if column == "v" or (name, column) in read
    ]
    until = f"l.t + {lasts[left[0]]}" if first else "l.until"
    return ", ".join([*kept, "GREATEST(l.t, r.t) AS t", f"LEAST({until}, r.t + {lasts[right]}) AS until"])


def _place(stream: str, column: str, right: str, first: bool) -> str:
    """Where a step finds a stream's column: on its right, or in the intermediate result on its left."""
    if stream == right:
        return f"r.{column}"
    return f"l.{column}" if first else f"l.{stream}_{column}"


class _BatchPeer:
    """A query engine that joins each stream's batch with all other windows, stream by stream."""

    name = ""

    def __init__(self, work: MultiwayWorkload) -> None:
        self._work = work
        self._windows = {name: SlidingTable(work.window, work.columns(name)) for name in work.streams}

    def push(self, batches: Push) -> int:
        """Join each batch with the other windows, then store it."""
        total = 0
        for stream, batch in batches.items():
            rows = self._windows[stream].numbered(batch)
            others = {name: held.table for name, held in self._windows.items() if name != stream}
            if all(table is not None for table in others.values()):
                total += self._join(stream, rows, others)
            self._windows[stream].add(rows)
        return total

    def _join(self, stream: str, probes: pa.Table, others: dict[str, pa.Table]) -> int:
        raise NotImplementedError

    def store(self, batches: Push) -> None:
        """Keep the rows without joining: how windows are filled."""
        for stream, batch in batches.items():
            self._windows[stream].add(self._windows[stream].numbered(batch))

    def state_bytes(self) -> int:
        """Bytes of the windows."""
        return sum(held.table.nbytes for held in self._windows.values() if held.table is not None)


class MultiwayDuckDB(_BatchPeer):
    """DuckDB: one SQL query a block over registered Arrow tables; the order of joins is its own."""

    name = "DuckDB"

    def __init__(self, work: MultiwayWorkload, cores: int = 1, give_up: float = 30.0) -> None:
        super().__init__(work)
        self._database = Database(cores, give_up)
        numbers = ", ".join(f"{name}.id AS {name}" for name in work.streams)
        self._query = f"SELECT {numbers} FROM {', '.join(work.streams)} WHERE {work.condition}"

    def _join(self, stream: str, probes: pa.Table, others: dict[str, pa.Table]) -> int:
        return self._database.rows(self._query, {stream: probes, **others})


class MultiwayPolars(_BatchPeer):
    """Polars: ``join`` after ``join`` along the links, from the batch outwards."""

    name = "Polars"

    def __init__(self, work: MultiwayWorkload, cores: int = 1) -> None:
        # Polars uses all cores, or POLARS_MAX_THREADS, which it reads once, when it is imported.
        super().__init__(work)
        self._pl: Any = peer_module("polars")

    def _join(self, stream: str, probes: pa.Table, others: dict[str, pa.Table]) -> int:
        frame, joined = self._frame(stream, probes), [stream]
        for at in joined:  # it grows while we go
            for other, ours, theirs in self._work.linked(at):
                if other not in joined:
                    keys = {"left_on": f"{at}.{ours}", "right_on": f"{other}.{theirs}"}
                    frame = frame.join(self._frame(other, others[other]), **keys, coalesce=False)
                    joined.append(other)
        return int(frame.select([f"{name}.id" for name in self._work.streams]).height)

    def _frame(self, stream: str, rows: pa.Table) -> Any:
        return self._pl.from_arrow(rows.rename_columns([f"{stream}.{name}" for name in rows.column_names]))


PEERS: dict[str, Callable[..., MultiwayDuckDB | MultiwayPolars]] = {
    "DuckDB": MultiwayDuckDB,
    "Polars": MultiwayPolars,
}


def _bytes(join: Any) -> int:
    return int(sum(stream["bytes"] for stream in join.stats()["streams"].values()))
