"""What switches, collectors and ordered mergers promise, for proofs: which words must leave where, from the words that come in alone.

A spec follows what a block has been told by watching its inputs; it does not look inside. What it narrows is what never comes: the words
of one row or instruction all say which of the two they are, and tokens name somebody.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data

from watersmeet.hardware.encoded import HEAD
from watersmeet.hardware.fqp.words import WORD as FQP_WORD
from watersmeet.hardware.ports import Port
from watersmeet.hardware.ssp.reading import INST
from watersmeet.hardware.ssp.words import RESPONSE, WORD
from watersmeet.hardware.tools.formal import Spec, Way, obeys

Ports = Mapping[str, Port]
FOUND = data.StructLayout({"row": 2, "found": 1, "ends": 1})  # of an ordered merger


class Told:
    """The masks that a switch has been told, and the one of the word that it is offered. ``at``: which word of an instruction has it."""

    def __init__(self, m: Module, port: Port, inst: str, b_id: int, streams: int, ways: int, at: int) -> None:
        self.word = word = data.View(WORD, port.payload)
        masks = [Signal(ways, name=f"told_{k}") for k in range(streams)]
        self.begins, self.mask = Signal(init=1), Signal(ways)
        held, known, is_inst = Signal(ways), Signal(ways), Signal()
        nth, mine, about = Signal(2), Signal(), Signal(12)
        head = HEAD(word.payload)
        with m.If(~self.begins):
            m.d.comb += word.q.eq(is_inst)
        for k, mask in enumerate(masks):
            with m.If(word.stream == k):
                m.d.comb += known.eq(mask)
        m.d.comb += self.mask.eq(Mux(self.begins, Mux(word.q, (1 << ways) - 1, known), held))
        with m.If(port.valid & port.ready):
            m.d.sync += [self.begins.eq(word.last), held.eq(self.mask), is_inst.eq(word.q)]
            m.d.sync += nth.eq(Mux(word.last, 0, Mux(nth == 3, 3, nth + 1)))
            own = word.q & (head.b_id == b_id) & (head.inst == INST[inst])
            with m.If(self.begins):
                m.d.sync += [mine.eq(own), about.eq(head.stream)]
            tells, of, new = (own & self.begins, head.stream, head.port)
            if at:
                tells, of, new = mine & (nth == at), about, word.payload
            with m.If(tells):
                for k, mask in enumerate(masks):
                    with m.If(of == k):
                        m.d.sync += mask.eq(new)


def gswitch_l(b_id: int, streams: int) -> Spec:
    """One way in; a switch that is told other masks while rows flow."""

    def spec(m: Module, ports: Ports) -> Sequence[Way]:
        told = Told(m, ports["north"], "gswitch_l", b_id, streams, 2, 0)
        return [
            Way("north", sink, goes=told.mask[k]) for k, sink in enumerate(("south", "east")) if sink in ports
        ]

    return spec


def gswitch_l_of_two(b_id: int, streams: int) -> Spec:
    """Two ways in. First instructions come, by both; rows begin when all is quiet, as the host has it (7.2): nothing says otherwise which
    of the two is first. Words of the one way are marked 0, of the other 1.
    """

    def spec(m: Module, ports: Ports) -> Sequence[Way]:
        north, west, south, east = (ports[name] for name in ("north", "west", "south", "east"))
        masks = [Signal(2, name=f"told_{k}") for k in range(streams)]
        running, inside = Signal(), Signal(4)
        head = HEAD(data.View(WORD, north.payload).payload)
        for port in (north, west):
            word = data.View(WORD, port.payload)
            m.d.comb += word.q.eq(~running)
            with m.If(~running):
                m.d.comb += word.last.eq(1)
        goes_in, goes_out = north.valid & north.ready, south.valid & south.ready
        m.d.sync += inside.eq(inside + goes_in - goes_out)
        with m.If((inside == 0) & ~north.valid & ~west.valid & ~east.valid):
            m.d.sync += running.eq(1)
        with m.If(goes_in & ~running & (head.b_id == b_id) & (head.inst == INST["gswitch_l"])):
            for k, mask in enumerate(masks):
                with m.If(head.stream == k):
                    m.d.sync += mask.eq(head.port)
        ways = []
        for mark, port in enumerate((north, west)):
            word = data.View(WORD, port.payload)
            begins, held, known, mask = (
                Signal(init=1, name=f"begins_{mark}"),
                *(Signal(2, name=f"{name}_{mark}") for name in ("held", "known", "mask")),
            )
            for k, one in enumerate(masks):
                with m.If(word.stream == k):
                    m.d.comb += known.eq(one)
            m.d.comb += mask.eq(Mux(running, Mux(begins, known, held), 0 if mark else 3))
            with m.If(port.valid & port.ready):
                m.d.sync += [begins.eq(word.last), held.eq(mask)]
            ways += [Way(port.name, sink.name, mark, goes=mask[k]) for k, sink in enumerate((south, east))]
        for sink in (south, east):
            whole(m, sink, data.View(WORD, sink.payload).last)
        return ways

    return spec


def whole(m: Module, sink: Port, last: Any) -> None:
    """All words of a row leave without another's between them: whose it is, is the lowest bit."""
    inside, whose = Signal(name=f"inside_{sink.name}"), Signal(name=f"whose_{sink.name}")
    with m.If(sink.valid & sink.ready):
        m.d.sync += [inside.eq(~last), whose.eq(sink.payload[0])]
        with m.If(inside):
            m.d.comb += Assert(sink.payload[0] == whose)


