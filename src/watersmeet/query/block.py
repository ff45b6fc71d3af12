"""Blocks: operators with one interface, each programmed by an instruction.

A block gives the delta of a push, once; what it reads from it asks the *turn* for, which asks each block once, however many read it. A
block's state is what it remembers between pushes: ``mark`` says how it stands, ``back_to`` takes back what came since; ``snapshot`` is
the state as plain tables, which ``restore`` of a new block takes. Joins keep theirs in the streams that they share, which are taken
back as a whole.

A block that starts warm gets the past as its first turn: the rows that are still stored as if one push had brought them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.codes.interning import Interner
from watersmeet.join.engine import JoinEngine
from watersmeet.join.matches import Matches
from watersmeet.join.outcome import Outcome
from watersmeet.join.outer import join_type
from watersmeet.join.reading import reading_state, restore_reading
from watersmeet.query.delta import Answers, Delta, Nothing, Part, Selected, late_of
from watersmeet.query.instruction import Filter, Instruction, Join, Project, Scan, Union
from watersmeet.query.rule import rule_of
from watersmeet.sql.condition import BoundCondition
from watersmeet.sql.select import BoundSelect
from watersmeet.sql.tree import Expr
from watersmeet.streams.clock import BOTTOM, TOP, TimeAxis
from watersmeet.streams.payload import Chunks

Key = tuple[Any, ...]


class Turn(Protocol):
    """A push, or the end of the streams, as blocks see it."""

    def schema(self, stream: str) -> pa.Schema:
        """A stream's schema by now."""

    def arrived(self, stream: str) -> tuple[pa.RecordBatch, int] | None:
        """A stream's rows, and the arrival number of the first; None: none have come."""

    def places(self, stream: str) -> np.ndarray:
        """The places of a stream's rows among all that arrive."""

    @property
    def ending(self) -> bool:
        """Whether the streams end."""

    def moves(self, stream: str) -> bool:
        """Whether rows of a stream come, or its clock moves on."""

    def pushes(self, stream: str) -> tuple[np.ndarray, np.ndarray]:
        """The number of the push that brought each of a stream's rows, and of the call by which it came to each of ``ticks``."""

    def ticks(self, stream: str) -> tuple[pa.Array, np.ndarray] | None:
        """Times to which a stream has come without a row, and for each the place of the next row to arrive; None: there are none."""

    def joined(self, engine: JoinEngine) -> Outcome:
        """What a join has found."""

    def of(self, block: Block) -> Delta:
        """What a block gives, which is asked once."""

    def found(self, block: Block) -> Delta | None:
        """Of a filter that is evaluated with others, the rows that constants let pass; None: it is evaluated alone."""

    def rows(self, block: Block) -> pa.RecordBatch:
        """The rows that a block gives, gathered once, in the order of the arrivals that have caused them."""

    def caused(self, block: Block) -> np.ndarray:
        """Of each of these rows the place of the arrival that has caused it; ``NOT_NOW`` of those that none of this turn has."""


class Block:
    """An operator of a plan. ``rows``: how many it has given. ``key``: blocks with the same would give the same.

    ``number``: no two blocks of a graph have the same, also of those that are gone. ``seconds``: what its own work has taken, also in
    calls that were taken back.
    """

    key: Key = ()
    number = 0
    seconds = 0.0

    @property
    def held(self) -> int:
        """How many rows, groups or windows it remembers."""
        return 0

    @property
    def nbytes(self) -> int:
        """How many bytes that takes."""
        return 0

    @property
    def late(self) -> Mapping[str, int]:
        """By stream, how many rows it has left out as late, since it was made or loaded."""
        return {}

    @property
    def watermark(self) -> str | None:
        """The time before which rows are late, for people; None: there is none yet."""
        return None

    def __init__(self, instruction: Instruction, inputs: Sequence[Block]) -> None:
        self.instruction, self.inputs, self.rows = instruction, tuple(inputs), 0

    def give(self, turn: Turn) -> Delta:
        """The delta of a push."""
        raise NotImplementedError

    def mark(self) -> Any:
        """How the block stands."""
        return self.rows

    def back_to(self, mark: Any) -> None:
        """As it was at the mark. May be repeated."""
        self.rows = mark

    def snapshot(self) -> Mapping[str, pa.Table]:
        """What the block remembers, as tables by names of its own; nothing that a block of the same instruction knows by itself."""
        return {}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Remember what ``snapshot`` gave. The block is new, and has the same instruction."""


class ScanBlock(Block):
    """A stream's rows as they come."""

    def __init__(self, instruction: Scan) -> None:
        super().__init__(instruction, ())
        self.stream = instruction.stream

    def give(self, turn: Turn) -> Delta:
        found = turn.arrived(self.stream)
        if found is None:
            matches, chunks = Matches(streams=1), Chunks([], [])
        else:
            batch, first = found
            matches = Matches([(np.arange(first, first + batch.num_rows),)], streams=1)
            chunks = Chunks([batch], [first])
        part = Part((self.stream,), (turn.schema(self.stream),), matches, [chunks], streams=(self.stream,))
        return Delta((part,))


