"""The OP-Block (thesis 4.1, figures 4.1.1 and 4.1.2): R passes from left to right, S and instructions from right to left.

What stays true: it works on one row at a time (the coordinator), from either lane; rows and instructions that are not its own pass
beside that. All outputs are registers, and ready depends on no input of the same cycle.

It follows the thesis in its parts (buffer managers, window buffers, bypass, coordinator, processing unit with query buffer), its
instructions and its ports. It differs in what passes at once, and where a row is held (``buffer_manager.py``, ``window_buffer.py``), and
in the rule for the two lanes: the thesis lets one of the two neighbours of a link send at a time; here a block may send both ways, and
who lets rows in keeps two streams from being on their way at once (``dealer.py``), as the thesis's rule alone does not make windows exact.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.fqp.buffer_manager import BufferManager
from watersmeet.hardware.fqp.join_unit import JoinUnit
from watersmeet.hardware.fqp.joint import Joint
from watersmeet.hardware.fqp.processing_unit import ProcessingUnit
from watersmeet.hardware.fqp.query_buffer import QueryBuffer
from watersmeet.hardware.fqp.window_buffer import WindowBuffer
from watersmeet.hardware.fqp.words import LANE_R, LANE_S, WORD


class OpBlock(wiring.Component):
    """``window``: rows that it holds of each lane. ``operators``, ``terms``: how many fit its query buffer. ``attributes``: of all rows;
    ``columns``: of one. ``busy``: something is in it that may still change what it holds or gives, but for results that wait at the port.
    """

    def __init__(
        self, window: int = 16, operators: int = 4, terms: int = 8, attributes: int = 16, columns: int = 4
    ) -> None:
        for name, value, least in (
            ("window", window, 1),
            ("operators", operators, 2),
            ("terms", terms, 2),
            ("attributes", attributes, 2),
            ("columns", columns, 1),
        ):
            if value < least:
                raise OptionError(f"{name} of an OP-Block must be at least {least}; got {value}")
        if attributes & (attributes - 1):
            raise OptionError(f"attributes of an OP-Block must be a power of two; got {attributes}")
        self.window, self.operators, self.terms = window, operators, terms
        self.attributes, self.columns = attributes, columns
        super().__init__(
            {
                "number": In(12),  # the B-ID, a port: so all blocks are one module
                "r_in": In(stream.Signature(WORD)),
                "s_in": In(stream.Signature(WORD)),
                "r_out": Out(stream.Signature(WORD)),
                "s_out": Out(stream.Signature(WORD)),
                "result": Out(stream.Signature(WORD)),
                "busy": Out(1),
            }
        )
        self.used, self.ported = Signal(operators), Signal(12)
        self.watch = {"used": self.used, "ported": self.ported, "busy": self.busy}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.queries = queries = QueryBuffer(self.operators, self.terms, self.attributes)
        m.submodules.processing = unit = ProcessingUnit(
            self.operators, self.terms, self.attributes, self.columns
        )
        m.submodules.join = join = JoinUnit(self.window, self.columns)
        m.submodules.result = result = Buffer(WORD)
        wiring.connect(m, result.o, wiring.flipped(self.result))
        wiring.connect(m, unit.o[2], result.i)
        lanes, managers, windows, levels = (LANE_R, LANE_S), [], [], []
        for at, (lane, taken, given) in enumerate(
            zip("rs", (self.r_in, self.s_in), (self.r_out, self.s_out), strict=True)
        ):
            m.submodules[f"in_{lane}"] = before = Buffer(WORD)
            m.submodules[f"manager_{lane}"] = manager = BufferManager(lanes[at], self.columns)
            m.submodules[f"window_{lane}"] = window = WindowBuffer(self.window, self.columns)
            m.submodules[f"out_{lane}"] = after = Joint()
            wiring.connect(m, wiring.flipped(taken), before.i)
            wiring.connect(m, before.o, manager.i)
            wiring.connect(m, manager.onward, after.i[0])
            wiring.connect(m, unit.o[at], after.i[1])
            wiring.connect(m, after.o, wiring.flipped(given))
            managers.append(manager)
            windows.append(window)
            levels += [before.level != 0, after.level != 0, manager.inside]
        m.d.comb += [self.used.eq(queries.used), self.ported.eq(queries.ported)]
        self._program(m, queries, unit, managers)
        self._coordinate(m, queries, unit, join, managers)
        self._store(m, queries, join, managers, windows)
        working = Cat(*levels, ~unit.idle, join.busy, queries.inside)
        m.d.sync += self.busy.eq(working.any())
        return m

    def _program(self, m: Module, queries: Any, unit: Any, managers: Any) -> None:
        """What stands in the query buffer, to who acts on it. Instructions come by lane S; those that come by R are for nobody."""
        wiring.connect(m, managers[1].code, queries.code)
        m.d.comb += managers[0].code.ready.eq(1)
        m.d.comb += [
            unit.used.eq(queries.used),
            unit.joins.eq(queries.joins),
            unit.taken.eq(queries.taken),
            queries.term_at.eq(unit.term_at),
            unit.term.eq(queries.term),
            queries.keep_at.eq(unit.keep_at),
            unit.keep.eq(queries.keep),
        ]
        m.d.comb += [unit.table[k].eq(queries.table[k]) for k in range(self.operators)]
        m.d.comb += [unit.owner[k].eq(queries.owner[k]) for k in range(self.terms)]
        for lane, share, manager in (
            (LANE_R, queries.join.r, managers[0]),
            (LANE_S, queries.join.s, managers[1]),
        ):
            plain = [
                queries.used[k]
                & ~queries.joins[k]
                & (queries.table[k].lane == lane)
                & (queries.table[k].stream == manager.asks)
                for k in range(self.operators)
            ]
            m.d.comb += [
                manager.number.eq(self.number),
                manager.join.eq(queries.join),
                manager.plain.eq(Cat(*plain).any()),
                manager.joining.eq(queries.join.present & (share.stream == manager.asks)),
            ]

    def _coordinate(self, m: Module, queries: Any, unit: Any, join: Any, managers: Any) -> None:
        """One row at a time: a row is let in when the units are idle, R before S, and keeps them until its last word."""
        r, s = managers
        idle = Signal()
        m.d.comb += [
            idle.eq(unit.idle & ~join.busy & ~r.holds & ~s.holds),
            r.grant.eq(r.holds | idle),
            s.grant.eq(s.holds | (idle & ~r.wants)),
            r.row.ready.eq(unit.i.ready),
            s.row.ready.eq(unit.i.ready),
            join.o.ready.eq(unit.i.ready),
            unit.i.valid.eq(r.row.valid | s.row.valid | join.o.valid),
            unit.i.payload.eq(
                Mux(join.o.valid, join.o.payload, Mux(s.row.valid, s.row.payload, r.row.payload))
            ),
        ]

    def _store(self, m: Module, queries: Any, join: Any, managers: Any, windows: Any) -> None:
        r, s = managers
        for at, (manager, window) in enumerate(zip(managers, windows, strict=True)):
            m.d.comb += [
                window.share.eq((queries.join.r, queries.join.s)[at]),
                window.clear.eq(queries.clear),
                window.write.eq(manager.write),
                window.segment_in.eq(manager.segment),
                window.at.eq(manager.at),
                window.close.eq(manager.close),
                window.row.eq(manager.kept),
                window.look.eq(join.look),
                window.fetch.eq(join.fetch[at]),
                window.fetch_at.eq(join.fetch_at[at]),
                join.fill[at].eq(window.fill),
                join.seen[at].eq(window.seen),
                join.segment[at].eq(window.segment),
            ]
        m.d.comb += [
            join.join.eq(queries.join),
            join.start.eq(r.close | s.close),
            join.from_s.eq(s.close),
            join.row.eq(Mux(s.close, s.kept, r.kept)),
            join.place.eq(Mux(s.close, windows[1].place, windows[0].place)),
            join.left.eq(Mux(s.close, s.left, r.left)),
        ]
