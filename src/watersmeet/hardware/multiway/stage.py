"""A stage of Circular-MJ: one stream's window, its join core, stage buffers and order control unit (thesis 6.1.3, 6.1.4).

Rows come by the chain at any time, also while the core looks through the window: their ranges are written down in the order control
unit, so nothing that is under way changes. (The thesis stores only between two sets of partial results, and the chain waits.)

Partial results stand in one queue for each *place*, that is how many steps their row has behind it; a place is one stream of origin. Rows
of the stream before begin here: their queue is place 0. The head of each queue has a search of its own (slot, and how many are left),
and in every cycle the core reads one slot for the search that is furthest in its way among those that have room where their matches
go. A search without room costs no cycle and blocks no other, so the ring needs not drop anything (the thesis drops partial results when
a stage buffer is full): a place only ever waits for the next place of the same origin, and the last for the exit.

What stays true: matches and end flags of one row leave in order, the end flag last; a cycle that reads is one comparison, and the pipeline
behind it never stops, as ``room`` leaves space for what is in it.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Fifo
from watersmeet.hardware.multiway.layout import Widths
from watersmeet.hardware.multiway.order import OrderControl
from watersmeet.hardware.multiway.ring import Ring

IN_FLIGHT = 8  # matches that may still come once a queue has said that it is full, with one to spare


def message_layout(widths: Widths, entries: int) -> Any:
    """A partial result on the ring, or (``end``) the word that a row has no more of them."""
    return data.StructLayout(
        {
            "place": range(widths.streams),
            "end": 1,
            "tag": range(2 * entries),
            "first": widths.key,  # of the row that began: the last stage closes the ring with it
            "last": widths.key,  # of the row that was found last
            "numbers": widths.result,
        }
    )


class CircularStage(wiring.Component):
    """``position`` is a port, so that all stages are the same module."""

    def __init__(self, widths: Widths, window: int, entries: int, buffer: int) -> None:
        if buffer < 2 * IN_FLIGHT:
            raise OptionError(f"buffer must be at least {2 * IN_FLIGHT} partial results; got {buffer}")
        self.widths, self.window, self.entries, self.buffer = widths, window, entries, buffer
        n, self.message = widths.streams, message_layout(widths, entries)
        super().__init__(
            {
                "position": In(range(n)),
                "rows": In(stream.Signature(widths.row)),
                "came": In(self.message),
                "came_valid": In(1),
                "room": Out(n - 2),  # for place 1, 2, ... of this stage
                "went": Out(self.message),
                "went_valid": Out(1),
                "room_next": In(n - 2),
                "results": Out(stream.Signature(widths.result)),
                "level": Out(16),  # partial results in the stage buffers
                "waiting": Out(range(entries + 1)),  # rows in the order buffer
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        w, n = self.widths, self.widths.streams
        ring = Ring(m, "window", w.stored, self.window, self.entries)
        m.submodules.order = order = OrderControl(ring.slots, ring.rows, self.entries, n - 1)
        self._take(m, ring, order)
        m.submodules.results = results = Fifo(w.result, 2 * IN_FLIGHT)
        wiring.connect(m, results.o, wiring.flipped(self.results))
        exit_room = Signal()
        m.d.sync += exit_room.eq(results.level <= results.depth - IN_FLIGHT)
        queues = self._queues(m)
        issue = self._choose(m, ring, order, queues, Cat(self.room_next, exit_room))
        self._compare(m, ring, issue, results)
        m.d.comb += [
            self.level.eq(sum((queue.level for queue in queues[1:]), start=queues[0].level)),
            self.waiting.eq(order.level),
        ]
        return m

    def _take(self, m: Module, ring: Ring, order: OrderControl) -> None:
        """A row from the chain: into the order buffer; its own stage stores it."""
        row, own = self.rows.payload, Signal()
        stored = Signal(self.widths.stored)
        m.d.comb += [
            own.eq(row.stream == self.position),
            self.rows.ready.eq(order.ready),
            order.take.eq(self.rows.valid),
            order.own.eq(own),
            order.top.eq(ring.top),
            order.fill.eq(ring.fill),
            stored.keys.eq(row.keys),
            stored.number.eq(row.number),
        ]
        ring.store(m, self.rows.valid & order.ready & own, stored)

    def _queues(self, m: Module) -> list[Fifo]:
        """Stage buffers by place. Place 0 holds no more rows than the order buffer, so it is never full."""
        w, n, row = self.widths, self.widths.streams, self.rows.payload
        queues = []
        for place in range(n - 1):
            m.submodules[f"queue_{place}"] = queue = Fifo(
                self.message, self.buffer if place else self.entries + 2
            )
            queues.append(queue)
            if place:
                m.d.comb += [
                    queue.i.payload.eq(self.came),
                    queue.i.valid.eq(self.came_valid & (self.came.place == place)),
                ]
                m.d.sync += self.room[place - 1].eq(queue.level <= self.buffer - IN_FLIGHT)
        start, before = queues[0].i, Signal(range(n))
        m.d.comb += [
            before.eq(Mux(self.position == 0, n - 1, self.position - 1)),
            start.valid.eq(self.rows.valid & self.rows.ready & (row.stream == before)),
            start.payload.tag.eq(m.submodules.order.tag),
            start.payload.first.eq(w.first(row)),
            start.payload.last.eq(w.last(row)),
        ]
        for k in range(n):
            m.d.comb += start.payload.numbers[k].eq(row.number)  # stages on the way write their own over it
        return queues

    def _choose(self, m: Module, ring: Ring, order: OrderControl, queues: list[Fifo], room: Any) -> Any:
        """The searches, and which of them reads in this cycle: the one that is furthest on its way."""
        issue = {
            "valid": Signal(name="issue_valid"),
            "slot": Signal(range(ring.slots), name="issue_slot"),
            "message": Signal(self.message, name="issue"),
        }
        m.d.sync += issue["valid"].eq(0)
        m.d.comb += order.end.eq(0)
        wants, searches = Signal(len(queues)), []
        for place, queue in enumerate(queues):
            head = queue.o
            active, over = Signal(name=f"active_{place}"), Signal(name=f"over_{place}")
            at = Signal(range(ring.slots), name=f"at_{place}")
            left = Signal(range(ring.rows + 1), name=f"left_{place}")
            known = order.known[place] & head.valid
            ends = over if place == 0 else known & head.payload.end
            m.d.comb += [
                order.ask[place].eq(head.payload.tag),
                wants[place].eq((active | ends) & room[place]),
            ]
            with m.If(~active & ~over & known & ~head.payload.end):
                with m.If(order.seen_fill[place] != 0):
                    m.d.sync += [
                        active.eq(1),
                        at.eq(ring.below(order.seen_top[place])),
                        left.eq(order.seen_fill[place]),
                    ]
                with m.Else():  # nothing to look through
                    if place == 0:
                        m.d.sync += over.eq(1)
                    else:
                        m.d.comb += head.ready.eq(1)
            searches.append((place, queue, active, over, at, left))
        chosen = Signal(len(queues))
        for place, queue, active, over, at, left in searches:
            last = place == len(queues) - 1
            m.d.comb += chosen[place].eq(wants[place] & (1 if last else ~wants[place + 1 :].any()))
            with m.If(chosen[place]):
                m.d.sync += [
                    issue["valid"].eq(1),
                    issue["slot"].eq(at),
                    issue["message"].eq(queue.o.payload),
                    issue["message"].place.eq(place),
                    issue["message"].end.eq(~active),
                    at.eq(ring.below(at)),
                    left.eq(left - 1),
                ]
                with m.If(~active):  # the end flag
                    m.d.comb += [queue.o.ready.eq(1), order.end.eq(1), order.end_tag.eq(queue.o.payload.tag)]
                    m.d.sync += over.eq(0)
                with m.Elif(left == 1):
                    m.d.sync += active.eq(0)
                    if place == 0:
                        m.d.sync += over.eq(1)
                    else:
                        m.d.comb += queue.o.ready.eq(1)
        return issue

    def _compare(self, m: Module, ring: Ring, issue: Any, results: Fifo) -> None:
        """Read, register, compare, send: four cycles, one slot in each."""
        w, n = self.widths, self.widths.streams
        m.d.comb += ring.reads[0].addr.eq(issue["slot"])
        read, held = Signal(self.message), Signal(self.message)
        read_valid, held_valid, found = Signal(), Signal(), Signal(w.stored)
        m.d.sync += [
            read.eq(issue["message"]),
            read_valid.eq(issue["valid"]),
            held.eq(read),
            held_valid.eq(read_valid),
            found.eq(ring.reads[0].data),
        ]
        final, hit = held.place == n - 2, Signal()
        m.d.comb += hit.eq(
            w.close(held.last, w.first(found)) & (~final | w.close(w.last(found), held.first)) & ~held.end
        )
        sent, is_result = self.went, Signal()
        m.d.sync += [
            sent.eq(held),
            sent.place.eq(held.place + 1),
            sent.last.eq(w.last(found)),
            is_result.eq(held_valid & hit & final),
            self.went_valid.eq(held_valid & (hit | held.end) & ~final),
        ]
        for k in range(n):
            with m.If(self.position == k):
                m.d.sync += sent.numbers[k].eq(found.number)
        m.d.comb += [results.i.valid.eq(is_result), results.i.payload.eq(sent.numbers)]