def gswitch_d(b_id: int, streams: int, ways: int) -> Spec:
    """Every word by every way of its mask."""

    def spec(m: Module, ports: Ports) -> Sequence[Way]:
        told = Told(m, ports["i"], "gswitch_d", b_id, streams, ways, 2)
        return [Way("i", f"o__{k}", goes=told.mask[k]) for k in range(ways)]

    return spec


def lswitch(b_id: int, streams: int, units: int, bypass: int) -> Spec:
    """Every word to every unit of its mask, and one token a row: its mask; of an instruction, the bypass."""

    def spec(m: Module, ports: Ports) -> Sequence[Way]:
        told = Told(m, ports["i"], "lswitch", b_id, streams, units, 2)
        token = Signal(units)
        m.d.comb += token.eq(Mux(told.word.q, 1 << bypass, told.mask))
        return [
            *(Way("i", f"o__{k}", goes=told.mask[k]) for k in range(units)),
            Way("i", "tokens", goes=told.begins & (token != 0), becomes=token),
        ]

    return spec


def collector(units: int, bypass: int) -> Spec:
    """What each unit gives leaves once, but what is void; and in the order of the tokens: all that each unit of a token gives, one unit
    after another, the bypass last, before the next token.
    """

    def spec(m: Module, ports: Ports) -> Sequence[Way]:
        tokens = ports["tokens"]
        obeys(m, tokens)
        with m.If(tokens.payload == 0):
            m.d.comb += tokens.valid.eq(0)
        given, ends = (
            Signal(units),
            Signal(units),
        )  # units whose answer to the token is over, or is with this word
        inside, whose = Signal(), Signal(range(units))
        ways = []
        for k in range(units):
            port = ports[f"i__{k}"]
            obeys(m, port)
            response = data.View(RESPONSE, port.payload)
            others = sum(1 << one for one in range(units) if one != k)
            with m.If(port.valid & port.ready):
                m.d.comb += [
                    ends[k].eq(response.done),
                    Assert(tokens.valid & tokens.payload[k] & ~given[k]),
                    Assert(~inside | (whose == k)),
                ]
                m.d.sync += [inside.eq(~response.done), whose.eq(k)]
                if k == bypass:
                    m.d.comb += Assert((tokens.payload & ~given & others) == 0)
            ways.append(Way(port.name, "o", k, goes=~response.void, becomes=response.word))
        m.d.sync += given.eq(given | ends)
        with m.If(tokens.valid & tokens.ready):
            m.d.comb += Assert((given | ends) == tokens.payload)
            m.d.sync += given.eq(0)
        return ways

    return spec


def ordered(ways: int) -> Spec:
    """Results leave once, each after as many ends as its own input had given before it; there are as many ends as all have given."""

    def spec(m: Module, ports: Ports) -> Sequence[Way]:
        out = data.View(FOUND, ports["o"].payload)
        over = Signal(4)  # ends that have left
        leaves = ports["o"].valid & ports["o"].ready
        m.d.sync += over.eq(over + (leaves & out.ends))
        found = []
        for k in range(ways):
            port = ports[f"i__{k}"]
            word, ended = data.View(FOUND, port.payload), Signal(4, name=f"ended_{k}")
            m.d.sync += ended.eq(ended + (port.valid & port.ready & word.ends))
            with m.If(leaves & out.ends):
                m.d.comb += Assert(over < ended)
            found.append(
                Way(
                    port.name,
                    "o",
                    k,
                    goes=word.found,
                    becomes=Cat(word.row, ended),
                    counts=out.found,
                    seen=Cat(out.row, over),
                )
            )
        return found

    return spec


def joint() -> Spec:
    """Rows of both inputs, whole."""

    def spec(m: Module, ports: Ports) -> Sequence[Way]:
        whole(m, ports["o"], data.View(FQP_WORD, ports["o"].payload).last)
        return [Way("i__0", "o", 0), Way("i__1", "o", 1)]

    return spec
