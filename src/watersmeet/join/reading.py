"""What a join that reads shared streams remembers, as tables, and back. The rows are the streams', and are saved by who has them.

A table ``numbers`` with one text (JSON), and a table for each of the join's streams: of each row in its sub-windows, whether it needs no
more attention, whether it is hidden from the join, and what it had seen. Indexes are made anew.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.join.chain import Chain, SubWindow, always
from watersmeet.join.engine import JoinEngine
from watersmeet.join.prepare import bare_block
from watersmeet.join.snapshot import snapshot
from watersmeet.streams.schema import DONE, EXTRA

_HIDDEN = "hidden"


def reading_state(engine: JoinEngine, more: Mapping[str, Any]) -> dict[str, pa.Table]:
    """All of it. ``more``: numbers of the caller's, to be kept with it."""
    numbers = snapshot(engine)
    chains = engine.ledger.chains
    numbers["subwindows"] = [
        [[sub.base, sub.end, sub.capacity] for sub in chain.subwindows] for chain in chains
    ]
    numbers["dropped"] = [chain.first for chain in chains]
    text = json.dumps({**numbers, "more": more})
    tables = {"numbers": pa.table({"text": pa.array([text])})}
    for k, chain in enumerate(chains):
        parts = [_columns(engine, k, sub) for sub in chain.subwindows]
        if parts:
            tables[str(k)] = pa.concat_tables(parts)
    return tables


def _columns(engine: JoinEngine, k: int, sub: SubWindow) -> pa.Table:
    flags, nobody = engine.ledger.flags[k], np.zeros(sub.count, np.bool_)
    extra = engine.extra_columns(k, sub.base, sub.end)
    return pa.table(
        {
            DONE: nobody if flags is None else flags.between(sub.base, sub.end),
            _HIDDEN: nobody if sub.hidden is None else sub.hidden[: sub.count],
            **{EXTRA + name: column for name, column in extra.items()},
        }
    )


def restore_reading(engine: JoinEngine, tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """Remember it again; the engine is new, and its streams have their rows. Returns the caller's numbers."""
    numbers = json.loads(tables["numbers"].column("text")[0].as_py())
    ledger, planning = engine.ledger, engine.planning
    ledger.arrivals.stand_at(np.array(numbers["counts"]), np.array(numbers["clock"]))
    planning.replans = list(numbers["replans"])
    planning.forget()  # sub-windows are filled first, and indexed once all rows are there
    for k, borders in enumerate(numbers["subwindows"]):
        _restore_stream(engine, k, borders, numbers["dropped"][k], tables.get(str(k)))
    ledger.reach_flags()
    engine.make_plan(numbers["shares"])
    more: dict[str, Any] = numbers["more"]
    return more


def _restore_stream(
    engine: JoinEngine, k: int, borders: list[list[int]], dropped: int, table: pa.Table | None
) -> None:
    ledger = engine.ledger
    chain, flags = Chain(0, ledger.arrivals.timed[k]), ledger.flags[k]
    chain.dropped = dropped
    if flags is not None:
        flags.start_at(dropped)
    taken = 0
    for base, end, capacity in borders:
        assert table is not None
        columns = table.slice(taken, end - base)
        taken += end - base
        batch = ledger.payload_of(k).rows_between(base, end)
        block = bare_block(batch, base, ledger.times(k, batch))
        hidden = columns.column(_HIDDEN).to_numpy()
        block.hidden = hidden if hidden.any() else None
        chain.insert(block, partial(int, capacity), full=always)
        if flags is not None:
            flags.restore(base, columns.column(DONE).to_numpy())
        extra = [name for name in columns.column_names if name.startswith(EXTRA)]
        engine.restore_columns(
            k, base, {name.removeprefix(EXTRA): columns.column(name).to_numpy() for name in extra}
        )
    ledger.chains[k].become(chain)
