"""Rule sets: filters over one block whose predicates have one shape (``rule.py``) are evaluated together, by an index over their constants.

A push codes each key once for all rules, finds each row's bucket by its equalities, in it the rules whose range holds the row, and
lists by rule the rows, in order (``kernels/rules.py``). It is the join of the rows with the table of the rules' constants. Each filter
takes the rows of its rule, and evaluates its rest, if it has one, on these alone: what fails there stops its query only.

A set is a function of the filters that there are, and holds nothing else: ``arranged`` makes the sets of some blocks, from those of the
blocks before, if they are known: what was worked out of filters that stay is kept. So there is nothing to take back when a call fails,
and nothing to save. A filter may be evaluated in any set that it is in, or alone: its rows are the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, count, repeat
from operator import is_
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.dictionary import Dictionary
from watersmeet.codes.mix import mix
from watersmeet.join.matches import Matches
from watersmeet.kernels.code import INT_MAX, INT_MIN
from watersmeet.kernels.rules import EMPTY, enter_buckets, find_buckets, find_rules, reaches
from watersmeet.query.block import Block, FilterBlock, Turn
from watersmeet.query.delta import Delta, Nothing
from watersmeet.query.rule import LOW, Key, Rule
from watersmeet.sql.evaluate import evaluate
from watersmeet.sql.tree import Column, columns_of

FEW = 4  # filters that are evaluated one by one
SLACK = 1024  # texts of rules that are gone, which are never too many
_EVERYWHERE = np.empty(0, np.bool_)
_NO_ROWS = np.empty(0, np.int64)
Codes = tuple[np.ndarray, np.ndarray | None]


class KeyCodes:
    """The codes of one key: of the constants of all rules, and of rows. A text's code is its number among the constants."""

    def __init__(self, key: Key) -> None:
        self._expr, self._domain = key.expr, key.domain
        self._texts = Dictionary(pa.large_binary()) if key.texts else None
        self.columns = columns_of(key.expr)

    @property
    def known(self) -> int:
        """How many texts have a number, also those of rules that are gone."""
        return 0 if self._texts is None else len(self._texts)

    def constants(self, values: Sequence[np.ndarray | pa.Array]) -> np.ndarray:
        """The codes of values, of one rule after the other."""
        if self._texts is None:
            return np.concatenate(values)
        return self._texts.encode(pa.concat_arrays(values))[:, 0]

    def rows(self, columns: Mapping[tuple[str, str], pa.Array], length: int) -> Codes:
        """The codes of rows, and which can match at all (None: all)."""
        expr = self._expr
        if isinstance(expr, Column):
            column = columns[expr.stream, expr.name]
        else:
            column = evaluate(expr, columns, length)
        if self._texts is None:
            return self._domain.codes(column)
        return self._texts.find(column)


class Entries(NamedTuple):
    """Rules with one value of each of their equalities, a column an entry; ``equal``, ``lows``, ``highs`` have a row a key."""

    owners: np.ndarray  # the rule's number
    equal: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    @staticmethod
    def of(rules: Sequence[Rule], keys: Sequence[KeyCodes], first: int) -> Entries:
        """Of rules that are numbered from ``first`` on."""
        owners = np.repeat(np.arange(len(rules)), [rule.combinations for rule in rules])
        equal = [key.constants([rule.equal[k][1] for rule in rules]) for k, key in enumerate(keys)]
        ends = [[(one.low, one.high) for one in rule.ranges] for rule in rules]
        lows, highs = (
            np.array(ends, np.int64).reshape(len(rules), len(rules[0].ranges), 2)[owners].transpose(2, 1, 0)
        )
        return Entries(owners + first, np.array(equal, np.int64).reshape(len(keys), owners.size), lows, highs)

    def chosen(self, which: np.ndarray) -> Entries:
        """Some of them, by place or mask."""
        return Entries(self.owners[which], self.equal[:, which], self.lows[:, which], self.highs[:, which])

    def kept(self, stays: np.ndarray) -> Entries:
        """Those of the rules that stay, which are numbered anew."""
        found = self.chosen(stays[self.owners])
        return found._replace(owners=(np.cumsum(stays) - 1)[found.owners])

    def followed_by(self, others: Entries) -> Entries:
        """All."""
        return Entries(*(np.concatenate(both, axis=-1) for both in zip(self, others, strict=True)))


