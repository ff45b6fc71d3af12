"""The short way of a few rows through the steps of an N-way join.

The same comparisons as ``steps.py`` makes, a kernel call a step instead of a walk through sub-windows and lots. Where a step is not made
for that (another index than BI-Sort, more pairs than a few), it and all that follow are walked in the plain way, from where things stand.
"""

from collections.abc import Sequence

import numpy as np

from watersmeet.index.base import PairBuffer
from watersmeet.join.chain import Block, Check, SubWindow
from watersmeet.join.matches import Matches
from watersmeet.join.orders import Step
from watersmeet.join.runs import Runs, Search, anything, gather_runs
from watersmeet.join.steps import Partials, Segments, Walk
from watersmeet.streams.arrival import Sees

_NOBODY = Partials(np.empty(0, np.int64), {}, {})


class ShortSteps:
    """Keeps the runs of each index that steps ask, for as long as they stay the same."""

    def __init__(self) -> None:
        self._runs: dict[tuple[int, int, bool], Runs | None] = {}
        self._search = Search()

    def find(
        self, walk: Walk, block: Block, sees: Sees, segments: Segments, buffer: PairBuffer, out: Matches
    ) -> None:
        """All results of a few rows."""
        partials = walk.first(block)
        for place, step in enumerate(walk.steps):
            rows, stored = partials.rows.size, segments[step.stream]
            more = self._further(walk, step, partials, sees, stored) if stored else _NOBODY
            if more is None:
                walk.go_on(place, partials, sees, segments, buffer, out)
                return
            partials = walk.passing(place, more) if more.rows.size else more
            found = partials.rows.size
            walk.seen.append((place, rows, found))
            if not found:
                return
        walk.give(partials, out)

    def _further(
        self, walk: Walk, step: Step, partials: Partials, sees: Sees, stored: Sequence[SubWindow]
    ) -> Partials | None:
        """Partial results with a row of one more stream, as the index finds them; None: nothing was done, take the plain way."""
        probe = walk.probe(step, partials, sees)
        checked, search = bool(step.checks), self._search
        runs = self._of(step, checked, stored)
        if runs is None or (walk.timed[step.stream] and probe.validity.time_lo is None):
            return None
        if not probe.bounds:
            return _NOBODY
        checks: list[Check] = []
        if checked:
            checks = [anything(partials.rows.size) if one is None else one for one in probe.checks]
        first, *others = probe.bounds
        lo, hi, rows = first.lo, first.hi, first.rows
        if others:
            lo = np.concatenate([one.lo for one in probe.bounds])
            hi = np.concatenate([one.hi for one in probe.bounds])
            rows = np.concatenate([one.rows for one in probe.bounds])
        n = search.find(runs, search.asked(lo, hi, rows, probe.validity, checks))
        if not n:
            return _NOBODY
        if n > search.probes.size:
            return None
        places, numbers = search.probes[:n], search.stored[:n].copy()
        more = partials.taken(places, step.kept)
        more.numbers[step.stream] = numbers
        for column in step.carried:
            more.codes[step.stream, column] = _at(stored, [sub.codes[column] for sub in stored], numbers)
        if walk.timed[step.stream]:
            times = [sub.times for sub in stored if sub.times is not None]
            more.times[step.stream] = _at(stored, times, numbers)
        return more

    def _of(self, step: Step, checked: bool, stored: Sequence[SubWindow]) -> Runs | None:
        which = (step.stream, step.by, checked)
        runs = self._runs.get(which)
        if runs is None or not runs.holds(stored):
            runs = self._runs[which] = gather_runs(stored, step.by, checked)
        return runs


def _at(stored: Sequence[SubWindow], columns: Sequence[np.ndarray], numbers: np.ndarray) -> np.ndarray:
    """What a column, given by sub-window, has for the rows with these arrival numbers."""
    if len(stored) == 1:
        return columns[0].take(numbers - stored[0].base)
    values = np.empty(numbers.size, np.int64)
    which = np.searchsorted([sub.base for sub in stored], numbers, side="right") - 1
    for place in set(which.tolist()):
        mine = which == place
        values[mine] = columns[place].take(numbers[mine] - stored[place].base)
    return values
