"""What a push found, as numbers: pairs of arrival numbers, counts, or ranges over sorted runs. Payload is gathered later, if at all."""

from dataclasses import dataclass, field, replace

import numpy as np

NOBODY = -1
_EMPTY = np.empty(0, np.int64)


@dataclass(slots=True)
class RangeRecords:
    """For each probing row of ``side``: its matches are ``run[start:end]``, arrival numbers of the other stream."""

    side: int
    probe: np.ndarray
    start: np.ndarray
    end: np.ndarray
    rows: np.ndarray  # offsets in key order; run = base + rows
    base: int
    scattered: np.ndarray | None = None  # arrival numbers by offset, where they do not follow on one another

    @property
    def count(self) -> int:
        return int((self.end - self.start).sum(dtype=np.int64))

    def arrivals(self) -> np.ndarray:
        """The run: arrival numbers in key order."""
        if self.scattered is not None:
            return self.scattered[self.rows]
        return self.rows.astype(np.int64) + self.base

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(left, right) arrival numbers, written out."""
        lengths = (self.end - self.start).astype(np.int64)
        probes = np.repeat(self.probe, lengths)
        before = np.cumsum(lengths) - lengths
        places = np.arange(probes.size) - np.repeat(before - self.start, lengths)
        stored = self.arrivals()[places]
        return (probes, stored) if self.side == 0 else (stored, probes)

    def first(self, limit: int) -> "RangeRecords":
        """The records of the first ``limit`` pairs: a few more may be in it, however many pairs there are."""
        lengths = np.minimum(self.end - self.start, limit)
        upto = int(np.searchsorted(np.cumsum(lengths, dtype=np.int64), limit)) + 1
        end = (self.start + lengths)[:upto]
        return replace(self, probe=self.probe[:upto], start=self.start[:upto], end=end)


@dataclass(slots=True)
class Matches:
    """The results of one push. Tasks on several threads add to it: a list's append is atomic."""

    pairs: list[tuple[np.ndarray, ...]] = field(default_factory=list)  # arrival numbers, a column a stream
    ranges: list[RangeRecords] = field(default_factory=list)  # of two streams
    counts: list[int] = field(default_factory=list)  # matches that were only counted
    streams: int = 2

    def add_all(self, other: "Matches") -> None:
        """What was found elsewhere comes after what is here."""
        self.pairs += other.pairs
        self.ranges += other.ranges
        self.counts += other.counts

    def add(self, side: int, probes: np.ndarray, stored: np.ndarray) -> None:
        self.pairs.append((probes, stored) if side == 0 else (stored, probes))

    @property
    def count(self) -> int:
        found = sum(self.counts)
        for columns in self.pairs:
            found += columns[0].size
        for records in self.ranges:
            found += records.count
        return found

    def columns(self) -> tuple[np.ndarray, ...]:
        """All results as a column a stream."""
        parts = self.pairs + [records.pairs() for records in self.ranges]
        if not parts:
            return (_EMPTY,) * self.streams
        if len(parts) == 1:
            return parts[0]
        return tuple(np.concatenate([part[k] for part in parts]) for k in range(self.streams))

    def first(self, limit: int) -> tuple[np.ndarray, ...]:
        """The first ``limit`` rows of ``columns()``; what lies behind them is not written out."""
        few, found = Matches(streams=self.streams), 0
        for columns in self.pairs:
            few.pairs.append(tuple(column[: limit - found] for column in columns))
            found += few.pairs[-1][0].size
        for records in self.ranges:
            if found < limit:
                few.ranges.append(records.first(limit - found))
                found += few.ranges[-1].count
        return tuple(column[:limit] for column in few.columns())
