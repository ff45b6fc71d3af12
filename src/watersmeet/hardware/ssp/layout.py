"""Where the columns of a row lie (thesis figure 7.1.6: tuple-to-bit conversion): by flow, in lanes of 16 bits.

What stays true: a row has the arrival number of each stream that it is made of, and the columns that somebody downstream reads, each in a
field as wide as its values need. A stream's layout only grows, at its end, as queries come: rows that a window already holds stay
readable for who read them before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from watersmeet.errors import FabricError
from watersmeet.fabric.assignment import Assignment
from watersmeet.fabric.operator import Flow, Operator, Output, Stream
from watersmeet.fabric.segments import leaves_of, wants_of
from watersmeet.hardware.ssp.codes import Codes, Kind
from watersmeet.hardware.ssp.words import LANES

Name = tuple[str, str]  # leaf and column; of an arrival number, leaf and NUMBER
NUMBER = "\0number"
_LANES = (1, 2, 4)


@dataclass(frozen=True)
class Place:
    """A field: its first lane, its size (0, 1, 2: one, two, four lanes), what its codes mean."""

    lane: int
    size: int
    kind: Kind

    @property
    def lanes(self) -> range:
        """All its lanes."""
        return range(self.lane, self.lane + _LANES[self.size])


@dataclass
class Layout:
    """The fields of a flow's rows."""

    places: dict[Name, Place] = field(default_factory=dict)
    used: int = 0

    @property
    def segments(self) -> int:
        """Segments that a row takes."""
        return max(1, -(-self.used // LANES))

    def add(self, name: Name, size: int, kind: Kind) -> None:
        """A further field, unless it is there."""
        if name not in self.places:
            self.places[name] = Place(self.used, size, kind)
            self.used += _LANES[size]

    def align(self) -> None:
        """The next field begins a segment."""
        self.used = -(-self.used // LANES) * LANES

    def place(self, name: Name, flow: Flow) -> Place:
        """Where a column is."""
        if name not in self.places:
            raise FabricError(
                f"{'.'.join(name)} must be a column of {flow}; got {[one[1] for one in self.places]}"
            )
        return self.places[name]


class Layouts:
    """Layouts of all flows of an assignment; those of streams are kept from one assignment to the next."""

    def __init__(self, codes: Codes, key_segments: int) -> None:
        self.codes, self.key_segments = codes, key_segments
        self.streams: dict[str, Layout] = {}

    def of(self, assignment: Assignment) -> Mapping[Flow, Layout]:
        """By flow."""
        wants = wants_of(assignment)
        found: dict[Flow, Layout] = {}
        roots = [root for need in assignment.needs for root in need.roots]
        for flow in [*wants, *roots]:
            if isinstance(flow, Stream) and flow.name:
                layout = self.streams.setdefault(flow.name, Layout())
                layout.add((flow.name, NUMBER), 1, Kind("number"))
                for one in sorted(
                    wants.get(flow, set()), key=lambda one: (-self._size(flow.name, one.name), one.name)
                ):
                    self._column(layout, flow.name, one.name)
                found[flow] = layout
        for op in assignment.placed:
            found[op] = self._operator(op, found, {(one.leaf, one.name) for one in wants.get(op, set())})
        return found

    def _size(self, stream: str, name: str) -> int:
        return self.codes.size((stream, name))

    def _column(self, layout: Layout, stream: str, name: str) -> None:
        layout.add((stream, name), self._size(stream, name), self.codes.kind((stream, name)))

    def _operator(self, op: Operator, found: Mapping[Flow, Layout], wants: set[Name]) -> Layout:
        below = found[op.inputs[0]]
        if op.kind in ("selection", "order_by"):
            return below
        layout = Layout()
        if op.kind == "join":
            for leaf in op.leaves:
                layout.add((leaf, NUMBER), 1, Kind("number"))
            for leaf, flow in zip(op.leaves, op.inputs, strict=True):
                (source,) = leaves_of(flow)
                for of, name in sorted(wants):
                    if of == leaf:
                        place = found[flow].place((source, name), flow)
                        layout.add((of, name), place.size, place.kind)
            return layout
        if op.kind == "projection":
            for number, place in below.places.items():
                if number[1] == NUMBER:
                    layout.add(number, place.size, place.kind)
            for output in op.outputs:
                place = self.column(op, output, below)
                layout.add(("", output.name), place.size, place.kind)
            return layout
        for output in op.outputs:
            if output.function == "key":
                place = self.column(op, output, below)
                layout.add(("", output.name), place.size, place.kind)
        if layout.segments > self.key_segments:
            raise FabricError(
                f"a group's key must have at most {self.key_segments} segments"
                f"; got {layout.segments} of {op}; build it with more key segments"
            )
        layout.used = self.key_segments * LANES
        return layout  # aggregates are added by who plans them

    @staticmethod
    def column(op: Operator, output: Output, below: Layout) -> Place:
        """The column that an output is; expressions are only in aggregates."""
        if len(output.code) != 1 or output.code[0].attribute is None:
            raise FabricError(
                f"a {output.function or 'projected column'} in hardware must be a column"
                f"; got {output} of {op}; use a fabric with a composer"
            )
        one = output.code[0].attribute
        return below.place((one.leaf, one.name), op)
