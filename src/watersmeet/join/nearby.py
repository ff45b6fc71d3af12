"""The time windows of two streams as a band between their time columns, where lateness keeps much more than they hold.

Rows are stored until nobody who may still come can see them: the window, and what streams may be late. With windows of a second and a
minute of lateness nearly all that is stored is out of a probe's sight. Then an index that knows the time looks at few rows, whatever the
order in which they have come, and sub-windows may be as long as what is stored. Measured, an equality of 5,000 values, 5,000 rows a
second, lateness of 60 s, rows up to 30 s out of order, million rows a second of CPU time without and with the band: 0.24 and 1.9 with 1,000
rows a push, 0.04 and 0.54 with 100; in order 2.1 and 2.6, 0.07 and 0.4, but 16 and 10 with 10,000 rows a push, where whole sub-windows
were passed over.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from watersmeet.join.drivers import Reach
from watersmeet.join.plan import COMPOSITE_SHARE, Measured
from watersmeet.sql.condition import Band
from watersmeet.sql.intervals import Atom
from watersmeet.sql.tree import Column
from watersmeet.streams.clock import TimeAxis
from watersmeet.streams.window import Window


@dataclass(frozen=True)
class Nearby:
    """The band, and the share that it lets through of the pairs of a new row with a stored one."""

    band: Band
    share: float

    def measured(self, reach: Reach, facts: Measured) -> Measured:
        """What is known of a reach. The newest rows are near each other in time: they do not tell what lateness will keep."""
        return replace(facts, share=self.share) if self.band in reach.bands else facts


def nearby_in_time(
    streams: Sequence[str], windows: Sequence[Window], axis: TimeAxis | None
) -> tuple[Nearby, ...]:
    """By two streams with windows of time; nothing where these hold most of what is stored."""
    timed = [k for k, window in enumerate(windows) if window.timed]
    found = [] if axis is None else [_between(streams, axis, i, j) for i, j in combinations(timed, 2)]
    return tuple(one for one in found if one.share <= COMPOSITE_SHARE)


def _between(streams: Sequence[str], axis: TimeAxis, i: int, j: int) -> Nearby:
    names = streams[i], streams[j]
    left, right = (
        Column(axis.types[name], name, str(axis.columns[k])) for k, name in zip((i, j), names, strict=True)
    )
    band = Band(Atom(left, right, axis.domain, (axis.between(i, j),)), names)
    band.text += " (the windows)"
    length = float(axis.duration[i] + axis.duration[j])
    held = length + 2 * float(max(axis.lateness))
    return Nearby(band, length / held if held else 1.0)
