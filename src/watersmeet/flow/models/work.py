"""What all cores of a flow share. Read by many threads, changed by none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from watersmeet.index.base import PairBuffer
from watersmeet.join.access import PairAccess, Sizing
from watersmeet.join.chain import Probe, SubWindow
from watersmeet.join.matches import Matches
from watersmeet.join.plan import Plan
from watersmeet.streams.window import Window


@dataclass
class Work:
    """One plan, and the number of cores that share it. A new plan means new cores."""

    access: PairAccess
    sizing: Sizing
    timed: tuple[bool, ...]
    clock: Callable[[], float]
    plan: Plan = field(init=False)
    windows: Sequence[Window] = field(init=False)
    cores: int = field(init=False)
    single: bool = field(init=False)

    def __post_init__(self) -> None:
        self.plan, self.windows, self.cores = self.access.plan, self.sizing.windows, self.sizing.cores
        # Whether a row by itself can be compared by one kernel: driver, at most one more band, count windows.
        self.single = (
            not self.access.ranges
            and self.plan.driver.key is not None
            and self.access.residual is None
            and len(self.plan.checks) < 2
            and not any(self.timed)
        )

    def find(self, sub: SubWindow, probe: Probe, side: int, out: Matches, buffer: PairBuffer) -> None:
        """All results of the probe in one sub-window."""
        self.access.find(sub, probe, side, out, buffer)
