"""From an assignment to what programs the hardware: stream-IDs that last, places instead of columns, codes instead of constants.

What stays true: an operator that stays has the same stream-ID and the same instruction as before, so that ``Lowered.after`` sends
nothing to it. The words are those of ``fabric.encoding``; in them a column is a field (``words.FIELD``), an output that passes a column on
is one chunk a lane, and a join has chunks ``key`` and ``probe`` that say how its windows are searched.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any

from watersmeet.errors import FabricError
from watersmeet.fabric.assignment import Assignment
from watersmeet.fabric.components import Brick, Unit
from watersmeet.fabric.operator import Flow, Operator, Stream, Term
from watersmeet.fabric.program import ENDED, FIRST, Chunk, Instruction, program_of
from watersmeet.fabric.routes import END, Key, routes_of
from watersmeet.fabric.segments import leaves_of
from watersmeet.hardware.ssp.codes import Codes, settled
from watersmeet.hardware.ssp.join import LATE, windows_of
from watersmeet.hardware.ssp.join_plan import plan_of
from watersmeet.hardware.ssp.layout import Layout, Layouts, Place
from watersmeet.hardware.ssp.lowered import Lowered, whole
from watersmeet.hardware.ssp.sizes import Sizes
from watersmeet.hardware.ssp.steps_plan import StepsPlan
from watersmeet.hardware.ssp.words import LANES, field

RESULT = 4  # the mask of a unit's way out
CORES = ("join", "aggregation", "order_by")


class Lowering:
    """Programs of one fabric, one after another. ``rows``: how many may come, at most."""

    def __init__(self, codes: Codes, sizes: Sizes, rows: int) -> None:
        self.codes, self.sizes, self.rows = codes, sizes, rows
        self.layouts = Layouts(codes, sizes.key)
        self.ids: dict[Key, int] = {(END, ""): ENDED}
        self._numbers = count(FIRST)
        self.flows: Mapping[Flow, Layout] = {}
        self.tickets: set[str] = set()

    def lower(self, assignment: Assignment) -> Lowered:
        """The program of an assignment, and from now on ``flows`` and ``ids`` are its."""
        self.flows = self.layouts.of(assignment)
        routes = routes_of(assignment)
        self._routes = routes
        given, old = count(FIRST), {}
        for key in routes.flows:
            number = ENDED if key[0] == END else next(given)
            old[number] = self._id(key)
        if max(self.ids.values()) >= self.sizes.streams:
            raise FabricError(
                f"the switches of this hardware must have at most {self.sizes.streams} streams"
                f"; got {max(self.ids.values()) + 1}; build it with more streams"
            )
        lowered = Lowered()
        segments = {self.ids[key]: self._segments(key[0]) for key in routes.flows}
        for one in program_of(assignment).instructions:
            if one.inst in ("gswitch_l", "gswitch_d", "lswitch"):
                stream = old[one.stream]
                size = segments[stream] if one.inst == "gswitch_l" else 0
                lowered.network[one.b_id, stream] = Instruction(
                    one.inst, one.b_id, stream, port=one.port, segments=size, body=one.body
                )
        ids = assignment.topology.block_ids
        units = {
            f"{brick.name}.{unit.name}": unit
            for brick in assignment.topology.components
            if isinstance(brick, Brick)
            for unit in brick.units
        }
        for place, unit in units.items():
            here = [op for op, placement in assignment.placed.items() if place in placement.slots]
            if here:
                lowered.units[ids[place]] = tuple(self._unit(assignment, place, unit, ids[place], here))
        self._synchronised(lowered, ids)
        return lowered

    def _synchronised(self, lowered: Lowered, ids: Mapping[str, int]) -> None:
        """Programs synchronisers; ``tickets`` are the streams whose rows are numbered in one count."""
        sets = []
        for place, keys in self._routes.synchronised.items():
            names = [leaves_of(flow)[0] for flow, _ in keys]
            if len(set(names)) < len(names):
                raise FabricError(
                    f"{place} must put each stream in order once; got {', '.join(names)}; use fewer selections of one stream"
                )
            sets.append(set(names))
            body = [Chunk("input", self._segments(flow), other=self.ids[flow, entry]) for flow, entry in keys]
            b_id = ids[place]
            lowered.units[b_id] = (Instruction("synchronise", b_id, self.ids[keys[0]], body=tuple(body)),)
        if any(one != sets[0] for one in sets):
            raise FabricError(
                "synchronisers in hardware must all put the same streams in order; got different ones; use fewer queries"
            )
        self.tickets = sets[0] if sets else set()

    def _id(self, key: Key) -> int:
        if key not in self.ids:
            self.ids[key] = ENDED if key[0] == END else next(self._numbers)
        return self.ids[key]

    def _segments(self, flow: Flow) -> int:
        return self.flows[flow].segments if flow in self.flows else 1

    # ---- units --------------------------------------------------------------------------------------------------

    def _unit(
        self, assignment: Assignment, place: str, unit: Unit, b_id: int, here: list[Operator]
    ) -> list[Instruction]:
        """Who holds rows first, then selections and projections, those that ride on others after them."""
        self._unit_name, self._b_id = place, b_id
        cores = [op for op in here if op.kind in CORES]
        riders = [op for op in here if op.kind not in CORES]
        found = []
        for op in cores:
            if op.kind == "join":
                at = assignment.placed[op].slots.index(place)
                found.append(self._join(op, unit, at, len(assignment.placed[op].slots)))
            else:
                found.append(self._aggregation(op) if op.kind == "aggregation" else self._order(op))
        slots: dict[Flow, tuple[int, int]] = {}  # root, number
        for op in riders:
            for key, _ in self._routes.inputs[op]:
                flow = key[0]
                root, parent = slots.get(flow, (self.ids[key], 0))
                if parent and any(one.kind == "projection" and one == flow for one in riders):
                    raise FabricError(
                        f"what rides in hardware must read what a selection or a join gives; got {op} on a projection"
                    )
                found.append(self._rider(op, root, parent, flow))
                slots[op] = (root, len(found) - len(cores))
        room = self.sizes.slots(unit)
        if len(found) - len(cores) > room:
            more = "memory" if unit.kind in ("selection", "projection", "op_block") else "riders"
            raise FabricError(
                f"{place} must have at most {room} selections and projections; got {len(found) - len(cores)}; build it with more {more}"
            )
        if any(op.kind == "projection" for op in riders) and unit.kind not in ("projection", "op_block"):
            raise FabricError(
                f"{place} must do no projection, as it is a {unit.kind} in hardware; got one; use a fabric with a composer"
            )
        return found

    def _head(self, op: Operator) -> dict[str, Any]:
        key: Key = (op, "")
        shown = bool(self._routes.policies.get((self._unit_name, key)))
        most = self.sizes.wide if op.kind in ("aggregation", "order_by") else self.sizes.result
        segments = self.flows[op].segments
        if segments > most:
            raise FabricError(
                f"a row of {op} must have at most {most} segments in this hardware; got {segments}; build it with more"
            )
        return {
            "b_id": self._b_id,
            "out": self.ids.get(key, 0),
            "port": RESULT if shown else 0,
            "segments": segments,
        }

    def _rider(self, op: Operator, root: int, parent: int, flow: Flow) -> Instruction:
        layout = self.flows[flow]
        body = [Chunk("input", parent, other=root)]
        if op.code:
            raise FabricError(
                f"a selection in hardware must compare a column with a constant or a column; got {op}; write it so"
            )
        for term in op.terms:
            body.append(self._term(term, lambda one: layout.place((one.leaf, one.name), op), lambda one: 0))
        if op.kind == "projection":
            own = self.flows[op]
            picks = [0] * (LANES * own.segments)
            for name, place in own.places.items():
                source = (
                    layout.places[name]
                    if name in layout.places
                    else Layouts.column(op, next(one for one in op.outputs if one.name == name[1]), layout)
                )
                for to, lane in zip(place.lanes, source.lanes, strict=True):
                    picks[to] = lane
            body += [Chunk("output", lane) for lane in picks]
        return Instruction(op.kind, stream=root, body=tuple(body), **self._head(op))

    def _term(self, term: Term, place_of: Any, offset_of: Any) -> Chunk:
        left = place_of(term.left)
        attribute = field(left.lane + offset_of(term.left), left.size)
        if term.right is None:
            assert term.constant is not None
            condition, bound = settled(term.condition, self.codes.constant(term.constant, left.kind))
            return Chunk("term", attribute, condition, constant=whole(bound))
        right: Place = place_of(term.right)
        if left.kind != right.kind:
            raise FabricError(
                f"columns that are compared in hardware must be of one kind; got {left.kind} and {right.kind} in {term}; cast them before"
            )
        added = 0
        if term.constant is not None:
            kind = left.kind
            number = self.codes.constant(term.constant, kind) if kind.name == "number" else None
            if number is None or number.denominator != 1:
                raise FabricError(
                    f"what is added to a column in hardware must be a whole number, or have its column's places; got {term}"
                )
            added = int(number)
        other = field(right.lane + offset_of(term.right), right.size)
        return Chunk("term", attribute, term.condition, other, constant=whole(added))

    def _join(self, op: Operator, unit: Unit, at: int, cores: int) -> Instruction:
        ways = windows_of(unit.ways if unit.kind == "join" else 2)
        plan = plan_of(op, ways)
        if op.code:
            raise FabricError(
                f"a join in hardware must compare columns with each other and with constants; got {op}; write it so"
            )
        if len(op.terms) > self.sizes.terms:
            raise FabricError(
                f"a join in hardware must have at most {self.sizes.terms} comparisons"
                f"; got {len(op.terms)} in {op}; build it with more terms"
            )
        below = [self.flows[flow] for flow in op.inputs]
        names = [leaves_of(flow)[0] for flow in op.inputs]
        for flow, layout in zip(op.inputs, below, strict=True):
            if layout.segments > self.sizes.row:
                raise FabricError(
                    f"a row that is joined must have at most {self.sizes.row} segments in this hardware"
                    f"; got {layout.segments} of {flow}; build it with more"
                )
        leaf_of = {leaf: k for k, leaf in enumerate(op.leaves)}
        lanes = LANES * self.sizes.row

        def place_of(one: Any) -> Place:
            leaf = leaf_of[one.leaf]
            return below[leaf].place((names[leaf], one.name), op.inputs[leaf])

        def offset_of(one: Any) -> int:
            return lanes * plan.stages[leaf_of[one.leaf]]

        body = [Chunk("share", at, other=cores)]
        for leaf, (key, _) in enumerate(self._routes.inputs[op]):
            window = op.windows[leaf]
            assert window is not None
            body.append(Chunk("input", plan.stages[leaf], other=self.ids[key], constant=whole(window)))
        firsts = [sum(ways[: plan.stages[leaf]]) for leaf in range(len(below))]
        keys: dict[int, list[int]] = {leaf: [] for leaf in range(len(below))}  # fields by window
        for leaf, first in enumerate(firsts):
            for number in range(first, first + ways[plan.stages[leaf]]):
                column = plan.keys[number]
                if column is None:
                    keys[leaf].append(0)
                    continue
                place = below[leaf].place((names[leaf], column), op.inputs[leaf])
                keys[leaf].append(field(place.lane, place.size))
                body.append(Chunk("key", keys[leaf][-1], other=number))
        for leaf, searches in enumerate(plan.searches):
            for step, search in enumerate(searches):
                attribute, prehash = 0, 0
                if search.by is not None:
                    by, column = search.by
                    place = below[by].place((names[by], column), op.inputs[by])
                    own = field(place.lane, place.size)
                    attribute = field(place.lane + (lanes * plan.stages[by] if step else 0), place.size)
                    prehash = keys[leaf].index(own) if step == 0 and own in keys[leaf] else LATE
                other = plan.stages[leaf] | step << 4 | search.window << 8 | prehash << 12
                body.append(Chunk("probe", attribute, other=other))
        body += [self._term(term, place_of, offset_of) for term in op.terms]
        own_layout = self.flows[op]
        picks = [0] * (LANES * own_layout.segments)
        for (leaf_name, name), place in own_layout.places.items():
            leaf = leaf_of[leaf_name]
            source = below[leaf].place((names[leaf], name), op.inputs[leaf])
            for to, lane in zip(place.lanes, source.lanes, strict=True):
                picks[to] = lane + lanes * plan.stages[leaf]
        body += [Chunk("output", lane) for lane in picks]
        return Instruction(
            "join", stream=self.ids[self._routes.inputs[op][0][0]], body=tuple(body), **self._head(op)
        )

    def _aggregation(self, op: Operator) -> Instruction:
        (flow,), layout = self._one_input(op), self.flows[op]
        below = self.flows[flow]
        plan = StepsPlan(op, below, self.codes, self.sizes.steps, self.sizes.aggregates, self.rows)
        plan.add_to(layout)
        layout.used = LANES * (self.sizes.key + len(plan.aggregates))
        picks: dict[int, int] = {}
        for output in op.outputs:
            if output.function == "key":
                source = Layouts.column(op, output, below)
                own = layout.places["", output.name]
                picks |= dict(zip(own.lanes, source.lanes, strict=True))
        body = [Chunk("output", picks[lane], function="key") for lane in sorted(picks)]
        key, _ = self._routes.inputs[op][0]
        return Instruction(
            "aggregation", stream=self.ids[key], body=(*body, *plan.chunks()), **self._head(op)
        )

    def _order(self, op: Operator) -> Instruction:
        (flow,) = self._one_input(op)
        key, _ = self._routes.inputs[op][0]
        body = [Chunk("input", other=self.ids[key], constant=whole(op.windows[0] or 0))]
        if len(op.outputs) > self.sizes.sort_keys:
            raise FabricError(
                f"an order in hardware must be by at most {self.sizes.sort_keys} columns; got {op}; build it with more"
            )
        for output in op.outputs:
            place = Layouts.column(op, output, self.flows[flow])
            body.append(Chunk("output", field(place.lane, place.size), function=output.function))
        return Instruction("order_by", stream=self.ids[key], body=tuple(body), **self._head(op))

    def _one_input(self, op: Operator) -> tuple[Flow]:
        if len(op.inputs) != 1:
            raise FabricError(
                f"a {op.kind} in hardware must read one flow; got {len(op.inputs)} in {op}; run the parts as queries of their own"
            )
        return (op.inputs[0],)


def entries_of(lowering: Lowering) -> dict[tuple[str, str], tuple[int, Layout]]:
    """By stream and entry: its stream-ID and layout."""
    return {
        (flow.name, entry): (number, lowering.flows[flow])
        for (flow, entry), number in lowering.ids.items()
        if isinstance(flow, Stream) and flow.name and flow in lowering.flows
    }
