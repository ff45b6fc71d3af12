"""Counts, sums and averages over a join from ranges, without listing its pairs.

Of an inner join of two streams whose condition is decided by keys alone the engine gives, for each probing row and sub-window, the range
[start, end) of a sorted run that the row matches. COUNT, SUM and AVG need no more, where each argument is of one of the streams and all
group columns are of one, the *grouped* stream. Both streams probe:

- A row of the grouped stream probes: its group gets end - start rows; of its own arguments each end - start times; of the other stream's
  arguments the difference of two running sums in the order of the run. Running sums of a sealed run are kept: O(probes), and O(run) for
  runs that have changed.
- A row of the other stream probes, and rows of the grouped one are stored: how many ranges cover a position of the run is the running sum
  of +1 at their starts and -1 at their ends, and so is what the probing rows' arguments amount to there. O(probes + run).

Without group columns each probing row is grouped, by nothing. All amounts are exact (``aggregate/amounts.py``), so the answer is, bit for
bit, that of the pairs; so is the order of groups, which is that of their first pairs: worked out when there are new ones. A run of which
fewer pairs are needed than it has rows is listed: going over it would cost more. So is what the engine gives as pairs: what lies
in insertion buffers, and rows that only some of the probing ones may see.

Group columns and arguments are evaluated a chunk of stored rows at a time, also for rows without a partner: no value makes that fail.
Chunks and runs are immutable, so nothing here is state: what is kept is looked up by identity.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.aggregation import Folded
from watersmeet.aggregate.amounts import Amounts, Numbers, Span, room_for, suffice, summed
from watersmeet.aggregate.numbering import numbered
from watersmeet.aggregate.rows import ALL
from watersmeet.join.matches import RangeRecords
from watersmeet.kernels.groups import count_many
from watersmeet.kernels.ranges import NOWHERE, cover, cover_first, note_first
from watersmeet.query.block import Turn
from watersmeet.query.delta import Delta, Part
from watersmeet.query.instruction import Groups, Join, Project
from watersmeet.sql.select import BoundSelect
from watersmeet.sql.tree import Expr, columns_of
from watersmeet.streams.payload import Chunks

WORTH = 8  # a pair that is listed, gathered and added costs as much as going over so many rows of a run: 370 ns for 20 to 40

Found = tuple[Folded, pa.RecordBatch, Callable[[], np.ndarray]]  # what ``Aggregation.add_folded`` takes


@dataclass(frozen=True)
class Sides:
    """Which stream of a join (0 or 1) the group columns and each argument are of. ``grouped`` None: there are no group columns."""

    grouped: int | None
    columns: Mapping[str, int]  # by name: keys and arguments


def sides_of(plan: Groups) -> Sides | None:
    """None: pairs must be listed."""
    rows = plan.input
    if plan.sliding is not None or not isinstance(rows, Project) or not isinstance(rows.input, Join):
        return None
    join, grouping = rows.input, plan.grouping
    if join.how != "inner" or len(set(join.streams)) != 2 or len(join.leaves) != 2 or not suffice(grouping):
        return None
    exprs = dict(zip(rows.names, rows.exprs, strict=True))
    keyed = {leaf for key in grouping.keys for leaf in _leaves(exprs[key])}
    if len(keyed) > 1 or any(len(_leaves(expr)) > 1 for expr in exprs.values()):
        return None
    grouped = join.leaves.index(keyed.pop()) if keyed else 0 if grouping.keys else None
    columns = {}
    for name in grouping.columns:
        leaves = _leaves(exprs[name])
        columns[name] = join.leaves.index(leaves.pop()) if leaves else grouped or 0
    return Sides(grouped, columns)


def _leaves(expr: Expr) -> set[str]:
    return {column.stream for column in columns_of(expr)}


@dataclass(frozen=True)
class Read:
    """A chunk of rows as far as it is needed: arguments; numbers of groups among themselves, and the groups."""

    batch: pa.RecordBatch
    numbers: Mapping[str, Numbers]
    ids: np.ndarray
    keys: pa.RecordBatch


@dataclass(frozen=True)
class Stretch:
    """Rows of a stream from an arrival number on: arguments, and slots of their groups."""

    first: int
    numbers: Mapping[str, Numbers]
    slots: np.ndarray


class Side:
    """The stored rows of one stream, read once."""

    def __init__(
        self, select: BoundSelect, leaf: str, keys: Sequence[str], summed: Mapping[str, bool]
    ) -> None:
        self._select, self._leaf, self._keys = select, leaf, list(keys)
        self.arguments = {name: summed[name] for name in select.schema.names if name in summed}
        self._reads: dict[int, Read] = {}
        self._running: dict[int, tuple[np.ndarray, dict[str, tuple[Amounts, Span]]]] = {}  # by first row

    def forget(self, chunks: Chunks) -> None:
        """What belongs to rows that are not stored any more."""
        oldest = chunks.firsts[0] if chunks.firsts else 0
        self._reads = {first: read for first, read in self._reads.items() if first >= oldest}
        self._running = {base: one for base, one in self._running.items() if base >= oldest}

    def chunks_of(self, chunks: Chunks, first: int, stop: int) -> Iterator[tuple[int, Read]]:
        """The chunks in which rows [first, stop) are, and the numbers of their first rows."""
        low, high = bisect_right(chunks.firsts, first) - 1, bisect_right(chunks.firsts, stop - 1)
        for number, batch in zip(chunks.firsts[low:high], chunks.batches[low:high], strict=True):
            read = self._reads.get(number)
            if read is None or read.batch is not batch:
                read = self._reads[number] = self._read(batch)
            yield number, read

    def _read(self, batch: pa.RecordBatch) -> Read:
        names = self._select.columns.get(self._leaf, ())
        columns = {(self._leaf, name): batch.column(name) for name in names}
        rows = self._select.evaluate(columns, batch.num_rows)
        numbers = {name: Numbers.of(rows.column(name), some) for name, some in self.arguments.items()}
        ids, keys = np.empty(0, np.int64), rows.select([])
        if self._keys:
            ids = numbered(rows, self._keys)
            keys = rows.select(self._keys).take(pa.array(np.unique(ids, return_index=True)[1]))
        return Read(batch, numbers, ids, keys)

    def numbers(self, chunks: Chunks, first: int, stop: int) -> dict[str, Numbers]:
        """The arguments of rows [first, stop)."""
        if not self.arguments:
            return {}
        reads = [
            (read, slice(max(first - number, 0), stop - number))
            for number, read in self.chunks_of(chunks, first, stop)
        ]
        return {
            name: Numbers.joined([read.numbers[name].take(some) for read, some in reads])
            for name in self.arguments
        }

    def has_running(self, records: RangeRecords) -> bool:
        """Whether running sums over a run need not be made."""
        kept = self._running.get(records.base)
        return not self.arguments or (kept is not None and kept[0] is records.rows)

    def running(self, chunks: Chunks, records: RangeRecords) -> dict[str, tuple[Amounts, Span]]:
        """Running sums of the arguments in the order of a run."""
        if not self.arguments:
            return {}
        kept = self._running.get(records.base)
        if kept is None or kept[0] is not records.rows:
            stop = records.base + int(records.rows.max()) + 1
            numbers = self.numbers(chunks, records.base, stop)
            sums = {name: (one.running(records.rows), one.span) for name, one in numbers.items()}
            kept = self._running[records.base] = (records.rows, sums)
        return kept[1]


class FromRanges:
    """The rows of a join's push, folded by groups. What it keeps is found again by identity: none of it is state."""

    def __init__(self, plan: Groups, sides: Sides, schemas: Mapping[str, pa.Schema]) -> None:
        """``schemas``: by leaf."""
        rows = plan.input
        assert isinstance(rows, Project)
        self._grouped, self._keys = sides.grouped, plan.grouping.keys
        self._summed = summed(plan.grouping)
        exprs = dict(zip(rows.names, rows.exprs, strict=True))
        self._sides = []
        for k, leaf in enumerate(rows.leaves):
            items = [(name, exprs[name]) for name, side in sides.columns.items() if side == k]
            keys = self._keys if k == sides.grouped else ()
            self._sides.append(Side(BoundSelect(items, schemas), leaf, keys, self._summed))

    def folded(self, turn: Turn, delta: Delta) -> Found | None:
        """A push, for ``Aggregation.add_folded``; None: its pairs are to be listed."""
        (part,) = delta.parts
        if not part.matches.ranges:
            return None
        some, others = self._chosen(part.matches.ranges)
        if not some:
            return None
        for side, chunks in zip(self._sides, part.chunks, strict=True):
            if chunks is not None:
                side.forget(chunks)
        return _Folding(self._sides, self._grouped, self._summed, turn, part, some).folded(others)

    def _chosen(self, ranges: Sequence[RangeRecords]) -> tuple[list[RangeRecords], list[RangeRecords]]:
        """Those that are folded, and those that are listed."""
        some: list[RangeRecords] = []
        others: list[RangeRecords] = []
        ordered = sorted(ranges, key=lambda records: (records.side, id(records.rows)))
        for (side, _), of_run in groupby(ordered, key=lambda records: (records.side, id(records.rows))):
            mine = list(of_run)
            by_probe = self._grouped is None or self._grouped == side
            free = by_probe and self._sides[1 - side].has_running(mine[0])
            pairs = sum(records.count for records in mine)
            (some if free or WORTH * pairs > mine[0].rows.size else others).extend(mine)
        return some, others


