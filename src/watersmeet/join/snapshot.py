"""The state of a join engine as numbers and rows, and back: what ``StreamJoin.save`` writes and ``load`` reads.

Rows are the state. Index structures are not saved: the restored rows are indexed anew, in sub-windows with the same borders.
"""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.join.chain import Chain, SubWindow
from watersmeet.join.interface import Saved
from watersmeet.join.ledger import Ledger
from watersmeet.join.prepare import bare_block
from watersmeet.streams.batch import one_batch
from watersmeet.streams.schema import DONE as DONE
from watersmeet.streams.schema import EXTRA as EXTRA


def snapshot(engine: Saved) -> dict[str, Any]:
    """The numbers that, with the stored rows, are the whole state."""
    ledger, planning = engine.ledger, engine.planning
    return {
        "counts": ledger.arrivals.counts.tolist(),
        "clock": ledger.arrivals.clock.tolist(),
        "subwindows": [[[sub.base, sub.end] for sub in chain.subwindows] for chain in ledger.chains],
        "replans": list(planning.replans),
        "shares": {} if planning.plan is None else planning.plan.selectivity,
        "extra": engine.extra_numbers(),
    }


def stored_rows(engine: Saved) -> dict[int, pa.Table]:
    """The rows of each stream's sub-windows, with a last column that tells which need no more attention."""
    tables, ledger = {}, engine.ledger
    for k, payload in enumerate(ledger.payload):
        if payload is None:
            continue
        parts = [payload.rows_between(payload.end, payload.end)]
        flags = [np.empty(0, np.bool_)]
        for sub in ledger.chains[k].subwindows:
            parts.append(payload.rows_between(sub.base, sub.end))
            flags.append(_flags_of(ledger, k, sub))
        table = pa.Table.from_batches(parts).append_column(DONE, pa.array(np.concatenate(flags)))
        tables[k] = _with_extra(engine, k, table)
    return tables


def _flags_of(ledger: Ledger, k: int, sub: SubWindow) -> np.ndarray:
    flags = ledger.flags[k]
    return np.zeros(sub.count, np.bool_) if flags is None else flags.between(sub.base, sub.end)


def _with_extra(engine: Saved, k: int, table: pa.Table) -> pa.Table:
    borders = [(sub.base, sub.end) for sub in engine.ledger.chains[k].subwindows]
    parts = [engine.extra_columns(k, *border) for border in borders]
    for name in parts[0] if parts else ():
        column = pa.array(np.concatenate([part[name] for part in parts]))
        table = table.append_column(EXTRA + name, column)
    return table


def restore(engine: Saved, numbers: dict[str, Any], tables: dict[int, pa.Table]) -> None:
    """Give a new engine, whose schemas are known, a saved state."""
    planning = engine.planning
    engine.ledger.arrivals.stand_at(np.array(numbers["counts"]), np.array(numbers["clock"]))
    planning.replans = list(numbers["replans"])
    engine.restore_extra(numbers["extra"])
    planning.forget()  # sub-windows are filled first, and indexed once all rows are there
    for k, table in tables.items():
        _restore_stream(engine, k, table, numbers["subwindows"][k])
    if planning.condition is not None:
        engine.make_plan(numbers["shares"])


def _restore_stream(engine: Saved, k: int, table: pa.Table, borders: list[list[int]]) -> None:
    ledger = engine.ledger
    payload, count = ledger.payload_of(k), int(ledger.arrivals.counts[k])
    chain = Chain(0, ledger.arrivals.timed[k])
    payload.end = chain.dropped = count
    flags = ledger.flags[k]
    if flags is not None:
        flags.start_at(borders[0][0] if borders else count)
    taken = 0
    for base, end in borders:
        rows = table.slice(taken, end - base)
        taken += end - base
        extra = [name for name in table.column_names if name.startswith(EXTRA)]
        batch = one_batch(rows.drop_columns([DONE, *extra]))
        engine.restore_columns(
            k, base, {name.removeprefix(EXTRA): rows.column(name).to_numpy() for name in extra}
        )
        if (
            taken > end - base and base > payload.end
        ):  # rows out of order: a sub-window between others has gone
            payload.append(_nobody(base - payload.end, batch.schema))
        payload.end = base
        payload.append(batch)
        times = ledger.times(k, batch)
        chain.insert(bare_block(batch, base, times), partial(int, end - base))
        ledger.note_latest(k, batch, times)
        if flags is not None:
            flags.restore(base, rows.column(DONE).to_numpy())
    ledger.chains[k].become(chain)
    if borders and payload.end < count:  # the newest sub-window has gone
        payload.append(
            _nobody(count - payload.end, payload.rows_between(payload.first, payload.first).schema)
        )
    ledger.reach_flags()


def _nobody(rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """In place of rows that were dropped: a payload's arrival numbers have no gaps."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows, field.type) for field in schema], schema=schema)
