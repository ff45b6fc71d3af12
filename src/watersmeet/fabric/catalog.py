"""Topologies to start from: those of the thesis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from watersmeet.errors import OptionError
from watersmeet.fabric.components import (
    Brick,
    Component,
    Composer,
    Decomposer,
    Entry,
    Exit,
    GSwitchD,
    GSwitchL,
    OpBlock,
    ResultBuffer,
    Unit,
    whole,
)
from watersmeet.fabric.topology import Link, Topology

Column = Sequence[Unit]


def op_chain(blocks: int, window: int, memory: int, computes: bool) -> Topology:
    """OP-Blocks in a row (figure 4.2.2): stream R comes in at the left end, stream S at the right end, results are gathered."""
    whole("blocks", blocks, 1, 4096)
    made, links = _chain("block", blocks, window, memory, computes)
    ends = [Link("r.out", "block1.r_in"), Link("s.out", f"block{blocks}.s_in")]
    return _gathered(f"OP-Chain of {blocks}", [Entry("r"), Entry("s"), *made], [*ends, *links], made)


def parallel_fqp(chains: int, blocks: int, window: int, memory: int, computes: bool) -> Topology:
    """OP-Chains beside each other (figures 4.2.3, 4.5.8): two switches deal the streams out to them."""
    whole("chains", chains, 1, 64)
    whole("blocks", blocks, 1, 4096)
    made: list[Component] = [Entry("r"), Entry("s"), GSwitchD("deal_r", chains), GSwitchD("deal_s", chains)]
    links = [Link("r.out", "deal_r.in"), Link("s.out", "deal_s.in")]
    all_blocks: list[OpBlock] = []
    for k in range(1, chains + 1):
        one, inside = _chain(f"chain{k}_", blocks, window, memory, computes)
        all_blocks += one
        links += [
            Link(f"deal_r.out{k}", f"{one[0].name}.r_in"),
            Link(f"deal_s.out{k}", f"{one[-1].name}.s_in"),
            *inside,
        ]
    return _gathered(f"parallel FQP of {chains} x {blocks}", [*made, *all_blocks], links, all_blocks)


def _chain(
    prefix: str, count: int, window: int, memory: int, computes: bool
) -> tuple[list[OpBlock], list[Link]]:
    blocks = [OpBlock(f"{prefix}{k}", window, memory, computes) for k in range(1, count + 1)]
    links = []
    for left, right in pairwise(blocks):
        links += [
            Link(f"{left.name}.r_out", f"{right.name}.r_in"),
            Link(f"{right.name}.s_out", f"{left.name}.s_in"),
        ]
    return blocks, links


def _gathered(
    name: str, components: list[Component], links: list[Link], blocks: Sequence[OpBlock]
) -> Topology:
    results = [Link(f"{block.name}.result", f"results.in{k}") for k, block in enumerate(blocks, start=1)]
    last = [ResultBuffer("results", len(blocks)), Exit("out")]
    return Topology(name, (*components, *last), (*links, *results, Link("results.out", "out.in")))


def split_join(cores: int, window: int, memory: int) -> Topology:
    """Join cores that all see every row and each store a share (5.5), as one brick: its LSwitch distributes, its collector gathers
    (7.1.7).
    """
    whole("cores", cores, 1, 63)
    units = [
        Unit("bypass", "bypass"),
        *(Unit(f"core{k}", "op_block", window, memory=memory) for k in range(1, cores + 1)),
    ]
    return Topology(
        f"SplitJoin of {cores}",
        (Entry("streams"), Brick("cores", tuple(units)), Exit("out")),
        (Link("streams.out", "cores.in"), Link("cores.out", "out.in")),
    )


def ssp(rows: Sequence[Sequence[Column]], name: str = "") -> Topology:
    """Bricks in rows and columns on a network of GSwitches (figures 7.1.7 and 7.2.1). Each brick has a bypass beside the units given.

    GSwitch (r, c) gives south to brick (r, c) and east to the next column; what a brick gives comes in at the north of the switch below.
    """
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise OptionError(
            f"rows must be a list of rows, each with as many bricks as the others, at least one; got {[len(row) for row in rows]}"
        )
    high, wide = len(rows), len(rows[0])
    components: list[Component] = [Entry("streams"), Decomposer("decomposer")]
    links = [Link("streams.out", "decomposer.in"), Link("decomposer.out", "g1_1.north")]
    for r in range(1, high + 2):
        for c in range(1, wide + 1):
            components.append(GSwitchL(f"g{r}_{c}"))
            if c < wide:
                links.append(Link(f"g{r}_{c}.east", f"g{r}_{c + 1}.west"))
            if r <= high:
                units = (Unit("bypass", "bypass"), *rows[r - 1][c - 1])
                components.append(Brick(f"brick{r}_{c}", units))
                links += [
                    Link(f"g{r}_{c}.south", f"brick{r}_{c}.in"),
                    Link(f"brick{r}_{c}.out", f"g{r + 1}_{c}.north"),
                ]
    components += [Composer("composer"), Exit("out")]
    links += [
        Link(f"g{high + 1}_{wide}.south", "composer.in"),
        Link("decomposer.detached", "composer.detached"),
        Link("composer.out", "out.in"),
    ]
    return Topology(name or f"SSP of {high} x {wide}", tuple(components), tuple(links))


def tpch_q3(window: int) -> Topology:
    """The topology on which the thesis runs TPC-H's third query (figure 7.1.7): four bricks in one column, five GSwitches.

    A selection has memory for one comparison: each of the query's three has a unit of its own.
    """
    first = [Unit(f"selection{k}", "selection", memory=2) for k in (1, 2, 3)]
    return ssp(
        [
            [first],
            [[Unit("join", "join", window, ways=3)]],
            [[Unit("aggregation", "aggregation", computes=True)]],
            [[Unit("order_by", "order_by", window)]],
        ],
        "TPC-H Q3",
    )
