"""The state of a join core as numbers and rows, and back: what ``StreamJoin.save`` writes and ``load`` reads.

Rows are the state. Index structures are not saved: the restored rows are indexed anew, in sub-windows with the same borders.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.index.base import Index
from watersmeet.join.chain import SubWindow
from watersmeet.join.core import JoinCore
from watersmeet.join.prepare import bare_block
from watersmeet.streams.batch import one_batch
from watersmeet.streams.schema import DONE as DONE
from watersmeet.streams.schema import EXTRA as EXTRA


def snapshot(core: JoinCore) -> dict[str, Any]:
    """The numbers that, with the stored rows, are the whole state."""
    return {
        "counts": core.arrivals.counts.tolist(),
        "clock": core.arrivals.clock.tolist(),
        "subwindows": [[[sub.base, sub.end] for sub in chain.subwindows] for chain in core.chains],
        "replans": list(core.replans),
        "shares": {} if core.plan is None else core.plan.selectivity,
        "extra": core.extra_numbers(),
    }


def stored_rows(core: JoinCore) -> dict[int, pa.Table]:
    """The rows of each stream's sub-windows, with a last column that tells which need no more attention."""
    tables = {}
    for k, payload in enumerate(core.payload):
        if payload is None:
            continue
        parts = [payload.rows_between(payload.end, payload.end)]
        flags = [np.empty(0, np.bool_)]
        for sub in core.chains[k].subwindows:
            parts.append(payload.rows_between(sub.base, sub.end))
            flags.append(_flags_of(core, k, sub))
        table = pa.Table.from_batches(parts).append_column(DONE, pa.array(np.concatenate(flags)))
        tables[k] = _with_extra(core, k, table)
    return tables


def _flags_of(core: JoinCore, k: int, sub: SubWindow) -> np.ndarray:
    flags = core.flags[k]
    return np.zeros(sub.count, np.bool_) if flags is None else flags.between(sub.base, sub.end)


def _with_extra(core: JoinCore, k: int, table: pa.Table) -> pa.Table:
    borders = [(sub.base, sub.end) for sub in core.chains[k].subwindows]
    parts = [core.extra_columns(k, *border) for border in borders]
    for name in parts[0] if parts else ():
        column = pa.array(np.concatenate([part[name] for part in parts]))
        table = table.append_column(EXTRA + name, column)
    return table


def restore(core: JoinCore, numbers: dict[str, Any], tables: dict[int, pa.Table]) -> None:
    """Give a new core, whose schemas are known, a saved state."""
    core.arrivals.stand_at(np.array(numbers["counts"]), np.array(numbers["clock"]))
    core.replans = list(numbers["replans"])
    core.restore_extra(numbers["extra"])
    core.plan = core.access = None  # sub-windows are filled first, and indexed once all rows are there
    for k, table in tables.items():
        _restore_stream(core, k, table, numbers["subwindows"][k])
    if core.condition is not None:
        core.make_plan(numbers["shares"])


def _restore_stream(core: JoinCore, k: int, table: pa.Table, borders: list[list[int]]) -> None:
    payload = core.payload[k]
    assert payload is not None
    chain = core.chains[k] = core.new_chain(k, 0)
    payload.end = chain.dropped = int(core.arrivals.counts[k])
    flags = core.flags[k]
    if flags is not None:
        flags.start_at(borders[0][0] if borders else chain.dropped)
    taken = 0
    for base, end in borders:
        rows = table.slice(taken, end - base)
        taken += end - base
        extra = [name for name in table.column_names if name.startswith(EXTRA)]
        batch = one_batch(rows.drop_columns([DONE, *extra]))
        core.restore_columns(
            k, base, {name.removeprefix(EXTRA): rows.column(name).to_numpy() for name in extra}
        )
        if (
            taken > end - base and base > payload.end
        ):  # rows out of order: a sub-window between others has gone
            payload.append(_nobody(base - payload.end, batch.schema))
        payload.end = base
        payload.append(batch)
        chain.insert(
            bare_block(batch, base, core.times(k, batch)), partial(int, end - base), _no_index, _never
        )
        core.note_latest(k, batch, core.times(k, batch))
        if flags is not None:
            flags.restore(base, rows.column(DONE).to_numpy())
    count = int(core.arrivals.counts[k])
    if borders and payload.end < count:  # the newest sub-window has gone
        payload.append(
            _nobody(count - payload.end, payload.rows_between(payload.first, payload.first).schema)
        )
    core.reach_flags()


def _nobody(rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """In place of rows that were dropped: a payload's arrival numbers have no gaps."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows, field.type) for field in schema], schema=schema)


def _no_index(capacity: int, previous: SubWindow | None) -> Sequence[Index]:
    """For sub-windows whose rows are indexed later."""
    return ()


def _never(sub: SubWindow) -> bool:
    """For sub-windows that are as long as they were."""
    return False
