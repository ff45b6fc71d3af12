"""What a fabric is made of, as frozen plain data: each component has a name, parameters, and ports that follow from both.

A port carries one *sort* of wire. ``data`` is the one-way path of SSP. ``r`` and ``s`` are the two lanes of an OP-Chain, which run
against each other, ``result`` is an OP-Block's third way out, ``detached`` is the store between decomposer and composer.

Thesis 4.1, 4.2 (OP-Block, result aggregation buffer), 7.1 and 7.2 (bricks, GSwitch-L and -D, LSwitch, collector, bypass, decomposer,
composer).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from watersmeet.errors import OptionError, listed

OPERATORS = ("selection", "projection", "join", "aggregation", "order_by")
UNIT_KINDS: Mapping[str, tuple[str, ...]] = {  # what each kind of processing unit can do
    "bypass": (),
    "synchroniser": (),
    "selection": ("selection",),
    "projection": ("projection",),
    "join": ("join",),
    "aggregation": ("aggregation",),
    "order_by": ("order_by",),
    "op_block": ("selection", "projection", "join"),
    "processor": OPERATORS,
}
MOST = 1 << 24


def whole(what: str, value: object, least: int = 0, most: int = MOST) -> None:
    """Refuse what is not a whole number between two ends."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise OptionError(f"{what} must be a whole number from {least} to {most}; got {value!r}")


def _name(name: object) -> None:
    if not isinstance(name, str) or not name or not all(one.isalnum() or one in "_-#" for one in name):
        raise OptionError(
            f"the name of a component or unit must be letters, digits, '_', '-' or '#'; got {name!r}; rename it"
        )


@dataclass(frozen=True)
class Unit:
    """A processing unit of a brick.

    - ``window``: rows that it can hold of each stream that it joins, or rows that an ``order_by`` keeps.
    - ``ways``: how many streams it can join.
    - ``memory``: entries for instructions: a comparison takes one, and one for its constant, a projected column or a step of code one.
    - ``computes``: whether it evaluates any expression, beyond comparisons of columns with each other and with constants.
    """

    name: str
    kind: str
    window: int = 0
    ways: int = 2
    memory: int = 16
    computes: bool = False

    def __post_init__(self) -> None:
        _name(self.name)
        if self.kind not in UNIT_KINDS:
            raise OptionError(
                f"the kind of unit {self.name!r} must be one of {listed(list(UNIT_KINDS))}; got {self.kind!r}"
            )
        _check_block(self.name, self.window, self.memory, self.computes)
        whole(f"ways of unit {self.name!r}", self.ways, 2, 32)

    @property
    def operators(self) -> tuple[str, ...]:
        """The kinds of operators that it can be programmed with."""
        return UNIT_KINDS[self.kind]


def _check_block(name: str, window: object, memory: object, computes: object) -> None:
    whole(f"window of {name!r}", window)
    whole(f"memory of {name!r}", memory)
    if not isinstance(computes, bool):
        raise OptionError(f"computes of {name!r} must be true or false; got {computes!r}")


@dataclass(frozen=True)
class Component:
    """A node of the network. ``inputs`` and ``outputs``: its ports, each with the sort of wire that it takes."""

    name: str

    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        _name(self.name)

    @property
    def inputs(self) -> dict[str, str]:
        return {"in": "data"}

    @property
    def outputs(self) -> dict[str, str]:
        return {"out": "data"}

    def onward(self, port: str) -> tuple[str, ...]:
        """The ways out for what comes in at a port and is not meant for this component."""
        return tuple(self.outputs)


@dataclass(frozen=True)
class Entry(Component):
    """Where rows and instructions come in."""

    kind: ClassVar[str] = "entry"

    @property
    def inputs(self) -> dict[str, str]:
        return {}


@dataclass(frozen=True)
class Exit(Component):
    """Where results leave."""

    kind: ClassVar[str] = "exit"

    @property
    def outputs(self) -> dict[str, str]:
        return {}


