"""A batch made ready, once: keys and codes computed, sorted by the driving key; as a block to store, and as a probe."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from watersmeet.index.grid import CellLayout
from watersmeet.join.chain import Block, Probe
from watersmeet.join.plan import Plan, all_valid
from watersmeet.kernels.sort import sort_keys
from watersmeet.streams.arrival import Validity
from watersmeet.streams.clock import TimeAxis
from watersmeet.streams.window import Window

_NO_KEYS = np.empty(0, np.int64)
_NO_ROWS = np.empty(0, np.int32)


def bare_block(batch: pa.RecordBatch, first: int, times: np.ndarray | None) -> Block:
    """A block of rows that cannot be indexed yet, because the condition is not bound."""
    return Block(first, batch.num_rows, _NO_KEYS, _NO_ROWS, [], times)


@dataclass(slots=True)
class Columns:
    """Keys and codes of a batch in arrival order: what blocks are cut from."""

    first: int  # arrival number of the first row
    count: int
    keys: np.ndarray
    others: np.ndarray | None  # grid: the second key
    usable: np.ndarray | None  # which rows can match at all; None: all of them
    codes: list[np.ndarray]
    times: np.ndarray | None


def read_columns(
    plan: Plan, stream: str, batch: pa.RecordBatch, first: int, times: np.ndarray | None
) -> Columns:
    """Keys and codes of a batch. Rows that cannot match (a NULL key, a failed filter) are not usable."""
    keys, valid = plan.driver.keys(stream, batch)
    masks = [valid, plan.condition.passes(stream, batch)]
    codes = []
    for band in plan.checks:
        band_codes, band_valid = band.keys(stream, batch)
        codes.append(band_codes)
        masks.append(band_valid)
    others = None
    if plan.cells is not None:
        others, other_valid = plan.cells[1].keys(stream, batch)
        masks.append(other_valid)
    return Columns(first, batch.num_rows, keys, others, all_valid(masks), codes, times)


def cut_block(columns: Columns, layout: CellLayout | None, start: int, stop: int) -> Block:
    """The rows [start, stop) as a block, sorted by its driving key. Rows that cannot match get no key."""
    keys = columns.keys[start:stop]
    usable = None if columns.usable is None else columns.usable[start:stop]
    rows = None if usable is None else np.flatnonzero(usable).astype(np.int32)
    if rows is not None:
        keys = keys[rows]
    cells = None
    if layout is not None:
        assert columns.others is not None
        others = columns.others[start:stop]
        others = others if rows is None else others[rows]
        located, order = sort_keys(layout.locate(keys, others))
        cells = (keys[order], others[order])
        keys = located
    else:
        keys, order = sort_keys(keys)
    codes = [array[start:stop] for array in columns.codes]
    times = None if columns.times is None else columns.times[start:stop]
    return Block(
        columns.first + start, stop - start, keys, order if rows is None else rows[order], codes, times, cells
    )


def prepare_block(
    plan: Plan,
    layout: CellLayout | None,
    stream: str,
    batch: pa.RecordBatch,
    first: int,
    times: np.ndarray | None,
) -> Block:
    """A whole batch as one block."""
    return cut_block(read_columns(plan, stream, batch, first, times), layout, 0, batch.num_rows)


def make_probe(plan: Plan, layout: CellLayout | None, stream: str, block: Block, validity: Validity) -> Probe:
    """The bounds that a block's rows put on the other stream's keys and codes."""
    checks = [band.bounds(stream, codes) for band, codes in zip(plan.checks, block.codes, strict=True)]
    if layout is not None:
        assert block.cells is not None
        return Probe(block.first, [], checks, validity, layout.bounds(stream, block.rows, *block.cells))
    intervals = [in_order(lo, hi, block.rows) for lo, hi in plan.driver.bounds(stream, block.keys)]
    return Probe(block.first, intervals, checks, validity)


def in_order(lo: np.ndarray, hi: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Without the probes that match nothing, if there are any at the ends, where int64 leaves no room to keep them in order."""
    if lo.size and (lo[0] > hi[0] or lo[-1] > hi[-1]):
        some = lo <= hi
        return lo[some], hi[some], rows[some]
    return lo, hi, rows


def out_of_sight(block: Block, hidden: int) -> Block:
    """The block without the keys of its first ``hidden`` rows: they leave their window before another row can see them."""
    seen: np.ndarray = block.rows >= hidden
    cells = None if block.cells is None else (block.cells[0][seen], block.cells[1][seen])
    return Block(
        block.first, block.count, block.keys[seen], block.rows[seen], block.codes, block.times, cells
    )


SLICE = 4096  # rows: the least that is worth a slice of its own


def slices(
    rows: int, windows: Sequence[Window], axis: TimeAxis | None, times: np.ndarray | None, interleaved: bool
) -> Iterator[tuple[int, int]]:
    """Where to cut a batch that is much longer than the windows, so that most pairs of slices need not meet."""
    pieces = 1.0
    counted = [window.rows for window in windows if window.rows is not None]
    if interleaved and counted:
        pieces = rows / (2 * max(counted))
    if times is not None and times.size and axis is not None:
        pieces = max(pieces, axis.windows_between(int(times.min()), int(times.max())) / 2)
    count = int(max(1, min(pieces, rows / SLICE)))
    return pairwise(rows * i // count for i in range(count + 1))
