"""What all cores of a flow share: the plan, and how to probe a sub-window. Read by many threads, changed by none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from watersmeet.index.base import Index, PairBuffer
from watersmeet.index.choose import Habits, choose, make_index, subwindow_size
from watersmeet.index.grid import CellLayout, Grid
from watersmeet.join.chain import Probe, SubWindow
from watersmeet.join.matches import Matches
from watersmeet.join.plan import Plan
from watersmeet.join.probing import Residual, find_pairs, find_ranges
from watersmeet.streams.window import Window


@dataclass
class Work:
    """One plan, and the number of cores that share it. A new plan means new cores."""

    plan: Plan
    layout: CellLayout | None
    windows: Sequence[Window]
    timed: tuple[bool, ...]
    ranges: bool  # results as ranges over sorted runs, or as their total length
    count_only: bool
    residual: Residual | None
    habits: Sequence[Habits]
    cores: int
    fixed_size: int | None  # rows a sub-window, if the user says so
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        # Whether a row by itself can be compared by one kernel: driver, at most one more band, count windows.
        self.single = (
            not self.ranges
            and self.layout is None
            and self.residual is None
            and len(self.plan.checks) < 2
            and not any(self.timed)
        )

    def find(self, sub: SubWindow, probe: Probe, side: int, buffer: PairBuffer, out: Matches) -> None:
        """All results of the probe in one sub-window, in the form that was asked for."""
        if self.ranges:
            find_ranges(sub, probe, side, self.count_only, buffer, out)
        else:
            find_pairs(sub, probe, side, self.residual, buffer, out)

    def size(self, side: int, stored: int) -> int:
        """How many rows a new sub-window of one core is made for."""
        if self.fixed_size is not None:
            return self.fixed_size
        window = self.windows[side]
        share = None if window.rows is None else max(1, window.rows // self.cores)
        return subwindow_size(share, stored, self.habits[side])

    def index(self, side: int, capacity: int, predecessor: Index | Grid | None) -> Index | Grid:
        if self.layout is not None:
            return Grid(capacity)
        kind = choose(self.plan.kinds, self.habits[side], capacity)
        return make_index(kind, capacity, predecessor)
