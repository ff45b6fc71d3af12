"""Bi-flow join: the rival of SplitJoin, a chain of OP-Blocks that only join (thesis 5.5, 5.6.7, Figure 5.5.1; 4.1).

Left rows go through the chain to the right, right rows to the left. A core has a window buffer and a buffer manager a stream, one
processing unit, and a coordination unit. Cores are not in lock step: each takes a row when it is idle, compares it with its part of
the other window, and hands its oldest row on when it has one more than its part.

**Locks.** Two rows that pass each other between two cores would never be compared (Figure 4.1.3). As in the thesis, only one row at a
time moves between two neighbours, which is kept here by the clock: left rows move in even cycles and right rows in odd ones, on all
links. A row is in one core until the cycle in which it is in the next. And the window that is being scanned does not change: it gives
no row away, and a busy core takes none.

**Every pair meets exactly once.** Left rows only move right and right rows only left. Where they stand in the same core for the first
time, one of them has just entered, and is compared with all of the other stream that are there, before any of those can leave.

**Windows.** A core hands rows on only when it has more than its part, so when the last one drops a row, the whole window is newer
than it. A row may be dropped later than that, since pushes take time to go through. The thesis is silent about it; here rows carry
what they may see (``stamped.py``), and a pair that meets too late is not a result. Rows enter in the order in which they were
accepted: one waits at a time, at its own end. A right row that may see a left row has then entered before the left row that would
push it out.

**No deadlock.** A left row waits only for left rows further right and for scans, and the last core drops what is due. Scans wait only
for results to leave.

**The processing unit** has two forms. ``pipelined=0`` is the thesis's state machine (Figure 4.1.5): for each comparison the
operator's address, the operator, the rows' address, the execution, the update of the pointers, five cycles (86.8 cycles for 16 rows,
4.5.7, leave 6.8 around them); a result leaves in two chunks. ``pipelined=1`` reads one row a cycle, as the uni-flow core does. The
difference between the two is what the state machine costs; the difference between the second and SplitJoin is what the flow costs.
The operator cannot be changed at run time: that is FQP's (``hardware/fqp``).
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Buffer, Merge, Shared
from watersmeet.hardware.joins.intake import Intake, seen_stamp
from watersmeet.hardware.joins.stamped import (
    in_band,
    live_layout,
    may_meet,
    pair_layout,
    shares,
    stamp,
    stamped_layout,
)


def link(layout: Any) -> wiring.Signature:
    """Between two neighbours: the row moves in a cycle of its stream's phase in which both lines are high. Both ends see that."""
    return wiring.Signature({"row": Out(layout), "offer": Out(1), "take": In(1)})


