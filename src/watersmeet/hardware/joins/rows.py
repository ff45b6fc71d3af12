"""The words of SplitJoin: what comes in (rows and segments of operators), what is stored, what comes out.

The two-bit header is the thesis's (5.5): a row of R, a row of S, or a segment of an operator.
"""

from typing import Any

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, enum

NUMBER = 32  # bits of an arrival number


class Kind(enum.Enum, shape=2):  # type: ignore[call-arg]
    """What a word on the distribution network is."""

    OPERATOR = 0
    R = 1
    S = 2


def row_layout(attributes: int, bits: int) -> Any:
    """A row as it is stored: its arrival number in its stream, and signed attributes."""
    return data.StructLayout(
        {"number": unsigned(NUMBER), "values": data.ArrayLayout(signed(bits), attributes)}
    )


def word_layout(attributes: int, bits: int) -> Any:
    """A word on the distribution network."""
    return data.StructLayout({"row": row_layout(attributes, bits), "kind": Kind})


def result_layout(attributes: int, bits: int, ordered: bool) -> Any:
    """A word on the gathering network: both rows, twice the width of one.

    Ordered: ``ends`` marks the last word of a probing row, ``found`` whether it carries a result (a row without results leaves
    an end alone).
    """
    row = row_layout(attributes, bits)
    marks = {"found": 1, "ends": 1} if ordered else {}
    return data.StructLayout({"r": row, "s": row, **marks})
