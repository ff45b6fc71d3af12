"""What the designer's palette has: components with their parameters, and examples to start from. All of it follows from ``fabric/``."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from watersmeet.errors import OptionError
from watersmeet.fabric.components import COMPONENTS, UNIT_KINDS, Brick, Component, Unit
from watersmeet.fabric.fabric import Fabric
from watersmeet.fabric.plain import to_plain
from watersmeet.fabric.topology import Topology
from watersmeet.page.streams import STREAMS

TITLES = {
    "entry": "Entry",
    "exit": "Exit",
    "op_block": "OP-Block",
    "result_buffer": "Result buffer",
    "gswitch_l": "GSwitch-L",
    "gswitch_d": "GSwitch-D",
    "brick": "Brick",
    "decomposer": "Decomposer",
    "composer": "Composer",
}
ABOUT = {
    "entry": "rows and instructions come in",
    "exit": "results leave",
    "op_block": "an online programmable block of FQP: R passes to the right, S to the left",
    "result_buffer": "gathers results from several blocks",
    "gswitch_l": "two ways in, south and east out",
    "gswitch_d": "one way in, several ways out",
    "brick": "an LSwitch deals rows out to units, a collector gathers what they give",
    "decomposer": "cuts off the columns that no block needs",
    "composer": "puts them back, and computes what is selected",
}
UNIT_ABOUT = {
    "bypass": "lets instructions and rows pass",
    "synchroniser": "puts rows of several ways in order",
}


@dataclass(frozen=True)
class Example:
    """A fabric of the catalogue, with whole numbers as parameters, and streams that suit it."""

    title: str
    parameters: Mapping[str, tuple[int, int, int]]  # default, least, most
    streams: str
    make: Callable[..., Fabric]


EXAMPLES: Mapping[str, Example] = {
    "tpch_q3": Example(
        "TPC-H Q3 on SSP (figure 7.1.7)", {"window": (1024, 1, 1 << 20)}, "tpch", Fabric.tpch_q3
    ),
    "op_chain": Example(
        "OP-Chain",
        {"blocks": (8, 1, 64), "window": (512, 1, 1 << 20), "memory": (16, 1, 256)},
        "shop",
        Fabric.op_chain,
    ),
    "parallel_fqp": Example(
        "Parallel FQP",
        {"chains": (2, 1, 8), "blocks": (4, 1, 32), "window": (512, 1, 1 << 20), "memory": (16, 1, 256)},
        "shop",
        Fabric.parallel_fqp,
    ),
    "split_join": Example(
        "SplitJoin of N cores",
        {"cores": (4, 1, 60), "window": (16, 1, 1 << 20), "memory": (16, 1, 256)},
        "pairs",
        Fabric.split_join,
    ),
}


def catalog() -> dict[str, Any]:
    """Everything that the palette, the forms and the menus of the designer show."""
    return {
        "components": [
            {
                "kind": kind,
                "title": TITLES[kind],
                "about": ABOUT[kind],
                "template": _template(kind),
                "fields": _fields(made),
            }
            for kind, made in COMPONENTS.items()
        ],
        "units": [
            {
                "kind": kind,
                "about": UNIT_ABOUT.get(kind, f"can be programmed with {', '.join(UNIT_KINDS[kind])}"),
            }
            for kind in UNIT_KINDS
        ],
        "unit_fields": _fields(Unit),
        "examples": [
            {
                "name": name,
                "title": one.title,
                "streams": one.streams,
                "parameters": {key: list(ends) for key, ends in one.parameters.items()},
            }
            for name, one in EXAMPLES.items()
        ],
        "streams": [
            {
                "name": one.name,
                "title": one.title,
                "sql": one.sql,
                "streams": {
                    name: {
                        "window": str(one.windows[name]),
                        "schema": {field.name: str(field.type) for field in schema},
                    }
                    for name, schema in one.schemas.items()
                },
            }
            for one in STREAMS.values()
        ],
    }


def _template(kind: str) -> dict[str, Any]:
    """A new component of a kind, but for its name."""
    made: Component = (
        COMPONENTS[kind]("x")
        if kind != "brick"
        else Brick("x", (Unit("bypass", "bypass"), Unit("unit1", "selection")))
    )
    (plain,) = to_plain(Topology("", (made,), ()))["components"]
    return {key: value for key, value in plain.items() if key != "name"}


def _fields(made: type) -> list[dict[str, Any]]:
    """The parameters of a component or unit: whole numbers and yes or no; names, kinds and units have forms of their own."""
    return [
        {
            "name": field.name,
            "type": "yes_no" if isinstance(field.default, bool) else "whole",
            "default": field.default,
        }
        for field in fields(made)
        if field.default is not MISSING and field.name != "units"
    ]


def example(name: str, parameters: Mapping[str, int]) -> dict[str, Any]:
    """A fabric of the catalogue as plain data."""
    if name not in EXAMPLES:
        raise OptionError(f"an example must be one of {', '.join(EXAMPLES)}; got {name!r}")
    known = EXAMPLES[name].parameters
    for key, value in parameters.items():
        if key not in known:
            raise OptionError(f"parameters of {name} must be among {', '.join(known)}; got {key!r}")
        _, least, most = known[key]
        if not least <= value <= most:
            raise OptionError(f"{key} of {name} must be from {least:,} to {most:,}; got {value:,}")
    given = {key: ends[0] for key, ends in known.items()} | dict(parameters)
    return to_plain(EXAMPLES[name].make(**given).topology)


def shape(topology: Topology) -> dict[str, Any]:
    """What the page draws of a topology: the ports of each component, each with its sort, and the numbers of blocks."""
    return {
        "components": {
            one.name: {"inputs": dict(one.inputs), "outputs": dict(one.outputs)}
            for one in topology.components
        },
        "block_ids": dict(topology.block_ids),
    }
