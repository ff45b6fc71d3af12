"""Results of rules, made straight from what their set has found, and gathered together.

A thousand rules find a few rows each, and a few rows cost as much to gather as some hundred. So the rows of all rules of a set that are
shown by one select list are gathered once, and each result is a slice of them: 631 results of two rows take 1 ms in place of 33.
What one result gives cannot depend on others: rows are evaluated each for itself, and if one of them fails all are gathered alone.

Who asks for the results of a few rules only has these gathered alone: neither time nor memory goes to the others. The same if rules
find many rows each, which gain nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet.api.result import Result, Rows
from watersmeet.join.matches import Matches
from watersmeet.query.block import Block
from watersmeet.query.delta import Answer, Gathered
from watersmeet.query.rules import Found
from watersmeet.streams.payload import Chunks

ALONE = 4  # results that are gathered one by one, before all are
SMALL = 64  # rows of a result, in the mean, up to which gathering together pays


class Together:
    """The rows of all rules of a set, of one push and one select list."""

    def __init__(
        self, answer: Answer, numbers: Sequence[np.ndarray], chunks: Sequence[Chunks | None]
    ) -> None:
        self._answer, self._numbers, self._chunks = answer, numbers, chunks
        self._rows: pa.RecordBatch | None = None
        self._left = ALONE

    def rows(self) -> pa.RecordBatch | None:
        """All rows; None: they have to be gathered alone. Several threads may ask: what each makes is the same."""
        if self._rows is None and self._left >= 0:
            self._left -= 1
            if self._left < 0:
                try:
                    self._rows = self._answer.rows(self._chunks, self._numbers)
                except Exception:  # of a row of somebody's; who has it will say so
                    return None
        return self._rows


class OfRule:
    """What the ``Result`` of a rule asks for its rows."""

    __slots__ = ("_answer", "_begin", "_together")
    mode = "pairs"

    def __init__(self, answer: Answer, together: Together, begin: int) -> None:
        self._answer, self._together, self._begin = answer, together, begin

    @property
    def streams(self) -> tuple[str, ...]:
        """The names by which numbers are listed."""
        return self._answer.streams

    def rows(self, chunks: Sequence[Chunks | None], arrivals: Sequence[np.ndarray]) -> pa.RecordBatch:
        """The first rows of the rule, as many as there are numbers."""
        found = self._together.rows()
        if found is None:
            return self._answer.rows(chunks, arrivals)
        return found.slice(self._begin, arrivals[0].size)


class Shown(NamedTuple):
    """Who shows the rows of a rule as its constants find them."""

    blocks: Sequence[Block]  # that have given these rows
    queries: Sequence[tuple[str, Answer, int]]  # by name, with the number of the select list


def results_of(found: Found, shown: Sequence[Shown | None], lists: int) -> dict[str, Result]:
    """The results of the queries that show rows as they were found; blocks count them. ``lists``: how many select lists there are."""
    (part,), starts, numbers = found.parts, found.starts, found.numbers
    small = starts[-1] <= SMALL * len(found.some)
    together: list[Together | None] = [None] * lists
    results: dict[str, Result] = {}
    for number in found.some:
        one = shown[number]
        if one is None:
            continue
        begin, end = starts[number], starts[number + 1]
        for block in one.blocks:
            block.rows += end - begin
        matches, gathered = Matches.of(tuple([own[begin:end].copy() for own in numbers])), Gathered()
        for name, answer, at in one.queries:
            rows: Rows = answer.sharing(gathered, end - begin)
            if small:
                several = together[at]
                if several is None:
                    several = together[at] = Together(answer, numbers, part.chunks)
                rows = OfRule(answer, several, begin)
            results[name] = Result(rows, matches, part.chunks, found.late)
    return results
