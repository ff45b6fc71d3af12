"""What joins and queries are given of rows that came before they began.

A join that starts *warm* gets all rows that are stored, as if it had been there when they came. One that is *late*, as its query had to
wait for a schema or a type, gets the rows that came since a moment of the history, at which the query was created, as if it had begun
there: rows before it are none of its business, unless it is also warm. Either goes on from there.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.join.engine import JoinEngine
from watersmeet.join.outcome import Outcome
from watersmeet.query.block import JoinBlock
from watersmeet.query.feed import Batches, Feed
from watersmeet.streams.clock import BOTTOM, TOP, TimeAxis
from watersmeet.streams.history import Steps, newest_over
from watersmeet.streams.replay import (
    Stored,
    UnknownTimesError,
    complete_from,
    judged_again,
    needed,
    rows_from,
)


class Beginning(NamedTuple):
    """How a join begins. ``warm``: with what is stored; ``probed``: and what it finds in that is wanted; ``moment``: it was to begin
    there; None: it begins now."""

    warm: bool = False
    probed: bool = False
    moment: int | None = None


@dataclass(frozen=True)
class Found:
    """What new joins have found in rows that are stored: in those from before they were to begin, and in those since."""

    past: dict[JoinEngine, Outcome] = field(default_factory=dict)
    since: dict[JoinEngine, Outcome] = field(default_factory=dict)


def attach(feed: Feed, block: JoinBlock, beginning: Beginning | None, found: Found | None) -> None:
    """A join reads its streams from now on, and gets what it has to know of the past."""
    warm, probed, moment = beginning or Beginning()
    try:
        feed.shared.add(block.engine, feed.places(block.streams))
        before = since = None
        if moment is None:
            ends = [feed.arrived(name) for name in block.streams]
            latest: Mapping[int, pa.Array] = {g: value for g, (_, value) in feed.history.clocks.items()}
        else:
            before, since = feed.history.at(moment)
            arrived, latest = before.counts(len(feed.names)).tolist(), before.latest
            ends = [arrived[feed.names.index(name)] for name in block.streams]
        block.begin(
            [0 if name in feed.tables else end for name, end in zip(block.streams, ends, strict=True)],
            _clocks(feed, block, latest, ends),
        )
        if warm:
            outcome = _replayed(feed, block, probed, before or feed.history.steps(), ends)
            if found is not None:
                found.past[block.engine] = outcome
        else:
            block.engine.ledger.start_at(np.array(ends))
            if any(name in feed.tables for name in block.streams):
                _give_tables(feed, block, ends)
        if since is not None:
            outcome = _caught_up(feed, block, since, ends)
            if found is not None:
                found.since[block.engine] = outcome
    except BaseException:
        feed.detach(block)
        for stream in feed.shared.streams:
            stream.forget()
        raise


def _replayed(feed: Feed, block: JoinBlock, probed: bool, steps: Steps, ends: Sequence[int]) -> Outcome:
    """Give a join the rows that are stored, up to these numbers, as if it had been there when they came."""
    engine, stored = block.engine, _stored(feed, block.streams, None, ends)
    arrivals, own = engine.ledger.arrivals, _own_times(feed, block)
    try:
        admission = judged_again(arrivals, stored, steps, own)
    except UnknownTimesError as error:
        name, window = block.windows[error.args[0]]
        raise OptionError(
            f"start='warm' must be by times that are known of all rows; got column {window.time!r} of stream {name!r}: "
            f"{stored.firsts[error.args[0]]:,} rows of it are stored no more; give the stream Range(..., time={window.time!r}), or say "
            "start='now'"
        ) from None
    newest = [
        _newest_over(feed, steps, stored, k, arrivals.axis) if own[k] else TOP
        for k in range(len(stored.places))
    ]
    block.lacks(stored.firsts, newest)
    since = complete_from(admission, stored, newest)
    everything = probed or block.engine.how.name != "inner"
    if not everything:
        numbers = feed.shared.whole(engine, needed(admission, stored))
        stored, admission = rows_from(admission, stored, numbers)
    outcome = feed.shared.replay(engine, stored.batches, stored.firsts, admission, everything)
    block.look(since)
    return outcome


def _give_tables(feed: Feed, block: JoinBlock, ends: Sequence[int]) -> None:
    """Give a join its tables: rows that were there before all others. Of the streams it knows nothing yet."""
    firsts = [0 if name in feed.tables else end for name, end in zip(block.streams, ends, strict=True)]
    stored = _stored(feed, block.streams, firsts, ends)
    arrived = dict(zip(stored.places, ends, strict=True))
    steps = Steps(
        np.array(list(arrived)), np.array(list(arrived.values())), np.zeros(len(arrived), np.int64), {}
    )
    admission = judged_again(block.engine.ledger.arrivals, stored, steps, [True for _ in stored.places])
    feed.shared.replay(block.engine, stored.batches, firsts, admission, probed=False)
    block.look()


def _caught_up(feed: Feed, block: JoinBlock, steps: Steps, ends: Sequence[int]) -> Outcome:
    """Give a join that stands at these numbers all that has come since: none of it has been dropped."""
    stored = _stored(feed, block.streams, ends, None)
    arrivals = block.engine.ledger.arrivals
    admission = judged_again(arrivals, stored, steps, _own_times(feed, block), ends)
    outcome = feed.shared.replay(block.engine, stored.batches, ends, admission, probed=True, goes_on=True)
    block.look()
    return outcome


def _own_times(feed: Feed, block: JoinBlock) -> list[bool]:
    """By input, whether a join goes by the times of the stream's own window."""
    return [feed.windows[name].time == window.time for name, window in block.windows]


