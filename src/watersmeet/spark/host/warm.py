"""Warm starts: which queries may have one, and which rows on the cores make one exact.

A query that starts warm goes on as if it had been there since the host's first batch, or it begins with the rows that come, like any other:
nothing in between. What cores store beyond what queries need differs from core to core and from try to try (whole batches are dropped,
runs are merged), so a query that was given just that would give other rows in the second try of a batch than in the first.

What is *certain* to be stored is what a join of the same spreading needs itself. A join is **complete** if it knows all rows that it could
still match: nothing had come when it began, or what had come is over by now, or it has started warm. A complete join *holds* what another
one needs, if it reads the same streams, and

- of each stream nothing is gone for it that the other can still match. Of a stream whose rows an outer, semi or anti join decides about,
  the rows that are still to be decided need all their partners, also those that new rows could not match any more;
- a row that it took for late is late for the other, too: it waits at least as long for the same streams. It may let go of late rows.

Clocks, and so everything here, are the same on all cores.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.join.outer import join_type
from watersmeet.query.block import Block, JoinBlock
from watersmeet.query.graph import blocks_of, joins_of
from watersmeet.query.instruction import Instruction, Join
from watersmeet.spark.host.setting import Setting
from watersmeet.spark.host.spread import only_rows
from watersmeet.streams.arrival import Gone
from watersmeet.streams.clock import BOTTOM


class NotHeldError(Exception):
    """No join of the spreading holds what a query that starts warm has to be given."""


def check_warm(name: str, plan: Instruction, setting: Setting) -> None:
    """Refuse warm starts of queries whose past no core stores, whatever else runs there."""
    if not only_rows(plan):
        raise OptionError(
            f"start='warm' on a host must be of a query that selects or joins rows; got {name!r}, which also remembers what it has made "
            "of them (an aggregate, DISTINCT, ORDER BY or LIMIT): the rows behind that are not stored; do: start='now', and it knows "
            "rows from then on"
        )
    for join in joins_of(plan):
        for stream, window in zip(join.streams, join.windows, strict=True):
            if window.time is not None and window.time != setting.windows[stream].time:
                raise OptionError(
                    f"start='warm' on a host must be in windows by the streams' own times; got column {window.time!r} of stream {stream!r} "
                    f"in {name!r}, by which nobody knows how far it has come; do: start='now', or a host whose windows= has that time"
                )


def joins_under(root: Block | None) -> Iterator[JoinBlock]:
    """The joins that a query reads from."""
    for block in () if root is None else blocks_of(root):
        if isinstance(block, JoinBlock):
            yield block


def is_complete(block: JoinBlock) -> bool:
    """Whether a join knows all rows that it could still match, as the clocks stand. It looks when it is asked for rows, and need not have
    been."""
    block.look()
    return block.complete_from is not None


def lacks_nothing(block: JoinBlock) -> None:
    """A join has been given all that it has to know."""
    none = [0] * len(block.windows)
    block.lacks(none, [BOTTOM] * len(none))
    block.look()


def holds(one: JoinBlock, other: JoinBlock, setting: Setting) -> bool:
    """Whether a complete join holds all rows that another one, which stands at the same clocks, needs."""
    if _time_types(one, setting) not in (set(), _time_types(other, setting)):
        return False  # their times have other codes
    return all(
        any(
            name == stream and _reaches(one, k, needed) and _waits(one, k, other)
            for k, (name, _) in enumerate(one.windows)
        )
        for (stream, _), needed in zip(other.windows, needs(other), strict=True)
    )


def _reaches(one: JoinBlock, k: int, needed: Gone) -> bool:
    """Whether nothing of input k is gone for a join that is needed."""
    number, time = one.engine.ledger.arrivals.gone_before(k)
    return max(0, number) <= max(0, needed[0]) and time <= needed[1]


def needs(block: JoinBlock) -> list[Gone]:
    """By input, the first number and time that a join has to know: rows with lesser ones can match nobody, and decide nothing."""
    arrivals = block.engine.ledger.arrivals
    found = [arrivals.gone_before(k) for k in range(len(block.windows))]
    assert isinstance(block.instruction, Join)
    how = join_type(block.instruction.how)
    for k in (k for k in range(len(found)) if how.tracks(k)):
        undecided = arrivals.gone_before(k)[1]
        for j in (j for j in range(len(found)) if j != k):
            low = BOTTOM
            if arrivals.timed[j] and arrivals.timed[k] and undecided > BOTTOM:
                assert block.axis is not None
                low = int(block.axis.bounds(k, j, np.array([undecided]))[0][0])
            found[j] = 0, min(found[j][1], low)
    return found


def _waits(one: JoinBlock, k: int, other: JoinBlock) -> bool:
    """Whether rows of input k that were late for one are late for the other: the watermark of that is never behind."""
    if one.windows[k][1].time is None:
        return True
    assert one.axis is not None
    waits = [
        (stream, one.axis.lateness[i])
        for i, (stream, window) in enumerate(one.windows)
        if window.time is not None
    ]
    for i, (stream, window) in enumerate(other.windows):
        if window.time is None:
            continue
        assert other.axis is not None
        if not any(name == stream and lateness >= other.axis.lateness[i] for name, lateness in waits):
            return False
    return True


def _time_types(block: JoinBlock, setting: Setting) -> set[pa.DataType]:
    return {
        setting.schemas[stream].field(window.time).type
        for stream, window in block.windows
        if window.time is not None
    }


def held_by_any(there: Sequence[JoinBlock], block: JoinBlock, setting: Setting) -> bool:
    return any(is_complete(one) and holds(one, block, setting) for one in there)
