"""Amaranth's own simulator: about a thousand cycles a second for a small design, and nothing to build.

The test bench acts a quarter of a period after each cycle begins, the clock rises at half: all that ``run`` was given is seen
before the edge, and a run ends between two cycles.
"""

import warnings
from collections.abc import Mapping
from typing import Any

from amaranth.hdl import UnusedElaboratable
from amaranth.sim import Simulator

from watersmeet.hardware.ports import stream_ports
from watersmeet.hardware.simulate.lines import Lines
from watersmeet.hardware.simulate.watch import watch_of

PERIOD = 1e-6


class PythonModel:
    """Interprets the component with Amaranth."""

    name = "python"

    def __init__(self, design: Any, watch: bool, constants: Mapping[str, Any]) -> None:
        self.ports = stream_ports(design)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnusedElaboratable)
            self._sim = Simulator(design)
        self._sim.add_clock(PERIOD, if_exists=True)
        self._watch = watch_of(design) if watch else {}
        self.watched = tuple(self._watch)
        self._constants = constants
        self._lines: Lines | None = None
        self._cycles = 0

    def run(self, lines: Lines, until: int, idle: int | None) -> bool:
        if self._lines is None:
            self._sim.add_testbench(self._bench)
        self._lines = lines
        while lines.cycle < until:
            self._cycles += 1
            self._sim.run_until(self._cycles * PERIOD)
            if idle is not None and not lines.waiting and lines.cycle - 1 - lines.last >= idle:
                return True
        return False

    async def _bench(self, ctx: Any) -> None:
        for value, number in self._constants.values():
            ctx.set(value, number)
        await ctx.delay(PERIOD / 4)
        while True:
            self._cycle(ctx)
            await ctx.delay(PERIOD)

    def _cycle(self, ctx: Any) -> None:
        lines = self._lines
        assert lines is not None
        c = lines.cycle
        for port in self.ports:
            if port.inward:
                source = lines.sources[port.name]
                at = len(source.taken)
                shown = source.waiting and source.offers[at] <= c
                ctx.set(port.valid, shown)
                ctx.set(port.payload, source.payloads[at] if shown else 0)
            else:
                stalls = lines.sinks[port.name].stalls
                ctx.set(port.ready, not stalls[c % len(stalls)])
        for port in self.ports:
            if ctx.get(port.valid) and ctx.get(port.ready):
                lines.last = c
                if port.inward:
                    lines.sources[port.name].taken.append(c)
                else:
                    lines.sinks[port.name].given.append((c, ctx.get(port.payload)))
        for name, signal in self._watch.items():
            lines.watched[name].append(ctx.get(signal))
        lines.cycle = c + 1