@dataclass(frozen=True)
class OpBlock(Component):
    """An online programmable block of FQP (4.1): stream R passes from left to right, stream S and the instructions from right to left.

    ``window``, ``memory`` and ``computes`` are as for a unit. It joins two streams, one from each side.
    """

    window: int = 512
    memory: int = 16
    computes: bool = False

    kind: ClassVar[str] = "op_block"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_block(self.name, self.window, self.memory, self.computes)

    @property
    def inputs(self) -> dict[str, str]:
        return {"r_in": "r", "s_in": "s"}

    @property
    def outputs(self) -> dict[str, str]:
        return {"r_out": "r", "s_out": "s", "result": "result"}

    def onward(self, port: str) -> tuple[str, ...]:
        return ("r_out",) if port == "r_in" else ("s_out",)


@dataclass(frozen=True)
class ResultBuffer(Component):
    """The result aggregation buffer: gathers from ``fan_in`` places, as a tree of buffers (4.2)."""

    fan_in: int = 2

    kind: ClassVar[str] = "result_buffer"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(f"fan_in of {self.name!r}", self.fan_in, 1, 4096)

    @property
    def inputs(self) -> dict[str, str]:
        return {f"in{k}": "result" for k in range(1, self.fan_in + 1)}


@dataclass(frozen=True)
class GSwitchL(Component):
    """Two ways in, two ways out, and a table of streams (7.2.4): south is the brick below, east the next column."""

    kind: ClassVar[str] = "gswitch_l"

    @property
    def inputs(self) -> dict[str, str]:
        return {"north": "data", "west": "data"}

    @property
    def outputs(self) -> dict[str, str]:
        return {"south": "data", "east": "data"}

    def onward(self, port: str) -> tuple[str, ...]:
        """Rather east, then south: what comes from several columns meets early, and goes down one of them together."""
        return ("east", "south")


@dataclass(frozen=True)
class GSwitchD(Component):
    """One way in, ``fan_out`` ways out, and a table of streams with a mask of ways out (7.2.4)."""

    fan_out: int = 2

    kind: ClassVar[str] = "gswitch_d"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(f"fan_out of {self.name!r}", self.fan_out, 1, 64)

    @property
    def outputs(self) -> dict[str, str]:
        return {f"out{k}": "data" for k in range(1, self.fan_out + 1)}


@dataclass(frozen=True)
class Brick(Component):
    """A topology brick (7.1.2): an LSwitch deals rows out to units, a collector gathers what these give. One unit is a bypass."""

    units: tuple[Unit, ...] = ()

    kind: ClassVar[str] = "brick"

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [unit.name for unit in self.units]
        if len(set(names)) < len(names):
            raise OptionError(
                f"the units of brick {self.name!r} must have different names; got {listed(names)}; rename one"
            )
        if not 2 <= len(self.units) <= 64:
            raise OptionError(
                f"brick {self.name!r} must have 2 to 64 units, one of them a bypass; got {len(self.units)}; add or take out units"
            )
        if all(unit.kind != "bypass" for unit in self.units):
            raise OptionError(
                f"brick {self.name!r} must have a bypass, by which instructions reach the next brick; got "
                f"{listed([unit.kind for unit in self.units])}; add a unit of kind 'bypass'"
            )


@dataclass(frozen=True)
class Decomposer(Component):
    """Cuts off the columns that no block needs, and stores them (7.1.1)."""

    kind: ClassVar[str] = "decomposer"

    @property
    def outputs(self) -> dict[str, str]:
        return {"out": "data", "detached": "detached"}

    def onward(self, port: str) -> tuple[str, ...]:
        return ("out",)


@dataclass(frozen=True)
class Composer(Component):
    """Puts the columns back that were cut off, and computes what is selected (7.1.1)."""

    kind: ClassVar[str] = "composer"

    @property
    def inputs(self) -> dict[str, str]:
        return {"in": "data", "detached": "detached"}


COMPONENTS: Mapping[str, type[Component]] = {
    one.kind: one
    for one in (Entry, Exit, OpBlock, ResultBuffer, GSwitchL, GSwitchD, Brick, Decomposer, Composer)
}
