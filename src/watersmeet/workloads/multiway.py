"""Workloads of N streams: seeded rows, a condition, windows, how often each stream comes, and how many results to expect.

They are those of the multiway joins in M. Najafi's thesis, 6.5: equi-joins in windows of 2^14 rows, by match probability (the
probability that two rows have the same key) and by origin (which stream the next row belongs to).

What stays true: ``selectivity`` is the mean number of results of an arriving row once all windows are full, and ``count_results``
recounts what a block of one stream finds with NumPy alone: the equalities of a workload form a tree, so counts multiply along it.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError

WINDOW = 1 << 14  # the thesis's
PROBABILITIES = (1e-6, 1e-5, 1e-4, 1e-3)

Rows: TypeAlias = pa.RecordBatch | pa.Table
Push = dict[str, pa.RecordBatch]  # the batches of one push, by stream, in keyword order


@dataclass(frozen=True)
class Equality:
    """Two streams that are joined by the equality of a column of each."""

    left: str
    left_column: str
    right: str
    right_column: str

    @property
    def text(self) -> str:
        """The equality as SQL."""
        return f"{self.left}.{self.left_column} = {self.right}.{self.right_column}"

    def seen_from(self, stream: str) -> tuple[str, str, str]:
        """The other stream, our column and its column."""
        if stream == self.left:
            return self.right, self.left_column, self.right_column
        return self.left, self.right_column, self.left_column


@dataclass(frozen=True)
class MultiwayWorkload:
    """Streams, the equalities between them (a tree), and the share of all rows that each stream brings."""

    name: str
    title: str
    window: int
    probability: float
    equalities: tuple[Equality, ...]
    shares: Mapping[str, float]
    interleaved: bool = (
        False  # each row's stream is drawn; else a push brings the streams one after the other
    )

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams, in the order in which a push brings them."""
        return tuple(self.shares)

    @property
    def condition(self) -> str:
        """The join condition as SQL text."""
        return " AND ".join(equality.text for equality in self.equalities)

    @property
    def keys(self) -> int:
        """How many keys there are; each is as likely as the others."""
        return max(1, round(1 / self.probability))

    @property
    def fan_out(self) -> float:
        """How many rows of a full window match a row of a linked stream."""
        return self.window / self.keys

    @property
    def selectivity(self) -> float:
        """Results of an arriving row, on average."""
        return self.fan_out ** (len(self.shares) - 1)

    def columns(self, stream: str) -> list[str]:
        """The key columns of a stream."""
        found = [equality.left_column for equality in self.equalities if equality.left == stream]
        found += [equality.right_column for equality in self.equalities if equality.right == stream]
        return list(dict.fromkeys(found))

    def linked(self, stream: str) -> list[tuple[str, str, str]]:
        """The streams that ``stream`` is linked to, each with our column and theirs."""
        return [
            equality.seen_from(stream)
            for equality in self.equalities
            if stream in (equality.left, equality.right)
        ]

    def sizes(self, batch: int) -> dict[str, int]:
        """Rows of each stream in a push of ``batch`` rows a stream on average."""
        total = batch * len(self.shares)
        return {stream: max(1, round(total * share)) for stream, share in self.shares.items()}


def names(streams: int) -> tuple[str, ...]:
    """s1, s2, ..."""
    return tuple(f"s{number}" for number in range(1, streams + 1))


def one_key(
    streams: int, probability: float, window: int = WINDOW, shares: Sequence[float] | None = None
) -> MultiwayWorkload:
    """All streams have one key: the thesis's tuples, a key and a value of 32 bits."""
    ends = zip(names(streams), names(streams)[1:], strict=False)
    equalities = tuple(Equality(left, "k", right, "k") for left, right in ends)
    return _workload("one key", streams, probability, window, equalities, shares)


def chain(
    streams: int, probability: float, window: int = WINDOW, shares: Sequence[float] | None = None
) -> MultiwayWorkload:
    """Each stream is linked to the next one by a key of their own."""
    ends = zip(names(streams), names(streams)[1:], strict=False)
    equalities = tuple(Equality(left, "n", right, "p") for left, right in ends)
    return _workload("chain", streams, probability, window, equalities, shares)


def interleaved(work: MultiwayWorkload) -> MultiwayWorkload:
    """The same with rows whose stream is drawn one by one, as in the thesis; column ``t`` is then the order of arrival."""
    if any((equality.left_column, equality.right_column) != ("k", "k") for equality in work.equalities):
        raise OptionError(f"only streams on one key can be recounted interleaved; got {work.title}")
    return replace(
        work, name=f"{work.name}-interleaved", title=f"{work.title}, interleaved", interleaved=True
    )


