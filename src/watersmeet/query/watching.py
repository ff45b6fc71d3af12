"""Looking at a processor while it runs, from another thread: what its queries gave last, and what a join has found.

Whoever pushes only notes references; rows are gathered when somebody looks, and only of what is looked at. So watching costs a push next
to nothing, however many queries there are. What is shown of a join is a sample, and says so.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.api.result import Result
from watersmeet.query.block import JoinBlock
from watersmeet.query.delta import Part
from watersmeet.query.processor import Processor
from watersmeet.query.running import Results
from watersmeet.sql.condition import Band
from watersmeet.sql.evaluate import evaluate
from watersmeet.sql.tree import Column, Expr, columns_of
from watersmeet.streams.clock import TimeAxis

POINTS, PAIRS = 160, 120  # most of a stream, and of what was found, in a picture
Axis = tuple[str, Mapping[str, tuple[Expr, ...]]]  # its name; by leaf, one expression, or two: an interval


class Watching:
    """A processor that is looked at. ``close`` ends it."""

    def __init__(self, processor: Processor) -> None:
        self.processor = processor
        self._latest: Results | None = None
        self._last: dict[str, Result] = {}
        self._queries: frozenset[str] = frozenset()
        self._found: dict[str, Part] = {}  # by id of a join, what it has found last
        self._seen: dict[str, JoinBlock] = {}
        self._end = processor.watch(self._note)

    def _note(self, results: Results) -> None:
        self._latest = results
        for name in self._queries:
            result = results.get(name)
            if result is not None and result.count:
                self._last[name] = result

    def look_at(self, queries: Collection[str], blocks: Collection[str]) -> None:
        """From now on these are looked at, and no others."""
        self._queries = frozenset(queries)
        for name in self._last.keys() - self._queries:
            del self._last[name]
        with self.processor._lock:
            joins = {str(block.number): block for block in self.processor._running.graph.blocks.values()}
            wanted = {one: block for one in blocks if isinstance(block := joins.get(one), JoinBlock)}
            for one, block in self._seen.items():
                if wanted.get(one) is not block:
                    block.seen = None
                    self._found.pop(one, None)
            for one, block in wanted.items():
                block.seen = lambda part, one=one: self._found.__setitem__(one, part)
            self._seen = wanted

    @property
    def revision(self) -> tuple[object, ...]:
        """What the plan follows from: another revision is another plan."""
        running = self.processor._running
        return (
            running.entries,
            running.graph.blocks,
            running.feed.known,
            self.processor._finished,
            self.processor._closed,
        )

    def last_result(self, query: str) -> Result | None:
        """What a query gave last that was not empty, since it is looked at."""
        found = self._last.get(query)
        if found is None and self._latest is not None:
            found = self._latest.get(query)
        return found

    def picture(self, block: str) -> dict[str, Any] | None:
        """A sample of the rows that a join has met, and of the pairs that it has found, as numbers to draw; None: nothing can be drawn."""
        join, part = self._seen.get(block), self._found.get(block)
        return None if join is None or part is None else drawn(join, part)

    def close(self) -> None:
        """Look no more."""
        self._end()
        self.look_at((), ())
        self._latest = None


def first_rows(result: Result, most: int) -> pa.RecordBatch:
    """The first rows of a result; what lies behind them is not gathered."""
    found = result._first_rows(most)
    return found if isinstance(found, pa.RecordBatch) else pa.RecordBatch.from_pylist([])


# ---- a picture of a join --------------------------------------------------------------------------------------------


def drawn(join: JoinBlock, part: Part) -> dict[str, Any] | None:
    """Points of two streams in a plane, and pairs between them. One band: time, or arrival, lies across; two: both bands' keys."""
    if len(join.leaves) != 2:
        return None
    axes = axes_of(join)
    if axes is None:
        return None
    found = part.matches.count
    numbers = _sampled(part, found)
    sides, places = [], []
    for k, leaf in enumerate(join.leaves):
        mine = np.unique(np.concatenate([numbers[k][numbers[k] >= 0], _newest(part, k)]))
        sides.append(_points(part, k, leaf, mine, axes, join.axis))
        places.append({int(number): at for at, number in enumerate(mine.tolist())})
    pairs = [
        [places[0][left], places[1][right]]
        for left, right in zip(numbers[0].tolist(), numbers[1].tolist(), strict=True)
        if left >= 0 and right >= 0
    ]
    return {
        "axes": [axes[0][0], axes[1][0]],
        "sides": [{"name": leaf, "points": points} for leaf, points in zip(join.leaves, sides, strict=True)],
        "pairs": pairs,
        "found": found,
    }


