"""HB-SJ: a stream's sliding window, found by hash (thesis 7.1.5, figure 7.1.4).

Two Murmur3 functions, four tables (two a function), an overflow buffer, and an *order window* that says for each row of the stream where
it was stored. What stays true:

- the tables and the overflow buffer hold exactly the rows of the window: before a row comes in, the one that leaves the window is taken
  out, where the order window says it is. A row that was not selected has an entry there too, so windows count all rows of the stream;
- rows leave the overflow buffer in the order in which they came in, so it is a ring, and searching it is reading it from end to end;
- it has room for the whole window, so no keys whatever can make it lose a row (the thesis says "relatively small", and not what happens
  when it is full).

A row is stored in two cycles (read; take out and choose a place), the write falls into the cycle after. A search reads all four places at
once, and gives a match a cycle; then the overflow buffer, a row a cycle. Without a key (``hashed`` low) all rows are in the overflow
buffer: a nested loop, for conditions without an equality.

Of a join on ``cores`` units each stores every ``cores``-th row (7.1.7), also of those not selected.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.ssp.words import FIELD, SEGMENT, value_of

TABLES = 4


class HashWindow(wiring.Component):
    """Up to ``window`` rows of ``segments`` segments; each table has ``table`` places.

    - ``rows``, ``cores``, ``core``, ``hashed``, ``by`` (the key): as programmed; they change only together with ``clear``, which takes
      ``table`` cycles of ``clearing``.
    - ``store`` (for a cycle): ``row`` comes, or a row that is a ``tick``. ``search`` (for a cycle): for ``wanted``. Both with the key's
      hashes ``first`` and ``second``. After a store, one cycle must pass before the next.
    - From the cycle after ``search`` on: ``found`` is a match, ``match``, until ``skip``; or ``over``.
    """

    def __init__(self, window: int, table: int, segments: int) -> None:
        if table < 2 or table & (table - 1):
            raise OptionError(f"table must be a power of two, at least 2; got {table}")
        if window < 1:
            raise OptionError(f"window must be at least 1; got {window}")
        self.window, self.table, self.segments = window, table, segments
        self.depth = max(2, 1 << (window - 1).bit_length())
        bits = SEGMENT * segments
        super().__init__(
            {
                "rows": In(25),
                "cores": In(7),
                "core": In(7),
                "hashed": In(1),
                "by": In(FIELD),
                "clear": In(1),
                "clearing": Out(1),
                "store": In(1),
                "row": In(bits),
                "tick": In(1),
                "first": In(32),
                "second": In(32),
                "search": In(1),
                "wanted": In(64),
                "skip": In(1),
                "found": Out(1),
                "match": Out(bits),
                "over": Out(1),
                "overflow": Out(range(self.depth + 1)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        self._places(m)
        storing = self._order(m)
        self._insert(m, storing)
        self._search(m)
        return m

    # ---- what there is ------------------------------------------------------------------------------------------

    def _places(self, m: Module) -> None:
        bits, places = SEGMENT * self.segments, range(self.table)
        entry = data.StructLayout({"valid": 1, "row": bits})
        self.tables = []
        for k in range(TABLES):
            m.submodules[f"table_{k}"] = memory = Memory(shape=entry, depth=self.table, init=[])
            write = memory.write_port()
            self.tables.append((write, memory.read_port(transparent_for=(write,))))
        where = data.StructLayout({"stored": 1, "overflow": 1, "table": 2, "at": places})
        m.submodules.order = order = Memory(shape=where, depth=self.depth, init=[])
        self.order_write = order.write_port()
        self.order_read = order.read_port()
        m.submodules.overflow_buffer = overflow = Memory(shape=bits, depth=self.depth, init=[])
        self.overflow_write = overflow.write_port()
        self.overflow_read = overflow.read_port(transparent_for=(self.overflow_write,))
        size = self.depth.bit_length()
        self.oldest, self.newest = Signal(size), Signal(size)  # of the overflow buffer
        m.d.comb += self.overflow.eq((self.newest - self.oldest)[:size])

        self.sweep = Signal(range(self.table + 1))
        with m.If(self.clear):
            m.d.sync += [self.clearing.eq(1), self.sweep.eq(0), self.oldest.eq(0), self.newest.eq(0)]
        with m.If(self.clearing):
            m.d.sync += self.sweep.eq(self.sweep + 1)
            with m.If(self.sweep == self.table - 1):
                m.d.sync += self.clearing.eq(0)

    # ---- who comes and who goes ---------------------------------------------------------------------------------

    def _order(self, m: Module) -> Signal:
        """Whose turn it is; true in the second cycle of a store."""
        size = self.depth.bit_length() - 1
        self.head, self.tail = Signal(size), Signal(size)  # of the order window
        seen = Signal(25)  # rows so far, up to ``rows``
        turn, old_turn = Signal(7), Signal(7)  # of the row that comes, and of the one that leaves
        full = seen == self.rows
        storing = Signal()
        self.stores, self.expires = Signal(), Signal()  # in the second cycle
        m.d.sync += storing.eq(self.store)
        m.d.comb += [self.order_read.addr.eq(self.head), self.order_read.en.eq(self.store)]
        with m.If(self.store):
            m.d.sync += [
                self.stores.eq(turn == self.core),
                self.expires.eq(full & (old_turn == self.core)),
                turn.eq(Mux(turn + 1 == self.cores, 0, turn + 1)),
            ]
            with m.If(full):
                m.d.sync += old_turn.eq(Mux(old_turn + 1 == self.cores, 0, old_turn + 1))
            with m.Else():
                m.d.sync += seen.eq(seen + 1)
        with m.If(storing):
            m.d.sync += [self.head.eq(self.head + self.expires), self.tail.eq(self.tail + self.stores)]
        with m.If(self.clear):
            m.d.sync += [seen.eq(0), turn.eq(0), old_turn.eq(0), self.head.eq(0), self.tail.eq(0)]
        return storing

    def _insert(self, m: Module, storing: Signal) -> None:
        row, tick = Signal(SEGMENT * self.segments), Signal()
        at = [Signal(range(self.table), name=f"at_{k}") for k in range(2)]  # by each function
        with m.If(self.store):
            m.d.sync += [row.eq(self.row), tick.eq(self.tick), at[0].eq(self.first), at[1].eq(self.second)]
        gone = self.order_read.data
        free = Signal(TABLES)
        m.d.comb += free.eq(Cat(~read.data.valid for _, read in self.tables) & self.hashed.replicate(TABLES))
        place, fits = Signal(2), Signal()
        m.d.comb += fits.eq(free.any())
        for k in reversed(range(TABLES)):
            with m.If(free[k]):
                m.d.comb += place.eq(k)
        comes = storing & self.stores & ~tick
        leaves = storing & self.expires & gone.stored
        spills = comes & ~fits
        write, at_place = self.order_write, Mux(place[1], at[1], at[0])
        m.d.comb += [
            write.en.eq(storing & self.stores),
            write.addr.eq(self.tail),
            write.data.stored.eq(~tick),
            write.data.overflow.eq(~fits),
            write.data.table.eq(place),
            write.data.at.eq(at_place),
        ]
        with m.If(leaves & gone.overflow):
            m.d.sync += self.oldest.eq(self.oldest + 1)
        with m.If(spills):
            m.d.sync += self.newest.eq(self.newest + 1)
        # the cycle after: the row is written, and whoever reads its place in that cycle sees it
        writes, spilled, put, put_at = Signal(), Signal(), Signal(2), Signal(range(self.table))
        kept, spill_at = Signal(SEGMENT * self.segments), Signal(range(self.depth))
        m.d.sync += [writes.eq(comes & fits), spilled.eq(spills), put.eq(place), put_at.eq(at_place)]
        with m.If(storing):
            m.d.sync += [kept.eq(row), spill_at.eq(self.newest)]
        m.d.comb += [
            self.overflow_write.en.eq(spilled),
            self.overflow_write.addr.eq(spill_at),
            self.overflow_write.data.eq(kept),
        ]
        for k, (port, _) in enumerate(self.tables):
            taken_out = leaves & ~gone.overflow & (gone.table == k)
            put_in = writes & (put == k)
            m.d.comb += [
                port.en.eq(taken_out | put_in | self.clearing),
                port.addr.eq(Mux(self.clearing, self.sweep, Mux(taken_out, gone.at, put_at))),
                port.data.valid.eq(put_in & ~self.clearing),
                port.data.row.eq(kept),
            ]

    # ---- who is asked for ---------------------------------------------------------------------------------------

    def _search(self, m: Module) -> None:
        wanted, tried = Signal(64), Signal(TABLES)
        alike = Signal(TABLES)
        for k, (_, read) in enumerate(self.tables):
            address = self.second if k >= TABLES // 2 else self.first
            m.d.comb += [read.addr.eq(address), read.en.eq(self.store | self.search)]
            key, _ = value_of(m, read.data.row, self.by, f"key_{k}")
            m.d.comb += alike[k].eq(read.data.valid & (key == wanted) & ~tried[k] & self.hashed)
        size = self.depth.bit_length()
        at, left = (
            Signal(size),
            Signal(range(self.depth + 1)),
        )  # the overflow row in front, and how many from it on
        spilled, _ = value_of(m, self.overflow_read.data, self.by, "key_spilled")
        spilled_alike = (left != 0) & ((spilled == wanted) | ~self.hashed)
        by_table, advances = Signal(), Signal()
        m.d.comb += [
            by_table.eq(alike.any()),
            self.found.eq(by_table | spilled_alike),
            self.over.eq(~by_table & (left == 0)),
            self.match.eq(self.overflow_read.data),
            advances.eq(~by_table & (left != 0) & (self.skip | ~spilled_alike)),
            self.overflow_read.addr.eq(Mux(self.search, self.oldest, at + 1)),
            self.overflow_read.en.eq(self.search | advances),
        ]
        for k, (_, read) in reversed(list(enumerate(self.tables))):
            with m.If(alike[k]):
                m.d.comb += self.match.eq(read.data.row)
        with m.If(self.skip & by_table):
            m.d.sync += tried.eq(tried | (alike & ~(alike - 1)))
        with m.If(advances):
            m.d.sync += [at.eq(at + 1), left.eq(left - 1)]
        with m.If(self.search):
            m.d.sync += [wanted.eq(self.wanted), tried.eq(0), at.eq(self.oldest), left.eq(self.overflow)]