def steps(streams: int, matches: int, window: int) -> MultiwayWorkload:
    """One key, and ``matches`` rows of each full window for every key."""
    return one_key(streams, matches / window, window)


def _workload(
    kind: str,
    streams: int,
    probability: float,
    window: int,
    equalities: tuple[Equality, ...],
    shares: Sequence[float] | None,
) -> MultiwayWorkload:
    if streams < 2:
        raise OptionError(f"a multiway workload must have at least two streams; got {streams}")
    if not 0 < probability <= 1:
        raise OptionError(f"the match probability must be greater than 0 and at most 1; got {probability!r}")
    if shares is not None and (len(shares) != streams or not math.isclose(sum(shares), 1.0)):
        raise OptionError(f"shares must be {streams} numbers with the sum 1; got {list(shares)}")
    even = shares is None or all(math.isclose(share, 1 / streams) for share in shares)
    shown = shares if shares is not None else [1 / streams] * streams
    origin = "" if even else f", origins {' '.join(f'{share:.0%}' for share in shown)}"
    title = f"{streams}-way, {kind}, match probability {probability:.2g}{origin}"
    name = f"{streams}-{kind.replace(' ', '-')}-{probability:.2g}" + (
        "" if even else "-" + "-".join(f"{100 * share:.0f}" for share in shown)
    )
    given = dict(zip(names(streams), shown, strict=True))
    return MultiwayWorkload(name, title, window, probability, equalities, given)


def mostly_last(streams: int, share: float) -> list[float]:
    """The last stream brings ``share`` of all rows, the others the rest, evenly."""
    return [(1 - share) / (streams - 1)] * (streams - 1) + [share]


def normal(streams: int, mean: float, deviation: float) -> list[float]:
    """Origins by a normal distribution, limited to the streams 1, 2, ... as the thesis limits it (6.5, figure 6.5.4)."""
    weights = [
        _below(number + 0.5, mean, deviation) - _below(number - 0.5, mean, deviation)
        for number in range(1, streams + 1)
    ]
    return [weight / sum(weights) for weight in weights]


def _below(value: float, mean: float, deviation: float) -> float:
    return (1 + math.erf((value - mean) / (deviation * math.sqrt(2)))) / 2


