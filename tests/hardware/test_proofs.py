"""Proofs: blocks lose and double no row, for all rows and stalls up to a number of cycles; and each proof finds a mutant out.

A mutant is a block with one piece of its text replaced. `make test` has short bounds, the slow tests longer ones.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from amaranth.hdl import unsigned

from hardware import specs
from hardware.two_ports import mutant
from watersmeet.hardware.blocks import Buffer, Fifo, Merge
from watersmeet.hardware.fqp.joint import Joint
from watersmeet.hardware.joins.nodes import DNode, GNode, OrderedGNode
from watersmeet.hardware.ssp.brick import Collector, LSwitch
from watersmeet.hardware.ssp.switches import GSwitchD, GSwitchL
from watersmeet.hardware.tools.formal import Spec, Way, prove

B_ID, STREAMS = 5, 2  # a switch, and streams that its table has room for


class Case(NamedTuple):
    """``make(kind)`` is the block, of its class or a mutant's. ``cycles``: in `make test`, and slowly. ``mutant``: what is replaced by
    what, and within how many cycles that shows.
    """

    kind: type
    make: Callable[[Any], Any]
    ways: Sequence[Way] | Spec
    cycles: tuple[int, int]
    mutant: tuple[str, str, int]
    bits: int = 0
    patience: int = 5


TWO = [Way("i__0", "o", 0), Way("i__1", "o", 1)]
CASES = {
    "buffer": Case(
        Buffer,
        lambda kind: kind(unsigned(2)),
        [Way("i", "o")],
        (6, 9),
        ("self.i.ready.eq(~full)", "self.i.ready.eq(1)", 6),
    ),
    "fifo": Case(
        Fifo,
        lambda kind: kind(unsigned(2), 3),
        [Way("i", "o")],
        (5, 9),
        ("queue.w_en.eq(self.i.valid)", "queue.w_en.eq(self.i.valid & (self.level != 1))", 6),
    ),
    "round robin": Case(
        Merge,
        lambda kind: kind(unsigned(2), 2, "round_robin"),
        TWO,
        (5, 9),
        (
            "source.ready.eq(buffer.i.ready & (chosen == k))",
            "source.ready.eq(buffer.i.ready & (self.turn == k))",
            7,
        ),
        1,
    ),
    "DNode": Case(
        DNode,
        lambda kind: kind(unsigned(2), 2),
        [Way("i", "o__0"), Way("i", "o__1")],
        (5, 9),
        ("buffer.o.valid & ~taken[k]", "buffer.o.valid", 5),
    ),
    "GNode": Case(
        Merge,
        lambda kind: (GNode if kind is Merge else kind)(unsigned(2), 2),
        TWO,
        (5, 9),
        ("source.ready.eq(buffer.i.ready & (chosen == k))", "source.ready.eq(buffer.i.ready)", 6),
        1,
    ),
    "OrderedGNode": Case(
        OrderedGNode,
        lambda kind: kind(specs.FOUND, 2),
        specs.ordered(2),
        (5, 9),
        ("(self.turn == k) & ~self.done[k]", "self.turn == k", 7),
        1,
    ),
    "Joint": Case(
        Joint,
        lambda kind: kind(),
        specs.joint(),
        (5, 7),
        ("Mux(inside, turn, ", "Mux(0, turn, ", 6),
        1,
    ),
    "GSwitch-L": Case(
        GSwitchL,
        lambda kind: kind(B_ID, STREAMS, ["north"], ["south", "east"]),
        specs.gswitch_l(B_ID, STREAMS),
        (5, 7),
        ("valid & mask[at] & ~taken[at]", "valid & mask[at]", 7),
    ),
    "GSwitch-L of two ways in": Case(
        GSwitchL,
        lambda kind: kind(B_ID, 1, ["north", "west"], ["south", "east"]),
        specs.gswitch_l_of_two(B_ID, 1),
        (5, 9),
        ("m.If(~locked & ~Array", "m.If(~Array", 9),
        1,
    ),
    "GSwitch-D": Case(
        GSwitchD,
        lambda kind: kind(B_ID, STREAMS, 2, depth=2),
        specs.gswitch_d(B_ID, STREAMS, 2),
        (5, 7),
        ("there.eq(at != tail)", "there.eq(1)", 8),
        patience=8,
    ),
    "LSwitch": Case(
        LSwitch,
        lambda kind: kind(B_ID, STREAMS, 2, 0),
        specs.lswitch(B_ID, STREAMS, 2, 0),
        (5, 7),
        ("told.eq(~moved & (told | (tells & self.tokens.ready)))", "told.eq(0)", 5),
    ),
    "collector": Case(
        Collector,
        lambda kind: kind(2, 0),
        specs.collector(2, 0),
        (5, 9),
        ("only = (rest & ~(1 << chosen)) == 0", "only = Signal(init=1)", 4),
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_no_row_is_lost_or_doubled_whatever_comes(name: str) -> None:
    case = CASES[name]
    proof = prove(case.make(case.kind), case.ways, case.cycles[0], case.patience, case.bits)
    assert proof.holds, proof.shown


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_nor_in_more_cycles(name: str) -> None:
    case = CASES[name]
    proof = prove(case.make(case.kind), case.ways, case.cycles[1], case.patience, case.bits)
    assert proof.holds, proof.shown


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_mutant_is_found_out(name: str) -> None:
    case = CASES[name]
    old, new, cycles = case.mutant
    changed = getattr(mutant(sys.modules[case.kind.__module__], old, new), case.kind.__name__)
    proof = prove(case.make(changed), case.ways, cycles, case.patience, case.bits)
    assert not proof.holds
