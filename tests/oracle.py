"""The three-step procedure, a row at a time: what every engine, index, batch size and flow has to agree with.

Quadratic, dull and readable on purpose; it imports nothing from Watersmeet. A row arrives; (1) it is
compared with every row of the other stream that is still in its window, (2) rows that can no longer match
leave, (3) it is stored. Only "can no longer match" is made visible, by the outer rows that it sets free;
nothing is ever deleted here.

``Oracle`` joins two streams, called "r" (left) and "s" (right), with any join type. ``MultiwayOracle`` joins any
number of streams, inner. Where the watermark moves once after each push, and not with every row, rows come by ``by_push``.
A window is a tuple: ``("rows", n)``, ``("range", t, column, lateness)`` or ``("unbounded",)``.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Event = tuple[str, Row]
Window = tuple[Any, ...]
Predicate = Callable[[Row, Row], bool | None]
Pair = tuple[int, int]  # arrival numbers (r, s); -1 where there is no partner

OTHER = {"r": "s", "s": "r"}
PAIRS = {"inner", "left", "right", "full"}
UNMATCHED = {  # the sides whose rows are emitted when they can no longer match
    "left": "r",
    "right": "s",
    "full": "rs",
    "anti": "r",
    "left_anti": "r",
    "right_anti": "s",
}
MATCHED_ONCE = {"semi": "r", "left_semi": "r", "right_semi": "s"}  # emitted at their first match


@dataclass
class Stored:
    """A row that was accepted."""

    row: Row
    matched: bool = False
    emitted: bool = False


@dataclass
class Step:
    """What one event (or the end of the streams) brought about."""

    pairs: list[Pair] = field(default_factory=list)
    late: bool = False


class Oracle:
    """Feed rows with ``arrive``, end with ``finish``; each returns what is emitted at that moment."""

    def __init__(self, condition: Predicate, r: Window, s: Window, how: str = "inner") -> None:
        self.condition = condition
        self.window = {"r": r, "s": s}
        self.how = how
        self.stored: dict[str, list[Stored]] = {"r": [], "s": []}
        self.clock = {"r": -math.inf, "s": -math.inf}  # the largest time seen
        self.frozen: float | None = None  # the watermark, while it does not move

    def arrive(self, stream: str, row: Row) -> Step:
        """One row arrives."""
        if self.timed(stream) and self.time(stream, row) < self.watermark():
            return Step(late=True)
        step = Step()
        number = len(self.stored[stream])
        new = Stored(row)
        for other_number, other in enumerate(self.stored[OTHER[stream]]):
            if self.valid(stream, row, other_number, other.row) and self.holds(stream, row, other.row):
                self.match(step, stream, number, new, other_number, other)
        self.stored[stream].append(new)
        if self.timed(stream):
            self.clock[stream] = max(self.clock[stream], self.time(stream, row))
        self.emit_unmatched(step)
        return step

    def advance(self, stream: str, time: Any) -> Step:
        """A stream has come to a time without a row."""
        step = Step()
        self.clock[stream] = max(self.clock[stream], time)
        self.emit_unmatched(step)
        return step

    def by_push(self, events: Sequence[Event]) -> tuple[list[Pair], list[Event]]:
        """Rows arrive; the watermark moves when all have come, and who finds nobody is then told. Returns pairs, and who was late."""
        self.frozen = self.watermark()
        steps = [self.arrive(stream, row) for stream, row in events]
        self.frozen = None
        last = Step()
        self.emit_unmatched(last)
        late = [event for event, step in zip(events, steps, strict=True) if step.late]
        return [pair for step in [*steps, last] for pair in step.pairs], late

    def finish(self) -> Step:
        """Both streams end: nothing can match any more."""
        step = Step()
        self.emit_unmatched(step, ended=True)
        return step

    def timed(self, stream: str) -> bool:
        return self.window[stream][0] == "range"

    def time(self, stream: str, row: Row) -> Any:
        return row[self.window[stream][2]]

    def watermark(self) -> float:
        """The smallest over the timed streams of (largest time seen - lateness)."""
        if self.frozen is not None:
            return self.frozen
        return min(
            (self.clock[stream] - self.window[stream][3] for stream in "rs" if self.timed(stream)),
            default=-math.inf,
        )

    def valid(self, stream: str, row: Row, other_number: int, other_row: Row) -> bool:
        """Is the stored row of the other stream in its window, now that ``row`` arrives?"""
        other = OTHER[stream]
        kind = self.window[other][0]
        if kind == "rows":
            return other_number >= len(self.stored[other]) - self.window[other][1]
        if kind == "unbounded":
            return True
        if not self.timed(stream):  # "now" is the other stream's own clock
            return bool(self.time(other, other_row) >= self.clock[other] - self.window[other][1])
        r, s = (row, other_row) if stream == "r" else (other_row, row)
        r_time, s_time = self.time("r", r), self.time("s", s)
        return bool(r_time - self.window["s"][1] <= s_time <= r_time + self.window["r"][1])

    def holds(self, stream: str, row: Row, other_row: Row) -> bool:
        answer = self.condition(row, other_row) if stream == "r" else self.condition(other_row, row)
        return answer is True  # neither False nor NULL

    def match(
        self, step: Step, stream: str, number: int, new: Stored, other_number: int, other: Stored
    ) -> None:
        if self.how in PAIRS:
            step.pairs.append((number, other_number) if stream == "r" else (other_number, number))
        for side, i, one in ((stream, number, new), (OTHER[stream], other_number, other)):
            if not one.matched and side in MATCHED_ONCE.get(self.how, ""):
                step.pairs.append(alone(side, i))
            one.matched = True

    def emit_unmatched(self, step: Step, ended: bool = False) -> None:
        if self.frozen is not None:
            return
        for side in UNMATCHED.get(self.how, ""):
            for number, one in enumerate(self.stored[side]):
                if not one.matched and not one.emitted and (ended or self.out(side, number, one.row)):
                    one.emitted = True
                    step.pairs.append(alone(side, number))

    def out(self, side: str, number: int, row: Row) -> bool:
        """Can no later row of the other stream match this one?"""
        kind = self.window[side][0]
        if kind == "rows":
            return number < len(self.stored[side]) - self.window[side][1]
        if kind == "unbounded":
            return False
        last = self.time(side, row) + self.window[side][1]
        now = self.watermark() if self.timed(OTHER[side]) else self.clock[side]
        return bool(last < now)


def alone(side: str, number: int) -> Pair:
    return (number, -1) if side == "r" else (-1, number)


@dataclass
class Outcome:
    """What a whole run gives, push by push; the last entry of ``pairs`` is what ``finish`` adds."""

    pairs: list[list[Pair]]  # sorted
    late: list[list[Event]]


def run(
    pushes: Sequence[Sequence[Event]], condition: Predicate, r: Window, s: Window, how: str = "inner"
) -> Outcome:
    """Join ``pushes`` (each a list of events in arrival order) and end the streams."""
    oracle = Oracle(condition, r, s, how)
    pairs: list[list[Pair]] = []
    late: list[list[Event]] = []
    for push in pushes:
        steps = [oracle.arrive(stream, row) for stream, row in push]
        pairs.append(sorted(pair for step in steps for pair in step.pairs))
        late.append([event for event, step in zip(push, steps, strict=True) if step.late])
    pairs.append(sorted(oracle.finish().pairs))
    return Outcome(pairs, late)


Combination = tuple[
    int, ...
]  # arrival numbers, one of each stream, in the order in which the streams are written
MultiwayPredicate = Callable[[dict[str, Row]], bool | None]  # of the rows by stream


@dataclass(frozen=True)
class Arrival:
    """A row that was accepted, and what it found when it came."""

    stream: str
    number: int  # in its own stream
    place: int  # in the one sequence of all streams
    row: Row
    counts: dict[str, int]  # of each stream, the rows that had arrived before
    clocks: dict[str, float]  # of each stream, the largest time seen before


@dataclass
class MultiwayOutcome:
    """What a whole run gives, push by push."""

    combinations: list[list[Combination]]  # sorted
    late: list[list[Event]]


class MultiwayOracle:
    """Inner joins of N streams: a row arrives and is tried in every combination with rows that came before.

    A combination is a result iff the condition holds and every two of its rows are valid by the rule of two streams at
    the moment the later of the two arrived.
    """

    def __init__(self, condition: MultiwayPredicate, windows: Mapping[str, Window]) -> None:
        self.condition = condition
        self.windows = dict(windows)
        self.stored: dict[str, list[Arrival]] = {stream: [] for stream in windows}
        self.clocks = dict.fromkeys(windows, -math.inf)  # the largest time seen
        self.arrived = 0
        self.frozen: float | None = None  # the watermark, while it does not move

    def arrive(self, stream: str, row: Row) -> list[Combination] | None:
        """One row arrives: the combinations of which it is the last row; None if it is late."""
        if self.timed(stream) and self.time(stream, row) < self.watermark():
            return None
        counts = {name: len(rows) for name, rows in self.stored.items()}
        new = Arrival(stream, counts[stream], self.arrived, row, counts, dict(self.clocks))
        found = [
            tuple(members[name].number for name in self.windows)
            for members in self.combinations({stream: new})
            if self.condition({name: member.row for name, member in members.items()}) is True
        ]
        self.stored[stream].append(new)
        self.arrived += 1
        if self.timed(stream):
            self.clocks[stream] = max(self.clocks[stream], self.time(stream, row))
        return sorted(found)

    def by_push(self, events: Sequence[Event]) -> tuple[list[Combination], list[Event]]:
        """Rows arrive; the watermark moves when all have come. Returns combinations, and who was late."""
        self.frozen = self.watermark()
        steps = [self.arrive(stream, row) for stream, row in events]
        self.frozen = None
        late = [event for event, step in zip(events, steps, strict=True) if step is None]
        return [one for step in steps for one in step or ()], late

    def combinations(self, members: dict[str, Arrival]) -> Iterator[dict[str, Arrival]]:
        """All ways to complete ``members`` by a stored row of each stream that is not there yet, valid pair by pair."""
        missing = [name for name in self.windows if name not in members]
        if not missing:
            yield members
            return
        for one in self.stored[missing[0]]:
            if all(self.valid(one, other) for other in members.values()):
                yield from self.combinations({**members, missing[0]: one})

    def valid(self, one: Arrival, other: Arrival) -> bool:
        """Was the earlier of two rows of different streams in its window when the later one arrived?"""
        earlier, later = (one, other) if one.place < other.place else (other, one)
        window = self.windows[earlier.stream]
        if window[0] == "unbounded":
            return True
        if window[0] == "rows":
            return earlier.number >= later.counts[earlier.stream] - window[1]
        time = self.time(earlier.stream, earlier.row)
        if not self.timed(later.stream):  # "now" is the timed stream's own clock, as it stood then
            return bool(time >= later.clocks[earlier.stream] - window[1])
        later_time = self.time(later.stream, later.row)
        later_window = self.windows[later.stream]
        return bool(later_time - window[1] <= time <= later_time + later_window[1])

    def timed(self, stream: str) -> bool:
        return bool(self.windows[stream][0] == "range")

    def time(self, stream: str, row: Row) -> Any:
        return row[self.windows[stream][2]]

    def watermark(self) -> float:
        """The smallest over the timed streams of (largest time seen - lateness)."""
        if self.frozen is not None:
            return self.frozen
        return min(
            (self.clocks[name] - window[3] for name, window in self.windows.items() if self.timed(name)),
            default=-math.inf,
        )


def run_multiway(
    pushes: Iterable[Sequence[Event]],
    condition: MultiwayPredicate,
    windows: Mapping[str, Window],
    rule: type[MultiwayOracle] = MultiwayOracle,
) -> MultiwayOutcome:
    """Join ``pushes``, each a list of events in arrival order."""
    oracle = rule(condition, windows)
    outcome = MultiwayOutcome([], [])
    for push in pushes:
        steps = [oracle.arrive(stream, row) for stream, row in push]
        outcome.combinations.append(sorted(one for step in steps for one in step or ()))
        outcome.late.append([event for event, step in zip(push, steps, strict=True) if step is None])
    return outcome


def under_all_names(rows: Iterable[Row], names: Sequence[str]) -> list[Event]:
    """The events of a self-join: each row arrives under all names, in the order in which they are written."""
    return [(name, row) for row in rows for name in names]