class WindowBuffer(wiring.Component):
    """A core's part of one window, and its buffer manager: a ring with one place more than ``part``.

    ``i`` is where rows come from, ``o`` where the oldest goes once there are more than ``part``. ``scan`` is held while a row of the
    other stream is compared; ``row`` is then the row number ``index`` of the cycle before, counted from the oldest.
    """

    def __init__(self, layout: Any, part: int, phase: int) -> None:
        self.layout, self.part, self.phase = layout, part, phase
        super().__init__(
            {
                "i": In(link(layout)),
                "o": Out(link(layout)),
                "idle": In(1),
                "now": In(1),  # whether the cycle is even or odd
                "scan": In(1),
                "index": In(range(part + 1)),
                "advance": In(1),
                "row": Out(layout),
                "count": Out(range(part + 2)),
                "came": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        depth = self.part + 1
        m.submodules.ring = ring = Memory(shape=self.layout, depth=depth, init=[])
        write, read = ring.write_port(), ring.read_port()
        head, tail, fresh = Signal(range(depth)), Signal(range(depth)), Signal()
        sent, turn = Signal(), Signal()

        def around(index: Any) -> Any:
            return Mux(index >= depth, index - depth, index)

        m.d.comb += [
            turn.eq(self.now == self.phase),
            self.i.take.eq(self.idle & (self.count <= self.part)),
            self.came.eq(turn & self.i.offer & self.i.take),
            self.o.offer.eq(fresh & ~self.scan & (self.count > self.part)),
            sent.eq(turn & self.o.offer & self.o.take),
            self.o.row.eq(read.data),
            self.row.eq(read.data),
            write.addr.eq(tail),
            write.data.eq(self.i.row),
            write.en.eq(self.came),
            # Out of a scan the read port shows the oldest row, so that it can be handed on.
            read.addr.eq(Mux(self.scan, around(head + self.index), head)),
            read.en.eq(~self.scan | self.advance),
        ]
        m.d.sync += [
            fresh.eq(~self.scan & ~sent),
            self.count.eq(self.count + self.came - sent),
        ]
        with m.If(self.came):
            m.d.sync += tail.eq(around(tail + 1))
        with m.If(sent):
            m.d.sync += head.eq(around(head + 1))
        return m


class BiFlowCore(wiring.Component):
    """Two window buffers, the coordination unit (who may move when) and the processing unit."""

    def __init__(
        self,
        parts: tuple[int, int],
        windows: tuple[int, int],
        key: int,
        number: int,
        below: int,
        above: int,
        pipelined: int,
    ) -> None:
        self.parts, self.windows, self.key, self.band = parts, windows, key, (below, above)
        self.pipelined = pipelined
        self.layout, self.pair = stamped_layout(live_layout(key, number)), pair_layout(number)
        super().__init__(
            {
                "left_i": In(link(self.layout)),
                "left_o": Out(link(self.layout)),
                "right_i": In(link(self.layout)),
                "right_o": Out(link(self.layout)),
                "results": Out(stream.Signature(self.pair)),
            }
        )
        self.busy = Signal()
        self.rows = [Signal(range(part + 2), name=f"rows_{k}") for k, part in enumerate(parts)]
        self.probe, self.probe_is_right = Signal(self.layout), Signal()
        self.watch = {
            "busy": self.busy,
            "probe": self.probe.number,
            "is_right": self.probe_is_right,
            "left": self.rows[0],
            "right": self.rows[1],
        }

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        buffers = []
        for k, (name, ends) in enumerate(
            (("left", (self.left_i, self.left_o)), ("right", (self.right_i, self.right_o)))
        ):
            m.submodules[name] = buffer = WindowBuffer(self.layout, self.parts[k], k)
            wiring.connect(m, wiring.flipped(ends[0]), buffer.i)
            wiring.connect(m, buffer.o, wiring.flipped(ends[1]))
            buffers.append(buffer)
        now, probe, probe_is_right = Signal(), self.probe, self.probe_is_right
        m.d.sync += now.eq(~now)
        last = Signal(range(max(self.parts) + 1))  # the last row of the scan
        came = [buffer.came for buffer in buffers]
        for k, buffer in enumerate(buffers):
            m.d.comb += [
                buffer.now.eq(now),
                buffer.idle.eq(~self.busy),
                buffer.scan.eq(self.busy & (probe_is_right != k)),
                self.rows[k].eq(buffer.count),
            ]
            with m.If(came[k]):  # only if idle; the two never come in one cycle
                m.d.sync += [
                    probe.eq(buffer.i.row),
                    probe_is_right.eq(k),
                    self.busy.eq(buffers[1 - k].count != 0),
                    last.eq(buffers[1 - k].count - 1),
                ]
        stored = Mux(probe_is_right, buffers[0].row, buffers[1].row)
        one, other = Signal(self.layout), Signal(self.layout)
        m.d.comb += [
            one.eq(Mux(probe_is_right, stored, probe)),
            other.eq(Mux(probe_is_right, probe, stored)),
        ]
        m.submodules.out = out = Buffer(self.pair)
        wiring.connect(m, out.o, wiring.flipped(self.results))
        unit = self._pipeline if self.pipelined else self._states
        unit(m, buffers, one, other, last, out)
        return m

    def _match(self, one: Any, other: Any, below: Any, above: Any) -> Any:
        live = one.live & other.live
        return live & in_band(one.key, other.key, below, above) & may_meet(one, other, *self.windows)

    def _pipeline(self, m: Module, buffers: list[Any], one: Any, other: Any, last: Any, out: Any) -> None:
        """One read a cycle, and the comparison in the cycle after it."""
        index, comparing, match, go = Signal.like(last), Signal(), Signal(), Signal()
        reading = Signal(init=1)
        m.d.comb += [
            match.eq(comparing & self._match(one, other, *self.band)),
            go.eq(~match | out.i.ready),
            out.i.valid.eq(match),
            out.i.payload.left.eq(one.number),
            out.i.payload.right.eq(other.number),
        ]
        for buffer in buffers:
            m.d.comb += [buffer.index.eq(index), buffer.advance.eq(go)]
        with m.If(self.busy & go):
            m.d.sync += [comparing.eq(reading), index.eq(index + 1)]
            with m.If(index == last):
                m.d.sync += reading.eq(0)
            with m.If(~reading):  # the last row has been compared
                m.d.sync += [self.busy.eq(0), index.eq(0), reading.eq(1)]

    def _states(self, m: Module, buffers: list[Any], one: Any, other: Any, last: Any, out: Any) -> None:
        """The execution and the transmission controller of Figure 4.1.5."""
        m.submodules.query = query = Memory(shape=unsigned(self.key), depth=2, init=list(self.band))
        operator = [query.read_port(), query.read_port()]
        below, above = Signal(self.key), Signal(self.key)
        index, result, leaves, free = Signal.like(last), Signal(self.pair), Signal(), Signal()
        m.d.comb += [operator[k].addr.eq(k) for k in range(2)]
        for buffer in buffers:
            m.d.comb += [buffer.index.eq(index), buffer.advance.eq(1)]
        with m.FSM(name="execution"):
            with m.State("operator address"), m.If(self.busy):
                m.next = "operator read"
            with m.State("operator read"):
                m.d.sync += [below.eq(operator[0].data), above.eq(operator[1].data)]
                m.next = "rows address"
            with m.State("rows address"):
                m.next = "execution"
            with m.State("execution"):
                match = Signal()
                m.d.comb += match.eq(self._match(one, other, below, above))
                with m.If(~match | free):
                    m.d.comb += leaves.eq(match)
                    m.next = "update"
            with m.State("update"):
                m.d.sync += index.eq(index + 1)
                with m.If(index == last):
                    m.d.sync += [index.eq(0), self.busy.eq(0)]
                m.next = "operator address"
        with m.FSM(name="transmission"):
            with m.State("wait"):
                m.d.comb += free.eq(1)
                with m.If(leaves):
                    m.d.sync += [result.left.eq(one.number), result.right.eq(other.number)]
                    m.next = "first chunk"
            with m.State("first chunk"):
                m.next = "second chunk"
            with m.State("second chunk"):
                m.d.comb += [out.i.valid.eq(1), out.i.payload.eq(result)]
                with m.If(out.i.ready):
                    m.next = "wait"


class Gate(wiring.Component):
    """The ports of the chain: the row in front of the intake waits at its own end, the others behind it."""

    def __init__(self, key: int, number: int) -> None:
        self.number = number
        self.row = live_layout(key, number)
        self.layout = stamped_layout(self.row)
        super().__init__(
            {
                "left": In(stream.Signature(self.row)),
                "right": In(stream.Signature(self.row)),
                "left_o": Out(link(self.layout)),
                "right_o": Out(link(self.layout)),
            }
        )
        self.intake = Intake(self.row)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.intake = intake = self.intake
        wiring.connect(m, wiring.flipped(self.left), intake.left)
        wiring.connect(m, wiring.flipped(self.right), intake.right)
        now, front = Signal(), intake.o.payload
        m.d.sync += now.eq(~now)
        seen = seen_stamp(m, front, self.number, intake.o.valid & intake.o.ready)
        taken = []
        for side, end in enumerate((self.left_o, self.right_o)):
            stamp(m, end.row, front.row, seen)
            m.d.comb += end.offer.eq(intake.o.valid & (front.side == side))
            taken.append((now == side) & end.offer & end.take)
        m.d.comb += intake.o.ready.eq(taken[0] | taken[1])
        return m


class BiFlowJoin(wiring.Component):
    """``left`` and ``right`` to ``results``: windows of ``left_window`` and ``right_window`` rows on a chain of ``cores``."""

    def __init__(
        self,
        cores: int = 4,
        left_window: int = 64,
        right_window: int = 64,
        key: int = 32,
        number: int = 32,
        below: int = 0,
        above: int = 0,
        pipelined: int = 0,
    ) -> None:
        parts = zip(shares(left_window, cores, 1), shares(right_window, cores, 1), strict=True)
        if max(below, above) >= 1 << key:
            raise OptionError(f"below and above must be less than 2 ** key; got {below} and {above}")
        windows = (left_window, right_window)
        self.cores = [
            Shared(BiFlowCore, part, windows, key, number, below, above, pipelined) for part in parts
        ]
        self.layout, self.result = live_layout(key, number), pair_layout(number)
        super().__init__(
            {
                "left": In(stream.Signature(self.layout)),
                "right": In(stream.Signature(self.layout)),
                "results": Out(stream.Signature(self.result)),
            }
        )
        self.gate = Gate(key, number)
        self.watch = {"intake": self.gate.intake.level}
        for k, core in enumerate(self.cores):
            self.watch |= {f"core{k}.{name}": signal for name, signal in core.watch.items()}

    @staticmethod
    def tell(values: dict[str, int]) -> str:
        """What a core is at, for people: which row is compared, how many rows of both streams are there."""
        if "intake" in values:
            return f"{values['intake']} wait" if values["intake"] else ""
        rows = f"{values['left']} l, {values['right']} r"
        if not values["busy"]:
            return rows
        return f"{'r' if values['is_right'] else 'l'}{values['probe']} is compared; {rows}"

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.gate = gate = self.gate
        wiring.connect(m, wiring.flipped(self.left), gate.left)
        wiring.connect(m, wiring.flipped(self.right), gate.right)
        for k, core in enumerate(self.cores):
            m.submodules[f"core_{k}"] = core
        for before, behind in zip(self.cores, self.cores[1:], strict=False):
            wiring.connect(m, before.left_o, behind.left_i)
            wiring.connect(m, behind.right_o, before.right_i)
        first, last = self.cores[0], self.cores[-1]
        wiring.connect(m, gate.left_o, first.left_i)
        wiring.connect(m, gate.right_o, last.right_i)
        m.d.comb += [last.left_o.take.eq(1), first.right_o.take.eq(1)]  # what falls out of the windows
        sources, level = [core.results for core in self.cores], 0
        while len(sources) > 1:  # the same gathering network as SplitJoin's
            merged = []
            for k in range(0, len(sources), 2):
                if k + 1 == len(sources):
                    merged.append(sources[k])
                    continue
                m.submodules[f"gather_{level}_{k // 2}"] = node = Shared(Merge, self.result, 2, "toggle")
                wiring.connect(m, sources[k], node.i[0])
                wiring.connect(m, sources[k + 1], node.i[1])
                merged.append(node.o)
            sources, level = merged, level + 1
        wiring.connect(m, sources[0], wiring.flipped(self.results))
        return m