def axes_of(join: JoinBlock) -> tuple[Axis, Axis] | None:
    """What lies across, and what upward; None: no band's keys are numbers."""
    bands = [band for band in join.condition.bands if _is_number(band.left) and _is_number(band.right)]
    bands = [band for band in bands if not band.equality] or bands
    axes = _merged(bands)
    if not axes:
        return None
    time = "time" if join.axis is not None and all(window.time for _, window in join.windows) else "arrival"
    return (axes[0], axes[1]) if len(axes) > 1 else ((time, {}), axes[0])


def _merged(bands: list[Band]) -> list[Axis]:
    """An axis a band; two bands with one key in common (``price BETWEEN bid AND ask``) are one axis, of a key and an interval."""
    found: list[Axis] = []
    left = list(bands)
    while left:
        band = left.pop(0)
        sides: dict[str, tuple[Expr, ...]] = {band.streams[0]: (band.left,), band.streams[1]: (band.right,)}
        for second in left:
            for k in (0, 1):
                mine, its = (band.left, band.right)[k], (second.left, second.right)[k]
                if band.streams == second.streams and str(mine) == str(its):
                    sides[band.streams[1 - k]] = (
                        sides[band.streams[1 - k]][0],
                        (second.left, second.right)[1 - k],
                    )
                    left.remove(second)
                    break
            else:
                continue
            break
        names = [expr for several in sides.values() for expr in several]
        found.append((" · ".join(dict.fromkeys(str(expr) for expr in names)), sides))
    return found


def _is_number(expr: Expr) -> bool:
    kind = expr.type
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_temporal(kind)
    )


def _sampled(part: Part, found: int) -> tuple[np.ndarray, ...]:
    """Some of what was found, evenly; of very much, the first."""
    if found > 200_000:
        return part.matches.first(PAIRS)
    columns = part.matches.columns()
    if found <= PAIRS:
        return columns
    places = np.linspace(0, found - 1, PAIRS).astype(np.int64)
    return tuple(column[places] for column in columns)


def _newest(part: Part, k: int) -> np.ndarray:
    """Numbers of some rows of a stream that came last."""
    chunks = part.chunks[k]
    if chunks is None or not chunks.batches:
        return np.empty(0, np.int64)
    rows, first = chunks.batches[-1].num_rows, chunks.firsts[-1]
    return first + np.unique(
        np.linspace(max(0, rows - 8 * POINTS), rows - 1, min(rows, POINTS)).astype(np.int64)
    )


def _points(
    part: Part, k: int, leaf: str, numbers: np.ndarray, axes: tuple[Axis, Axis], axis: TimeAxis | None
) -> list[list[float | None]]:
    """Of each row: across, upward, and where it is an interval, its other end."""
    columns: list[list[float | None]] = []
    for name, sides in axes:
        if name == "time" and not sides:
            assert axis is not None
            column = axis.columns[k]
            assert column is not None
            columns.append(
                _numbers(part, k, numbers, Column(part.schemas[k].field(column).type, leaf, column))
            )
        elif not sides:
            columns.append([float(number) for number in numbers.tolist()])
        else:
            columns += [_numbers(part, k, numbers, expr) for expr in sides[leaf]]
    return [list(point) for point in zip(*columns, strict=True)]


def _numbers(part: Part, k: int, numbers: np.ndarray, expr: Expr) -> list[float | None]:
    others = [np.full(numbers.size, -1) for _ in part.leaves]
    others[k] = numbers
    values = evaluate(expr, part.columns(columns_of(expr), others), numbers.size)
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return [None if value is None else float(value) for value in values.to_pylist()]