class _Folding:
    """One push on its way from ranges to groups."""

    def __init__(
        self,
        sides: Sequence[Side],
        grouped: int | None,
        summed: Mapping[str, bool],
        turn: Turn,
        part: Part,
        ranges: Sequence[RangeRecords],
    ) -> None:
        self._sides, self._grouped, self._summed = sides, grouped, summed
        self._turn, self._part, self._ranges = turn, part, ranges
        self._reads: list[Read] = []
        self._slots: dict[int, int] = {}  # by the first number of a chunk of grouped rows: its first slot
        self._size = 0 if grouped is not None else 1

    def folded(self, others: Sequence[RangeRecords]) -> Found:
        works = [self._work(records) for records in self._ranges]
        counts = np.zeros(self._size, np.int64)
        amounts = {
            name: room_for([span for work in works for span in work.spans(name)], self._size)
            for name in self._summed
        }
        for work in works:
            work.add(counts, amounts)
        there = counts > 0
        if self._grouped is None:
            keys = pa.RecordBatch.from_struct_array(pa.nulls(1, pa.struct([])))
            there[:] = True
        else:
            keys = pa.concat_batches([read.keys for read in self._reads]).filter(pa.array(there))
        pairs = self._listed(others)
        listed = self._part.rows(self._part.chunks, pairs)
        kept = {name: one.of(there) for name, one in amounts.items()}
        return Folded(keys, counts[there], kept), listed, lambda: self._sequence(works, there, pairs)

    def _listed(self, others: Sequence[RangeRecords]) -> tuple[np.ndarray, ...]:
        parts = [*self._part.matches.pairs, *(records.pairs() for records in others)]
        parts = parts or [(np.empty(0, np.int64),) * 2]
        return tuple(np.concatenate([part[k] for part in parts]) for k in range(2))

    # ---- rows ---------------------------------------------------------------------------------------------------

    def _chunks(self, k: int) -> Chunks:
        chunks = self._part.chunks[k]
        assert chunks is not None
        return chunks

    def _stretch(self, k: int, first: int, stop: int) -> Stretch:
        """Rows [first, stop) of stream k."""
        side, chunks, slots = self._sides[k], self._chunks(k), np.empty(0, np.int64)
        if k == self._grouped:
            pieces = []
            for number, read in side.chunks_of(chunks, first, stop):
                if number not in self._slots:
                    self._slots[number] = self._size
                    self._size += read.keys.num_rows
                    self._reads.append(read)
                pieces.append(read.ids[max(first - number, 0) : stop - number] + self._slots[number])
            slots = np.concatenate(pieces)
        return Stretch(first, side.numbers(chunks, first, stop), slots)

    def _work(self, records: RangeRecords) -> _ByProbe | _ByStored:
        side, probe = records.side, records.probe
        first = int(probe.min())
        probing = self._stretch(side, first, int(probe.max()) + 1)
        rows = probe - first
        numbers = {name: one.take(rows) for name, one in probing.numbers.items()}
        if self._grouped is None or self._grouped == side:
            slots = np.zeros(rows.size, np.int64) if self._grouped is None else probing.slots[rows]
            running = self._sides[1 - side].running(self._chunks(1 - side), records)
            return _ByProbe(records, slots, numbers, running)
        stored = self._stretch(1 - side, records.base, records.base + int(records.rows.max()) + 1)
        own = {name: one.take(records.rows) for name, one in stored.numbers.items()}
        return _ByStored(records, stored.slots[records.rows], numbers, own)

    # ---- the order of new groups ---------------------------------------------------------------------------------

    def _sequence(
        self, works: Sequence[_ByProbe | _ByStored], there: np.ndarray, pairs: tuple[np.ndarray, ...]
    ) -> np.ndarray:
        """Groups, then listed pairs, by the arrival that has caused their first pair; of one arrival by the number of the grouped row."""
        places, numbers = np.full(self._size, NOWHERE), np.full(self._size, NOWHERE)
        for work in works:
            work.note_first(self._places(work.records.side, work.records.probe), places, numbers)
        caused = np.maximum(*(self._places(k, pairs[k]) for k in range(2)))
        by_number = np.concatenate((numbers[there], pairs[self._grouped or 0]))
        return np.lexsort((by_number, np.concatenate((places[there], caused))))

    def _places(self, k: int, numbers: np.ndarray) -> np.ndarray:
        """The places of rows among those that have arrived; -1: before."""
        stream, found = self._part.streams[k], np.full(numbers.size, -1)
        arrived = self._turn.arrived(stream)
        if arrived is not None:
            fresh = numbers >= arrived[1]
            found[fresh] = self._turn.places(stream)[numbers[fresh] - arrived[1]]
        return found