class Index:
    """The constants of rules of one shape, so laid out that a row finds the rules that it satisfies."""

    def __init__(
        self, shape: Rule, keys: Sequence[KeyCodes], ranged: Sequence[KeyCodes], entries: Entries, count: int
    ) -> None:
        """``shape``: any of the rules; ``count``: how many there are."""
        self._shape, self._equal, self._ranged, self._count = shape, keys, ranged, count
        self._entries = entries
        owners, equal, lows, highs = entries
        # A range without a lower end is turned round, so that rules with one end lie in its order.
        self._turned = bool(ranged) and LOW not in shape.ranges[0].ends
        low, high = np.full(owners.size, INT_MIN), np.full(owners.size, INT_MAX)
        if ranged:
            low, high = (~highs[0], ~lows[0]) if self._turned else (lows[0], highs[0])
        several = equal if len(keys) > 1 else equal[:0]  # then a bucket is a hash of them
        lows, highs = np.vstack([several, lows[1:]]), np.vstack([several, highs[1:]])
        hashes = _hashed(equal, owners.size)
        possible = np.logical_and.reduce([low <= high, *(lows <= highs)])
        order = np.lexsort((low, hashes))
        order = order[possible[order]]
        self._low, self._high, self._owners = low[order], high[order], owners[order]
        self._lows, self._highs = (np.ascontiguousarray(ends[:, order]) for ends in (lows, highs))
        self._lay_out(hashes[order])

    @staticmethod
    def of(rules: Sequence[Rule]) -> Index:
        """Made of all rules."""
        shape = rules[0]
        keys = [KeyCodes(key) for key, _ in shape.equal]
        ranged = [KeyCodes(one.key) for one in shape.ranges]
        return Index(shape, keys, ranged, Entries.of(rules, keys, 0), len(rules))

    def changed(self, stays: np.ndarray, fresh: Sequence[Rule]) -> Index | None:
        """The rules that stay, and others after them: what was made of the former is kept. None: too much would be kept for nothing."""
        entries, count = self._entries.kept(stays), int(stays.sum())
        if fresh:
            entries = entries.followed_by(Entries.of(fresh, self._equal, count))
        if any(key.known > 2 * entries.owners.size + SLACK for key in self._equal):
            return None
        return Index(self._shape, self._equal, self._ranged, entries, count + len(fresh))

    def _lay_out(self, hashes: np.ndarray) -> None:
        """The buckets of sorted entries."""
        found, begins = np.unique(hashes, return_index=True)
        self._begins = np.append(begins, hashes.size)
        self._reach = np.empty_like(self._high)
        reaches(self._begins, self._high, self._reach)
        bits = max(1, (2 * found.size).bit_length())
        self._shift = np.uint64(64 - bits)
        self._slots, self._numbers = np.zeros(1 << bits, np.uint64), np.full(1 << bits, EMPTY)
        enter_buckets(found.view(np.uint64), self._shift, self._slots, self._numbers)

    @property
    def columns(self) -> list[Column]:
        """What it reads of the rows."""
        return [column for key in (*self._equal, *self._ranged) for column in key.columns]

    def find(self, columns: Mapping[tuple[str, str], pa.Array], length: int) -> tuple[np.ndarray, np.ndarray]:
        """The places of the rows that satisfy each rule, of one rule after the other, in order; and where each one's begin, and the last
        one's end.
        """
        equal = [key.rows(columns, length) for key in self._equal]
        ranged = [key.rows(columns, length) for key in self._ranged]
        masks = [mask for _, mask in (*equal, *ranged) if mask is not None]
        valid = np.logical_and.reduce(masks) if masks else _EVERYWHERE
        hashes = _hashed([codes for codes, _ in equal], length)
        buckets = np.empty(length, np.int64)
        find_buckets(hashes.view(np.uint64), valid, self._shift, self._slots, self._numbers, buckets)
        codes = ranged[0][0] if ranged else np.zeros(length, np.int64)
        checked = [*(equal if len(equal) > 1 else ()), *ranged[1:]]
        others = np.empty((len(checked), length), np.int64)
        for own, (more, _) in zip(others, checked, strict=True):
            own[:] = more
        entries = self._low, self._high, self._reach, self._lows, self._highs, self._owners
        given = buckets, ~codes if self._turned else codes, others, self._begins, *entries
        starts = np.zeros(self._count + 1, np.int64)
        find_rules(*given, starts[1:], False, _NO_ROWS)
        starts = np.cumsum(starts)
        rows = np.empty(int(starts[-1]), np.int64)
        find_rules(*given, starts[:-1].copy(), True, rows)
        return rows, starts