def _newest_over(feed: Feed, steps: Steps, stored: Stored, k: int, axis: TimeAxis | None) -> int:
    """On the axis of a join, the largest time of rows of its stream k that are not stored; the bottom, if there are none."""
    g = stored.places[k]
    if axis is None or axis.columns[k] is None or g not in steps.latest:
        return BOTTOM
    firsts = [0] * (len(feed.names) + 1)
    firsts[g] = stored.firsts[k]
    return newest_over(steps, steps.over(firsts), g, axis, k)


def _clocks(feed: Feed, block: JoinBlock, latest: Mapping[int, pa.Array], ends: Sequence[int]) -> list[int]:
    """On the axis of a join, the largest of these times of its streams; the top, if they are not known by its time column."""
    found = []
    for k, ((name, window), end) in enumerate(zip(block.windows, ends, strict=True)):
        times = latest.get(feed.names.index(name))
        if window.time is None or block.axis is None:
            found.append(BOTTOM)
        elif window.time != feed.windows[name].time or times is None:
            found.append(TOP if end else BOTTOM)
        else:
            found.append(int(block.axis.column_codes(k, times).max(initial=BOTTOM)))
    return found


def _stored(
    feed: Feed, streams: Sequence[str], firsts: Sequence[int] | None, ends: Sequence[int] | None
) -> Stored:
    """Rows of streams between these numbers; None: all from the first that is stored on, to the last."""
    payloads = [feed.payload(name) for name in streams]
    starts = [payload.first for payload in payloads] if firsts is None else list(firsts)
    stops = [payload.end for payload in payloads] if ends is None else ends
    batches = [
        payload.rows_between(start, stop)
        for payload, start, stop in zip(payloads, starts, stops, strict=True)
    ]
    return Stored([feed.names.index(name) for name in streams], batches, starts)


@dataclass(frozen=True)
class Stretch:
    """What came of some streams in a stretch of the history, as if one push had brought it."""

    rows: Batches
    firsts: Mapping[str, int]  # number of each stream's first row
    order: np.ndarray  # the stream of each row
    clocks: Mapping[str, pa.Array]  # times to which streams have come without a row
    clock_places: Mapping[str, np.ndarray]  # the places of the rows that came next
    # The number of the push that brought each row, by place, and of the call by which a stream came to each time.
    pushes: np.ndarray
    clock_pushes: Mapping[str, np.ndarray]


def stored_past(feed: Feed, streams: Collection[str], moment: int | None) -> Stretch:
    """All rows of streams that are stored, of those that came before a moment; None: before now."""
    steps = feed.history.steps() if moment is None else feed.history.at(moment)[0]
    counts = steps.counts(len(feed.names)).tolist()
    firsts = {name: feed.stored_from(name) for name in _in_order(feed, streams)}
    ends = {name: counts[feed.names.index(name)] for name in firsts}
    return _stretch(feed, steps, firsts, ends, firsts)


def something_came(feed: Feed, streams: Collection[str], moment: int) -> bool:
    """Whether rows or times of streams have come since a moment."""
    return bool(
        np.isin(feed.history.at(moment)[1].streams, [feed.names.index(name) for name in streams]).any()
    )


def since_moment(feed: Feed, streams: Collection[str], moment: int) -> Stretch:
    """All that has come of streams since a moment."""
    before, steps = feed.history.at(moment)
    counts = before.counts(len(feed.names)).tolist()
    there = [name for name in _in_order(feed, streams) if name not in feed.tables]
    firsts = {name: counts[feed.names.index(name)] for name in there}
    ends = {name: feed.arrived(name) for name in there if firsts[name] < feed.arrived(name)}
    return _stretch(feed, steps, firsts, ends, dict.fromkeys(there, 0))


def _stretch(
    feed: Feed, steps: Steps, firsts: Mapping[str, int], ends: Mapping[str, int], stored: Mapping[str, int]
) -> Stretch:
    """Rows [first, end) of the streams that have an end. ``stored``: by stream, how many rows of the steps come before its first.

    Of rows before that, and where there were none, the times that streams came to by them remain.
    """
    rows = {name: feed.payload(name).rows_between(firsts[name], end) for name, end in ends.items()}
    places = {name: feed.names.index(name) for name in firsts}
    there = steps.stored({places[name]: first for name, first in stored.items()})
    nexts = np.cumsum(there)  # of a step without rows: how many came before it
    clocks, clock_places, clock_pushes = {}, {}, {}
    for name, g in places.items():
        mine = steps.streams == g
        ticks = there[mine] == 0
        if g in steps.latest and ticks.any():
            clocks[name] = steps.latest[g].filter(pa.array(ticks))
            clock_places[name], clock_pushes[name] = nexts[mine][ticks], steps.pushes[mine][ticks]
    kept = {name: firsts[name] for name in rows}
    order, pushes = np.repeat(steps.streams, there), np.repeat(steps.pushes, there)
    return Stretch(rows, kept, order, clocks, clock_places, pushes, clock_pushes)


def _in_order(feed: Feed, streams: Collection[str]) -> list[str]:
    return [name for name in feed.names if name in streams]
