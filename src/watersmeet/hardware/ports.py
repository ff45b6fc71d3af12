"""What a component shows to the outside: streams of fixed-width payloads, and payloads as plain integers.

What stays true: a payload is one non-negative integer, the packed bits of its layout, the first field lowest, in every
simulator and tool; ``unpack(layout, pack(layout, fields)) == fields``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from amaranth.hdl import Shape, Value
from amaranth.lib import data, stream, wiring

from watersmeet.errors import DataError, OptionError


@dataclass(frozen=True)
class Port:
    """One stream of a component: ``name`` is its path, joined by two underscores as in the Verilog."""

    name: str
    inward: bool
    layout: Any  # the payload's shape
    payload: Any
    valid: Any
    ready: Any

    @property
    def width(self) -> int:
        """Bits of a payload."""
        return Shape.cast(self.layout).width


def stream_ports(component: Any) -> tuple[Port, ...]:
    """The streams of ``component``, in the order of its signature."""
    found: list[Port] = []
    for path, signature, interface in _streams(component.signature, component, ()):
        if signature.always_ready or signature.always_valid:
            name = "__".join(path)
            raise OptionError(
                f"stream {name} must have valid and ready; got one that is always ready or valid; put a Buffer there"
            )
        members = signature.members
        inward = members["valid"].flow is wiring.In
        raw = Value.cast(interface.payload)
        found.append(
            Port("__".join(path), inward, _layout(interface.payload), raw, interface.valid, interface.ready)
        )
    return tuple(found)


def wires(component: Any) -> dict[str, tuple[bool, Any]]:
    """Ports that belong to no stream: by name, whether inward, and the value."""
    inside = {f"{port.name}__{member}" for port in stream_ports(component) for member in STREAM}
    found = {}
    for path, member, value in component.signature.flatten(component):
        name = "__".join(map(str, path))
        if name not in inside:
            found[name] = (member.flow is wiring.In, Value.cast(value))
    return found


STREAM = ("payload", "valid", "ready")


def _layout(payload: Any) -> Any:
    return payload.shape() if hasattr(payload, "shape") else Shape.cast(payload)


def _streams(signature: Any, interface: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any, Any]]:
    found: list[tuple[tuple[str, ...], Any, Any]] = []
    for name, member in signature.members.items():
        if member.is_signature:
            inner = member.signature
            for index, one in _elements(getattr(interface, name), member.dimensions):
                below = (*path, name, *index)
                if _is_stream(inner):
                    found.append((below, inner, one))
                else:
                    found += _streams(inner, one, below)
    return found


def _is_stream(signature: Any) -> bool:
    if isinstance(signature, wiring.FlippedSignature):
        signature = signature.flip()
    return isinstance(signature, stream.Signature)


def _elements(value: Any, dimensions: Sequence[int]) -> list[tuple[tuple[str, ...], Any]]:
    if not dimensions:
        return [((), value)]
    return [
        ((str(i), *index), one)
        for i in range(dimensions[0])
        for index, one in _elements(value[i], dimensions[1:])
    ]


def pack(layout: Any, fields: Any) -> int:
    """The payload of ``layout`` with these fields: a mapping, a sequence (of an array), an enum member or an integer."""
    if isinstance(layout, data.Layout):
        return _pack_layout(layout, fields)
    shape = Shape.cast(layout)
    value = fields.value if isinstance(fields, Enum) else int(fields)
    least = -(1 << (shape.width - 1)) if shape.signed else 0
    most = (1 << (shape.width - shape.signed)) - 1
    if not least <= value <= most:
        raise DataError(
            f"a field of {shape.width} bits must be from {least} to {most}; got {value}; make the field wider"
        )
    return value & ((1 << shape.width) - 1)


def _pack_layout(layout: Any, fields: Any) -> int:
    given = dict(enumerate(fields)) if isinstance(fields, Sequence) else fields
    if not isinstance(given, Mapping):
        raise DataError(f"a payload of {layout!r} must be a mapping or a sequence; got {fields!r}")
    known = dict(layout)
    unknown = [name for name in given if name not in known]
    if unknown:
        raise DataError(
            f"a payload must have the fields {', '.join(map(str, known))}; got {unknown[0]!r}; leave it out"
        )
    bits = 0
    for name, value in given.items():
        field = known[name]
        bits |= pack(field.shape, value) << field.offset
    return bits


def unpack(layout: Any, bits: int) -> Any:
    """The fields of a payload: a dict (of a struct or union), a list (of an array), an enum member or an integer."""
    if isinstance(layout, data.Layout):
        parts = {
            name: unpack(field.shape, bits >> field.offset & ((1 << Shape.cast(field.shape).width) - 1))
            for name, field in layout
        }
        return list(parts.values()) if isinstance(layout, data.ArrayLayout) else parts
    shape = Shape.cast(layout)
    value = bits - (1 << shape.width) if shape.signed and bits >> (shape.width - 1) & 1 else bits
    if isinstance(layout, type) and issubclass(layout, Enum):
        return layout(value)
    return value
