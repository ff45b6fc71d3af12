"""Handshake join on an FPGA: two windows shifted past each other in lock step (handshake-join.txt 3, 4.1, A.1 to A.5).

The left window moves right and the right window left through a chain of cores, each with a segment of both. A new row shifts the
whole window of its stream by one place, in all cores at once: each core hands its oldest row on and takes its neighbour's. Each core
then compares the row that has come in with its segment of the other stream, one a cycle, from the oldest on.

**Every pair meets exactly once.** Only one of the windows moves at a time, and by one place. So a left row l and a right row r that
are l left of r change places in one way only: one of them enters the core that the other is in, and there they are compared. After
that l is right of r, for good. **The windows are exact by construction:** when r enters, l is in the chain iff it is among the last
rows of its stream, for the whole chain has as many places as the window has rows. If it is, then they meet now or later, before
either falls out at its far end; if it has fallen out, never. So no row carries more than the paper's 32 bits of key and 32 bits of
payload, here its arrival number.

Rows meet *later*: a pair is found when the streams have moved on far enough. What is left at the end of a stream is found when
*bubbles*, rows that are not ``live``, push one window through (the paper's 'valid' line).

**Windows of time** (3.6; appendix A has count windows only). With ``time`` bits of a time in each row, a pair is a result iff the times
are within ``left_range`` and ``right_range``: a further comparison in the same step. Rows still move by count, so ``left_window`` and
``right_window`` are the places that the rows of a window of time need; whoever is pushed out before all rows have come that may see it
is missed, and a run refuses that (``driving.py``). The paper's propagation by time fills the first core at a peak (3.6), and has no
lock step.

**Throttle** (A.3). A core does not stall. It asks for a stop as long as its queue has not room for a whole scan, and for what is in
the pipeline already: a comparison takes three cycles here (the paper's one) and the signal two more, so the threshold is ``segment +
IN_FLIGHT`` instead of the paper's ``segment``. The paper then drops rows; we stop taking them, so that nothing is lost.

Where the paper is silent or we differ: the segments are rings in block RAM (or LUT RAM), with the oldest row in a register, instead
of shift registers: the same places, without moving them; a segment has at least two. The merging network has the same clock as the
rest, and its mergers have two places instead of a block RAM each, which were what limited the number of cores (A.4). After a left row
the chain is busy for the largest right segment, not for the larger of both. The predicate is a band between the keys, equality by
default.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Fifo, Shared
from watersmeet.hardware.joins.intake import Intake, accepted_layout
from watersmeet.hardware.joins.merging import merge_all
from watersmeet.hardware.joins.stamped import in_band, live_layout, shares

LEAST = 2  # rows a segment: the next oldest row is fetched while the other window is scanned
IN_FLIGHT = 7  # results that may come after the last one that the throttle has seen: six cycles, and a place in the queue's output register


def joined_layout(key: int, number: int, one_key: bool) -> data.StructLayout:
    """A result, 96 bits wide as in the paper where both keys are one."""
    fields = {"left": number, "right": number, "key": key}
    return data.StructLayout(fields if one_key else {**fields, "right_key": key})


class Segment(wiring.Component):
    """A ring of ``size`` rows. ``shift`` replaces ``oldest`` by ``new``; ``scan`` lets all rows go by at ``row``, from the oldest on.

    A shift must not come within the ``size`` cycles of a scan, nor two within two cycles.
    """

    def __init__(self, layout: Any, size: int) -> None:
        self.layout, self.size = layout, size
        super().__init__(
            {
                "shift": In(1),
                "new": In(layout),
                "oldest": Out(layout),
                "scan": In(1),
                "row": Out(layout),  # in the cycles in which ``going`` is high
                "going": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.ring = ring = Memory(shape=self.layout, depth=self.size, init=[])
        write, read = ring.write_port(), ring.read_port()
        at, place, fetched = Signal(range(self.size)), Signal(range(self.size)), Signal()
        left = Signal(range(self.size))  # to be read after this cycle

        def after(index: Any) -> Any:
            return Mux(index == self.size - 1, 0, index + 1)

        m.d.comb += [
            write.addr.eq(at),
            write.data.eq(self.new),
            write.en.eq(self.shift),
            read.en.eq(self.shift | self.scan | (left != 0)),
            read.addr.eq(Mux(self.shift, after(at), Mux(self.scan, at, place))),
            self.row.eq(read.data),
        ]
        m.d.sync += [fetched.eq(self.shift), self.going.eq(self.scan | (left != 0))]
        with m.If(self.shift):
            m.d.sync += at.eq(after(at))
        with m.If(fetched):
            m.d.sync += self.oldest.eq(read.data)
        with m.If(self.scan):
            m.d.sync += [place.eq(after(at)), left.eq(self.size - 1)]
        with m.Elif(left != 0):
            m.d.sync += [place.eq(after(place)), left.eq(left - 1)]
        return m


class HandshakeCore(wiring.Component):
    """A segment of both windows, the comparison in three steps, and a queue of results (Figure 12)."""

    def __init__(
        self,
        left: int,
        right: int,
        key: int,
        number: int,
        below: int,
        above: int,
        queue: int,
        time: int = 0,
        ranges: tuple[int, int] = (0, 0),
    ) -> None:
        self.left_size, self.right_size, self.below, self.above = left, right, below, above
        self.time, self.ranges = time, ranges
        self.layout = live_layout(key, number, time)
        self.result = joined_layout(key, number, one_key=not (below or above))
        self.needed = max(left, right) + IN_FLIGHT
        if queue < self.needed:
            raise OptionError(
                f"queue must have at least {self.needed} places, a segment and {IN_FLIGHT}; got {queue}"
            )
        self.queue = Fifo(self.result, queue)
        super().__init__(
            {
                "shift_left": In(1),
                "shift_right": In(1),
                "left_in": In(self.layout),
                "left_out": Out(self.layout),
                "right_in": In(self.layout),
                "right_out": Out(self.layout),
                "throttle": Out(1),
                "results": Out(stream.Signature(self.result)),
            }
        )
        # The rows that are compared in this cycle, if any.
        self.one, self.other, self.meet = Signal(self.layout), Signal(self.layout), Signal()
        self.watch = {
            "compares": self.meet,
            "left": self.one.number,
            "right": self.other.number,
            "queue": self.queue.level,
            "throttle": self.throttle,
        }

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.left = left = Segment(self.layout, self.left_size)
        m.submodules.right = right = Segment(self.layout, self.right_size)
        m.submodules.queue = queue = self.queue
        probe, probe_is_right = Signal(self.layout), Signal()
        m.d.comb += [
            left.shift.eq(self.shift_left),
            left.new.eq(self.left_in),
            left.scan.eq(self.shift_right),
            self.left_out.eq(left.oldest),
            right.shift.eq(self.shift_right),
            right.new.eq(self.right_in),
            right.scan.eq(self.shift_left),
            self.right_out.eq(right.oldest),
        ]
        with m.If(self.shift_left | self.shift_right):
            m.d.sync += [
                probe.eq(Mux(self.shift_right, self.right_in, self.left_in)),
                probe_is_right.eq(self.shift_right),
            ]
        # First step: the two rows. Second: the comparisons. Third: the queue.
        one, other, both = self.one, self.other, Signal()
        stored = Mux(left.going, left.row, right.row)
        m.d.sync += [
            one.eq(Mux(probe_is_right, stored, probe)),
            other.eq(Mux(probe_is_right, probe, stored)),
            both.eq(left.going | right.going),
        ]
        match, found = Signal(), Signal(self.result)
        m.d.comb += self.meet.eq(both & one.live & other.live)
        near = in_band(one.key, other.key, self.below, self.above)
        if self.time:  # right's time from left's less right's range to left's and left's range
            left_range, right_range = self.ranges
            near = near & in_band(one.time, other.time, right_range, left_range)
        m.d.sync += [
            match.eq(self.meet & near),
            found.left.eq(one.number),
            found.right.eq(other.number),
            found.key.eq(one.key),
        ]
        if self.below or self.above:
            m.d.sync += found.right_key.eq(other.key)
        m.d.comb += [queue.i.valid.eq(match), queue.i.payload.eq(found)]
        m.d.sync += self.throttle.eq(queue.level > queue.depth - self.needed)
        wiring.connect(m, queue.o, wiring.flipped(self.results))
        return m


class Admission(wiring.Component):
    """Lets a row in when the scan of the one before is over and no core throttles (A.3). Its outputs are registers."""

    def __init__(self, layout: Any, cores: int, after_left: int, after_right: int) -> None:
        self.after_left, self.after_right = after_left, after_right
        super().__init__(
            {
                "i": In(stream.Signature(accepted_layout(layout))),
                "throttle": In(cores),
                "shift_left": Out(1),
                "shift_right": Out(1),
                "row": Out(layout),
            }
        )
        self.stopped = Signal()
        self.watch = {"stopped": self.stopped}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        busy, side = Signal(range(max(self.after_left, self.after_right))), self.i.payload.side
        admits = Signal()
        m.d.sync += self.stopped.eq(self.throttle.any())
        m.d.comb += [
            self.i.ready.eq((busy == 0) & ~self.stopped),
            admits.eq(self.i.valid & self.i.ready),
        ]
        m.d.sync += [
            self.row.eq(self.i.payload.row),
            self.shift_left.eq(admits & ~side),
            self.shift_right.eq(admits & side),
        ]
        with m.If(admits):
            m.d.sync += busy.eq(Mux(side, self.after_right, self.after_left) - 1)
        with m.Elif(busy != 0):
            m.d.sync += busy.eq(busy - 1)
        return m


class HandshakeJoin(wiring.Component):
    """``left`` and ``right`` to ``results``: windows of ``left_window`` and ``right_window`` rows on ``cores`` cores.

    With ``time`` bits of a time in each row, windows are of ``left_range`` and ``right_range`` in time, within so many rows.
    """

    def __init__(
        self,
        cores: int = 4,
        left_window: int = 64,
        right_window: int = 64,
        key: int = 32,
        number: int = 32,
        below: int = 0,
        above: int = 0,
        queue: int = 64,
        fan_in: int = 4,
        time: int = 0,
        left_range: int = 0,
        right_range: int = 0,
    ) -> None:
        self.lefts = shares(left_window, cores, LEAST)
        self.rights = shares(right_window, cores, LEAST)
        if fan_in < 2:
            raise OptionError(f"fan_in must be at least 2; got {fan_in}")
        self.fan_in, self.queue = fan_in, queue
        self.layout = live_layout(key, number, time)
        timed = (time, (left_range, right_range)) if time else ()
        self.cores = [
            Shared(HandshakeCore, left, right, key, number, below, above, queue, *timed)
            for left, right in zip(self.lefts, self.rights, strict=True)
        ]
        self.result = self.cores[0].it.result
        super().__init__(
            {
                "left": In(stream.Signature(self.layout)),
                "right": In(stream.Signature(self.layout)),
                "results": Out(stream.Signature(self.result)),
            }
        )
        self.intake = Intake(self.layout)
        self.admission = Admission(self.layout, cores, max(self.rights), max(self.lefts))
        self.watch = {"intake": self.intake.level, "stopped": self.admission.stopped}
        for k, core in enumerate(self.cores):
            self.watch |= {f"core{k}.{name}": signal for name, signal in core.watch.items()}

    @staticmethod
    def tell(values: dict[str, int]) -> str:
        """What a core is at, for people: which rows meet, how many results wait."""
        parts = []
        if values.get("compares"):
            parts.append(f"l{values['left']} meets r{values['right']}")
        if values.get("queue"):
            parts.append(f"{values['queue']} found")
        parts += [name for name in ("throttle", "stopped") if values.get(name)]
        if values.get("intake"):
            parts.append(f"{values['intake']} wait")
        return ", ".join(parts)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.intake, m.submodules.admission = intake, admission = self.intake, self.admission
        wiring.connect(m, wiring.flipped(self.left), intake.left)
        wiring.connect(m, wiring.flipped(self.right), intake.right)
        wiring.connect(m, intake.o, admission.i)
        for k, core in enumerate(self.cores):
            m.submodules[f"core_{k}"] = core
            before = admission.row if k == 0 else self.cores[k - 1].left_out
            behind = admission.row if k + 1 == len(self.cores) else self.cores[k + 1].right_out
            m.d.comb += [
                core.shift_left.eq(admission.shift_left),
                core.shift_right.eq(admission.shift_right),
                core.left_in.eq(before),
                core.right_in.eq(behind),
                admission.throttle[k].eq(core.throttle),
            ]
        merge_all(m, [core.results for core in self.cores], self.result, self.results, self.fan_in)
        return m
