"""The multiway stream join of SSP (thesis 7.1.5, 7.3.1, figure 7.3.1b): a stage a stream, each with one HB-SJ or two.

A row that comes is stored in the window of its stream and, in the same cycles, begins its way through the windows of the others, in the
order that its *plan* says; what it meets there is carried on, until all streams are met and all comparisons hold. What stays true: a row
is through with all windows before the next one begins, so each meets exactly the rows that are in the windows when it arrives.

The thesis lets stages work on different rows at once (Circular-MJ), which then needs order control (6.4) and overlaps what follows a
match. Here only storing and the first search overlap, and the keys of the next rows are hashed meanwhile: a row without a match costs two
cycles, as many as its words take on the way in; each step after a match costs a hash, seven cycles.

For three streams the middle stage has two windows, keyed by the neighbour on each side ("once indexed based on o_custkey and once based on
o_orderkey"); lowering puts the stream with most neighbours there. A join of more streams has a window for each neighbour in each stage.
A search without an equality goes through a window without a key.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Shared
from watersmeet.hardware.ssp.gather import Gather, Scatter, connected, passing
from watersmeet.hardware.ssp.hash_window import HashWindow
from watersmeet.hardware.ssp.murmur import STEPS, Murmur
from watersmeet.hardware.ssp.prehash import Prehash
from watersmeet.hardware.ssp.reading import Reading
from watersmeet.hardware.ssp.riders import Riders
from watersmeet.hardware.ssp.words import FIELD, LANE, LANES, RESPONSE, SEGMENT, WORD, holds, value_of

TERM = data.StructLayout({"left": FIELD, "condition": 4, "right": FIELD, "constant": 64, "used": 1})
STEP = data.StructLayout({"window": 4, "key": FIELD, "prehash": 2})  # prehash: which of the row's keys
NOBODY = 0  # a stream-ID that no row has
LATE = 3  # prehash: none of them


def windows_of(ways: int) -> tuple[int, ...]:
    """How many windows each stage has."""
    return {2: (1, 1), 3: (1, 2, 1)}.get(ways, (ways - 1,) * ways)


class Stage(wiring.Component):
    """The windows of one stream: all store its rows, each by its own key."""

    def __init__(self, windows: int, window: int, table: int, segments: int) -> None:
        self.windows: list[Any] = [Shared(HashWindow, window, table, segments) for _ in range(windows)]
        super().__init__({})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for k, window in enumerate(self.windows):
            m.submodules[f"window_{k}"] = window
        return m


class Join(wiring.Component):
    """A unit that joins up to ``ways`` streams within ``window`` rows.

    ``segments``: of the rows that come and are stored, a power of two; ``results``: segments of what it gives; ``terms``: comparisons;
    ``table``: places of a hash table; ``slots``: selections and projections that may ride.
    """

    def __init__(
        self,
        b_id: int,
        ways: int,
        window: int,
        table: int,
        segments: int,
        results: int,
        terms: int = 4,
        slots: int = 0,
        projects: bool = False,
    ) -> None:
        if segments & (segments - 1) or segments * LANES * ways > 64:
            raise OptionError(
                f"rows of a join must have 1, 2, 4 or 8 segments, with {ways} streams at most {64 // LANES // ways} each; got {segments}"
            )
        if not 2 <= ways <= 4:
            raise OptionError(f"a join unit must have 2 to 4 ways; got {ways}")
        self.b_id, self.ways, self.segments, self.results = b_id, ways, segments, results
        self.terms, self.slots, self.projects = terms, slots, projects
        self.stages = [Stage(count, window, table, segments) for count in windows_of(ways)]
        self.windows = [window for stage in self.stages for window in stage.windows]
        self.hashes = max(windows_of(ways))
        self.leaf = [leaf for leaf, stage in enumerate(self.stages) for _ in stage.windows]
        super().__init__({"i": In(stream.Signature(WORD)), "o": Out(stream.Signature(RESPONSE))})
        self.watch = {f"overflow_{k}": window.overflow for k, window in enumerate(self.windows)}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for k, stage in enumerate(self.stages):
            m.submodules[f"stage_{k}"] = stage
        m.submodules.gather = gather = Gather(self.segments, self.b_id)
        m.submodules.prehash = prehash = Prehash(self.segments, self.ways, self.hashes)
        m.submodules.riders = riders = Riders(self.results, self.slots, self.projects)
        m.submodules.scatter = scatter = Scatter(self.results)
        connected(m, self.i, gather.i)
        connected(m, gather.o, prehash.i)
        connected(m, riders.o, scatter.i)
        connected(m, scatter.o, self.o)
        self._programmed(m, prehash)
        self._told(m, prehash, riders)
        self._worked(m, prehash, riders)
        return m

    # ---- the program --------------------------------------------------------------------------------------------

    def _programmed(self, m: Module, prehash: Prehash) -> None:
        """Registers. Until a stage has a stream it hears nobody."""
        lanes = LANES * self.results
        self.out, self.shown, self.count = Signal(12), Signal(), Signal(5)
        self.streams = [Signal(12, name=f"stream_{k}", init=NOBODY) for k in range(self.ways)]
        self.keys = [Signal(FIELD, name=f"key_{k}") for k in range(len(self.windows))]
        self.plan = Array(
            Array(Signal(STEP, name=f"plan_{leaf}_{step}") for step in range(self.ways - 1))
            for leaf in range(self.ways)
        )
        self.steps = [Signal(range(self.ways), name=f"steps_{leaf}") for leaf in range(self.ways)]
        self.compared = [Signal(TERM, name=f"term_{k}") for k in range(self.terms)]
        self.picks = Signal(6 * lanes)
        for leaf in range(self.ways):
            own = [k for k, of in enumerate(self.leaf) if of == leaf]
            m.d.comb += prehash.streams[leaf].eq(self.streams[leaf])
            for k in range(self.hashes):
                m.d.comb += prehash.keys[leaf][k].eq(self.keys[own[min(k, len(own) - 1)]])
        for k, window in enumerate(self.windows):
            m.d.comb += [window.by.eq(self.keys[k]), window.hashed.eq(self.keys[k].present)]

    def _told(self, m: Module, prehash: Prehash, riders: Riders) -> None:
        """Reads instructions. A reset empties all windows, and forgets what was programmed."""
        new = prehash.o.payload.item
        self.takes = Signal()  # a word of an instruction is taken
        read = Reading(m, new, self.takes)
        self.resets = Signal()
        m.d.comb += self.resets.eq(read.begins("reset"))
        m.d.comb += [
            riders.program.row.eq(new.row),
            riders.program.inst.eq(new.inst),
            riders.program.first.eq(new.first),
            riders.taken.eq(self.takes),
        ]
        rows = [Signal(25, name=f"rows_{k}") for k in range(self.ways)]
        core, cores = Signal(7), Signal(7, init=1)
        for k, window in enumerate(self.windows):
            m.d.comb += [
                window.rows.eq(rows[self.leaf[k]]),
                window.core.eq(core),
                window.cores.eq(cores),
                window.clear.eq(self.resets),
            ]
        term, lane, leaf = Signal(range(self.terms + 1)), Signal(range(LANES * self.results + 1)), Signal(4)
        fields = read.fields
        with m.If(self.resets):
            m.d.sync += [term.eq(0), lane.eq(0), self.shown.eq(0)]
            m.d.sync += [one.eq(NOBODY) for one in self.streams]
            m.d.sync += [one.used.eq(0) for one in self.compared]
            m.d.sync += [one.present.eq(0) for one in self.keys]
            m.d.sync += [one.eq(0) for one in self.steps]
        with m.If(read.begins("join")):
            m.d.sync += [
                self.out.eq(read.now.out),
                self.shown.eq(read.now.port[2]),
                self.count.eq(read.now.segments),
            ]
        with m.If(read.reads("join", "share")):
            m.d.sync += [core.eq(fields.attribute), cores.eq(fields.other)]
        with m.If(read.reads("join", "input")):
            m.d.sync += leaf.eq(fields.attribute)
            for k, one in enumerate(self.streams):
                with m.If(fields.attribute == k):
                    m.d.sync += one.eq(fields.other)
        with m.If(read.ends("join", "input")):
            for k, one in enumerate(rows):
                with m.If(leaf == k):
                    m.d.sync += one.eq(read.word)
        with m.If(read.reads("join", "key")):
            for k, one in enumerate(self.keys):
                with m.If(fields.other == k):
                    m.d.sync += one.eq(fields.attribute)
        with m.If(read.reads("join", "probe")):  # other: leaf, step, window, four bits each, and prehash
            for k in range(self.ways):
                for step in range(self.ways - 1):
                    with m.If((fields.other[:4] == k) & (fields.other[4:8] == step)):
                        m.d.sync += [
                            self.plan[k][step].window.eq(fields.other[8:12]),
                            self.plan[k][step].key.eq(fields.attribute),
                            self.plan[k][step].prehash.eq(fields.other[12:14]),
                            self.steps[k].eq(step),
                        ]
        with m.If(read.reads("join", "term")):
            m.d.sync += term.eq(term + 1)
        for k, one in enumerate(self.compared):
            with m.If(read.reads("join", "term") & (term == k)):
                m.d.sync += [
                    one.left.eq(fields.attribute),
                    one.condition.eq(fields.condition),
                    one.right.eq(fields.other),
                    one.constant.eq(0),
                    one.used.eq(1),
                ]
            with m.If(read.ends("join", "term") & (term == k + 1)):
                m.d.sync += one.constant.eq(read.word)
        with m.If(read.reads("join", "output")):
            m.d.sync += lane.eq(lane + 1)
            for k in range(LANES * self.results):
                with m.If(lane == k):
                    m.d.sync += self.picks[6 * k : 6 * k + 6].eq(fields.attribute[:6])

    # ---- rows ---------------------------------------------------------------------------------------------------

    def _worked(self, m: Module, prehash: Prehash, riders: Riders) -> None:
        new, source = prehash.o.payload, prehash.o
        row = new.item
        own = Signal(self.ways)  # the leaves that the row is of; more than one where a stream meets itself
        m.d.comb += own.eq(Cat(one == row.stream for one in self.streams))
        ended = Signal(self.ways)
        leaf, more = Signal(range(self.ways)), Signal()
        rest = own & ~ended
        for k in reversed(range(self.ways)):
            with m.If(rest[k]):
                m.d.comb += leaf.eq(k)
        m.d.comb += more.eq((rest & ~(1 << leaf)) != 0)

        depth = Signal(range(max(2, self.ways - 1)))
        step, next_step = Signal(STEP), Signal(STEP)
        m.d.comb += [step.eq(self.plan[leaf][depth]), next_step.eq(self.plan[leaf][depth + 1])]
        last = depth == Array(self.steps)[leaf]
        found, over = Signal(), Signal()
        m.d.comb += [
            found.eq(Array(window.found for window in self.windows)[step.window]),
            over.eq(Array(window.over for window in self.windows)[step.window]),
        ]
        bound, joined = self._bound(m, leaf, depth, row)
        fits = self._compared(m, bound, joined)
        picked = Cat(
            joined.word_select(self.picks[6 * k : 6 * k + 6], LANE) for k in range(LANES * self.results)
        )

        m.submodules.murmur = murmur = Murmur()
        wanted, _ = value_of(m, joined, next_step.key, "wanted")
        sought = Signal(64)
        wait = Signal(range(STEPS + 1))
        m.d.comb += [murmur.key.eq(sought), murmur.go.eq(1)]

        # commands to windows
        search, store, skip = Signal(), Signal(), Signal()
        searched, skipped = Signal(4), Signal(4)
        early = Signal()  # by the row's own hashes
        hashes = Array(new.keys[k] for k in range(self.hashes))[step.prehash]
        first = Mux(early, hashes.first, murmur.first)
        second = Mux(early, hashes.second, murmur.second)
        seek = Mux(early, hashes.value, sought)
        for k, window in enumerate(self.windows):
            number = self._own_key(k)
            mine = store & (leaf == self.leaf[k])
            m.d.comb += [
                window.store.eq(mine),
                window.row.eq(row.row),
                window.tick.eq(row.tick),
                window.search.eq(search & (searched == k)),
                window.wanted.eq(seek),
                window.skip.eq(skip & (skipped == k)),
                window.first.eq(Mux(mine, new.keys[number].first, first)),
                window.second.eq(Mux(mine, new.keys[number].second, second)),
            ]
        m.d.comb += skipped.eq(step.window)
        out = riders.i
        m.d.comb += [
            out.payload.stream.eq(self.out),
            out.payload.count.eq(self.count),
            out.payload.row.eq(picked),
            out.payload.shown.eq(self.shown),
        ]
        clearing = Cat(window.clearing for window in self.windows).any()

        with m.FSM():
            with m.State("START"):
                m.d.comb += [searched.eq(step.window), early.eq(1)]
                with m.If(source.valid & row.inst):
                    m.d.comb += [self.takes.eq(1), source.ready.eq(1)]
                    with m.If(self.resets):
                        m.next = "CLEAR"
                with m.Elif(source.valid & (own == 0)):  # who rides may want it
                    m.d.comb += passing(source, row, out)
                with m.Elif(source.valid):
                    m.d.comb += [store.eq(1), search.eq(~row.tick & (step.prehash != LATE))]
                    m.next = "SCAN"
                    with m.If(row.tick):
                        m.next = "END"
                    with m.Elif(step.prehash == LATE):  # another field than those hashed on the way in
                        m.d.sync += [sought.eq(self._field(m, row.row, step.key)), wait.eq(STEPS)]
                        m.next = "HASH"
            with m.State("SCAN"):
                with m.If(found):
                    with m.If(~fits):
                        m.d.comb += skip.eq(1)
                    with m.Elif(last):
                        m.d.comb += [out.valid.eq(1), skip.eq(out.ready)]
                    with m.Else():
                        m.d.sync += [depth.eq(depth + 1), sought.eq(wanted), wait.eq(STEPS)]
                        m.next = "HASH"
                with m.Elif(over):
                    with m.If(depth == 0):
                        self._ends(m, out, source, ended, leaf, more)
                    with m.Else():
                        m.d.sync += depth.eq(depth - 1)
                        m.next = "BACK"
            with m.State("HASH"):
                m.d.comb += [searched.eq(step.window), search.eq(wait == 0)]
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    m.next = "SCAN"
            with m.State("BACK"):
                m.d.comb += skip.eq(1)
                m.next = "SCAN"
            with m.State("END"):
                self._ends(m, out, source, ended, leaf, more)
            with m.State("CLEAR"), m.If(~clearing):
                m.next = "START"

    def _own_key(self, window: int) -> int:
        """Which of a row's hashed keys a window is by."""
        return self.leaf[:window].count(self.leaf[window])

    @staticmethod
    def _field(m: Module, row: Any, which: Any) -> Signal:
        value, _ = value_of(m, row, which, "sought_first")
        return value

    @staticmethod
    def _ends(m: Module, out: Any, source: Any, ended: Signal, leaf: Signal, more: Signal) -> None:
        """The row is through with this leaf; after the last one, that is told."""
        with m.If(more):
            m.d.sync += ended.eq(ended | (1 << leaf))
            m.next = "START"
        with m.Else():
            m.d.comb += [out.valid.eq(1), out.payload.void.eq(1), out.payload.done.eq(1)]
            with m.If(out.ready):
                m.d.comb += source.ready.eq(1)
                m.d.sync += ended.eq(0)
                m.next = "START"

    def _bound(self, m: Module, leaf: Signal, depth: Signal, row: Any) -> tuple[Signal, Signal]:
        """Which streams have a row by now, and all these rows beside each other."""
        bits = SEGMENT * self.segments
        bound, joined = Signal(self.ways), Signal(bits * self.ways)
        for k in range(self.ways):
            with m.If(leaf == k):
                m.d.comb += [bound[k].eq(1), joined[bits * k : bits * (k + 1)].eq(row.row)]
        for at in range(self.ways - 1):
            with m.If(depth >= at):
                for k, window in enumerate(self.windows):
                    with m.If(self.plan[leaf][at].window == k):
                        of = self.leaf[k]
                        m.d.comb += [bound[of].eq(1), joined[bits * of : bits * (of + 1)].eq(window.match)]
        return bound, joined

    def _compared(self, m: Module, bound: Signal, joined: Signal) -> Signal:
        """Whether all comparisons hold of which both sides are there."""
        shift = (LANES * self.segments).bit_length() - 1
        fits = Signal(self.terms)
        for k, term in enumerate(self.compared):
            left = value_of(m, joined, term.left, f"left_{k}")
            other, null = value_of(m, joined, term.right, f"right_{k}")
            paired = term.right.present
            right = (
                (Mux(paired, other.as_signed(), 0) + term.constant.as_signed()).as_signed(),
                paired & null,
            )
            there = bound.bit_select(term.left.lane >> shift, 1) & (
                ~paired | bound.bit_select(term.right.lane >> shift, 1)
            )
            m.d.comb += fits[k].eq(
                ~term.used | ~there | holds(m, term.condition, left, right, f"term_holds_{k}")
            )
        return fits.all()
