"""Fabrics as plain data: what cannot be wired or read is refused with the reason, what can comes back as it was."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from fabric_cases import topology
from watersmeet.fabric.components import Brick, Entry, Exit, GSwitchD, GSwitchL, OpBlock, ResultBuffer, Unit
from watersmeet.fabric.draw import drawn, levels
from watersmeet.fabric.plain import from_plain, to_plain
from watersmeet.fabric.topology import Link, Topology

CATALOGUE = [
    wm.Fabric.op_chain(5),
    wm.Fabric.parallel_fqp(3, 2, window=16),
    wm.Fabric.split_join(4),
    wm.Fabric.tpch_q3(),
    wm.Fabric.ssp([[[wm.Unit("a", "selection")], [wm.Unit("s", "synchroniser")]]]).holding(trades=100),
]


@pytest.mark.parametrize("fabric", CATALOGUE, ids=lambda fabric: fabric.topology.name)
def test_a_fabric_comes_back_from_json(fabric: wm.Fabric) -> None:
    assert wm.Fabric.from_json(fabric.to_json()) == fabric
    assert wm.Fabric.from_json(json.loads(fabric.to_json())) == fabric
    assert hash(wm.Fabric.from_json(fabric.to_json())) == hash(fabric)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_any_topology_comes_back_from_json_and_every_component_is_drawn_once(seed: int) -> None:
    made = topology(Random(seed), 8)
    assert from_plain(json.loads(json.dumps(to_plain(made)))) == made
    assert sorted(name for level in levels(made) for name in level) == sorted(made.named)
    assert all(name in drawn(made) for name in made.named)


BLOCKS = (Entry("r"), Entry("s"), OpBlock("x"), OpBlock("y"), ResultBuffer("gather", 2), Exit("out"))
UNITS = (Unit("bypass", "bypass"), Unit("join", "join", 8))
BRICKS = (
    Entry("in"),
    GSwitchL("g"),
    GSwitchL("h"),
    Brick("b", UNITS),
    Brick("c", UNITS),
    GSwitchD("d"),
    Exit("out"),
)


@pytest.mark.parametrize(
    ("components", "links", "text"),
    [
        (BLOCKS, ["r.out z.in"], "there is no 'z'; it has r, s, x, y, gather and out"),
        (BLOCKS, ["r.out x.up"], "of the op_block 'x' its ways in are r_in and s_in"),
        (
            BLOCKS,
            ["x.r_in y.r_in"],
            "of the op_block 'x' 'r_in' is a way in; its ways out are r_out, s_out and result",
        ),
        (BLOCKS, ["out.in x.r_in"], "of the exit 'out' 'in' is a way in; it has no way out"),
        (
            BLOCKS,
            ["x.r_out y.s_in"],
            "x.r_out gives the R lane of OP-Blocks, y.s_in takes the S lane of OP-Blocks; wire it to r_in",
        ),
        (
            BLOCKS,
            ["x.result y.r_in"],
            "x.result gives results, y.r_in takes the R lane of OP-Blocks; let a result_buffer gather results",
        ),
        (BLOCKS, ["x.r_out y.r_in"], "without y.s_out -> x.s_in; wire both"),
        (BLOCKS, ["x.r_out x.r_in", "x.s_out x.s_in"], "wire both, between two different blocks"),
        (
            BLOCKS,
            ["x.r_out y.r_in", "y.s_out x.s_in", "y.r_out x.r_in", "x.s_out y.s_in"],
            "data must flow one way; got a circle: x -> y -> x",
        ),
        (
            BLOCKS,
            ["r.out x.r_in", "s.out x.r_in"],
            "x.r_in must be fed by one wire; got r.out -> x.r_in and s.out -> x.r_in",
        ),
        (
            BLOCKS,
            ["r.out x.r_in", "r.out y.r_in"],
            "r.out must feed one wire; got r.out -> x.r_in and r.out -> y.r_in; leave one out, or part",
        ),
        (
            BLOCKS,
            ["x.result gather.in1", "gather.out x.r_in"],
            "data must flow one way; got a circle: x -> gather -> x; take one of its wires out",
        ),
        (
            BRICKS,
            ["g.south b.in", "b.out h.north", "h.south c.in", "c.out g.west"],
            "data must flow one way; got a circle: ",
        ),
        (
            BRICKS,
            ["g.north b.in"],
            "of the gswitch_l 'g' 'north' is a way in; its ways out are south and east",
        ),
        (BRICKS, ["d.out3 b.in"], "of the gswitch_d 'd' its ways out are out1 and out2"),
        (
            (*wm.Fabric.tpch_q3().topology.components, GSwitchL("g")),
            ["decomposer.detached g.north"],
            "decomposer.detached gives detached columns, g.north takes one-way data; wire decomposer.detached to composer.detached",
        ),
        ((Entry("x"), Exit("x")), [], "must have different names; got 'x' twice; rename one"),
    ],
)
def test_impossible_wires_are_refused_with_the_reason(components: Any, links: list[str], text: str) -> None:
    with pytest.raises(wm.OptionError) as refused:
        Topology("", tuple(components), tuple(Link(*link.split()) for link in links))
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Unit("u", "sort"), "the kind of unit 'u' must be one of bypass, synchroniser, selection,"),
        (lambda: Unit("u.v", "join"), "must be letters, digits, '_', '-' or '#'; got 'u.v'; rename it"),
        (lambda: Unit("u", "join", -1), "window of 'u' must be a whole number from 0 to 16777216; got -1"),
        (
            lambda: Unit("u", "join", True),
            "window of 'u' must be a whole number from 0 to 16777216; got True",
        ),
        (lambda: Unit("u", "join", ways=1), "ways of unit 'u' must be a whole number from 2 to 32; got 1"),
        (lambda: Unit("u", "join", computes=1), "computes of 'u' must be true or false; got 1"),  # type: ignore[arg-type]
        (
            lambda: Brick("b", (Unit("u", "join"), Unit("v", "join"))),
            "brick 'b' must have a bypass, by which instructions reach the next brick",
        ),
        (
            lambda: Brick("b", (Unit("u", "bypass"),)),
            "brick 'b' must have 2 to 64 units, one of them a bypass; got 1",
        ),
        (
            lambda: Brick("b", (Unit("u", "bypass"),) * 2),
            "must have different names; got u and u; rename one",
        ),
        (lambda: wm.Fabric.op_chain(0), "blocks must be a whole number from 1 to 4096; got 0"),
        (lambda: wm.Fabric.parallel_fqp(65, 1), "chains must be a whole number from 1 to 64; got 65"),
        (lambda: wm.Fabric.split_join(64), "cores must be a whole number from 1 to 63; got 64"),
        (
            lambda: wm.Fabric.ssp([[[], []], [[]]]),
            "each with as many bricks as the others, at least one; got [2, 1]",
        ),
        (
            lambda: wm.Fabric.op_chain(1).holding(trades=0),
            "holds of stream 'trades' must be a whole number from 1",
        ),
    ],
)
def test_impossible_components_are_refused_with_the_reason(make: Any, text: str) -> None:
    with pytest.raises(wm.OptionError) as refused:
        make()
    assert text in str(refused.value)


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    """The JSON of a brick's fabric with one thing changed, or taken out."""
    data = json.loads(wm.Fabric.split_join(2).to_json())
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("{", "a fabric must be JSON; got a text that is not: "),
        ([], "the fabric must be an object with version, name, components, links and holds; got []"),
        (changed(["version"], 2), "version of the fabric must be 1; got 2; write it down anew"),
        (
            changed(["version"], None),
            "the fabric must have version; got holds, name, components and links; add it",
        ),
        (
            changed(["colour"], "red"),
            "the fabric must have no field but version, name, components, links and holds; got 'colour'; leave it out",
        ),
        (changed(["name"], 3), "name of the fabric must be a text; got 3"),
        (changed(["links"], {}), "links must be a list; got {}"),
        (changed(["links", 0, "to"], None), "links[0] must have to; got from; add it"),
        (changed(["links", 0, "to"], 3), "links[0].to must be a text such as 'b1.r_out'; got 3"),
        (changed(["components", 1, "kind"], "bricks"), "components[1] must have a kind, one of entry, exit,"),
        (changed(["components", 1], 7), "components[1] must have a kind, one of entry, exit,"),
        (changed(["components", 1, "name"], None), "components[1] must have name; got units; add it"),
        (
            changed(["components", 1, "window"], 8),
            "components[1] of kind 'brick' must have no field but name and units; got 'window'",
        ),
        (changed(["components", 1, "units"], None), "components[1] must have units; got name; add it"),
        (
            changed(["components", 1, "units", 2, "size"], 8),
            "components[1].units[2] of kind 'unit' must have no field but name, kind, window",
        ),
        (
            changed(["components", 1, "units", 2], "core"),
            "components[1].units[2] must be an object with name and kind; got 'core'",
        ),
        (
            changed(["components", 1, "units", 2, "window"], "8"),
            "components[1].units[2]: window of 'core2' must be a whole number from 0",
        ),
        (
            changed(["components", 1, "units", 0, "kind"], "join"),
            "components[1]: brick 'cores' must have a bypass",
        ),
        (changed(["holds"], []), "holds must be an object from stream to rows; got []"),
    ],
)
def test_json_that_is_no_fabric_is_refused_with_its_place(data: Any, text: str) -> None:
    with pytest.raises(wm.OptionError) as refused:
        wm.Fabric.from_json(data)
    assert text in str(refused.value)


