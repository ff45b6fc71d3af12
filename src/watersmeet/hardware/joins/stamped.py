"""Rows and pairs of the joins that have a port for each stream, and the comparisons on them.

What stays true: keys are unsigned and are compared with a spare bit, so that a band never wraps. A row's ``number`` is its arrival
number in its own stream. A *stamped* row also carries ``seen``, how many rows of the other stream had been accepted before it: with
both, any two rows can tell which came first and whether the engine's rule lets it see the other, wherever and whenever they meet.
"""

from typing import Any

from amaranth.hdl import Mux
from amaranth.lib import data

from watersmeet.errors import OptionError


def row_layout(key: int, number: int) -> data.StructLayout:
    """What enters by a port."""
    return data.StructLayout({"number": number, "key": key})


def live_layout(key: int, number: int, time: int = 0) -> data.StructLayout:
    """A row of a window that moves; one that is not live, a *bubble*, only moves the others on. ``time``: bits of its time, if any."""
    fields = {"number": number, "key": key, "live": 1}
    return data.StructLayout(fields | {"time": time} if time else fields)


def stamped_layout(row: data.StructLayout) -> data.StructLayout:
    """Such a row with what it may see."""
    fields = {name: field.shape for name, field in row}
    return data.StructLayout({**fields, "seen": fields["number"]})


def stamp(m: Any, stamped: Any, row: Any, seen: Any) -> None:
    """``stamped`` is ``row`` with ``seen``."""
    m.d.comb += [stamped[name].eq(row[name]) for name, _ in row.shape()]
    m.d.comb += stamped.seen.eq(seen)


def pair_layout(number: int) -> data.StructLayout:
    """A result: the arrival numbers of its rows."""
    return data.StructLayout({"left": number, "right": number})


def in_band(left: Any, right: Any, below: Any, above: Any) -> Any:
    """-below <= right - left <= above, of keys."""
    return (right + below >= left) & (right <= left + above)


def may_meet(left: Any, right: Any, left_window: int, right_window: int) -> Any:
    """Whether the later of two stamped rows sees the earlier one, which must be among the last of its stream's window.

    Exact as long as fewer than 2 ** number rows of a stream have been accepted.
    """
    return Mux(
        right.number < left.seen,
        left.seen - right.number <= right_window,
        right.seen - left.number <= left_window,
    )


def shares(window: int, cores: int, least: int) -> list[int]:
    """A window cut into one piece a core, whose sizes differ by at most one."""
    if window < least * cores:
        raise OptionError(
            f"window must be at least {least} rows a core, {least * cores}; got {window}; take fewer cores"
        )
    return [window // cores + (k < window % cores) for k in range(cores)]
