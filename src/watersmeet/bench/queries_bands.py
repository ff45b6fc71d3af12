"""Count and sum over a band join, over its selectivity: ours, listing the pairs, Polars, and pyjanitor where it is installed.

What stays true: every joiner gives both numbers of a push, over exactly the same pairs; a recount has them from prefix sums.
Peers join a batch with the opposite window, which they are given as the frame that they read fastest.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.bench.measure import Point, fill
from watersmeet.bench.peers import MOST_CHUNKS, peer_module
from watersmeet.bench.queries_plan import QueriesCase, QueriesOutcome, QueriesPlan, timed
from watersmeet.query.processor import Processor
from watersmeet.streams.window import Rows
from watersmeet.workloads.catalog import Workload, workload
from watersmeet.workloads.feed import STREAMS, Feed, Push

AGGREGATE, LISTING = "ours", "listing the pairs"


class BandSums:
    """What all have in common: the numbers of the newest push, and their check."""

    name = ""

    def __init__(self, work: Workload) -> None:
        self.work = work
        self.found = (0, 0)  # pairs of the newest push, and the sum of their s.v

    def agrees(self, feed: Feed, batch: int) -> bool:
        """Whether one more push gives the recounted numbers."""
        push = feed.pushes(batch, 1)[0]
        self.push(push)
        return self.found == recount(feed, push)

    def push(self, batches: Push) -> int:
        """Take the batches; return the number of pairs."""
        raise NotImplementedError


class Aggregate(BandSums):
    """The two aggregates as a continuous query: over all pairs so far, so that a push's are a difference."""

    name = AGGREGATE

    def __init__(self, work: Workload, cores: int) -> None:
        super().__init__(work)
        self._processor = _processor(work, cores)
        self._processor.create(
            "sums", f"SELECT COUNT(*) AS n, SUM(s.v) AS total FROM r JOIN s ON {work.condition}"
        )
        self._before = (0, 0)

    def push(self, batches: Push) -> int:
        """Push, and take the answer."""
        answer = self._processor.push(batches)["sums"].to_arrow().to_pylist()[0]
        now = answer["n"], answer["total"] or 0
        self.found = now[0] - self._before[0], now[1] - self._before[1]
        self._before = now
        return self.found[0]

    def store(self, batches: Push) -> None:
        """Push, to fill the windows."""
        self.push(batches)


class Listing(BandSums):
    """The pairs as a continuous query, of which the column is gathered and summed."""

    name = LISTING

    def __init__(self, work: Workload, cores: int) -> None:
        super().__init__(work)
        self._processor = _processor(work, cores)
        self._processor.create("pairs", f"SELECT s.v FROM r JOIN s ON {work.condition}")

    def push(self, batches: Push) -> int:
        """Push, gather and sum."""
        values = self._processor.push(batches)["pairs"].to_arrow().column("v")
        total = sum(int(chunk.to_numpy().sum(dtype=np.int64)) for chunk in values.chunks)
        self.found = len(values), total
        return self.found[0]

    def store(self, batches: Push) -> None:
        """Push without gathering."""
        self._processor.push(batches)


class _Batches(BandSums):
    """A peer that has the windows as Arrow tables."""

    def __init__(self, work: Workload, cores: int) -> None:
        super().__init__(work)
        self._windows: dict[str, pa.Table] = {}

    def push(self, batches: Push) -> int:
        """Each batch with the opposite window, then into its own."""
        n = total = 0
        for stream, batch in batches.items():
            rows, other = pa.Table.from_batches([batch]), "s" if stream == "r" else "r"
            if other in self._windows:
                found = self._sums(stream, rows, self._windows[other])
                n, total = n + found[0], total + found[1]
            self._keep(stream, rows)
        self.found = n, total
        return n

    def store(self, batches: Push) -> None:
        """Into the windows alone."""
        for stream, batch in batches.items():
            self._keep(stream, pa.Table.from_batches([batch]))

    def _keep(self, stream: str, rows: pa.Table) -> None:
        table = pa.concat_tables([self._windows[stream], rows]) if stream in self._windows else rows
        table = table.slice(max(0, table.num_rows - self.work.window))
        self._windows[stream] = table.combine_chunks() if table.column(0).num_chunks > MOST_CHUNKS else table

    def _sums(self, stream: str, probes: pa.Table, stored: pa.Table) -> tuple[int, int]:
        raise NotImplementedError