class MultiwayFeed:
    """The streams of a workload, cut into pushes; it remembers exactly what each window holds.

    Column ``v`` is the row's arrival number, and ``t`` the number of its block: all rows that a push brings of one stream are a block.
    Where every push brings blocks of the same sizes, a window of rows is one of blocks, and so of ``t``. Interleaved, every
    row is a block.
    """

    def __init__(self, work: MultiwayWorkload, seed: int = 1) -> None:
        self.work = work
        self._random = {name: np.random.default_rng([seed, k]) for k, name in enumerate(work.streams)}
        self._origin = np.random.default_rng([seed, len(work.streams)])
        self._arrived = dict.fromkeys(work.streams, 0)
        self._held: dict[str, deque[pa.RecordBatch]] = {name: deque() for name in work.streams}
        self._block = 0
        self._schemas = {name: self._rows(name, np.empty(0, np.int64)).schema for name in work.streams}

    def pushed(self, stream: str) -> int:
        """Rows of ``stream`` handed out so far."""
        return self._arrived[stream]

    def pushes(self, batch: int, count: int, streams: tuple[str, ...] = ()) -> list[Push]:
        """The next ``count`` pushes, each with ``batch`` rows a stream on average, of all streams or of ``streams``."""
        streams = streams or self.work.streams
        turns = [self._turn(batch, streams) for _ in range(count)]
        found: list[Push] = [{} for _ in turns]
        for name in streams:
            rows = self._take(name, np.concatenate([turn[name] for turn in turns]))
            start = 0
            for push, turn in zip(found, turns, strict=True):
                push[name] = rows.slice(start, turn[name].size)
                start += turn[name].size
        return found

    def _turn(self, batch: int, streams: tuple[str, ...]) -> dict[str, np.ndarray]:
        """The numbers of the blocks of one push, row by row, by stream."""
        sizes, first = self.work.sizes(batch), self._block
        if self.work.interleaved:
            shares = np.array([self.work.shares[name] for name in streams])
            total = sum(sizes[name] for name in streams)
            origin = self._origin.choice(len(streams), total, p=shares / shares.sum())
            self._block += total
            return {name: first + np.flatnonzero(origin == k) for k, name in enumerate(streams)}
        self._block += len(streams)
        return {name: np.full(sizes[name], first + k, np.int64) for k, name in enumerate(streams)}

    def held(self, stream: str, before: int = 0) -> pa.Table:
        """The rows in the window of ``stream``, as it was before the newest ``before`` rows of it came."""
        table = pa.Table.from_batches(self._held[stream], self._schemas[stream])
        end = table.num_rows - before
        start = max(0, end - self.work.window)
        return table.slice(start, end - start)

    def expected(self, push: Push) -> int:
        """Results of ``push``, recounted. It must be the newest push of this feed."""
        if self.work.interleaved:
            return self._expected_interleaved(push)
        total, to_come = 0, list(push)
        for stream, batch in push.items():
            # Streams arrive in keyword order: of those that come later the window is still the old one.
            windows = {
                name: self.held(name, push[name].num_rows if name in to_come else 0)
                for name in self.work.streams
                if name != stream
            }
            to_come.remove(stream)
            total += count_results(self.work, stream, batch, windows)
        return total

    def _expected_interleaved(self, push: Push) -> int:
        """Row by row: of every other stream, the rows with the row's key among the last that came before it."""
        seen = {}
        for name in self.work.streams:
            new = push[name] if name in push else self._schemas[name].empty_table()
            old = self.held(name, new.num_rows)
            columns = ((_values(old, column), _values(new, column)) for column in ("k", "v", "t"))
            seen[name] = [np.concatenate(parts).astype(np.int64) for parts in columns]
        total = 0
        for stream, batch in push.items():
            key, place = (_values(batch, column).astype(np.int64) for column in ("k", "t"))
            found = np.ones(key.size, np.int64)
            for name in self.work.streams:
                if name != stream:
                    keys, numbers, places = seen[name]
                    found *= _count_seen(keys, numbers, places, key, place, self.work.window)
            total += int(found.sum())
        return total

    def _take(self, stream: str, block: np.ndarray) -> pa.RecordBatch:
        rows = self._rows(stream, block)
        self._arrived[stream] += rows.num_rows
        held = self._held[stream]
        held.append(rows)
        spare = sum(part.num_rows for part in held) - self.work.window - rows.num_rows
        while spare >= held[0].num_rows:
            spare -= held.popleft().num_rows
        return rows

    def _rows(self, stream: str, block: np.ndarray) -> pa.RecordBatch:
        first, random = self._arrived[stream], self._random[stream]
        keys = {
            name: pa.array(random.integers(0, self.work.keys, block.size, dtype=np.int32))
            for name in self.work.columns(stream)
        }
        value = pa.array(np.arange(first, first + block.size, dtype=np.int64).astype(np.int32))
        return pa.RecordBatch.from_pydict({**keys, "v": value, "t": pa.array(block, pa.int64())})


def _count_seen(
    keys: np.ndarray, numbers: np.ndarray, places: np.ndarray, key: np.ndarray, place: np.ndarray, window: int
) -> np.ndarray:
    """How many of the last ``window`` rows before each place have that key. Numbers are consecutive, places ascend."""
    if not keys.size:
        return np.zeros(key.size, np.int64)
    before = numbers[0] + np.searchsorted(places, place)
    codes = np.sort((keys << 32) | numbers)
    first = np.maximum(before - window, 0)
    return np.searchsorted(codes, (key << 32) | before) - np.searchsorted(codes, (key << 32) | first)


def count_results(work: MultiwayWorkload, stream: str, probes: Rows, windows: Mapping[str, Rows]) -> int:
    """How many results the rows ``probes`` of ``stream`` make with the others' ``windows``, recounted with NumPy alone."""
    return int(_weights(work, stream, probes, windows, None).sum())


def _weights(
    work: MultiwayWorkload, stream: str, rows: Rows, windows: Mapping[str, Rows], parent: str | None
) -> np.ndarray:
    """Of each row, in how many combinations with the streams behind it, seen from ``parent``, it stands."""
    weights = np.ones(rows.num_rows, np.int64)
    for other, ours, theirs in work.linked(stream):
        if other == parent:
            continue
        behind = _weights(work, other, windows[other], windows, stream)
        keys, place = np.unique(_values(windows[other], theirs), return_inverse=True)
        totals = np.zeros(keys.size + 1, np.int64)  # the last one is of keys that are not there
        np.add.at(totals, place, behind)
        mine = _values(rows, ours)
        found = np.searchsorted(keys, mine)
        there = found < keys.size
        there[there] = keys[found[there]] == mine[there]
        weights *= totals[np.where(there, found, keys.size)]
    return weights


def _values(rows: Rows, name: str) -> np.ndarray:
    column = rows.column(name)
    return np.asarray(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
