"""A whole chain of sorted runs, probed by a few rows in one kernel call: what the short ways of tiny pushes have in common.

That needs BI-Sort in every sub-window, as the index chooser gives tiny batches. The call makes the same comparisons as a probe of each
sub-window by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from watersmeet.index.bi_sort import BISort
from watersmeet.join.chain import Check, SubWindow, spread
from watersmeet.kernels.short import GROUP, chain_pairs
from watersmeet.streams.arrival import Validity
from watersmeet.streams.clock import BOTTOM, TOP

ROOM = 1024  # pairs that there is room for, to begin with

_NO_KEYS = np.empty(0, np.int64)
_NO_ROWS = np.empty(0, np.int32)
_NO_CODES = np.empty((0, 0), np.int64)


@dataclass(slots=True)
class Runs:
    """The runs of a chain in the form that the kernel takes."""

    subwindows: Sequence[SubWindow]
    by: int  # which index of each
    newest: BISort
    keys: np.ndarray  # main array of the newest: a merge makes a new one
    groups: list[tuple[Any, ...]]  # the oldest sub-window first
    place: int  # of the newest in the last group

    def holds(self, subwindows: Sequence[SubWindow]) -> bool:
        """Whether these are still the runs: expiry makes a new list, a new sub-window a new index, a merge new keys.

        Rows that were trimmed are out of everybody's sight: they may stay.
        """
        newest = self.newest
        if self.subwindows is not subwindows or newest.keys is not self.keys:
            return False
        last = subwindows[-1]
        return (last.indexes[self.by] if self.by else last.index) is newest


def gather_runs(subwindows: Sequence[SubWindow], by: int = 0, checked: bool = True) -> Runs | None:
    """The sub-windows in groups, or None if one of them has another index. ``checked``: whether codes are to be compared."""
    every = [sub.indexes[by] for sub in subwindows if sub.index is not None]
    indexes = [index for index in every if type(index) is BISort]
    if len(indexes) < len(subwindows):
        return None
    parts: list[tuple[Any, ...]] = [
        (index.keys, index.rows, sub.base, sub.codes, sub.times)
        for index, sub in zip(indexes, subwindows, strict=True)
    ]
    parts += [(_NO_KEYS, _NO_ROWS, 0, _NO_CODES, _NO_KEYS)] * (-len(parts) % GROUP)
    checked, timed = checked and bool(len(subwindows[0].codes)), subwindows[0].times is not None
    groups = []
    for start in range(0, len(parts), GROUP):
        keys, rows, bases, codes, times = zip(*parts[start : start + GROUP], strict=True)
        groups.append((keys, rows, bases, codes if checked else None, times if timed else None))
    return Runs(subwindows, by, indexes[-1], indexes[-1].keys, groups, (len(indexes) - 1) % GROUP)


Asked = tuple[np.ndarray | None, ...]


class Search:
    """Room for what is found, kept from push to push."""

    def __init__(self) -> None:
        self.probes, self.stored = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
        self._since, self._until = np.empty(1, np.int64), np.empty(1, np.int64)

    def asked(
        self,
        lo: np.ndarray,
        hi: np.ndarray,
        rows: np.ndarray,
        validity: Validity,
        checks: Sequence[Check] = (),
    ) -> Asked:
        """What the kernel is to look for: keys in [lo, hi], for ``rows``. ``checks``: of every column of codes, or none."""
        low = high = firsts = None
        if checks:
            low = np.array([lo for check in checks for lo, _ in check])
            high = np.array([hi for check in checks for _, hi in check])
            firsts = _firsts(tuple([len(check) for check in checks]))
        since, until = validity.arrival_lo, validity.arrival_hi
        if isinstance(since, int) and isinstance(until, int):
            self._since[0], self._until[0] = since, until
            first, end = self._since, self._until
        else:
            first, end = spread(since, until), spread(until, since)
        return lo, hi, rows, first, end, validity.time_lo, validity.time_hi, low, high, firsts

    def find(self, runs: Runs, asked: Asked) -> int:
        """Fill ``probes`` and ``stored``, and return how many pairs there are, of which some may not have found room."""
        newest, n = runs.newest, 0
        for group in runs.groups[:-1]:
            n = chain_pairs(*group, _NO_KEYS, _NO_ROWS, 0, 0, *asked, n, self.probes, self.stored)
        buffer = (newest.buffer_keys, newest.buffer_rows, newest.buffered, runs.place)
        return chain_pairs(*runs.groups[-1], *buffer, *asked, n, self.probes, self.stored)

    def make_room(self, pairs: int) -> None:
        """For so many pairs, and more."""
        self.probes, self.stored = np.empty(2 * pairs, np.int64), np.empty(2 * pairs, np.int64)


@lru_cache(maxsize=64)
def _firsts(lengths: tuple[int, ...]) -> np.ndarray:
    """Where each column's intervals begin, and where the last one's end."""
    return np.array([0, *accumulate(lengths)])


def anything(rows: int) -> Check:
    """What any code of the other side passes."""
    return [(np.full(rows, BOTTOM), np.full(rows, TOP))]
