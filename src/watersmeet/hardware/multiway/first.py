"""The first stage of Stashed-MJ: the windows of A and B, the processing unit, storage and expiration, and the stash (thesis 6.2.1).

A row of A looks through B, a row of B through A; the pairs go to the stash and on to the second stage. A row of C reads the stash,
whose results leave at once, and looks through the rows of A that the stash does not cover (``recompute``; without it, through all
of A if it does not cover them all, as in thesis 6.2.2); what it finds there goes on to the second stage, which looks through B.

The next row is taken in the cycle of the last read of the one before: a row costs as many cycles as it reads slots, at least one.
With a stash, a row of A or B also waits until the pairs before it are in the stash, and a row of C that comes after one of those.

B is written here and read by the second stage, for rows of C that came before. The thesis locks it against rows of B as long
(6.3.1). Here the ring of B has ``spare`` slots, and only the row of B after so many waits: 0 is the thesis's lock.

Whose turn it is to store (thesis 6.2.4) is counted for each stream that is dealt out over several cores; ``deal`` says which.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Fifo
from watersmeet.hardware.multiway.layout import Widths
from watersmeet.hardware.multiway.ring import Ring
from watersmeet.hardware.multiway.second import IN_FLIGHT, line_layout
from watersmeet.hardware.multiway.stash import Stash

A, B, C = 0, 1, 2  # streams, and what is looked through; a row of C never looks through C
STASH = 2

ALONE, PRINTED, EXACT = "alone", "printed", "exact"


class FirstStage(wiring.Component):
    """``stash`` 0: none. ``deal``: ALONE stores all rows; PRINTED in turn, of every stream; EXACT in turn, of A."""

    def __init__(
        self,
        widths: Widths,
        a: int,
        b: int,
        spare: int,
        stash: int,
        recompute: bool,
        deal: str,
        cores: int,
        queue: int,
        line: int,
    ) -> None:
        self.widths, self.a, self.b, self.spare = widths, a, b, spare
        self.stash, self.recompute, self.deal, self.cores, self.queue = stash, recompute, deal, cores, queue
        self.messages, self.message = line, line_layout(widths, b + spare, b)
        super().__init__(
            {
                "position": In(range(max(2, cores))),
                "rows": In(stream.Signature(widths.row)),
                "line": Out(stream.Signature(self.message)),
                "line_level": In(range(line + 1)),
                "slot_b": In(range(max(2, b + spare))),
                "found_b": Out(widths.stored),
                "released": In(2),
                "results": Out(stream.Signature(widths.result)),
                "covered": Out(range(a + 1)),
                "pairs": Out(range(max(2, stash + 1))),
                "invalid": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        w = self.widths
        m.submodules.entry = entry = Fifo(w.row, self.queue)
        wiring.connect(m, wiring.flipped(self.rows), entry.i)
        m.submodules.results = self.out = Fifo(w.result, 2 * IN_FLIGHT)
        wiring.connect(m, self.out.o, wiring.flipped(self.results))
        self.ring_a = Ring(m, "window_a", w.stored, self.a)
        self.ring_b = Ring(m, "window_b", w.stored, self.b, self.spare, reads=2)
        m.d.comb += [self.ring_b.reads[1].addr.eq(self.slot_b), self.found_b.eq(self.ring_b.reads[1].data)]

        most = max(self.a, self.b, self.stash)
        self.work = data.StructLayout(
            {
                "row": w.row,
                "source": 2,
                "age": range(most + 2),  # of the row of A or B that is read
                "looks": 1,  # 0: there is nothing to look through
                "store": 1,  # a row of C that is to be stored
                "lock": 1,  # the second stage will look through B
                "release": 1,  # this is the last read
                "top_b": range(max(2, self.ring_b.slots)),
                "fill_b": range(self.b + 1),
            }
        )
        # What the processing unit reads: ``left`` slots of a source from ``at`` down, then ``rest`` slots of A from ``rest_at`` down.
        self.now, self.active = Signal(self.work), Signal()
        self.at, self.left = (
            Signal(range(max(2, self.a, self.ring_b.slots, self.stash))),
            Signal(range(most + 1)),
        )
        self.rest, self.rest_at = Signal(range(self.a + 1)), Signal(range(max(2, self.a)))
        self.reads, self.last = Signal(), Signal()  # it reads in this cycle; and is done with the row
        self.quiet = Signal()  # nothing is between the read and the queues
        self.kept = Signal(range(max(2, self.stash + 1)))  # pairs that a row of C reads
        self.settled = Signal(init=1)  # covered rows and pairs will not change
        room = Signal()
        m.d.sync += room.eq(
            (self.line_level <= self.messages - IN_FLIGHT) & (self.out.level <= self.out.depth - IN_FLIGHT)
        )
        m.d.comb += [self.settled.eq(1), self.reads.eq(self.active & room), self.invalid.eq(0)]
        if self.stash:
            m.submodules.stash = self.keeper = Stash(w, self.stash, self.a, self.b)
        self._go_on(m)
        stored = self._take(m, entry.o)
        if self.stash:
            self._keep(m, stored, room)
        self._compare(m)
        return m

    def _keep(self, m: Module, stored: tuple[Any, Any], room: Any) -> None:
        """The stash, and the queue of pairs in front of it (the thesis's result storage)."""
        keeper = self.keeper
        m.submodules.storage = storage = self.storage = Fifo(keeper.pair, 2 * IN_FLIGHT)
        wiring.connect(m, storage.o, keeper.pairs)
        store_room = Signal()
        m.d.sync += store_room.eq(storage.level <= storage.depth - IN_FLIGHT)
        m.d.comb += [
            self.reads.eq(self.active & room & store_room),
            keeper.came_a.eq(stored[0]),
            keeper.came_b.eq(stored[1]),
            keeper.slot.eq(self.at),
            keeper.more.eq(self.active | ~self.quiet | (storage.level != 0)),
            self.settled.eq(~keeper.busy),
            self.pairs.eq(keeper.count),
            self.invalid.eq(keeper.covered != self.ring_a.fill),
            self.covered.eq(keeper.covered),
            self.kept.eq(Mux(keeper.covered == 0, 0, keeper.count)),
        ]
        if not self.recompute:
            with m.If(self.invalid):
                m.d.comb += [self.covered.eq(0), self.kept.eq(0)]

    def _go_on(self, m: Module) -> None:
        """One read in every cycle that has room."""
        ring_a, ring_b = self.ring_a, self.ring_b
        m.d.comb += [
            self.last.eq(self.reads & (self.left == 1) & (self.rest == 0)),
            ring_a.reads[0].addr.eq(self.at),
            ring_b.reads[0].addr.eq(self.at),
        ]
        bottom = Signal.like(self.at)  # the slot below slot 0
        with m.Switch(self.now.source):
            for source, slots in ((A, ring_a.slots), (B, ring_b.slots), (STASH, max(1, self.stash))):
                with m.Case(source):
                    m.d.comb += bottom.eq(slots - 1)
        with m.If(self.reads):
            m.d.sync += [
                self.at.eq(Mux(self.at == 0, bottom, self.at - 1)),
                self.left.eq(self.left - 1),
                self.now.age.eq(self.now.age + 1),
            ]
            with m.If(self.left == 1):
                m.d.sync += [
                    self.now.source.eq(A),
                    self.at.eq(self.rest_at),
                    self.left.eq(self.rest),
                    self.rest.eq(0),
                ]
        with m.If(self.last):
            m.d.sync += self.active.eq(0)

    def _take(self, m: Module, new: Any) -> tuple[Any, Any]:
        """The next row: stored, if it is this core's turn, and set to look for partners. Gives whether a row of A, of B is stored."""
        ring_a, ring_b, row, w = self.ring_a, self.ring_b, new.payload, self.widths
        home, took, locks_it = self._home(m, new), Signal(), Signal()
        stored, store_a, store_b = Signal(w.stored), Signal(), Signal()
        from_c = row.stream == C
        source, start, count, rest, older = self._plan(m, row, home)
        m.d.comb += [
            new.ready.eq(self._may(m, row, took & locks_it, store_b)),
            took.eq(new.valid & new.ready),
            locks_it.eq(from_c & Mux(source == A, count != 0, rest != 0)),
            stored.keys.eq(row.keys),
            stored.number.eq(row.number),
            store_a.eq(took & home & (row.stream == A)),
            store_b.eq(took & home & (row.stream == B)),
        ]
        ring_a.store(m, store_a, stored)
        ring_b.store(m, store_b, stored)
        with m.If(took):
            m.d.sync += [
                self.active.eq(1),
                self.now.row.eq(row),
                self.now.source.eq(source),
                self.now.age.eq(1),
                self.now.looks.eq(count != 0),
                self.now.store.eq(from_c & home),
                self.now.lock.eq(locks_it),
                self.now.top_b.eq(ring_b.top),
                self.now.fill_b.eq(ring_b.fill),
                self.at.eq(start),
                self.left.eq(Mux(count == 0, 1, count)),
                self.rest.eq(rest),
                self.rest_at.eq(older),
            ]
        return store_a, store_b

    def _may(self, m: Module, row: Any, locks_it: Any, stores_b: Any) -> Any:
        """Whether the next row can be taken in this cycle."""
        locks, since = (
            Signal(8),
            Signal(range(max(2, self.spare + 1))),
        )  # rows of C that need B; rows of B since the first of them
        m.d.sync += locks.eq(locks + locks_it - self.released)
        with m.If(locks == 0):
            m.d.sync += since.eq(0)
        with m.Elif(stores_b):
            m.d.sync += since.eq(since + 1)
        may = Signal()
        m.d.comb += may.eq(self.settled & (~self.active | self.last))
        with m.If((row.stream == B) & (locks != 0) & (since == self.spare)):
            m.d.comb += may.eq(0)
        if self.stash:  # what is compared with ages must not see them change
            with m.If((row.stream != C) & (self.active | ~self.quiet)):
                m.d.comb += may.eq(0)
        return may

    def _home(self, m: Module, new: Any) -> Any:
        """Whether this core stores the row."""
        dealt = {ALONE: (), PRINTED: (A, B, C), EXACT: (A,)}[self.deal]
        home = Signal()
        m.d.comb += home.eq(1)
        for k in dealt:
            turn = Signal(range(max(2, self.cores)), name=f"turn_{k}")
            with m.If(new.payload.stream == k):
                m.d.comb += home.eq(turn == self.position)
                with m.If(new.valid & new.ready):
                    m.d.sync += turn.eq(Mux(turn == self.cores - 1, 0, turn + 1))
        return home

    def _plan(self, m: Module, row: Any, home: Any) -> tuple[Any, ...]:
        """What a row looks through: source, first slot and slots; then how many slots of A, and from where."""
        ring_a, ring_b = self.ring_a, self.ring_b
        source, start, count = Signal(2), Signal.like(self.at), Signal.like(self.left)
        rest, older = Signal(range(self.a + 1)), Signal(range(2 * self.a + 1))
        uncovered = Signal(range(self.a + 1))
        m.d.comb += [
            uncovered.eq(ring_a.fill - self.covered),
            older.eq(Mux(ring_a.top > self.covered, ring_a.top, ring_a.top + self.a) - 1 - self.covered),
        ]
        with m.If(row.stream == A):
            m.d.comb += source.eq(B)
            if self.deal == EXACT and not self.stash:
                self._part_of_b(m, start, count)
            else:
                m.d.comb += [
                    start.eq(ring_b.below(ring_b.top)),
                    count.eq(Mux(home, ring_b.fill, 0) if self.deal == EXACT else ring_b.fill),
                ]
        with m.Elif(row.stream == B):
            m.d.comb += [source.eq(A), start.eq(ring_a.below(ring_a.top)), count.eq(ring_a.fill)]
        with m.Elif(self.kept != 0):
            m.d.comb += [source.eq(STASH), count.eq(self.kept), rest.eq(uncovered)]
            if self.stash:
                m.d.comb += start.eq((self.keeper.top - 1)[: len(self.keeper.top)])
        with m.Else():
            m.d.comb += [source.eq(A), start.eq(older), count.eq(uncovered)]
        return source, start, count, rest, older

    def _part_of_b(self, m: Module, start: Any, count: Any) -> None:
        """B is the same on all cores: each looks through the rows of one range of ages, ``a`` of them, for a row of A."""
        ring, newer, left = self.ring_b, Signal(range(self.b + 1)), Signal(range(self.b + 1))
        m.d.comb += newer.eq(self.position * self.a)
        with m.If(ring.fill > newer):
            m.d.comb += [
                left.eq(ring.fill - newer),
                count.eq(Mux(left > self.a, self.a, left)),
                start.eq(Mux(ring.top > newer, ring.top, ring.top + ring.slots) - 1 - newer),
            ]

    def _compare(self, m: Module) -> None:
        """Read, register, compare, send."""
        w, ring_a, ring_b = self.widths, self.ring_a, self.ring_b
        early, late = Signal(self.work), Signal(self.work)
        early_valid, late_valid = Signal(), Signal()
        found, message, sends = Signal(w.stored), Signal(self.message), Signal()
        m.d.sync += [
            early.eq(self.now),
            early.release.eq(self.now.lock & self.last),
            early.store.eq(self.now.store & self.last),
            early_valid.eq(self.reads),
            late.eq(early),
            late_valid.eq(early_valid),
            found.eq(Mux(early.source == A, ring_a.reads[0].data, ring_b.reads[0].data)),
        ]
        row, of_b, of_c = late.row, late.row.stream == B, late.row.stream == C
        near = Mux(of_b, w.close(w.last(found), w.first(row)), w.close(w.last(row), w.first(found)))
        hit = Signal()
        m.d.comb += hit.eq(late_valid & late.looks & (late.source != STASH) & near)
        m.d.sync += [
            sends.eq(hit | (late_valid & (late.store | late.release))),
            message.hit.eq(hit),
            message.store.eq(late.store),
            message.release.eq(late.release),
            message.looks_at_b.eq(of_c),
            message.low.eq(Mux(of_b, w.last(row), w.last(found))),
            message.high.eq(Mux(of_b, w.first(found), w.first(row))),
            message.numbers[0].eq(Mux(row.stream == A, row.number, found.number)),
            message.numbers[1].eq(Mux(of_b, row.number, found.number)),
            message.numbers[2].eq(row.number),
            message.row.keys.eq(row.keys),
            message.row.number.eq(row.number),
            message.top_b.eq(late.top_b),
            message.fill_b.eq(late.fill_b),
        ]
        m.d.comb += [self.line.valid.eq(sends), self.line.payload.eq(message)]
        if self.stash:
            self._compare_pairs(m, late, early_valid, late_valid, message, hit & ~of_c)
        else:
            m.d.comb += self.quiet.eq(1)

    def _compare_pairs(
        self, m: Module, late: Any, early_valid: Any, late_valid: Any, message: Any, pairs: Any
    ) -> None:
        """Rows of C with the stash: results; and new pairs on their way into it."""
        w, keeper, row = self.widths, self.keeper, late.row
        pair, kept, result = Signal(keeper.pair), Signal(), Signal(w.result)
        age, of_a, is_result = Signal.like(late.age), Signal(), Signal()
        m.d.sync += [
            pair.eq(keeper.found),
            kept.eq(pairs),
            age.eq(late.age),
            of_a.eq(row.stream == A),
            result[0].eq(pair.number_a),
            result[1].eq(pair.number_b),
            result[2].eq(row.number),
            is_result.eq(
                late_valid
                & (late.source == STASH)
                & (keeper.age(keeper.rows_a, pair.row_a) <= keeper.covered)
                & w.close(pair.last_b, w.first(row))
                & w.close(w.last(row), pair.first_a)
            ),
        ]
        new = self.storage.i
        m.d.comb += [
            self.out.i.valid.eq(is_result),
            self.out.i.payload.eq(result),
            new.valid.eq(kept),
            new.payload.last_b.eq(message.low),
            new.payload.first_a.eq(message.high),
            new.payload.number_a.eq(message.numbers[0]),
            new.payload.number_b.eq(message.numbers[1]),
            new.payload.row_a.eq(keeper.rows_a - Mux(of_a, 1, age)),
            new.payload.row_b.eq(keeper.rows_b - Mux(of_a, age, 1)),
        ]
        # Whether anything is under way, and how far a row of B has looked: pairs are in front of the stash two cycles after they are found.
        steps = [Signal.like(keeper.scanned, name=f"scanned_{k}") for k in range(4)]
        sent = Signal()
        m.d.sync += sent.eq(late_valid)
        with m.If(late_valid):
            m.d.sync += steps[0].eq(late.age)
        m.d.comb += self.quiet.eq(~(early_valid | late_valid | sent))
        for before, after in pairwise(steps):
            m.d.sync += after.eq(before)
        with m.If(keeper.came_b | ~keeper.busy):
            m.d.sync += [step.eq(0) for step in steps]
        m.d.comb += keeper.scanned.eq(steps[-1])
