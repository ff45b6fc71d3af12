"""A fabric's components and the wires between their ports. What cannot be wired is refused, with the reason.

What holds of every topology: names are unique; a wire goes from a way out to a way in of a sort that fits; every port has at most one wire
(switches and buffers are there to part and to gather); the two lanes of an OP-Chain are wired between the same two blocks, in opposite
directions; no wire lets data come back to where they have been, but in the lanes. Components may be loose: nothing is assigned to what
no entry reaches.

Every block that takes instructions has a number, its B-ID: 1, 2, ... in the order of the components, and in a brick first the LSwitch, then
its units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from watersmeet.errors import OptionError, listed
from watersmeet.fabric.components import (
    Brick,
    Component,
    Composer,
    Decomposer,
    Entry,
    Exit,
    OpBlock,
    ResultBuffer,
    whole,
)

_FITS = {
    "data": ("data", "r", "s", "result"),
    "r": ("r",),
    "s": ("s",),
    "result": ("result", "data"),
    "detached": ("detached",),
}
_SORTS = {
    "data": "one-way data",
    "r": "the R lane of OP-Blocks",
    "s": "the S lane of OP-Blocks",
    "result": "results",
    "detached": "detached columns",
}


@dataclass(frozen=True)
class Link:
    """A wire: from ``component.port`` to ``component.port``."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


@dataclass(frozen=True)
class Topology:
    """Components and links, checked."""

    name: str
    components: tuple[Component, ...]
    links: tuple[Link, ...]
    holds: tuple[
        tuple[str, int], ...
    ] = ()  # by stream, how many rows a window has at most that does not count them

    def __post_init__(self) -> None:
        names = [component.name for component in self.components]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise OptionError(
                f"the components of a fabric must have different names; got {double!r} twice; rename one"
            )
        for stream, rows in self.holds:
            whole(f"holds of stream {stream!r}", rows, 1)
        wired: dict[str, Link] = {}
        for link in self.links:
            _check_link(link, self.named, wired)
        _check_lanes(self)
        _check_flow(self)

    @cached_property
    def named(self) -> Mapping[str, Component]:
        """The components by name."""
        return {component.name: component for component in self.components}

    @cached_property
    def after(self) -> Mapping[str, str]:
        """Where the wire from each way out leads to."""
        return {link.source: link.target for link in self.links}

    @cached_property
    def block_ids(self) -> Mapping[str, int]:
        """The B-ID of each block: a component, or ``brick.unit``; the LSwitch of a brick has the brick's name."""
        places: list[str] = []
        for component in self.components:
            if not isinstance(component, Entry | Exit | ResultBuffer | Decomposer | Composer):
                places.append(component.name)
            if isinstance(component, Brick):
                places += [
                    f"{component.name}.{unit.name}" for unit in component.units if unit.kind != "bypass"
                ]
        return {place: number for number, place in enumerate(places, start=1)}


def split(port: str) -> tuple[str, str]:
    """Component and port of ``component.port``."""
    name, _, own = port.partition(".")
    return name, own


def _check_link(link: Link, named: Mapping[str, Component], wired: dict[str, Link]) -> None:
    """Both ends are there, and fit; neither has a wire yet."""
    source = _port(link, link.source, named, "out")
    target = _port(link, link.target, named, "in")
    if target not in _FITS[source]:
        raise OptionError(
            f"a wire must join ports of one sort; got {link}: {link.source} gives {_SORTS[source]}, {link.target} takes {_SORTS[target]}; "
            f"{_instead(source, target)}"
        )
    for end, does in ((link.source, "feed"), (link.target, "be fed by")):
        if end in wired:
            other = (
                "part it with a gswitch_d" if does == "feed" else "gather with a gswitch_l or a result_buffer"
            )
            raise OptionError(
                f"{end} must {does} one wire; got {wired[end]} and {link}; leave one out, or {other}"
            )
        wired[end] = link


def _port(link: Link, end: str, named: Mapping[str, Component], way: str) -> str:
    name, port = split(end)
    if name not in named:
        raise OptionError(
            f"a wire must be between components of the fabric; got {link}: there is no {name!r}; it has {listed(list(named))}"
        )
    component = named[name]
    ports, others = (
        (component.outputs, component.inputs) if way == "out" else (component.inputs, component.outputs)
    )
    if port in ports:
        return ports[port]
    have = f"its ways {way} are {listed(list(ports))}" if ports else f"it has no way {way}"
    if port in others:
        have = f"{port!r} is a way {'in' if way == 'out' else 'out'}; {have}"
    raise OptionError(
        f"a wire must go from a way out to a way in; got {link}: of the {component.kind} {name!r} {have}"
    )


def _instead(source: str, target: str) -> str:
    if "detached" in (source, target):
        return "wire decomposer.detached to composer.detached"
    if source in ("r", "s"):
        return f"wire it to {source}_in of the next OP-Block"
    return "let a result_buffer gather results, and wire its way out"


def _check_lanes(topology: Topology) -> None:
    """The coordinator of an OP-Block has one neighbour on each side: the lanes run between the same two blocks."""
    for component in topology.components:
        if not isinstance(component, OpBlock):
            continue
        for out, back, across in (("r_out", "s_out", "s_in"), ("s_out", "r_out", "r_in")):
            target = topology.after.get(f"{component.name}.{out}")
            if target is None:
                continue
            other = split(target)[0]
            expected = f"{component.name}.{across}"
            if other == component.name or topology.after.get(f"{other}.{back}") != expected:
                raise OptionError(
                    f"the lanes of two OP-Blocks must run side by side; got {component.name}.{out} -> {target} without "
                    f"{other}.{back} -> {expected}; wire both, between two different blocks"
                )


def _check_flow(topology: Topology) -> None:
    """Data never come back: a circle can wait for itself. The lanes are left out, as they end at the ends of a chain."""
    nexts: dict[str, list[str]] = {component.name: [] for component in topology.components}
    for link in topology.links:
        source, target = split(link.source)[0], split(link.target)[0]
        if not _is_lane(topology, link):
            nexts[source].append(target)
    rings = [link for link in topology.links if _is_lane(topology, link) and link.source.endswith(".r_out")]
    right: dict[str, list[str]] = {component.name: [] for component in topology.components}
    for link in rings:
        right[split(link.source)[0]].append(split(link.target)[0])
    circle = _circle({name: name for name in right}, right) or _circle(_one_a_chain(topology), nexts)
    if circle:
        raise OptionError(
            f"data must flow one way; got a circle: {' -> '.join(circle)}; take one of its wires out, or put what needs it into one unit"
        )


def _is_lane(topology: Topology, link: Link) -> bool:
    return all(isinstance(topology.named[split(end)[0]], OpBlock) for end in (link.source, link.target))


def _one_a_chain(topology: Topology) -> dict[str, str]:
    """For each component the one that stands for it: of a chain its first block, as the lanes lead everywhere in it."""
    stands = {component.name: component.name for component in topology.components}
    for link in topology.links:
        if _is_lane(topology, link):
            one, other = (stands[split(end)[0]] for end in (link.source, link.target))
            stands = {name: one if stand == other else stand for name, stand in stands.items()}
    return stands


def _circle(stands: Mapping[str, str], nexts: Mapping[str, Sequence[str]]) -> list[str]:
    """The names along a circle, or none."""
    joined: dict[str, list[str]] = {stand: [] for stand in stands.values()}
    for name, targets in nexts.items():
        joined[stands[name]] += [stands[target] for target in targets]
    try:
        TopologicalSorter(joined).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))  # the sorter goes from a component to those before it
    return []