class PolarsSums(_Batches):
    """Polars: ``join_where`` and both aggregates as one lazy query."""

    name = "Polars"

    def __init__(self, work: Workload, cores: int) -> None:
        super().__init__(work, cores)
        self._pl: Any = peer_module("polars")

    def _sums(self, stream: str, probes: pa.Table, stored: pa.Table) -> tuple[int, int]:
        pl, band = self._pl, self.work.bands[0]
        r, s = (probes, stored) if stream == "r" else (stored, probes)
        left = pl.from_arrow(r).lazy().select(band.left)
        right = (
            pl.from_arrow(s)
            .lazy()
            .with_columns(low=pl.col(band.right) - band.width, high=pl.col(band.right) + band.width)
        )
        pairs = left.join_where(
            right, pl.col(band.left) >= pl.col("low"), pl.col(band.left) <= pl.col("high")
        )
        n, total = pairs.select(pl.len(), pl.col("v").cast(pl.Int64).sum().alias("total")).collect().row(0)
        return int(n), int(total)


class JanitorSums(_Batches):
    """pyjanitor: ``join_agg``, which gives both numbers for each row of r."""

    name = "pyjanitor"

    def __init__(self, work: Workload, cores: int) -> None:
        super().__init__(work, cores)
        peer_module("janitor")  # adds join_agg to pandas' frames

    def _sums(self, stream: str, probes: pa.Table, stored: pa.Table) -> tuple[int, int]:
        band = self.work.bands[0]
        r, s = (probes, stored) if stream == "r" else (stored, probes)
        left: Any = r.select([band.left]).to_pandas()
        right = s.to_pandas()
        right["low"], right["high"] = right[band.right] - band.width, right[band.right] + band.width
        found: Any = left.join_agg(
            right,
            (band.left, "low", ">="),
            (band.left, "high", "<="),
            aggfunc=[("v", "size"), ("v", "sum")],
            return_matched=False,
        )
        return int(found["v", "size"].sum()), int(found["v", "sum"].sum())


def _processor(work: Workload, cores: int) -> Processor:
    schemas = {stream: Feed(work).held(stream).schema for stream in STREAMS}
    return Processor(r=Rows(work.window), s=Rows(work.window), schemas=schemas, cores=cores)


def recount(feed: Feed, push: Push) -> tuple[int, int]:
    """The number of pairs of the newest push, and the sum of their s.v."""
    band, n, total = feed.work.bands[0], 0, 0
    for stream, batch in push.items():
        key, other = (band.left, "s") if stream == "r" else (band.right, "r")
        later = push[other].num_rows if stream == "r" and other in push else 0
        stored = feed.held(other, later)
        theirs = stored.column(band.right if stream == "r" else band.left).to_numpy()
        order = np.argsort(theirs, kind="stable")
        keys = batch.column(key).to_numpy()
        low = np.searchsorted(theirs[order], keys - band.width, "left")
        high = np.searchsorted(theirs[order], keys + band.width, "right")
        n += int((high - low).sum())
        if stream == "r":
            sums = np.concatenate([[0], np.cumsum(stored.column("v").to_numpy()[order].astype(np.int64))])
            total += int((sums[high] - sums[low]).sum())
        else:
            total += int(((high - low) * batch.column("v").to_numpy().astype(np.int64)).sum())
    return n, total


JOINERS: dict[str, Callable[[Workload, int], Any]] = {
    AGGREGATE: Aggregate,
    LISTING: Listing,
    PolarsSums.name: PolarsSums,
    JanitorSums.name: JanitorSums,
}


def band_cases(plan: QueriesPlan) -> Iterator[QueriesCase]:
    """Every selectivity by every joiner."""
    for selectivity in plan.selectivities:
        for joiner in JOINERS:
            whose = "ours" if joiner in (AGGREGATE, LISTING) else "peer"
            yield QueriesCase(
                f"count and sum of a band join, {selectivity:,} matches a row · {joiner}",
                _case(selectivity, joiner),
                whose,
            )


def _case(selectivity: int, joiner: str) -> Any:
    def measure(plan: QueriesPlan, outcome: QueriesOutcome) -> list[Point] | str:
        if joiner == JanitorSums.name and find_spec("janitor") is None:
            reason = "join_agg of pyjanitor, which is not installed (it wants pandas 3, and Spark a pandas before that)"
            outcome.skipped += [] if reason in outcome.skipped else [reason]
            return "not installed"
        work = workload(f"band-{selectivity}", plan.band_window)
        feed, one = Feed(work), JOINERS[joiner](work, plan.cores)
        fill(one, feed)
        budget = plan.budget if joiner == AGGREGATE else plan.peer_budget
        point = replace(timed("bands", one, feed, plan.band_batch, budget, STREAMS), result="count and sum")
        outcome.points.append(point)
        return [point]

    return measure
