"""The ways that rows take in an assignment: which switch lets which flow pass where, and who gets it.

A *flow* is what has a stream-ID of its own: a stream as it comes in at one entry, or what an operator gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from watersmeet.fabric.assignment import Assignment
from watersmeet.fabric.components import Brick, GSwitchD, GSwitchL, OpBlock
from watersmeet.fabric.floor import floor_of
from watersmeet.fabric.operator import Flow, Operator, Stream
from watersmeet.fabric.rules import Rules
from watersmeet.fabric.topology import split

END = Stream(
    ""
)  # the stream with one row, which tells aggregations and orders that all others have ended (7.3.1)
Key = tuple[Flow, str]  # a stream and its entry, or an operator and ""


@dataclass
class Routes:
    """Ways by flow.

    - ``switches``: by switch and flow, its ways out. ``bricks``: by brick and flow, the units that get it; a bypass or synchroniser lets
      it pass.
    - ``policies``: by slot and flow, the ways out of results; none: only who rides reads them. ``inputs``: by operator, the flow of each
      input and the lane it comes by ("" in bricks, and for who rides). ``synchronised``: by synchroniser, the flows that it keeps in
      order.
    """

    switches: dict[tuple[str, Key], list[str]] = field(default_factory=dict)
    bricks: dict[tuple[str, Key], list[str]] = field(default_factory=dict)
    policies: dict[tuple[str, Key], list[str]] = field(default_factory=dict)
    inputs: dict[Operator, list[tuple[Key, str]]] = field(default_factory=dict)
    synchronised: dict[str, list[Key]] = field(default_factory=dict)
    flows: dict[Key, None] = field(default_factory=dict)  # in the order of their numbers


def routes_of(assignment: Assignment) -> Routes:
    """All ways of an assignment."""
    return _Routing(assignment).routes


class _Routing:
    def __init__(self, assignment: Assignment) -> None:
        self.placed, self.topology = assignment.placed, assignment.topology
        self.rules = Rules(floor_of(assignment.topology))
        self.routes = Routes()
        for op in self.placed:
            self.routes.inputs[op] = [self._input(op, at, flow) for at, flow in enumerate(op.inputs)]
            if op.kind in ("aggregation", "order_by"):
                self._deliver(op, 0, END)
        for root in dict.fromkeys(root for need in assignment.needs for root in need.roots):
            step = self.rules.best_step(
                root, self.placed, [(f"{name}.in",) for name in self.rules.floor.exits]
            )
            assert step is not None
            self._lead(self._key(root, step[1]), step[2])
        self._synchronise()

    def _input(self, op: Operator, at: int, flow: Flow) -> tuple[Key, str]:
        if isinstance(flow, Operator) and self.rules.rides(op, self.placed[op], self.placed[flow]):
            return self._key(flow, ""), ""
        return self._deliver(op, at, flow)

    def _deliver(self, op: Operator, at: int, flow: Flow) -> tuple[Key, str]:
        placement = self.placed[op]
        step = self.rules.best_step(flow, self.placed, self.rules.ways_in(op, placement, at))
        assert step is not None
        key = self._key(flow, step[1])
        self._lead(key, step[2])
        for place in placement.slots:
            slot = self.rules.floor.slots[place]
            if slot.component != place:
                _add(self.routes.bricks, (slot.component, key), split(place)[1])
        port = split(step[2][0])[1]
        return key, port.removesuffix("_in") if port in ("r_in", "s_in") else ""

    def _key(self, flow: Flow, entry: str) -> Key:
        key = (flow, entry)
        self.routes.flows.setdefault(key)
        return key

    def _ways(self, key: Key, arrivals: Sequence[str]) -> Iterator[list[str]]:
        flow, entry = key
        for arrival in arrivals:
            if isinstance(flow, Operator):
                yield from self.rules.outs(self.placed[flow], arrival)
            else:
                yield self.rules.floor.path(entry, arrival)

    def _lead(self, key: Key, arrivals: Sequence[str]) -> None:
        """Let a flow pass on all ways to some ways in."""
        for outs in self._ways(key, arrivals):
            for at, out in enumerate(outs):
                name, port = split(out)
                component = self.topology.named[name]
                if isinstance(component, GSwitchL | GSwitchD):
                    _add(self.routes.switches, (name, key), port)
                elif isinstance(component, OpBlock) and at == 0:
                    _add(self.routes.policies, (name, key), port)
                elif isinstance(key[0], Operator) and at == 0:
                    for place in self.placed[key[0]].slots:
                        _add(self.routes.policies, (place, key), "result")
                elif isinstance(component, Brick) and at > 0:
                    _add(self.routes.bricks, (name, key), _bypass(component))

    def _synchronise(self) -> None:
        """Who passes a synchroniser does not pass the bypass beside it."""
        floor = self.rules.floor
        for op, placement in self.placed.items():
            if op.kind != "join" or not floor.meets:
                continue
            for place in self.rules.synchronisers(op, placement, self.placed) or []:
                brick, unit = split(place)
                component = self.topology.named[brick]
                assert isinstance(component, Brick)
                for one, at in self.rules.arriving(op, placement, self.placed):
                    key, _ = self.routes.inputs[one][at]
                    units = self.routes.bricks[brick, key]
                    self.routes.bricks[brick, key] = list(
                        dict.fromkeys(unit if way == _bypass(component) else way for way in units)
                    )
                    _add(self.routes.synchronised, place, key)


def _bypass(brick: Brick) -> str:
    return next(unit.name for unit in brick.units if unit.kind == "bypass")


def _add(lists: dict, key: object, item: object) -> None:
    found = lists.setdefault(key, [])
    if item not in found:
        found.append(item)
