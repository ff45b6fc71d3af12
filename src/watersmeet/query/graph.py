"""The blocks of all queries: made from instructions, each once. Equal instructions are one block, whoever has asked for it.

A block that remembers is the same as another only if both have also begun at the same moment, in the same way: ``starts`` says how, for
each instruction of a plan that remembers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, NamedTuple

import pyarrow as pa

from watersmeet.query.block import Block, FilterBlock, JoinBlock, Key, ProjectBlock, ScanBlock, UnionBlock
from watersmeet.query.feed import Feed
from watersmeet.query.from_ranges import FromRanges, sides_of
from watersmeet.query.group_blocks import GroupsBlock
from watersmeet.query.instruction import (
    Clock,
    Distinct,
    Filter,
    Groups,
    Instruction,
    Join,
    JoinOf,
    Keep,
    Open,
    Project,
    Punctual,
    Release,
    Scan,
    Sliding,
    Top,
    Union,
    Windows,
)
from watersmeet.query.join_of import JoinOfBlock
from watersmeet.query.past import Beginning, Found, attach
from watersmeet.query.punctual import ClockBlock, PunctualBlock
from watersmeet.query.row_blocks import KeepBlock, ReleaseBlock
from watersmeet.query.rules import Place, arranged
from watersmeet.query.top import TopBlock
from watersmeet.query.window_blocks import DistinctBlock, OpenBlock, WindowsBlock

COLD, WARM = 0, 1
AT_ONCE = -1


class Start(NamedTuple):
    """When a block has begun: after so many pushes; and how.

    ``warm``: COLD, it knows rows from then on; else it has been given those that were stored. WARM: and what it made of them was
    not asked for. A number above: it was, for one query, whose blocks nobody shares.

    ``moment``: AT_ONCE, or the moment of the history from which it was to know rows: it has been given those that came since.
    """

    pushes: int
    warm: int = COLD
    moment: int = AT_ONCE

    @property
    def options(self) -> Beginning:
        """How a join is to begin."""
        moment = None if self.moment == AT_ONCE else self.moment
        return Beginning(self.warm > COLD, self.warm > WARM, moment)


Starts = Mapping[Instruction, Start]


def remembering(plan: Instruction) -> Iterator[Instruction]:
    """The instructions of a plan that have state."""
    if plan.remembers:
        yield plan
    for below in plan.inputs:
        yield from remembering(below)


def joins_of(plan: Instruction) -> Iterator[Join]:
    """The joins of a plan."""
    if isinstance(plan, Join):
        yield plan
    for below in plan.inputs:
        yield from joins_of(below)


def blocks_of(block: Block) -> Iterator[Block]:
    """A block and all that it reads from."""
    yield block
    for below in block.inputs:
        yield from blocks_of(below)


class QueryFailedError(Exception):
    """A query cannot begin, for a reason of its own."""

    def __init__(self, query: str, error: Exception) -> None:
        super().__init__(query)
        self.query, self.error = query, error


@dataclass(frozen=True)
class Change:
    """What another set of plans has made of the blocks: enough to go back, or to let go of what is not needed any more."""

    before: Mapping[Key, Block]
    after: Mapping[Key, Block]


class Graph:
    """Blocks by what they do."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.blocks: Mapping[Key, Block] = {}
        self._made = 0  # blocks so far
        # The filters that are evaluated together, and whether that is of the blocks as they are now.
        self._arranged: tuple[Mapping[Block, Place], bool] = {}, True
        self._roots: Sequence[Block] | None = ()  # whose the blocks are; None: not known
        # The blocks that only count, and the others; None: not known.
        self._parted: tuple[list[Block], list[Block]] | None = None

    def become(
        self,
        kept: Sequence[Block],
        plans: Sequence[tuple[str, Instruction, Starts]],
        changes: list[Change],
        found: Found | None,
    ) -> list[Block]:
        """The blocks that are kept, with all that they read from, and those of the plans, and no others. Equal ones that are there stay.

        The change is noted in ``changes`` before it takes place: ``undo`` makes it not have been, until ``settle``. Plans have
        the names of their queries with them, for ``QueryFailedError``. ``found`` gets what new joins have found in rows that are stored;
        None: none is given anything, as all will be restored.
        """
        same = self._roots is not None and len(kept) == len(self._roots) and all(map(is_, kept, self._roots))
        made = dict(self.blocks) if same else _all_of(kept)
        try:
            roots = [self._root(*plan, made, found) for plan in plans]
            changes.append(Change(self.blocks, made))
        except BaseException:
            self._let_go(made, self.blocks)
            raise
        self._become(made, [*kept, *roots])
        return roots

    def settle(self, change: Change) -> None:
        """Nobody will go back: joins that are not needed any more let go of their rows. May be repeated."""
        self._let_go(change.before, change.after)

    def undo(self, change: Change) -> None:
        """The blocks that were there before. May be repeated."""
        self._let_go(change.after, change.before)
        self._become(change.before)

    def keep(self, roots: Iterable[Block]) -> None:
        """Only these blocks, and those they read from. May be repeated."""
        kept = _all_of(roots)
        self._let_go(self.blocks, kept)
        self._become(kept)

    def _let_go(self, some: Mapping[Key, Block], others: Mapping[Key, Block]) -> None:
        for key, block in some.items():
            if isinstance(block, JoinBlock) and key not in others:
                self.feed.detach(block)

    def _root(
        self,
        query: str,
        plan: Instruction,
        starts: Starts,
        made: dict[Key, Block],
        found: Found | None,
    ) -> Block:
        try:
            return self._block(plan, starts, made, found)
        except MemoryError:
            raise
        except Exception as error:  # of rows that it is given, perhaps
            raise QueryFailedError(query, error) from error

    def _block(
        self,
        plan: Instruction,
        starts: Starts,
        made: dict[Key, Block],
        found: Found | None,
    ) -> Block:
        # By its text: numbers that are equal need not be the same (0.0 and -0.0), and a text knows its hash.
        key = (repr(plan), *(starts[one] for one in remembering(plan)))
        if key not in made:
            inputs = [self._block(below, starts, made, found) for below in plan.inputs]
            block = self.blocks.get(key)
            if block is None:
                block = self._new(plan, inputs)
                self._made += 1
                block.key, block.number = key, self._made
                made[key] = block
                if isinstance(block, JoinBlock):
                    attach(self.feed, block, None if found is None else starts[plan].options, found)
                elif isinstance(block, JoinOfBlock) and found is not None:
                    block.begin(
                        {
                            k: self.feed.payload(name).rows_between(0, self.feed.arrived(name))
                            for k, name in self._tables(block.inputs).items()
                        }
                    )
            made[key] = block
        return made[key]

    def _new(self, plan: Instruction, inputs: list[Block]) -> Block:
        schemas = self.feed.known.schemas
        match plan:
            case Scan():
                return ScanBlock(plan)
            case Join():
                mine = [schemas[stream] for stream in plan.streams]
                return JoinBlock(
                    plan, mine, self.feed.interner, self.feed.shared.pool.cores, self.feed.by_push
                )
            case JoinOf():
                return JoinOfBlock(plan, inputs, self.feed.shared.pool, self._tables(inputs))
            case Filter():
                return FilterBlock(plan, inputs[0])
            case Project():
                return ProjectBlock(plan, inputs[0], _by_leaf(plan, schemas))
            case Union():
                return UnionBlock(plan, inputs)
            case Clock():
                own = [self.feed.windows[tick.stream].time == tick.window.time for tick in plan.ticks]
                return ClockBlock(plan, [schemas[stream] for stream in plan.streams], own, self.feed.by_push)
            case Punctual():
                return PunctualBlock(plan, *inputs)
            case Groups():
                sides = sides_of(plan)
                ranges = None if sides is None else FromRanges(plan, sides, _by_leaf(plan, schemas))
                rows = _rows_schema(inputs[0])
                return GroupsBlock(plan, inputs[0], rows, *self._slides_over(plan.sliding), ranges)
            case Open():
                return OpenBlock(plan, inputs[0], _rows_schema(inputs[0]))
            case Windows():
                return WindowsBlock(plan, inputs[0], _rows_schema(inputs[0]))
            case Distinct():
                return DistinctBlock(plan, inputs[0], _rows_schema(inputs[0]))
            case Keep():
                return KeepBlock(plan, inputs[0], _rows_schema(inputs[0]), *self._slides_over(plan.sliding))
            case Top():
                return TopBlock(plan, inputs[0])
            case Release():
                return ReleaseBlock(plan, inputs[0], _rows_schema(inputs[0]))

    def _tables(self, inputs: Sequence[Block]) -> dict[int, str]:
        """Which inputs of a join are tables."""
        scans = {
            k: scan for k, rows in enumerate(inputs) for scan in rows.inputs if isinstance(scan, ScanBlock)
        }
        return {k: scan.stream for k, scan in scans.items() if scan.stream in self.feed.tables}

    def _slides_over(self, sliding: Sliding | None) -> tuple[pa.Schema | None, bool]:
        """The schema of the stream that a sliding window is of, and whether it goes by that one's own time; None: it is of rows."""
        if sliding is None or sliding.stream is None:
            return None, False
        own = self.feed.windows[sliding.stream].time
        return self.feed.known.schemas[sliding.stream], own is not None and own == sliding.window.time

    @property
    def rules(self) -> Mapping[Block, Place]:
        """The filters that are evaluated together: made anew when the blocks are others."""
        places, known = self._arranged
        if not known:
            places = arranged(self.blocks.values(), places)
            self._arranged = places, True
        return places

    def _become(self, blocks: Mapping[Key, Block], roots: Sequence[Block] | None = None) -> None:
        self._roots, self._arranged = None, (self._arranged[0], False)
        self._parted = None  # blocks that are gone must be let go of
        self.blocks, self._roots = blocks, roots
        _say_form(blocks)

    def mark(self) -> Any:
        """How all blocks stand. Most of many only count their rows: their counts are one list."""
        if self._parted is None:
            blocks = list(self.blocks.values())
            counting = [block for block in blocks if type(block).mark is Block.mark]
            self._parted = counting, [block for block in blocks if type(block).mark is not Block.mark]
        counting, others = self._parted
        return counting, [block.rows for block in counting], [(block, block.mark()) for block in others]

    @staticmethod
    def back_to(mark: Any) -> None:
        """As they were at the mark. May be repeated."""
        counting, rows, others = mark
        for block, counted in zip(counting, rows, strict=True):
            block.rows = counted
        for block, standing in others:
            block.back_to(standing)


