"""Pushes on their way through a network, and what has left it for them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from watersmeet.flow.driver.punctuate import punctuate, punctuate_without_results
from watersmeet.flow.models.message import Found
from watersmeet.flow.order import Order, Punctuations
from watersmeet.join.matches import Matches
from watersmeet.streams.arrival import Gone


@dataclass(slots=True, eq=False)
class Pending:
    """A push whose results have not all left."""

    mark: int
    rows: int
    started: float
    gone: tuple[Gone, ...]  # by stream, as of its end: what can never match again
    counts: np.ndarray  # as of its beginning, to go back to
    clock: np.ndarray
    ends: np.ndarray  # the counts as of its end


@dataclass(slots=True)
class Gathered:
    """What has left the network for one result."""

    matches: Matches = field(default_factory=Matches)
    marks: list[tuple[Punctuations, int]] = field(default_factory=list)
    rows: int = 0  # of ordered results so far

    def add(self, streams: Sequence[str], found: Found) -> None:
        if found.arranged is None:
            self.matches.add_all(found.matches)
            return
        self.marks.append((punctuate(streams, found.load, found.arranged), self.rows))
        if found.arranged.left.size:
            self.rows += found.arranged.left.size
            self.matches.pairs.append((found.arranged.left, found.arranged.right))

    def add_alone(self, streams: Sequence[str], order: Order, pending: Pending) -> None:
        """A push that went nowhere, as the other stream has not begun: its rows have found nobody, and that is said."""
        sequence = int(pending.counts.sum())
        for k, (first, end) in enumerate(zip(pending.counts.tolist(), pending.ends.tolist(), strict=True)):
            marks = punctuate_without_results(streams, order, sequence, k, first, end - first)
            self.marks.append((marks, 0))
            sequence += end - first
