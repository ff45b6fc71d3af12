"""The stash of Stashed-MJ and its controller: pairs of rows of A and B, kept for the rows of C (thesis 6.2.2, 6.3.2, 6.3.3).

Pairs lie in a ring, sorted by the arrival of their A row, the oldest at the bottom, without gaps. An *age* counts rows back from
the newest of a stream, 1 is the newest. What stays true while the stash is idle:
- every pair of stored rows whose A row has an age of at most ``covered`` is in it, once;
- no pair with a row that has left its window is in it. So a row of C reads ``count`` pairs, and the A rows that are older than
  ``covered`` are to be recomputed. The stash is *valid* if there are none.

- A row of A comes: pairs at the bottom whose A row has left its window go (expiration); new pairs are put on top. If it is full,
  the pair at the bottom goes for it (overwrite), and ``covered`` falls below its age.
- A row of B comes: one pass merges the old pairs, in the order of age, with the new ones, which the scan finds in the same order,
  into the other bank: that is the thesis's storage reclamation (pairs whose rows have left are passed over, so there are no gaps)
  and its insertion sort in one. When the bank is full the rest has the oldest A rows, is left out, and ``covered`` falls below it.
  The pass goes on behind the scan, so it ends with it, or shortly after.
- ``covered`` grows with every row of A, and when it reaches the window the stash is valid again (recovery).

Otherwise than in the thesis: pairs expire by arrival, not by key (rows with equal keys are no rarity, and one of them would take
the pairs of the others with it). Valid bits and the search for a free slot are not needed, as there are no gaps. It has one stash
for pairs of both orders, where the thesis needs two (6.3.3): sorting by the age of the A row serves both. The overwrite key buffer
and the overwrite index buffer are one number, ``covered``.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.multiway.layout import Widths


def pair_layout(widths: Widths, a: int, b: int) -> Any:
    """A pair: what C is compared with (last key of B, first key of A), its numbers, and which rows of their streams they are."""
    return data.StructLayout(
        {
            "last_b": widths.key,
            "first_a": widths.key,
            "number_a": widths.number,
            "number_b": widths.number,
            "row_a": (a + 1).bit_length(),
            "row_b": (b + 1).bit_length(),
        }
    )


class Stash(wiring.Component):
    """``size`` pairs of windows of ``a`` and ``b`` rows."""

    def __init__(self, widths: Widths, size: int, a: int, b: int) -> None:
        if size < 2 or size & (size - 1):
            raise OptionError(f"stash must be a power of two, or 0 for none; got {size}")
        self.size, self.a, self.b = size, a, b
        self.pair = pair_layout(widths, a, b)
        super().__init__(
            {
                "came_a": In(1),  # a row of A is stored in this cycle
                "came_b": In(1),
                "pairs": In(stream.Signature(self.pair)),  # new pairs, of B by age
                "more": In(1),  # further pairs may come
                "scanned": In(range(a + 2)),  # all pairs with A rows up to this age have come to ``pairs``
                "busy": Out(1),
                "rows_a": Out((a + 1).bit_length()),  # rows of A so far
                "rows_b": Out((b + 1).bit_length()),
                "covered": Out(range(a + 1)),
                "count": Out(range(size + 1)),
                "top": Out(range(size)),
                "slot": In(range(size)),  # what C reads, while the stash is idle
                "found": Out(self.pair),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=self.pair, depth=2 * self.size, init=[])
        self._write, self._read = memory.write_port(), memory.read_port()
        self._bank, self._slot = Signal(), Signal(range(self.size))  # where is read
        m.d.comb += [
            self._slot.eq(self.slot),
            self._read.addr.eq(Cat(self._slot, self._bank)),
            self.found.eq(self._read.data),
        ]
        with m.If(self.came_a):
            m.d.sync += self.rows_a.eq(self.rows_a + 1)
            with m.If(self.covered != self.a):
                m.d.sync += self.covered.eq(self.covered + 1)
        with m.If(self.came_b):
            m.d.sync += self.rows_b.eq(self.rows_b + 1)
        with m.FSM():
            with m.State("idle"):
                with m.If(self.came_a):
                    m.next = "append"
                with m.If(self.came_b):
                    m.next = "first"
            with m.State("append"):
                m.d.comb += self.busy.eq(1)
                self._append(m)
            with m.State("first"):  # the pass reads its first pair
                m.d.comb += [self.busy.eq(1), self._slot.eq(self.top - 1)]
                m.next = "merge"
            with m.State("merge"):
                m.d.comb += self.busy.eq(1)
                self._merge(m)
        return m

    def age(self, now: Any, row: Any) -> Any:
        """How far a row is back from the newest."""
        return (now - row)[: len(now)]

    def _lose(self, m: Module, age: Any) -> None:
        """A pair whose A row has this age is left out."""
        with m.If(self.covered >= age):
            m.d.sync += self.covered.eq(age - 1)

    def _append(self, m: Module) -> None:
        """A row of A: away with the pairs of the row that it replaces, then the new pairs on top."""
        pairs, asked, known = self.pairs, Signal(), Signal()  # the pair at the bottom: read, held
        oldest = Signal(range(self.a + 2))
        age = self.age(self.rows_a, self._read.data.row_a)
        m.d.comb += self._slot.eq(self.top - self.count)
        trimmed = known | (self.count == 0)
        with m.If(~trimmed):
            m.d.sync += asked.eq(1)
            with m.If(asked):
                m.d.sync += asked.eq(0)
                with m.If(age > self.a):
                    m.d.sync += self.count.eq(self.count - 1)
                with m.Else():
                    m.d.sync += [oldest.eq(age), known.eq(1)]
        with m.Elif(pairs.valid & (self.count != self.size)):
            m.d.comb += [
                pairs.ready.eq(1),
                self._write.en.eq(1),
                self._write.addr.eq(Cat(self.top, self._bank)),
                self._write.data.eq(pairs.payload),
            ]
            m.d.sync += [self.top.eq(self.top + 1), self.count.eq(self.count + 1)]
        with m.Elif(pairs.valid):
            self._lose(m, oldest)
            m.d.sync += [self.count.eq(self.count - 1), known.eq(0)]
        with m.Elif(~self.more):
            m.d.sync += known.eq(0)
            m.next = "idle"

    def _merge(self, m: Module) -> None:
        """A row of B: old and new pairs by age, the newest first, into the other bank."""
        pairs, old = self.pairs, self._read.data
        behind, written, full = Signal(range(self.size)), Signal(range(self.size + 1)), Signal()
        left = Signal(range(self.size + 1))  # old pairs, as they were when the pass began, that are done
        age_old, age_new = (
            self.age(self.rows_a, old.row_a),
            self.age(self.rows_a, pairs.payload.row_a),
        )
        has_old = left != self.count
        over = has_old & ((age_old > self.a) | (self.age(self.rows_b, old.row_b) > self.b))
        take_old, put_old, put_new = Signal(), Signal(), Signal()
        m.d.comb += self._slot.eq(self.top - 1 - left - take_old)
        with m.If(over):
            m.d.comb += take_old.eq(1)
        with m.Elif(pairs.valid & (~has_old | (age_new <= age_old))):
            m.d.comb += [put_new.eq(1), pairs.ready.eq(1)]
        with m.Elif(has_old & (pairs.valid | ~self.more | (age_old <= self.scanned))):
            m.d.comb += [put_old.eq(1), take_old.eq(1)]
        with m.Elif(~has_old & ~self.more):
            m.d.sync += [
                self._bank.eq(~self._bank),
                self.top.eq(0),
                self.count.eq(written),
                left.eq(0),
                written.eq(0),
                full.eq(0),
            ]
            m.next = "idle"
        m.d.comb += [
            behind.eq(self.size - 1 - written),
            self._write.data.eq(Mux(put_new, pairs.payload, old)),
            self._write.addr.eq(Cat(behind, ~self._bank)),
        ]
        with m.If(take_old):
            m.d.sync += left.eq(left + 1)
        with m.If((put_old | put_new) & ~full):
            with m.If(written == self.size):
                m.d.sync += full.eq(1)
                self._lose(m, Mux(put_new, age_new, age_old))
            with m.Else():
                m.d.comb += self._write.en.eq(1)
                m.d.sync += written.eq(written + 1)
