"""Circular-MJ: a ring of stages, one a stream, and a chain that brings every row to every stage (thesis 6.1, figure 6.1.4).

Stage k has the window of stream k. A row of stream i begins at stage i + 1; its partial results go round the ring; stage i - 1
makes the results. As in the thesis: distribution chain, circular bus from neighbour to neighbour with a field for each stream,
stage buffers, order control (``order.py``), partial results before new rows, results collected from all stages.

Otherwise than in the thesis, each with its reason:
- Nothing is dropped. The thesis drops partial results when a stage buffer is nearly full, as all stages might wait for one another
  round the ring. Here a stage buffer is a queue for each stream of origin, and a search that has no room makes way for another
  (``stage.py``). Let L be the oldest row that is not done everywhere. All rows before it are done, so no order buffer holds one of
  them and every stage takes L. In the queues of L's origin nothing stands before its partial results, and the queue of its last
  place empties into the exit; so they move, place by place from the end. Only as many rows as an order buffer has entries come
  after L, so those that go before it at a stage are finitely many: L gets done, with buffers of any length.
- Rows are stored while the core looks through the window, so the chain does not wait for a search.
- Where the thesis does not say: a partial result waits for its own row to come by the chain.

A search costs a cycle a slot of its window and two between two searches of the same place.
"""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from watersmeet.hardware.blocks import Buffer, Fork, Merge, Shared
from watersmeet.hardware.multiway.layout import Widths
from watersmeet.hardware.multiway.stage import CircularStage


class CircularMJ(wiring.Component):
    """``window``: rows of each stream. ``order``: entries of an order buffer. ``buffer``: places of a stage buffer, for each origin."""

    stage_class: Any = CircularStage

    def __init__(
        self,
        streams: int = 3,
        window: int = 16,
        order: int = 8,
        buffer: int = 32,
        key: int = 32,
        keys: int = 1,
        number: int = 32,
        band: int = 0,
    ) -> None:
        self.widths = Widths(streams, key, keys, number, band)
        self.window, self.order, self.buffer = window, order, buffer
        super().__init__(
            {
                "rows": In(stream.Signature(self.widths.row)),
                "results": Out(stream.Signature(self.widths.result)),
            }
        )
        self.watch = {f"level_{k}": Signal(16, name=f"level_{k}") for k in range(streams)}
        self.watch |= {f"waiting_{k}": Signal(range(order + 1), name=f"waiting_{k}") for k in range(streams)}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        w, n = self.widths, self.widths.streams
        m.submodules.collection = collection = Merge(w.result, n, "round_robin")
        wiring.connect(m, collection.o, wiring.flipped(self.results))
        stages, chain = [], wiring.flipped(self.rows)
        for k in range(n):
            stage = Shared(self.stage_class, w, self.window, self.order, self.buffer)
            m.submodules[f"stage_{k}"] = stage
            stages.append(stage)
            m.d.comb += [
                stage.position.eq(k),
                self.watch[f"level_{k}"].eq(stage.level),
                self.watch[f"waiting_{k}"].eq(stage.waiting),
            ]
            wiring.connect(m, stage.results, collection.i[k])
            if k < n - 1:
                m.submodules[f"chain_{k}"] = fork = Shared(Fork, w.row, 2)
                wiring.connect(m, chain, fork.i)
                wiring.connect(m, fork.o[0], stage.rows)
                chain = fork.o[1]
            else:
                m.submodules[f"chain_{k}"] = end = Shared(Buffer, w.row)
                wiring.connect(m, chain, end.i)
                wiring.connect(m, end.o, stage.rows)
        for k, stage in enumerate(stages):
            after = stages[(k + 1) % n]
            m.d.comb += [
                after.came.eq(stage.went),
                after.came_valid.eq(stage.went_valid),
                stage.room_next.eq(after.room),
            ]
        return m
