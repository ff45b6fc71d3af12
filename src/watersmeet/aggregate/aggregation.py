"""Aggregates of groups, as rows come and go."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.aggregate import snapshot
from watersmeet.aggregate.accumulators import Accumulators
from watersmeet.aggregate.amounts import Amounts
from watersmeet.aggregate.rows import ALL, Rows
from watersmeet.aggregate.spec import Grouping
from watersmeet.aggregate.table import Mark as TableMark
from watersmeet.aggregate.told import Changes, Told
from watersmeet.aggregate.told import Mark as ToldMark
from watersmeet.errors import DataError, OptionError, SchemaError, StateError
from watersmeet.kernels.groups import count_rows

T = TypeVar("T")


@dataclass(frozen=True)
class Mark:
    """Where an aggregation stood."""

    arrived: int
    groups: TableMark
    bags: tuple[TableMark, ...]
    told: ToldMark | None
    number: int


@dataclass(frozen=True)
class Folded:
    """Rows that were added up before they came: in which groups (some may be there twice), how many, and what they amount to."""

    keys: pa.RecordBatch
    counts: np.ndarray
    amounts: Mapping[str, Amounts]  # by column


class Aggregation:
    """The answer of a grouping over the rows that have been added and not retracted.

    ``retracts=False``: rows never go, and MIN, MAX, FIRST and LAST keep one value a group. ``changes=True``: ``changes`` can be asked for;
    else groups that have lost all rows are let go at once.

    A call that is refused changes nothing. ``mark`` and ``back_to`` take several calls back.

    >>> from watersmeet.aggregate.spec import Aggregate
    >>> prices = pa.record_batch({"sym": ["a", "b", "a"], "price": [0.1, 0.5, 0.2]})
    >>> totals = Aggregation(Grouping(("sym",), (Aggregate("sum", "price", "total"),)), prices.schema)
    >>> totals.add(prices)
    >>> totals.answer().to_pylist()
    [{'sym': 'a', 'total': 0.30000000000000004}, {'sym': 'b', 'total': 0.5}]
    """

    def __init__(
        self, grouping: Grouping, schema: pa.Schema, *, retracts: bool = True, changes: bool = False
    ) -> None:
        self.grouping, self._input = grouping, schema
        self.retracts = retracts
        self._state = Accumulators(grouping, schema, retracts)
        keys = [pa.field(name, schema.field(name).type) for name in grouping.keys]
        self.schema = pa.schema([*keys, *(field for field, _ in self._state.readers)])
        self._reads = {name: schema.field(name).type for name in grouping.columns}
        self.arrived = 0  # rows that were added; a row's arrival number is how many were before it
        self._told = Told(self._state.groups, self.schema) if changes else None
        self._marks = 0
        self._marked = False
        self._inside = 0  # calls that are under way
        if not grouping.keys:  # all rows are one group, which is there from the beginning
            slots, _ = self._state.groups.enter(np.zeros((1, 1), np.int64))
            if self._told is not None:
                self._told.touch(slots)

    # ---- rows come and go ---------------------------------------------------------------------------------------

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows have come. They get the next arrival numbers."""
        self._check(batch)
        rows = Rows(batch, np.arange(self.arrived, self.arrived + batch.num_rows))
        count = self.arrived + batch.num_rows

        def come() -> None:
            slots, made = self._state.groups.enter(self._keys(rows))
            self._state.born.data[slots[made]] = rows.numbers[made]
            self._change(rows, slots, 1)
            self.arrived = count

        self.atomically(come)

    def add_folded(self, folded: Folded, listed: pa.RecordBatch, sequence: Callable[[], np.ndarray]) -> None:
        """Rows have come, most of them folded; the others are ``listed``. Only where ``amounts.suffice`` says so.

        ``sequence``: the order in which groups of ``folded``, then rows of ``listed``, have first come. It is asked for only if there are
        new groups: the order of groups is that of their first rows.
        """
        self._check(listed)
        rows = Rows(listed, np.arange(self.arrived, self.arrived + listed.num_rows))
        count = self.arrived + listed.num_rows + int(folded.counts.sum())

        def come() -> None:
            groups = self._state.groups
            keys = np.concatenate((self._keys(Rows(folded.keys, rows.numbers[:0])), self._keys(rows)))
            known = groups.knows(keys)
            if not known.all():
                order = sequence()
                slots, made = groups.enter(keys[order[~known[order]]])
                self._state.born.data[slots[made]] = self.arrived + made
            slots, _ = groups.enter(keys)
            these, those = np.split(slots, [folded.keys.num_rows])
            self._state.add_amounts(these, folded.counts, folded.amounts)
            if self._told is not None:
                self._told.touch(these)
            self._change(rows, those, 1)
            self.arrived = count

        self.atomically(come)

    def retract(self, batch: pa.RecordBatch, numbers: np.ndarray | None = None) -> None:
        """Rows that were added are gone. ``numbers``: their arrival numbers, which FIRST and LAST need."""
        if not self.retracts:
            raise OptionError("rows can be retracted only where retracts=True; got an aggregation without")
        self._check(batch)
        if numbers is None and any(one.by is not None for one in self.grouping.aggregates):
            raise OptionError(
                "first and last must know the arrival numbers of rows that are retracted; got none"
            )
        if numbers is not None and numbers.shape != (batch.num_rows,):
            raise OptionError(f"there must be a number a row; got {numbers.size} of {batch.num_rows} rows")
        rows = Rows(batch, np.empty(0, np.int64) if numbers is None else numbers)

        def go() -> None:
            slots = self._state.groups.find(self._keys(rows))
            self._change(rows, slots, -1)
            if self._told is None and self.grouping.keys:
                empty = slots[self._state.rows.data[slots] == 0]
                if empty.size:
                    self._state.groups.drop(np.unique(empty))

        self.atomically(go)

    def _keys(self, rows: Rows) -> np.ndarray:
        if not self.grouping.keys:
            return np.zeros((len(rows), 1), np.int64)
        return rows.keys(self.grouping.keys, self._state.keys)

    def _change(self, rows: Rows, slots: np.ndarray, sign: int) -> None:
        if count_rows(slots, ALL, sign, self._state.rows.data) < 0:
            raise DataError("only rows that were added can be retracted; a group would have fewer than none")
        for accumulator in self._state:
            accumulator.add(slots, rows, sign)
        if self._told is not None:
            self._told.touch(slots)

    def _check(self, batch: pa.RecordBatch) -> None:
        for name, kind in self._reads.items():
            at = batch.schema.get_field_index(name)
            given = batch.schema.field(at).type if at >= 0 else None
            if given != kind:
                raise SchemaError(
                    f"a batch must have the column {name!r} of type {kind} once; got {given or 'none'}"
                )

    # ---- answers ------------------------------------------------------------------------------------------------

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return self._state.groups.held_slots

    @property
    def nbytes(self) -> int:
        """Of the columns of state; texts are not counted."""
        return sum(
            table.slots.nbytes for table in (self._state.groups, *(bag.table for bag in self._state.bags))
        )

    def answer(self) -> pa.RecordBatch:
        """All groups, in the order of their first rows; a group that had lost all rows counts from the row that brought it back."""
        slots = self._state.groups.held()
        if self.grouping.keys:
            slots = slots[self._state.rows.data[slots] > 0]
        return self._answer(self._in_order(slots))

    def release(self, stop: int) -> pa.RecordBatch:
        """Groups are final whose first key, a whole number or a moment, is below the code ``stop``: their rows, in order. They are let go.

        Nothing is told of that in ``changes``: what is final stays true.
        """

        def let_go() -> pa.RecordBatch:
            groups = self._state.groups
            slots = groups.held()
            slots = self._in_order(slots[groups.words.data[slots, 0] < stop])
            found = self._answer(slots)
            groups.slots.save(slots)
            for bag in self._state.bags:
                bag.drop_groups(slots)
            groups.drop(slots)
            return found

        return self.atomically(let_go)

    def least(self) -> int | None:
        """The smallest code among the groups' first keys; None: there is no group."""
        held = self._state.groups.held()
        return int(self._state.groups.words.data[held, 0].min()) if held.size else None

    def _in_order(self, slots: np.ndarray) -> np.ndarray:
        return slots[np.argsort(self._state.born.data[slots], kind="stable")]

    def _answer(self, slots: np.ndarray) -> pa.RecordBatch:
        columns, at = [], 0
        for codec in self._state.keys:
            words = self._state.groups.words.data[slots, at : at + codec.key_words]
            columns.append(codec.decode_or_null(words, codec.is_null(words)))
            at += codec.key_words
        columns += [read(slots) for _, read in self._state.readers]
        return pa.record_batch(columns, schema=self.schema)

    def changes(self, skipped: bool = False) -> Changes:
        """What is different since the last time this was asked. ``skipped``: changes were skipped since then."""
        told = self._telling()

        def tell() -> Changes:
            slots = self._in_order(self._state.groups.held() if skipped else told.touched())
            there = self._there(slots)
            found = told.tell(slots, there, self._answer(slots[there]), len(self.grouping.keys))
            self._state.groups.drop(slots[~there])
            return found

        return self.atomically(tell)

    def skip_changes(self) -> None:
        """Nobody wants to know what has changed so far: groups without rows are let go."""
        told = self._telling()

        def skip() -> None:
            slots = told.touched()
            empty = slots[~self._there(slots)]
            self._state.groups.slots.save(empty)
            self._state.groups.drop(empty)
            told.skip()

        self.atomically(skip)

    def _telling(self) -> Told:
        if self._told is None:
            raise OptionError(
                "changes must be asked for with changes=True when an aggregation is made; got one without"
            )
        return self._told

    def _there(self, slots: np.ndarray) -> np.ndarray:
        """Which groups have rows; that of all rows is always there."""
        there: np.ndarray = self._state.rows.data[slots] > 0
        return there if self.grouping.keys else np.ones(slots.size, np.bool_)

    # ---- saving -------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, pa.Table]:
        """The whole state as Arrow tables by name: what ``restored`` takes."""
        return snapshot.save(self._state, self._told, {**self._about(), "arrived": self.arrived})

    def restored(self, tables: Mapping[str, pa.Table]) -> "Aggregation":
        """An aggregation like this one, with the state of a snapshot that was taken of one like this."""
        found = snapshot.about(tables)
        for what, own in self._about().items():
            if found.get(what) != own:
                raise StateError(f"a snapshot must be of the same {what}: {own}; got {found.get(what)}")
        fresh = Aggregation(
            self.grouping, self._input, retracts=self.retracts, changes=self._told is not None
        )
        snapshot.load(tables, fresh._state, fresh._told)
        fresh.arrived = found["arrived"]
        return fresh

    def _about(self) -> dict[str, str]:
        columns = ", ".join(f"{name} {kind}" for name, kind in self._reads.items())
        options = f"retracts={self.retracts}, changes={self._told is not None}"
        return {"grouping": str(self.grouping), "columns": columns, "options": options}

    # ---- undo ---------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Where things stand: what ``back_to`` goes back to, until the next mark or ``commit``."""
        self._marks += 1
        self._tidy()
        self._marked = True
        return self._mark(forget=True)

    def commit(self) -> None:
        """Nobody will go back to the last mark."""
        self._marks += 1
        self._marked = False

    def back_to(self, mark: Mark) -> None:
        """As it was at the mark. May be repeated, should it be interrupted."""
        if mark.number != self._marks:
            raise StateError("only the last mark can be gone back to, until commit; got another one")
        self._back_to(mark)

    def _mark(self, forget: bool) -> Mark:
        bags = tuple(bag.mark(forget) for bag in self._state.bags)
        told = None if self._told is None else self._told.mark()
        return Mark(self.arrived, self._state.groups.mark(forget), bags, told, self._marks)

    def _tidy(self) -> None:
        """Let go of what nobody needs, while nobody can go back to it."""
        crowded = [bag for bag in self._state.bags if bag.crowded]
        if crowded:
            mark = self._mark(forget=True)
            try:
                for bag in crowded:
                    bag.tidy()
            except BaseException:
                self._back_to(mark)
                raise
        self._state.forget_texts()

    def _back_to(self, mark: Mark) -> None:
        self._state.groups.back_to(mark.groups)
        for bag, bag_mark in zip(self._state.bags, mark.bags, strict=True):
            bag.back_to(bag_mark)
        if self._told is not None and mark.told is not None:
            self._told.back_to(mark.told)
        self.arrived = mark.arrived

    def atomically(self, work: Callable[[], T]) -> T:
        """Do some work, which is taken back if it fails. May be nested."""
        free = not self._marked and not self._inside
        if free:
            self._tidy()
        mark = self._mark(forget=free)
        self._inside += 1
        try:
            return work()
        except BaseException:
            self._back_to(mark)
            raise
        finally:
            self._inside -= 1