@dataclass(frozen=True)
class _ByProbe:
    """Rows of the grouped stream probe."""

    records: RangeRecords
    slots: np.ndarray  # of the probing rows
    numbers: Mapping[str, Numbers]  # their arguments
    running: Mapping[str, tuple[Amounts, Span]]  # of the stored rows

    def spans(self, name: str) -> list[Span]:
        return [self.numbers[name].span if name in self.numbers else self.running[name][1]]

    def add(self, counts: np.ndarray, amounts: Mapping[str, Amounts]) -> None:
        records = self.records
        times = (records.end - records.start).astype(np.int64)
        count_many(self.slots, ALL, times, counts)
        for name, out in amounts.items():
            if name in self.numbers:
                self.numbers[name].add_times(self.slots, times, out)
            else:
                out.add_spans(self.running[name][0], records.start, records.end, self.slots)

    def note_first(self, places: np.ndarray, first_places: np.ndarray, first_numbers: np.ndarray) -> None:
        note_first(self.slots, places, self.records.probe, first_places, first_numbers)


@dataclass(frozen=True)
class _ByStored:
    """Rows of the other stream probe those of the grouped one."""

    records: RangeRecords
    slots: np.ndarray  # of the stored rows, in the order of the run
    numbers: Mapping[str, Numbers]  # arguments of the probing rows
    own: Mapping[str, Numbers]  # of the stored rows, in the order of the run

    def spans(self, name: str) -> list[Span]:
        return [(self.numbers if name in self.numbers else self.own)[name].span]

    def add(self, counts: np.ndarray, amounts: Mapping[str, Amounts]) -> None:
        start, end, size = self.records.start, self.records.end, self.slots.size
        times = np.zeros(size + 1, np.int64)
        cover(start, end, times)
        count_many(self.slots, ALL, times, counts)
        for name, out in amounts.items():
            if name in self.own:
                self.own[name].add_times(self.slots, times, out)
            else:
                sums = self.numbers[name].amounts(size + 1)
                self.numbers[name].add(start, sums)
                self.numbers[name].add(end, sums, -1)
                sums.run_up()
                out.add(sums, self.slots)

    def note_first(self, places: np.ndarray, first_places: np.ndarray, first_numbers: np.ndarray) -> None:
        records, who = self.records, np.full(self.slots.size, -1)
        beyond = np.arange(self.slots.size + 1)
        cover_first(np.argsort(places), records.start, records.end, beyond, who)
        covered = who >= 0
        numbers = records.arrivals()[covered]
        note_first(self.slots[covered], places[who[covered]], numbers, first_places, first_numbers)