def test_parameters_that_are_left_out_have_their_defaults() -> None:
    data = changed(["components", 1, "units", 1], {"name": "core1", "kind": "op_block"})
    brick = wm.Fabric.from_json(data).topology.components[1]
    assert isinstance(brick, Brick)
    assert brick.units[1] == Unit("core1", "op_block")


def test_every_block_that_takes_instructions_has_a_number() -> None:
    assert list(wm.Fabric.tpch_q3().topology.block_ids.items())[:6] == [
        ("g1_1", 1),
        ("brick1_1", 2),
        ("brick1_1.selection1", 3),
        ("brick1_1.selection2", 4),
        ("brick1_1.selection3", 5),
        ("g2_1", 6),
    ]


def test_the_lanes_of_a_chain_are_drawn_between_its_blocks() -> None:
    assert wm.Fabric.op_chain(2, window=8).draw() == (
        "+--------------------+   +--------------------+\n"
        "| r: entry           |   | s: entry           |\n"
        "| out -> block1.r_in |   | out -> block2.s_in |\n"
        "+--------------------+   +--------------------+\n"
        "+-----------------------+   +-----------------------+\n"
        "| block1: op_block 8    |<=>| block2: op_block 8    |\n"
        "| result -> results.in1 |   | result -> results.in2 |\n"
        "+-----------------------+   +-----------------------+\n"
        "+------------------------+\n"
        "| results: result_buffer |\n"
        "| out -> out.in          |\n"
        "+------------------------+\n"
        "+-----------+\n"
        "| out: exit |\n"
        "+-----------+"
    )


@pytest.mark.parametrize("fabric", CATALOGUE, ids=lambda fabric: fabric.topology.name)
def test_a_fabric_is_plotted(fabric: wm.Fabric, tmp_path: Path) -> None:
    fabric.plot(tmp_path / "fabric.png")
    assert (tmp_path / "fabric.png").read_bytes().startswith(b"\x89PNG")