def _all_of(roots: Iterable[Block]) -> dict[Key, Block]:
    """Blocks and all that they read from, by key. Many read from the same few: those are gone through once."""
    made: dict[Key, Block] = {}
    for root in roots:
        left = [root]
        while left:
            block = left.pop()
            if block.key not in made:
                made[block.key] = block
                left += reversed(block.inputs)
    return made


def _say_form(blocks: Mapping[Key, Block]) -> None:
    """Joins give ranges if all who read them take those. Who does not can list them, so nothing depends on when this is said."""
    joins = [block for block in blocks.values() if isinstance(block, JoinBlock)]
    readers: dict[Block, list[Block]] = {}
    for block in blocks.values() if joins else ():
        for below in block.inputs:
            readers.setdefault(below, []).append(block)
    for join in joins:
        join.answer_in_ranges(
            all(
                isinstance(reader, GroupsBlock) and reader.from_ranges is not None
                for one in readers.get(join, [])
                for reader in readers.get(one, [one])
            )
        )


def _by_leaf(plan: Instruction, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Schema]:
    """The schema of each leaf of a plan without UNION."""
    if isinstance(plan, Join):
        return {leaf: schemas[stream] for leaf, stream in zip(plan.leaves, plan.streams, strict=True)}
    if isinstance(plan, Scan):
        return {plan.stream: schemas[plan.stream]}
    if isinstance(plan, JoinOf):
        return {leaf: pa.schema(list(own)) for leaf, own in zip(plan.leaves, plan.fields, strict=True)}
    if isinstance(plan, Windows | Distinct):
        return {plan.leaf: pa.schema(list(plan.fields))}
    return _by_leaf(plan.inputs[0], schemas)


def _rows_schema(block: Block) -> pa.Schema:
    """Of the rows that a block computes."""
    if isinstance(block, UnionBlock):
        return _rows_schema(block.inputs[0])
    assert isinstance(block, ProjectBlock)
    return block.select.schema