class JoinBlock(Block):
    """A join, on streams that others may read too."""

    def __init__(
        self,
        instruction: Join,
        schemas: Sequence[pa.Schema],
        interner: Interner,
        cores: int,
        by_push: bool = False,
    ) -> None:
        """``by_push``: the watermark moves once after each push."""
        super().__init__(instruction, ())
        self.streams, self.leaves = instruction.streams, instruction.leaves
        self._columns = [schema.names for schema in schemas]
        condition = instruction.condition
        self.condition = BoundCondition(str(condition), condition, list(self.leaves), interner)
        self.axis = None
        if any(window.timed for window in instruction.windows):
            self.axis = TimeAxis(self.leaves, instruction.windows, schemas)
        how = join_type(instruction.how)
        self.engine = JoinEngine(
            self.leaves, instruction.windows, how, "auto", "pairs", cores, None, by_push=by_push
        )
        self.windows = list(zip(instruction.streams, instruction.windows, strict=True))
        self._lacks: tuple[Sequence[int], Sequence[int]] = ((), ())
        self._late = dict.fromkeys(self.leaves, 0)
        self.seen: Callable[[Part], None] | None = (
            None  # told of what each push has found, for a picture of it
        )
        # By input, from which row on each meets all that it would have met, had the join always been there; None: not yet.
        self._complete: Sequence[int] | None = None

    def begin(self, firsts: Sequence[int], newest: Sequence[int]) -> None:
        """The engine has its streams: rows from now on, with these numbers, are joined. ``newest``: the times that they have come to."""
        self.engine.open([None] * len(self.leaves), self.axis)
        self.engine.bind(self.condition, self._columns)
        self.lacks(firsts, newest)
        self.look()

    def lacks(self, firsts: Sequence[int], newest: Sequence[int]) -> None:
        """The join does not know the rows before these numbers, none of which has a time after the newest."""
        self._lacks, self._complete = (firsts, newest), None

    def look(self, since: Sequence[int] | None = None) -> None:
        """See whether what the join does not know is over: then rows from here on, or ``since``, meet all that they would have met."""
        if self._complete is not None:
            return
        arrivals = self.engine.ledger.arrivals
        unknown = zip(*self._lacks, arrivals.gone(arrivals.counts, arrivals.clock), strict=True)
        if not any(first > max(0, number) and newest >= time for first, newest, (number, time) in unknown):
            self._complete = arrivals.counts.tolist() if since is None else since

    @property
    def complete_from(self) -> dict[str, int] | None:
        """By stream, from which row on results are complete; None: not yet."""
        if self._complete is None:
            return None
        found: dict[str, int] = {}
        for stream, number in zip(self.streams, self._complete, strict=True):
            found[stream] = max(found.get(stream, 0), number)
        return found

    @property
    def held(self) -> int:
        return sum(chain.rows for chain in self.engine.ledger.chains)

    @property
    def nbytes(self) -> int:
        """Of its sub-windows and their indexes, also those that others share; rows are the streams'."""
        return sum(chain.nbytes for chain in self.engine.ledger.chains)

    @property
    def late(self) -> Mapping[str, int]:
        return self._late

    @property
    def watermark(self) -> str | None:
        code = self.engine.ledger.arrivals.watermark
        return None if self.axis is None or code in (BOTTOM, TOP) else self.axis.text(code)

    def mark(self) -> Any:
        return self.rows, self._complete, self._late

    def back_to(self, mark: Any) -> None:
        self.rows, self._complete, self._late = mark

    def snapshot(self) -> Mapping[str, pa.Table]:
        firsts, newest = self._lacks
        complete = None if self._complete is None else list(self._complete)
        return reading_state(self.engine, {"lacks": [list(firsts), list(newest)], "complete": complete})

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        more = restore_reading(self.engine, tables)
        self._lacks, self._complete = tuple(more["lacks"]), more["complete"]

    def answer_in_ranges(self, ranges: bool) -> None:
        """Whether ranges are wanted, where the condition allows for them: all who read them can do without pairs."""
        if len(self.leaves) == 2:
            self.engine.planning.answer_in("mixed" if ranges else "pairs")

    @property
    def in_ranges(self) -> bool:
        """Whether that is what is given."""
        return self.engine.planning.in_ranges

    def give(self, turn: Turn) -> Delta:
        outcome = turn.joined(self.engine)
        self.look()
        schemas = tuple(turn.schema(stream) for stream in self.streams)
        late = {self.leaves[k]: batch for k, batch in outcome.late.items()}
        if late:
            self._late = {
                leaf: n + (late[leaf].num_rows if leaf in late else 0) for leaf, n in self._late.items()
            }
        part = Part(self.leaves, schemas, outcome.matches, outcome.chunks, None, self.streams, {})
        if self.seen is not None:
            self.seen(part)
        return Delta((part,), late)


