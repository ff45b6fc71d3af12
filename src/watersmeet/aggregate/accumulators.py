"""Which accumulators a grouping needs, and how each aggregate is read from them. Aggregates of one column share what they can."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.aggregate.amounts import Amounts
from watersmeet.aggregate.bag import Bag
from watersmeet.aggregate.dictionary import Dictionary
from watersmeet.aggregate.extreme import Extreme
from watersmeet.aggregate.order import ByTime, ByValue, Payload
from watersmeet.aggregate.results import result_type
from watersmeet.aggregate.rows import ALL, Rows
from watersmeet.aggregate.slots import Cells
from watersmeet.aggregate.spec import Aggregate, Grouping
from watersmeet.aggregate.sums import FloatSums, WholeSums
from watersmeet.aggregate.table import Table
from watersmeet.aggregate.values import Codec, codec
from watersmeet.codes.text import is_bytes
from watersmeet.errors import SchemaError
from watersmeet.kernels.groups import count_many, count_rows

Holder = tuple[Cells, int, np.ndarray]  # a column of state, which of its words, in which slots
Reader = Callable[[np.ndarray], pa.Array]
VARIANCES = {"var_samp": (1, False), "var_pop": (0, False), "stddev_samp": (1, True), "stddev_pop": (0, True)}


class Accumulator(Protocol):
    """State beside the groups that rows are added to (sign 1), or taken from (-1)."""

    def add(self, slots: np.ndarray, rows: Rows, sign: int) -> None: ...


class Counts:
    """How many values of a column are not NULL."""

    def __init__(self, groups: Table, column: str) -> None:
        self._column, self.counts = column, groups.column()

    def add(self, slots: np.ndarray, rows: Rows, sign: int) -> None:
        count_rows(slots, rows.valid(self._column), sign, self.counts.data)


class Sums:
    """Sums of a column: of floats, or of whole numbers."""

    def __init__(self, groups: Table, column: str, kind: pa.DataType, squares: bool) -> None:
        self._column = column
        floats = pt.is_floating(kind) or pt.is_null(kind)
        self.of = FloatSums(groups, squares) if floats else WholeSums(groups, kind, squares)
        self.counts = self.of.counts

    def add(self, slots: np.ndarray, rows: Rows, sign: int) -> None:
        self.of.add(slots, rows, self._column, sign)


class Accumulators:
    """All of one grouping. ``retracts``: rows may be taken away again."""

    def __init__(self, grouping: Grouping, schema: pa.Schema, retracts: bool) -> None:
        self._schema, self._retracts, self._grouping = schema, retracts, grouping
        self._codecs: dict[str, Codec] = {}
        self.keys = [self.codec(name, "a group column") for name in grouping.keys]
        self.groups = Table(sum(key.key_words for key in self.keys) or 1)
        self.rows: Cells = self.groups.column()
        self.born: Cells = self.groups.column()  # the arrival number of a group's first row
        self._sums: dict[str, Sums] = {}
        self._counts: dict[str, Counts] = {}
        self._bags: dict[str, Bag] = {}
        self._picks: dict[str, Bag] = {}
        self._extremes: dict[tuple[str, bool], Extreme] = {}
        self._picked: dict[tuple[str, bool], Extreme] = {}
        # Sums first: they count their values, so that COUNT has nothing left to do.
        for aggregate in sorted(
            grouping.aggregates, key=lambda one: one.function in ("count", "count_distinct")
        ):
            self._make(aggregate)
        self.readers: list[tuple[pa.Field, Reader]] = []
        for aggregate in grouping.aggregates:
            kind = None if aggregate.column is None else self._type(aggregate.column)
            result = result_type(aggregate, kind)
            self.readers.append((pa.field(aggregate.name, result), self._reader(aggregate, result)))

    def __iter__(self) -> Iterator[Accumulator]:
        yield from self._sums.values()
        yield from self._counts.values()
        yield from self.bags
        yield from self._extremes.values()
        yield from self._picked.values()

    def add_amounts(self, slots: np.ndarray, counts: np.ndarray, amounts: Mapping[str, Amounts]) -> None:
        """Add so many rows to each slot, and what they amount to, by column. Of sums and counts only: ``amounts.suffice``."""
        count_many(slots, ALL, counts, self.rows.data)
        for column, sums in self._sums.items():
            sums.of.add_amounts(slots, amounts[column])
        for column, counts_of in self._counts.items():
            count_many(slots, ALL, amounts[column].counts, counts_of.counts.data)

    @property
    def bags(self) -> list[Bag]:
        return [*self._bags.values(), *self._picks.values()]

    # ---- making -------------------------------------------------------------------------------------------------

    def _type(self, column: str) -> pa.DataType:
        if self._schema.get_field_index(column) < 0:
            raise SchemaError(
                f"a grouping's columns must be in the schema once; got {column!r}; there are: {', '.join(self._schema.names)}"
            )
        return self._schema.field(column).type

    def codec(self, column: str, use: str) -> Codec:
        if column not in self._codecs:
            kind = self._type(column)
            self._codecs[column] = Dictionary(kind) if is_bytes(kind) else codec(kind, column, use)
        return self._codecs[column]

    def _make(self, aggregate: Aggregate) -> None:
        function, column = aggregate.function, aggregate.column
        if column is None:
            return
        if function == "count":
            self._type(column)
            if column not in self._sums and column not in self._counts:
                self._counts[column] = Counts(self.groups, column)
        elif function == "count_distinct":
            self._bag(column)
        elif function in ("min", "max"):
            self._end(column, function == "max")
        elif aggregate.by is not None:
            self._pick(aggregate.by, function == "last")
        elif column not in self._sums:
            result_type(aggregate, self._type(column))
            squares = any(
                one.column == column and one.function in VARIANCES for one in self._grouping.aggregates
            )
            self._sums[column] = Sums(self.groups, column, self._type(column), squares)

    def _bag(self, column: str) -> Bag:
        if column not in self._bags:
            order = ByValue(column, self.codec(column, "MIN, MAX and COUNT(DISTINCT)"))
            self._bags[column] = Bag(self.groups, order, Payload({}))
        return self._bags[column]

    def _end(self, column: str, largest: bool) -> None:
        if self._retracts:
            self._bag(column).heap(largest)
        elif (column, largest) not in self._extremes:
            order = ByValue(column, self.codec(column, "MIN, MAX and COUNT(DISTINCT)"))
            self._extremes[column, largest] = Extreme(self.groups, order, Payload({}), largest)

    def _pick(self, by: str, largest: bool) -> None:
        if is_bytes(self._type(by)):
            raise SchemaError(
                f"FIRST and LAST must go by a time or a number; column {by!r} is {self._type(by)}; cast it"
            )
        order = ByTime(by, self.codec(by, "FIRST and LAST"))
        picked = [one.column for one in self._grouping.aggregates if one.by == by and one.column is not None]
        payload = Payload({column: self.codec(column, "FIRST and LAST") for column in picked})
        if not self._retracts:
            self._picked.setdefault((by, largest), Extreme(self.groups, order, payload, largest))
            return
        if by not in self._picks:
            self._picks[by] = Bag(self.groups, order, payload)
        self._picks[by].heap(largest)

    # ---- reading ------------------------------------------------------------------------------------------------

    def _reader(self, aggregate: Aggregate, result: pa.DataType) -> Reader:
        function, column, by = aggregate.function, aggregate.column, aggregate.by
        if column is None:
            return partial(_numbers, self.rows)
        if function == "count":
            return partial(_numbers, (self._sums.get(column) or self._counts[column]).counts)
        if function == "count_distinct":
            return partial(_numbers, self._bags[column].distinct)
        if function in ("min", "max"):
            return partial(self._read_end, column, function == "max")
        if by is not None:
            return partial(self._read_pick, by, column, function == "last")
        if function in VARIANCES:
            sample, root = VARIANCES[function]
            return partial(self._sums[column].of.variances, sample=sample, root=root)
        sums = self._sums[column].of
        return partial(sums.sums if function == "sum" else sums.averages, kind=result)

    def _read_end(self, column: str, largest: bool, slots: np.ndarray) -> pa.Array:
        if self._retracts:
            entries, none = self._bags[column].first(slots, largest)
            words = self._bags[column].table.words.data[entries, 1:]
        else:
            extreme = self._extremes[column, largest]
            words, none = extreme.best.data[slots], extreme.unknown(slots)
        return self._codecs[column].decode_or_null(words, none)

    def _read_pick(self, by: str, column: str, largest: bool, slots: np.ndarray) -> pa.Array:
        if self._retracts:
            bag = self._picks[by]
            assert bag.kept is not None
            entries, none = bag.first(slots, largest)
            return bag.payload.values(column, bag.kept.data[entries], none)
        extreme = self._picked[by, largest]
        assert extreme.kept is not None
        return extreme.payload.values(column, extreme.kept.data[slots], extreme.unknown(slots))

    # ---- texts --------------------------------------------------------------------------------------------------

    @property
    def dictionaries(self) -> dict[str, Dictionary]:
        """Of the columns that have one."""
        return {name: texts for name, texts in self._codecs.items() if isinstance(texts, Dictionary)}

    def forget_texts(self) -> None:
        """Dictionaries that have become crowded keep only what a group, an entry or an extreme still holds."""
        for name, texts in self.dictionaries.items():
            if texts.crowded:
                texts.keep([cells.data[slots, at] for cells, at, slots in self.holders(name)])

    def holders(self, name: str) -> Iterator[Holder]:
        """Where numbers of a column's texts are."""
        held, at = self.groups.held(), 0
        for key, words in zip(self._grouping.keys, self.keys, strict=True):
            if key == name:
                yield self.groups.words, at, held
            at += words.key_words
        if name in self._bags:
            table = self._bags[name].table
            yield table.words, 1, table.held()
        for (column, _), extreme in self._extremes.items():
            if column == name:
                yield extreme.best, 0, held[~extreme.unknown(held)]
        for bag in self._picks.values():
            if name in bag.payload and bag.kept is not None:
                yield bag.kept, bag.payload.place(name), bag.table.held()
        for extreme in self._picked.values():
            if name in extreme.payload and extreme.kept is not None:
                yield extreme.kept, extreme.payload.place(name), held[~extreme.unknown(held)]


def _numbers(cells: Cells, slots: np.ndarray) -> pa.Array:
    return pa.array(cells.data[slots], pa.int64())
