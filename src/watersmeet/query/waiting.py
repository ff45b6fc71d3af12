"""Queries that wait for a schema or a type, and lose nothing by it: when one begins it is given all that has come since it was created.

Until then its streams keep those rows, however long they are and whatever their windows; and the history keeps the moment. It begins at
the end of the push that brings what it has waited for, with one turn for everything since: what it gives then is what it would have given
in all those pushes together, as what pushes give in sum does not depend on how rows were pushed. A query of whose streams nothing has come
begins before the push, as if it had been created then.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from watersmeet.join.engine import JoinEngine
from watersmeet.join.outcome import Outcome
from watersmeet.query.block import Block
from watersmeet.query.catalog import Entry
from watersmeet.query.feed import Feed, Holds
from watersmeet.query.past import Stretch, since_moment, stored_past
from watersmeet.query.turn import GraphTurn
from watersmeet.streams.clock import TOP

Outcomes = Mapping[JoinEngine, Outcome]


def held(entries: Iterable[Entry]) -> Holds:
    """What has to be kept for queries that wait."""
    rows: dict[str, int] = {}
    moment = TOP
    for entry in entries:
        if entry.moment is not None:
            moment = min(moment, entry.moment)
            rows |= {name: min(first, rows.get(name, first)) for name, first in entry.since.items()}
    return Holds(rows, moment)


def past_turn(feed: Feed, entry: Entry, outcomes: Outcomes) -> GraphTurn:
    """The rows that are stored, for a query that starts warm, as if one push had brought them. Of one that has waited: up to its moment."""
    return _turn(feed, stored_past(feed, entry.asked.streams, entry.moment), outcomes, counts=False)


def late_turns(
    feed: Feed, late: Sequence[Entry], outcomes: Outcomes, old: Collection[Block]
) -> Iterator[tuple[Entry, GraphTurn]]:
    """For queries that have waited, all that came since they were created, as if one push had brought it.

    Those that were created at the same moment have one turn, as they may share blocks. ``old``: blocks that have counted this push.
    """
    asked, turns = set(old), dict[int, GraphTurn]()
    for entry in late:
        moment = entry.moment
        assert moment is not None
        if entry.warm or moment not in turns:  # nobody shares blocks with one that is warm
            alike = [one for one in late if one.moment == moment]
            streams = set[str]().union(*(one.asked.streams for one in alike))
            turn = _turn(feed, since_moment(feed, streams, moment), outcomes, uncounted=asked)
            turns.setdefault(moment, turn)
        else:
            turn = turns[moment]
        yield entry, turn
        asked |= turn.asked


def _turn(feed: Feed, stretch: Stretch, outcomes: Outcomes, **how: Any) -> GraphTurn:
    return GraphTurn(
        feed.known.schemas,
        stretch.rows,
        stretch.firsts,
        outcomes,
        feed.names,
        stretch.order,
        clocks=stretch.clocks,
        clock_places=stretch.clock_places,
        push_of=stretch.pushes,
        clock_pushes=stretch.clock_pushes,
        **how,
    )


def ended(entry: Entry) -> str:
    """Why a query that waits is stopped when the streams end."""
    return (
        f"query {entry.name!r} must have begun before the streams end; it still waits for {entry.waits}; give schemas= when the processor "
        "is made"
    )
