"""How the rows of a join are kept and found: for how many rows a sub-window is made, which index it gets, how it is probed.

Made anew with the plan. Read by many threads, changed by none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.index.base import Index, PairBuffer
from watersmeet.index.choose import Habits, choose, make_index, subwindow_size
from watersmeet.join.chain import Probe, SubWindow
from watersmeet.join.matches import Matches
from watersmeet.join.outer import How
from watersmeet.join.plan import Plan
from watersmeet.join.probing import PairResidual, find_pairs, find_ranges
from watersmeet.streams.payload import Payload
from watersmeet.streams.window import Window


@dataclass(frozen=True, slots=True)
class Sizing:
    """How many rows a new sub-window is made for."""

    windows: Sequence[Window]
    habits: Sequence[Habits]
    fixed: int | None  # if the user says so
    cores: int = 1  # that share a window

    def rows(self, stream: int, stored: int) -> int:
        """``stored``: how many rows of the stream there are by now."""
        if self.fixed is not None:
            return self.fixed
        window = self.windows[stream].rows
        share = None if window is None else max(1, window // self.cores)
        return subwindow_size(share, stored, self.habits[stream])


@dataclass(frozen=True, slots=True)
class Access:
    """Which index a sub-window gets, and how it is probed."""

    plan: Plan
    habits: Sequence[Habits]
    ranges: bool  # results as ranges over sorted runs, or as their total length
    count_only: bool
    residual: PairResidual | None

    def kind(self, stream: int, capacity: int) -> str:
        """The kind of index for a sub-window of so many rows."""
        return choose(self.plan.kinds, self.habits[stream], capacity)

    def index(self, stream: int, capacity: int, predecessor: Index | None) -> Index:
        return make_index(self.kind(stream, capacity), capacity, predecessor)

    def find(self, sub: SubWindow, probe: Probe, stream: int, out: Matches, buffer: PairBuffer) -> None:
        """All results of a stream's probe in one sub-window, in the form that was asked for."""
        if self.ranges:
            find_ranges(sub, probe, stream, self.count_only, buffer, out)
        else:
            find_pairs(sub, probe, stream, self.residual, buffer, out)


def make_access(
    plan: Plan, habits: Sequence[Habits], payload: Sequence[Payload | None], mode: str, how: How
) -> Access:
    """``payload``: the stored rows by stream, in a list that stays."""
    ranges = mode != "pairs" and plan.ranges_suffice and how.name == "inner"
    residual = None if plan.condition.residual is None else PairResidual(plan.condition, payload)
    return Access(plan, habits, ranges, mode == "count", residual)
