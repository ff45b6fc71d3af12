"""What an aggregation computes, as steps and accumulators of the hardware.

What stays true: each step is one sum, difference or product of codes; decimals are brought to the same number of places before they are
added; equal steps are one. Whatever could leave 64 bits, given the values that come, is refused.
"""

from dataclasses import dataclass, field

from watersmeet.errors import FabricError
from watersmeet.fabric.operator import Operator, Output
from watersmeet.fabric.program import Chunk
from watersmeet.hardware.ssp.codes import Codes, Kind
from watersmeet.hardware.ssp.layout import Layout, Place
from watersmeet.hardware.ssp.lowered import whole
from watersmeet.hardware.ssp.words import BY_CONSTANT, BY_ROW, BY_STEP
from watersmeet.hardware.ssp.words import field as named

MOST = (1 << 63) - 1


@dataclass(frozen=True)
class Value:
    """A value under way: where it is, what its codes mean, the largest magnitude, whether it may be NULL."""

    source: int
    kind: Kind
    bound: int
    nullable: bool
    constant: int | None = None


@dataclass
class StepsPlan:
    """Steps and accumulators of one aggregation."""

    op: Operator
    below: Layout
    codes: Codes
    most_steps: int
    most_aggregates: int
    rows: int  # that may come, at most
    steps: list[tuple[str, int, int, int | None]] = field(default_factory=list)
    aggregates: list[tuple[str, int]] = field(default_factory=list)

    def add_to(self, layout: Layout) -> None:
        """All aggregates, with their places in the group's row."""
        for output in self.op.outputs:
            if output.function == "key":
                continue
            if output.function not in ("count", "sum", "min", "max", "avg"):
                raise FabricError(
                    f"an aggregate in hardware must be count, sum, min, max or avg"
                    f"; got {output.function} of {self.op}; run it in a processor without hardware"
                )
            if output.function == "avg":
                value = self._value(output)
                self._place(layout, f"{output.name}\0sum", "sum", value)
                self._place(layout, f"{output.name}\0count", "count", value)
            else:
                self._place(
                    layout, output.name, output.function, self._value(output) if output.code else None
                )

    def chunks(self) -> list[Chunk]:
        """The program of steps and accumulators."""
        found = []
        for op, left, right, constant in self.steps:
            number = None if constant is None else whole(constant)
            found.append(Chunk("call", left, other=right, function=op, constant=number))
        return [*found, *(Chunk("output", source, function=function) for function, source in self.aggregates)]

    def _place(self, layout: Layout, name: str, function: str, value: Value | None) -> None:
        if function == "sum":
            assert value is not None
            if value.kind.name != "number":
                raise FabricError(
                    f"a sum in hardware must be of numbers without a fraction part or of decimals; got {value.kind} in {self.op}"
                )
            if value.bound * self.rows > MOST:
                raise FabricError(
                    f"a sum in hardware must fit 64 bits; got {self.rows} rows of up to {value.bound} in {self.op}; give fewer rows"
                )
        source = 0 if value is None or (function == "count" and not value.nullable) else value.source
        use = (function, source)
        if use not in self.aggregates:
            if len(self.aggregates) == self.most_aggregates:
                raise FabricError(
                    f"an aggregation in hardware must have at most {self.most_aggregates} aggregates"
                    f"; got more in {self.op}; build it with more"
                )
            self.aggregates.append(use)
        kind = Kind("number") if function == "count" or value is None else value.kind
        layout.places["", name] = Place(layout.used + 4 * self.aggregates.index(use), 2, kind)

    def _value(self, output: Output) -> Value:
        stack: list[Value] = []
        for token in output.code:
            if token.attribute is not None:
                stack.append(self._column((token.attribute.leaf, token.attribute.name)))
            elif token.constant is not None:
                number = self.codes.constant(token.constant, Kind("number", token.constant.scale))
                if number is None:
                    raise FabricError(f"an expression in hardware must have no NULL; got one in {self.op}")
                stack.append(
                    Value(0, Kind("number", token.constant.scale), abs(int(number)), False, int(number))
                )
            elif token.call in ("+", "-", "*") and token.arity == 2:
                right, left = stack.pop(), stack.pop()
                stack.append(self._step(token.call, left, right))
            else:
                raise FabricError(
                    f"an expression in hardware must be of columns, constants, +, - and *; got {token.call} in {self.op}"
                )
        (value,) = stack
        if value.constant is not None:
            raise FabricError(f"an aggregate in hardware must be of a column; got a constant in {self.op}")
        return value

    def _column(self, name: tuple[str, str]) -> Value:
        place = self.below.place(name, self.op)
        bits = (15, 31, 63)[place.size]
        stream = (name[0].split("#")[0], name[1])
        bound = self.codes.bound(stream) if stream in self.codes else (1 << bits) - 1
        nullable = self.codes.nullable(stream) if stream in self.codes else True
        return Value(named(place.lane, place.size, BY_ROW), place.kind, bound, nullable)

    def _scaled(self, value: Value, scale: int) -> Value:
        if value.kind.scale == scale:
            return value
        factor = 10 ** (scale - value.kind.scale)
        kind = Kind("number", scale)
        if value.constant is not None:
            return Value(0, kind, value.bound * factor, False, value.constant * factor)
        more = Value(0, Kind("number", scale - value.kind.scale), factor, False, factor)
        return self._step("*", value, more)

    def _step(self, op: str, left: Value, right: Value) -> Value:
        for one in (left, right):
            if one.kind.name != "number":
                raise FabricError(
                    f"arithmetic in hardware must be of whole numbers and decimals; got {one.kind} in {self.op}"
                )
        if op != "*":
            scale = max(left.kind.scale, right.kind.scale)
            left, right = self._scaled(left, scale), self._scaled(right, scale)
            kind, bound = Kind("number", scale), left.bound + right.bound
        else:
            kind, bound = Kind("number", left.kind.scale + right.kind.scale), left.bound * right.bound
        if bound > MOST:
            raise FabricError(f"a value in hardware must fit 64 bits; got up to {bound} in {self.op}")
        if left.constant is not None and right.constant is not None:
            number = {
                "+": left.constant + right.constant,
                "-": left.constant - right.constant,
                "*": left.constant * right.constant,
            }[op]
            return Value(0, kind, bound, False, number)
        constant = left.constant if left.constant is not None else right.constant
        sources = [
            named(0, 0, BY_CONSTANT) if one.constant is not None else one.source for one in (left, right)
        ]
        step = (op, sources[0], sources[1], constant)
        if step not in self.steps:
            if len(self.steps) == self.most_steps:
                raise FabricError(
                    f"an aggregation in hardware must have at most {self.most_steps} steps; got more in {self.op}; build it with more"
                )
            self.steps.append(step)
        return Value(named(self.steps.index(step), 2, BY_STEP), kind, bound, left.nullable or right.nullable)
