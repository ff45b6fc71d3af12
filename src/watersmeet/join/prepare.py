"""A batch made ready, once: keys and codes computed, sorted by the driving key; as a block to store, and as a probe."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from watersmeet.index.base import Codes, Keys, sorted_keys
from watersmeet.join.chain import Block, Check, Probe
from watersmeet.join.coding import Coding
from watersmeet.join.drivers import Read, all_valid, probing, reading
from watersmeet.join.orders import Comparison, Orders, Source
from watersmeet.join.pair_test import PairTest
from watersmeet.join.plan import Plan
from watersmeet.sql.condition import Band, BoundCondition
from watersmeet.streams.arrival import Validity
from watersmeet.streams.clock import TimeAxis
from watersmeet.streams.window import Window

_NO_KEYS = Keys(np.empty(0, np.int64), np.empty(0, np.int32))


def bare_block(batch: pa.RecordBatch, first: int, times: np.ndarray | None) -> Block:
    """A block of rows that cannot be indexed yet, because the condition is not bound."""
    return Block(first, batch.num_rows, _NO_KEYS, [], times)


@dataclass(slots=True)
class Columns:
    """Codes of a batch in arrival order: what blocks are cut from."""

    first: int  # arrival number of the first row
    count: int
    driving: Codes  # the driver's
    usable: np.ndarray | None  # which rows can match at all; None: all of them
    codes: list[np.ndarray]  # of the bands checked on candidates
    times: np.ndarray | None
    nulls: bool = False  # whether any column of a program has NULL


def read_columns(
    plan: Plan,
    stream: str,
    batch: pa.RecordBatch,
    first: int,
    times: np.ndarray | None,
    read: Read | None = None,
) -> Columns:
    """Codes of a batch. Rows that cannot match (a NULL key, a failed filter) are not usable."""
    read = read or reading(stream, batch)
    driving, valid = plan.driver.codes_by(stream, batch, read)
    codes, masks = _codes_of(plan.condition, plan.checks, stream, batch, read)
    usable, nulls = all_valid((valid, *masks)), False
    if plan.program is not None:
        codes += plan.program.inputs(stream, batch)
        nulls = bool(codes[-1].any())
    return Columns(first, batch.num_rows, driving, usable, codes, times, nulls)


def _codes_of(
    condition: BoundCondition, bands: Sequence[Band], stream: str, batch: pa.RecordBatch, read: Read
) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
    """The codes of a batch by band, and masks of the rows that pass the filters and have codes (None: all)."""
    found = [read(band) for band in bands]
    return [codes for codes, _ in found], [condition.passes(stream, batch), *(valid for _, valid in found)]


def cut_block(columns: Columns, start: int, stop: int) -> Block:
    """The rows [start, stop) as a block, sorted by its driving key. Rows that cannot match get no key."""
    if columns.usable is None and stop - start == columns.count:
        keys = sorted_keys(columns.driving)
        return Block(columns.first, columns.count, keys, columns.codes, columns.times, nulls=columns.nulls)
    driving = tuple(array[start:stop] for array in columns.driving)
    rows = None
    if columns.usable is not None:
        rows = np.flatnonzero(columns.usable[start:stop]).astype(np.int32)
        driving = tuple(array[rows] for array in driving)
    codes = [array[start:stop] for array in columns.codes]
    times = None if columns.times is None else columns.times[start:stop]
    keys = sorted_keys(driving, rows)
    return Block(columns.first + start, stop - start, keys, codes, times, nulls=columns.nulls)


def prepare_block(
    plan: Plan,
    stream: str,
    batch: pa.RecordBatch,
    first: int,
    times: np.ndarray | None,
    coding: Coding | None = None,
) -> Block:
    """A whole batch as one block. ``coding``: other joins read it too."""
    if coding is not None:
        return _shared_block(plan, stream, batch, first, times, coding)
    if plan.program is not None or stream in plan.condition.filters:
        return cut_block(read_columns(plan, stream, batch, first, times), 0, batch.num_rows)
    # A push of one row spends its time here: the same as above, with nothing in between.
    read = reading(stream, batch)
    driving, usable = plan.driver.codes_by(stream, batch, read)
    codes = []
    for band in plan.checks:
        found, valid = read(band)
        codes.append(found)
        if valid is not None:
            usable = valid if usable is None else usable & valid
    if usable is None:
        return Block(first, batch.num_rows, sorted_keys(driving), codes, times)
    return cut_block(Columns(first, batch.num_rows, driving, usable, codes, times), 0, batch.num_rows)


def _shared_block(
    plan: Plan, stream: str, batch: pa.RecordBatch, first: int, times: np.ndarray | None, coding: Coding
) -> Block:
    """The same, of what other joins may have made already. Keys that are there say which rows can match; codes are of all rows.

    A driver that learns of the rows it codes must code them itself.
    """
    read = coding.reading(stream, batch)

    def own() -> Block:
        return cut_block(read_columns(plan, stream, batch, first, times, read), 0, batch.num_rows)

    if plan.program is not None or plan.driver.learns:
        return own()
    keys = coding.keys(batch, plan.identity_of(stream), lambda: own().keys)
    return Block(first, batch.num_rows, keys, [read(band)[0] for band in plan.checks], times)


def prepare_for_steps(
    orders: Orders,
    k: int,
    batch: pa.RecordBatch,
    first: int,
    times: np.ndarray | None,
    coding: Coding | None = None,
) -> Block:
    """The same for a join of many streams: the codes of all columns, and a key for each index of the stream."""
    name = orders.condition.streams[k]
    bands = [band for band, _ in orders.columns[k]]
    read = reading(name, batch) if coding is None else coding.reading(name, batch)
    codes, masks = _codes_of(orders.condition, bands, name, batch, read)
    valid = all_valid(masks)
    rows = (
        np.arange(batch.num_rows, dtype=np.int32) if valid is None else np.flatnonzero(valid).astype(np.int32)
    )
    keys = []
    for arrangement in orders.arrangements[k]:
        driving = arrangement.keys(codes, batch.num_rows)
        if valid is not None:
            driving = tuple(array[rows] for array in driving)
        if arrangement.dense:
            keys.append(Keys(driving[0], rows, unordered=True))
        else:
            keys.append(sorted_keys(driving, None if valid is None else rows))
    return Block(first, batch.num_rows, keys[0], codes, times, tuple(keys[1:]), rows)


def make_probe(plan: Plan, stream: str, block: Block, validity: Validity) -> Probe:
    """The bounds that a block's rows put on the other stream's keys and codes."""
    checks: list[Check | None] = [
        band.bounds(stream, codes) for band, codes in zip(plan.checks, block.codes, strict=False)
    ]
    probe = Probe(block.first, probing(plan.driver, stream, block.keys), checks, validity)
    if plan.program is not None:
        probe.test = PairTest(plan.program, stream, block, len(plan.checks))
    return probe


def comparison_checks(
    comparisons: Iterable[Comparison], codes: Mapping[Source, np.ndarray], columns: int
) -> list[Check | None]:
    """What comparisons compare with each column of the rows that are looked for; ``codes``: of the rows that look."""
    checks: list[Check | None] = [None] * columns
    for comparison in comparisons:
        ends, other = comparison.ends(codes[comparison.source]), checks[comparison.target]
        checks[comparison.target] = ends if other is None else _both(other, ends)
    return checks


def _both(one: Check, two: Check) -> Check:
    """Two comparisons with the same column, as one: in one interval of each."""
    return [
        (np.maximum(low, other_low), np.minimum(high, other_high))
        for low, high in one
        for other_low, other_high in two
    ]


def out_of_sight(block: Block, hidden: int) -> Block:
    """The block without the keys of its first ``hidden`` rows: they leave their window before another row can see them."""
    others = tuple(keys.of(keys.rows >= hidden) for keys in block.others)
    return replace(block, keys=block.keys.of(block.keys.rows >= hidden), others=others)


def shown(block: Block) -> Block:
    """The block, as it probes, without the rows that are hidden from this join."""
    if block.hidden is None:
        return block
    seen = ~block.hidden
    usable = None if block.usable is None else block.usable[seen[block.usable]]
    return replace(block, keys=block.keys.of(seen[block.keys.rows]), usable=usable)


SLICE = 4096  # rows: the least that is worth a slice of its own


def slices(
    rows: int,
    windows: Sequence[Window],
    axis: TimeAxis | None,
    times: np.ndarray | None,
    interleaved: bool,
    held: bool,
) -> Iterator[tuple[int, int]]:
    """Where to cut a batch that is much longer than the windows, so that most pairs of slices need not meet. ``held``: longer than what
    is stored of them.
    """
    pieces = 1.0
    counted = [window.rows for window in windows if window.rows is not None]
    if interleaved and counted:
        pieces = rows / (2 * max(1, *counted))
    if times is not None and times.size and axis is not None:
        pieces = max(pieces, axis.windows_between(int(times.min()), int(times.max()), held) / 2)
    count = int(max(1, min(pieces, rows / SLICE)))
    return pairwise(rows * i // count for i in range(count + 1))
