"""BI-Sort in hardware: PanJoin's sorted sub-windows, probed and merged by batches (panjoin.txt III.D, III.E, IV).

```
  left  -> intake -> collector (two insertion buffers, sorted) -> fork -> sub-windows of both streams -> mergers of results -> results
  right ->
```

Each sub-window has its own memory, merger, index, two probers (lower and upper bounds) and lister, and all work at once: a batch of B
rows costs about as much as the slowest of them, at most C + 2 B cycles to probe a sub-window of C rows and C + B to merge, whatever
the window is. A nested loop costs W / N cycles a *row*.

Where we follow: sub-windows of C rows that are dropped whole, with a filter (III.G); insertion buffer, sorted main array, index of
every N_P-th key, merger, indexer, boundary generator, prober; ranges as results (III.D), for which ``closed`` tells what went into
the main arrays, as the manager's mirror needs it. Where we differ: block RAM instead of two channels of DDR3, so a sub-window has one
merger and two probers (the paper's eight of each share one memory, whose bandwidth they use up; here one merger uses all of its
memory's write port). The buffer is not probed: its rows are found by whoever comes later, or probe when their batch goes by
(``collector.py``). The batch's rows go from the largest key down, so that one stream feeds probers and a merger that works in place.
The paper leaves open how rows of two streams that are collected at the same time see one another: here by arrival numbers.
"""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Fork, Shared
from watersmeet.hardware.joins.bi_sort.collector import Collector, closed_layout
from watersmeet.hardware.joins.bi_sort.sub_window import Sizes, SubWindow
from watersmeet.hardware.joins.intake import Intake
from watersmeet.hardware.joins.merging import merge_all
from watersmeet.hardware.joins.stamped import row_layout

FAN_IN = 4


class BiSortJoin(wiring.Component):
    """``left`` and ``right`` to ``results``, pairs or (``ranges=1``) records of ranges; ``closed``: the batches, in order."""

    def __init__(
        self,
        left_window: int = 64,
        right_window: int = 64,
        sub_window: int = 32,
        batch: int = 8,
        partition: int = 8,
        key: int = 32,
        number: int = 32,
        below: int = 0,
        above: int = 0,
        wait: int = 64,
        ranges: int = 0,
    ) -> None:
        _check(sub_window, batch, partition, key, below, above)
        self.sizes = sizes = Sizes(
            key, number, (left_window, right_window), sub_window, batch, partition, below, above, ranges
        )
        self.layout, self.result = row_layout(key, number), sizes.result
        super().__init__(
            {
                "left": In(stream.Signature(self.layout)),
                "right": In(stream.Signature(self.layout)),
                "results": Out(stream.Signature(self.result)),
                "closed": Out(stream.Signature(closed_layout(batch))),
            }
        )
        self.intake, self.collector = Intake(self.layout), Collector(sizes, wait)
        self.units = [Shared(SubWindow, sizes, side) for side in (0, 1) for _ in range(sizes.units[side])]
        self.watch = {"intake": self.intake.level}
        self.watch |= {f"collected.{name}": signal for name, signal in self.collector.watch.items()}
        for k, unit in enumerate(self.units):
            name = f"l{k}" if k < sizes.units[0] else f"r{k - sizes.units[0]}"
            self.watch |= {f"{name}.{part}": signal for part, signal in unit.watch.items()}

    @staticmethod
    def tell(values: dict[str, int]) -> str:
        """What a part is at, for people: rows that wait or are collected, rows of a sub-window."""
        if "size" in values:
            rows = f"{values['size']} rows" if values["size"] else ""
            return f"{rows} at work".strip() if values["busy"] else rows
        return ", ".join(f"{value} {name}" for name, value in values.items() if value)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.intake, m.submodules.collector = intake, collector = self.intake, self.collector
        m.submodules.fork = fork = Fork(self.sizes.passing, len(self.units))
        wiring.connect(m, wiring.flipped(self.left), intake.left)
        wiring.connect(m, wiring.flipped(self.right), intake.right)
        wiring.connect(m, intake.o, collector.i)
        wiring.connect(m, collector.rows, fork.i)
        wiring.connect(m, collector.closed, wiring.flipped(self.closed))
        for k, unit in enumerate(self.units):
            m.submodules[f"unit_{k}"] = unit
            wiring.connect(m, fork.o[k], unit.rows)
            m.d.comb += [
                unit.begin.eq(collector.begin),
                unit.side.eq(collector.side),
                unit.count.eq(collector.count),
                unit.batch.eq(collector.batch),
                unit.unit.eq(k if k < self.sizes.units[0] else k - self.sizes.units[0]),
                unit.newest.eq(collector.newest[k]),
                unit.clear.eq(collector.clear[k]),
                collector.busy[k].eq(unit.busy),
            ]
        merge_all(m, [unit.results for unit in self.units], self.result, self.results, FAN_IN)
        return m


def _check(sub_window: int, batch: int, partition: int, key: int, below: int, above: int) -> None:
    if sub_window < 2:
        raise OptionError(f"sub_window must be at least 2 rows; got {sub_window}")
    if partition & (partition - 1) or not 1 <= partition <= sub_window:
        raise OptionError(
            f"partition must be a power of two and at most the sub-window, {sub_window}; got {partition}"
        )
    if not 1 <= batch <= sub_window:
        raise OptionError(f"batch must be from 1 to the sub-window, {sub_window}; got {batch}")
    if max(below, above) >= 1 << key:
        raise OptionError(f"below and above must be less than 2 ** key; got {below} and {above}")
