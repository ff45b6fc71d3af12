"""What travels in SSP: words of 80 bits on the network, whole rows inside a unit.

What stays true: a word's bits are those of ``fabric.encoding`` (payload lowest), so encoded instructions go in as they are; ``last``
marks the final word of a row or instruction, in one of the header's two spare bits, so that nobody who shares a wire needs to know how
long it is. The other spare bit marks a *tick*: one word that stands for a row which a selection has dropped. Windows count the rows of
a stream, also those that were not selected (ARCHITECTURE: The one rule), so a join has to hear of them.

A row is lanes of 16 bits, four to a segment. A field has 1, 2 or 4 lanes, signed; its least value means NULL.
"""

from typing import Any

from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.lib import data

LANE, SEGMENT = 16, 64
LANES = SEGMENT // LANE  # of a segment
ENDED, CONTINUED = 2, (1 << 12) - 1  # stream-IDs: the end of all streams, a further segment
NULL = -(1 << 63)

WORD = data.StructLayout({"payload": SEGMENT, "stream": 12, "last": 1, "tick": 1, "q": 1, "s": 1})
RESPONSE = data.StructLayout({"word": WORD, "void": 1, "done": 1})
FIELD = data.StructLayout({"lane": 6, "size": 2, "source": 2, "unused": 3, "present": 1})
BY_ROW, BY_CONSTANT, BY_STEP = 0, 1, 2  # sources of a field


def item(segments: int) -> data.StructLayout:
    """What a unit is given: a row, or one word of an instruction that is for it (``first``: its head)."""
    return data.StructLayout({"row": SEGMENT * segments, "stream": 12, "tick": 1, "inst": 1, "first": 1})


def answer(segments: int) -> data.StructLayout:
    """What a unit gives: a row of ``count`` segments, or nothing (``void``). ``done``: all that it gives for the item it was given;
    ``shown``: by itself, not only for who rides; ``fault``: a row was lost, for want of room.
    """
    return data.StructLayout(
        {
            "row": SEGMENT * segments,
            "count": 5,
            "stream": 12,
            "tick": 1,
            "void": 1,
            "done": 1,
            "shown": 1,
            "fault": 1,
        }
    )


def field(lane: int, size: int, source: int = BY_ROW) -> int:
    """The 14 bits by which an instruction names a value: ``size`` 0, 1, 2 are 16, 32, 64 bits."""
    return 1 << 13 | source << 8 | size << 6 | lane


def value_of(m: Any, row: Value, which: Any, name: str) -> tuple[Signal, Signal]:
    """The value of a field of a row, signed 64 bits, and whether it is NULL."""
    raw = Signal(64, name=f"{name}_raw")
    m.d.comb += raw.eq(row >> (which.lane << 4))
    value, null = Signal(64, name=f"{name}_value"), Signal(name=f"{name}_null")
    narrow, middle = Cat(raw[:16], raw[15].replicate(48)), Cat(raw[:32], raw[31].replicate(32))
    m.d.comb += [
        value.eq(Mux(which.size == 0, narrow, Mux(which.size == 1, middle, raw))),
        null.eq(
            Mux(
                which.size == 0,
                raw[:16] == 1 << 15,
                Mux(which.size == 1, raw[:32] == 1 << 31, raw == 1 << 63),
            )
        ),
    ]
    return value, null


def holds(m: Any, condition: Value, left: tuple[Any, Any], right: tuple[Any, Any], name: str) -> Signal:
    """Whether ``left condition right``, each a signed value and whether it is NULL; conditions by their place in
    ``operator.CONDITIONS``.
    """
    (a, a_null), (b, b_null) = left, right
    equal, less, found = Signal(name=f"{name}_equal"), Signal(name=f"{name}_less"), Signal(name=name)
    m.d.comb += [equal.eq(a.as_signed() == b.as_signed()), less.eq(a.as_signed() < b.as_signed())]
    known = ~a_null & ~b_null
    cases = (equal, ~equal, less, less | equal, ~less & ~equal, ~less)
    with m.Switch(condition):
        for k, case in enumerate(cases):
            with m.Case(k):
                m.d.comb += found.eq(known & case)
        with m.Default():
            m.d.comb += found.eq((known & equal) | (a_null & b_null))
    return found