def _hashed(codes: Sequence[np.ndarray] | np.ndarray, length: int) -> np.ndarray:
    """The bucket's hash of equalities; of one it is the code itself, so that nothing else need be compared."""
    if not len(codes):
        return np.zeros(length, np.int64)
    return (
        np.ascontiguousarray(codes[0])
        if len(codes) == 1
        else mix([np.ascontiguousarray(one) for one in codes])
    )


@dataclass(frozen=True)
class Found(Delta):
    """What a push has brought the rules of a set: for each, the numbers of its rows."""

    numbers: Sequence[np.ndarray] = ()
    starts: Sequence[int] = ()
    some: list[int] = field(default_factory=list)  # the rules that have any
    nothing: Delta = field(kw_only=True)  # what a rule gives that no row satisfies

    def of(self, number: int) -> Delta:
        """The rows that constants let pass for one rule."""
        begin, end = self.starts[number], self.starts[number + 1]
        if begin == end:
            return self.nothing
        (part,) = self.parts
        matches = Matches.of(tuple([own[begin:end].copy() for own in self.numbers]))
        return self.with_parts((part.with_matches(matches),))


class RuleSet(Block):
    """Filters that are evaluated together."""

    def __init__(self, filters: Sequence[FilterBlock], index: Index | None = None) -> None:
        """``index``: of the filters, if there is one."""
        super().__init__(filters[0].instruction, filters[0].inputs)
        self.filters = tuple(filters)
        self._index = Index.of([_rule(one) for one in filters]) if index is None else index
        self._nothing: Nothing | None = None

    def changed(self, filters: Sequence[FilterBlock]) -> RuleSet:
        """The set of other filters of its shape: those that were there first, then others."""
        if len(filters) == len(self.filters) and all(map(is_, filters, self.filters)):
            return self
        wanted, there = dict.fromkeys(filters), set(self.filters)
        stays = np.array([one in wanted for one in self.filters])
        fresh = [one for one in filters if one not in there]
        kept = [*compress(self.filters, stays), *fresh]
        made = RuleSet(kept, self._index.changed(stays, [_rule(one) for one in fresh]))
        made._nothing = self._nothing
        return made

    @property
    def by(self) -> str:
        """The keys of the index, in words."""
        rule = _rule(self.filters[0])
        keys = dict.fromkeys(
            str(key.expr) for key in (*(k for k, _ in rule.equal), *(r.key for r in rule.ranges))
        )
        return ", ".join(keys).replace("\0", "")

    def give(self, turn: Turn) -> Found:
        delta = turn.of(self.inputs[0])
        (part,) = delta.parts
        numbers = part.matches.columns()
        nothing = self._of_nothing(delta)
        if not numbers[0].size:
            return Found(
                delta.parts,
                delta.late,
                delta.watermark,
                starts=[0] * (len(self.filters) + 1),
                nothing=nothing,
            )
        columns = part.columns(self._index.columns, numbers)
        rows, starts = self._index.find(columns, numbers[0].size)
        found = [own.take(rows) for own in numbers]
        some = np.flatnonzero(np.diff(starts)).tolist()
        return Found(delta.parts, delta.late, delta.watermark, found, starts.tolist(), some, nothing=nothing)

    def _of_nothing(self, delta: Delta) -> Delta:
        """What filters give that let no row pass: the same from push to push, so that who reads it need not make it anew."""
        (part,), known = delta.parts, self._nothing
        if delta.late or delta.watermark is not None:
            return Delta((part.emptied(),), delta.late, delta.watermark)
        if known is None or known.parts[0].schemas != part.schemas:
            known = self._nothing = Nothing((part.emptied(),))
        return known


def _rule(block: FilterBlock) -> Rule:
    assert block.rule is not None
    return block.rule


Place = tuple[RuleSet, int]  # a set, and the filter's number in it


def arranged(blocks: Iterable[Block], before: Mapping[Block, Place]) -> dict[Block, Place]:
    """The sets of all filters among some blocks that share one. ``before``: those of other blocks, from which they are made if they can."""
    alike: dict[Hashable, list[FilterBlock]] = {}
    for block in blocks:
        if isinstance(block, FilterBlock) and block.rule is not None:
            alike.setdefault((block.inputs[0], block.rule.shape), []).append(block)
    places: dict[Block, Place] = {}
    for filters in alike.values():
        if len(filters) > FEW:
            known = next((before[block][0] for block in filters if block in before), None)
            together = RuleSet(filters) if known is None else known.changed(filters)
            places.update(zip(together.filters, zip(repeat(together), count()), strict=False))
    return places
