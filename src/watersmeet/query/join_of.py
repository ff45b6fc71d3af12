"""A join of rows that are made here: the results of other joins, unions, windows that are final; and of streams beside those.

It is an engine of its own with rows of its own. A push brings it rows of each input, in the order of the arrivals that have caused them.
They arrive in that order, those of one arrival input by input; what no arrival of the push has caused (rows that the watermark has set
free) comes last. The watermark is the clock's, after them. So a push of the engine is a turn, and as the order of arrival does not depend
on how rows were pushed, results do not either: where that order is not known exactly, windows are such that it does not matter (the
binder sees to that: ``derived.py``).

The engine writes down how it stood before a turn; ``mark`` says that all turns before it count.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.join.engine import JoinEngine
from watersmeet.join.matches import Matches
from watersmeet.join.outer import join_type
from watersmeet.join.pool import Pool
from watersmeet.join.snapshot import restore, snapshot, stored_rows
from watersmeet.query.block import Block, Turn
from watersmeet.query.delta import NOT_NOW, Caused, Delta, Part, late_of
from watersmeet.query.instruction import JoinOf
from watersmeet.sql.condition import BoundCondition
from watersmeet.streams.clock import BOTTOM, TOP, TimeAxis
from watersmeet.streams.given import admitted

_NUMBERS = "numbers"


class JoinOfBlock(Block):
    """A join of what other blocks give."""

    def __init__(
        self, instruction: JoinOf, inputs: Sequence[Block], pool: Pool, tables: Collection[int]
    ) -> None:
        """``tables``: which inputs are tables, whose rows ``begin`` gives."""
        super().__init__(instruction, inputs)
        self._tables = frozenset(tables)
        self.leaves, self.how = instruction.leaves, join_type(instruction.how)
        self._below = self.inputs[: len(instruction.rows)]
        self._clock = None if instruction.clock is None else self.inputs[-1]
        self.schemas = tuple(pa.schema(list(fields)) for fields in instruction.fields)
        condition = instruction.condition
        self.condition = BoundCondition(str(condition), condition, list(self.leaves))
        self.axis = None
        if any(window.timed for window in instruction.windows):
            self.axis = TimeAxis(self.leaves, instruction.windows, self.schemas)
        self.engine = JoinEngine(
            self.leaves, instruction.windows, self.how, "auto", "pairs", pool.cores, None
        )
        self.engine.pool = pool
        self.engine.open(self.schemas, self.axis)
        self.engine.bind(self.condition, [schema.names for schema in self.schemas])

    def begin(self, tables: Mapping[int, pa.RecordBatch]) -> None:
        """The rows of tables come before all others."""
        if tables:
            rows = [tables.get(k) for k in range(len(self.leaves))]
            batches = [
                None if one is None else self._as_stored(k, one.select(self.schemas[k].names))
                for k, one in enumerate(rows)
            ]
            order = _numbered([0 if one is None else one.num_rows for one in batches])
            self._push(batches, order, None, ended=False)
            self.engine.commit()

    def give(self, turn: Turn) -> Delta:
        deltas = {k: turn.of(block) for k, block in enumerate(self._below) if k not in self._tables}
        late = late_of(deltas.values())
        watermark = None if self._clock is None else turn.of(self._clock).watermark
        moved = watermark is not None and watermark > self.engine.ledger.arrivals.watermark
        if not (any(delta.count for delta in deltas.values()) or moved or turn.ending):
            return self._delta(Matches(streams=len(self.leaves)), [None] * len(self.leaves), late, ())
        batches, places = self._arrivals(turn, [k for k, delta in deltas.items() if delta.count])
        firsts = self.engine.ledger.arrivals.counts.tolist()
        order = _numbered([own.size for own in places])
        order = order[np.argsort(np.concatenate(places), kind="stable")]
        self.engine.commit()  # a block that is new in this call may have had a turn: it is not taken back, but let go
        outcome = self._push(batches, order, watermark, turn.ending)
        caused = tuple(
            Caused(first, partial(np.asarray, own)) for first, own in zip(firsts, places, strict=True)
        )
        return self._delta(outcome.matches, outcome.chunks, late, caused)

    def _arrivals(
        self, turn: Turn, some: Sequence[int]
    ) -> tuple[list[pa.RecordBatch | None], list[np.ndarray]]:
        """By input the rows that come, and the places of the arrivals that have caused them; those of none come after all others.
        ``some``: the inputs that bring any."""
        batches: list[pa.RecordBatch | None] = [None for _ in self._below]
        places = [np.empty(0, np.int64) for _ in self._below]
        for k in some:
            rows, own = turn.rows(self._below[k]), turn.caused(self._below[k])
            own = np.where(own == NOT_NOW, TOP, own)
            if (own[1:] < own[:-1]).any():
                order = np.argsort(own, kind="stable")
                rows, own = rows.take(pa.array(order)), own[order]
            batches[k], places[k] = self._as_stored(k, rows), own
        return batches, places

    def _as_stored(self, k: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(rows.columns, schema=self.schemas[k])

    def _push(
        self, batches: Sequence[pa.RecordBatch | None], order: np.ndarray, watermark: int | None, ended: bool
    ) -> Any:
        ledger = self.engine.ledger
        times = [ledger.times(k, batch) for k, batch in enumerate(batches)]
        sizes = [0 if batch is None else batch.num_rows for batch in batches]
        admission = admitted(ledger.arrivals, sizes, times, order, watermark, ended)
        return self.engine.push(batches, admission)

    def _delta(
        self, matches: Matches, chunks: Any, late: Mapping[str, pa.RecordBatch], caused: tuple[Caused, ...]
    ) -> Delta:
        return Delta((Part(self.leaves, self.schemas, matches, chunks, gathered={}, caused=caused),), late)

    # ---- what it remembers --------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        return sum(chain.rows for chain in self.engine.ledger.chains)

    @property
    def nbytes(self) -> int:
        """Of its sub-windows, their indexes, and its rows. Columns of streams that are stored there too are counted here again."""
        ledger = self.engine.ledger
        rows = sum(payload.nbytes for payload in ledger.payload if payload is not None)
        return rows + sum(chain.nbytes for chain in ledger.chains)

    @property
    def watermark(self) -> str | None:
        code = self.engine.ledger.arrivals.watermark
        return None if self.axis is None or code in (BOTTOM, TOP) else self.axis.text(code)

    def mark(self) -> Any:
        self.engine.commit()
        return self.rows

    def back_to(self, mark: Any) -> None:
        """As it was at the mark. May be repeated."""
        self.rows = mark
        self.engine.take_back()

    def snapshot(self) -> Mapping[str, pa.Table]:
        self.engine.commit()  # nothing is on its way
        self.engine.mend()
        text = json.dumps(snapshot(self.engine))
        tables = {_NUMBERS: pa.table({"text": pa.array([text])})}
        return tables | {str(k): table for k, table in stored_rows(self.engine).items()}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        numbers = json.loads(tables[_NUMBERS].column("text")[0].as_py())
        restore(self.engine, numbers, {int(k): table for k, table in tables.items() if k != _NUMBERS})


def _numbered(sizes: Sequence[int]) -> np.ndarray:
    """Of rows that come one input after the other, the input of each."""
    return np.repeat(np.arange(len(sizes), dtype=np.uint8), sizes)