class FilterBlock(Block):
    """The rows for which a predicate is true. ``rule``: the same for a set of rules, which may have found the rows already."""

    def __init__(self, instruction: Filter, below: Block) -> None:
        super().__init__(instruction, (below,))
        self.predicate: Expr = instruction.predicate
        self.rule = rule_of(instruction.predicate)

    def give(self, turn: Turn) -> Delta:
        found, left = turn.found(self), self.predicate
        if found is None:
            found = turn.of(self.inputs[0])
        elif self.rule is None or self.rule.rest is None or not found.count:
            return found
        else:
            left = self.rule.rest
        return found.with_parts(tuple([part.where(left) for part in found.parts]))


class ProjectBlock(Block):
    """Named columns. They are computed when somebody wants the rows."""

    def __init__(self, instruction: Project, below: Block, schemas: Mapping[str, pa.Schema]) -> None:
        super().__init__(instruction, (below,))
        self.select = BoundSelect(list(zip(instruction.names, instruction.exprs, strict=True)), schemas)
        # By its text: blocks with the same compute the same of a row.
        self.listed = repr((instruction.names, instruction.exprs))
        self._answers: Answers | None = None

    def give(self, turn: Turn) -> Delta:
        return self.selected(turn.of(self.inputs[0]))

    def answers_of(self, nothing: Nothing) -> Answers:
        """What Results ask for rows, and the Result of no rows, the same every time."""
        if self._answers is None or self._answers.schemas != nothing.parts[0].schemas:
            self._answers = self.selected(nothing).answers
        return self._answers

    def selected(self, delta: Delta) -> Selected:
        """The columns of rows."""
        (part,) = delta.parts
        part, answers = part.with_select(self.select), self._answers
        if answers is None or answers.schemas != part.schemas:
            answers = self._answers = Answers(part)
        return Selected((part,), delta.late, delta.watermark, answers=answers)


class UnionBlock(Block):
    """All rows of its inputs."""

    def __init__(self, instruction: Union, inputs: Sequence[Block]) -> None:
        super().__init__(instruction, inputs)

    def give(self, turn: Turn) -> Delta:
        deltas = [turn.of(block) for block in self.inputs]
        parts = tuple([part for delta in deltas for part in delta.parts])
        known = [delta.watermark for delta in deltas if delta.watermark is not None]
        return Delta(parts, late_of(deltas), min(known) if len(known) == len(deltas) else None)
