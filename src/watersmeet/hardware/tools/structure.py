"""The structure of a component as it was elaborated: which blocks it is made of, and which streams link them.

What stays true: nothing is drawn that is not there. Blocks are the component's submodules that have streams; a link is a stream of one
block whose ``valid`` depends, through the component's own assignments, on that of the other. Blocks that are
linked by other ports than streams (a chain in lock step, whose rows need no handshake) have *wires* between them: one for each two
blocks and direction. A component that is little more than one block names it in ``opened``: that is shown as what it is made of.
"""

from dataclasses import dataclass, replace
from typing import Any

from amaranth.hdl import Fragment, Value
from amaranth.hdl._ast import Assign, Signal

from watersmeet.hardware.ports import Port, stream_ports, wires

OUTSIDE = ""


@dataclass(frozen=True)
class Block:
    """A submodule: its name in the component, and its class."""

    name: str
    kind: str


@dataclass(frozen=True)
class Link:
    """A stream from a block to a block; an empty name is the outside."""

    source: str
    source_port: str
    target: str
    target_port: str
    width: int


@dataclass(frozen=True)
class Structure:
    """Blocks and links of one level."""

    kind: str
    blocks: tuple[Block, ...]
    links: tuple[Link, ...]
    wires: tuple[tuple[str, str], ...] = ()  # from block to block


def structure(design: Any) -> Structure:
    """The component's own level: its submodules that have streams, and how they are linked."""
    module = design.elaborate(None)
    inside = {name: one for name, (one, _) in module._named_submodules.items()}
    inside |= {f"part{k}": one for k, (one, _) in enumerate(module._anon_submodules)}
    blocks = {name: one for name, one in inside.items() if hasattr(one, "signature")}
    driver = _drivers(Fragment.get(module, None))
    starts: dict[int, tuple[str, Port]] = {}  # by the signal that says valid: who gives
    ends: list[tuple[str, Port]] = []
    for name, block in [(OUTSIDE, design), *blocks.items()]:
        for port in stream_ports(block):
            if port.inward == (name == OUTSIDE):
                starts[id(port.valid)] = (name, port)
            else:
                ends.append((name, port))
    links = []
    for name, port in ends:
        origin = _origin(port.valid, driver, starts)
        if origin is not None:
            source, given = origin
            links.append(Link(source, given.name, name, port.name, port.width))
    kinds = tuple(Block(name, _kind(block)) for name, block in blocks.items() if stream_ports(block))
    found = Structure(_kind(design), kinds, tuple(links), _wires(blocks, driver))
    for name in getattr(design, "opened", ()):
        found = opened(found, name, structure(blocks[name]))
    return found


def opened(outer: Structure, name: str, inner: Structure) -> Structure:
    """``outer`` with what block ``name`` is made of in its place. Wires to the block itself end at its edge, and are left out."""
    blocks = [one for block in outer.blocks for one in (inner.blocks if block.name == name else (block,))]
    links = [link for link in inner.links if OUTSIDE not in (link.source, link.target)]
    for link in outer.links:
        if link.target == name:
            ways = [
                one for one in inner.links if (one.source, one.source_port) == (OUTSIDE, link.target_port)
            ]
            links += [replace(link, target=one.target, target_port=one.target_port) for one in ways]
        elif link.source == name:
            ways = [
                one for one in inner.links if (one.target, one.target_port) == (OUTSIDE, link.source_port)
            ]
            links += [replace(link, source=one.source, source_port=one.source_port) for one in ways]
        else:
            links.append(link)
    wires = [pair for pair in outer.wires if name not in pair]
    return Structure(outer.kind, tuple(blocks), tuple(links), (*wires, *inner.wires))


def _wires(blocks: dict[str, Any], driver: dict[int, Any]) -> tuple[tuple[str, str], ...]:
    """Which blocks have a port that is no stream and is driven by such a port of another block."""
    giver: dict[int, str] = {}
    takers: list[tuple[str, Any]] = []
    for name, block in blocks.items():
        for inward, value in wires(block).values():
            if inward:
                takers.append((name, value))
            else:
                giver[id(value)] = name
    found: dict[tuple[str, str], None] = {}
    for name, value in takers:
        for signal in _signals(driver.get(id(value), 0)):
            if id(signal) in giver:
                found[giver[id(signal)], name] = None
    return tuple(found)


def _kind(block: Any) -> str:
    return type(getattr(block, "it", block)).__name__


def _drivers(fragment: Any) -> dict[int, Any]:
    """What each signal is assigned, of the component's own combinational assignments that stand alone."""
    found: dict[int, Any] = {}
    for domain, statements in fragment.statements.items():
        if domain == "comb":
            for statement in statements:
                if isinstance(statement, Assign) and isinstance(statement.lhs, Signal):
                    found[id(statement.lhs)] = statement.rhs
    return found


def _origin(
    valid: Any, driver: dict[int, Any], starts: dict[int, tuple[str, Port]]
) -> tuple[str, Port] | None:
    """Who gives what a signal shows: the first giver among the signals that it is made of."""
    waiting, seen = [valid], set()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        if id(one) in starts:
            return starts[id(one)]
        if id(one) in driver:
            waiting += _signals(driver[id(one)])
    return None


def _signals(value: Any) -> list[Any]:
    return list(Value.cast(value)._rhs_signals())
