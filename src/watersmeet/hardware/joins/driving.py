"""Rows of two streams through a join with the ports ``left``, ``right`` and ``results``, and the engine's answer for the same order.

What stays true: a run is compared with the engine for the order in which the ports accepted the rows, whatever the handshakes did.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from numbers import Integral
from random import Random
from typing import Any

from watersmeet.errors import OptionError
from watersmeet.hardware.expected import expected, same
from watersmeet.hardware.joins.intake import order_of
from watersmeet.hardware.ports import pack, unpack
from watersmeet.hardware.registry import Run
from watersmeet.hardware.simulate import Session, Trace
from watersmeet.hardware.simulate.session import OBSERVERS
from watersmeet.streams.window import Range, Rows, Window

SIDES = ("left", "right")
Keys = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Passage:
    """What a design did with two streams of keys."""

    order: tuple[tuple[str, int], ...]  # stream and arrival number, as accepted
    accepted: tuple[int, ...]  # the cycle of each
    given: Mapping[str, tuple[Any, ...]]  # what left, by output, unpacked
    cycles: int  # up to the last transfer
    simulator: str

    @property
    def pace(self) -> float:
        """Cycles a row over the last half of the rows, when windows are full and queues as long as they get.

        Counted from cycle to cycle in which rows were accepted, as both ports may be taken in one.
        """
        half = self.accepted[len(self.accepted) // 2 :]
        firsts = [k for k in range(1, len(half)) if half[k] != half[k - 1]]
        if len(firsts) < 2:
            return 0.0
        return (half[firsts[-1]] - half[firsts[0]]) / (firsts[-1] - firsts[0])


def pass_through(
    design: Any,
    keys: Keys,
    simulator: str = "auto",
    idle: int = 200,
    bubbles: int = 0,
    offers: Mapping[str, Sequence[int]] | None = None,
    stalls: Mapping[str, Iterable[bool]] | None = None,
    cycles: int = 10_000_000,
    times: Keys | None = None,
) -> Passage:
    """Offers the keys at both ports, numbered from 0; when all is at rest, ``bubbles`` rows that are not live follow at the left one.

    ``times``: of the rows, for a design in whose windows they count.
    """
    observers = OBSERVERS.get()
    session = Session(design, simulator, watch=bool(observers))
    for name, pattern in (stalls or {}).items():
        session.stall(name, pattern)
    live = {"live": 1} if "live" in dict(design.layout) else {}
    for side in SIDES:
        rows: list[dict[str, int]] = [{"number": k, "key": key, **live} for k, key in enumerate(keys[side])]
        if times is not None:
            rows = [{**row, "time": time} for row, time in zip(rows, times[side], strict=True)]
        session.offer(side, [pack(design.layout, row) for row in rows], (offers or {}).get(side))
    _settle(session, cycles, idle)
    taken = {side: tuple(session.taken(side)) for side in SIDES}
    if bubbles:
        session.offer("left", [0] * bubbles)
        _settle(session, cycles, idle)
    for seen in observers:
        seen.append((design, _trace(session)))
    order = order_of(taken)
    layouts = {name: sink.port.layout for name, sink in session.lines.sinks.items()}
    return Passage(
        order=tuple(order),
        accepted=tuple(taken[side][k] for side, k in order),
        given={
            name: tuple(unpack(layout, payload) for _, payload in session.given(name))
            for name, layout in layouts.items()
        },
        cycles=session.lines.last + 1,
        simulator=session.model.name,
    )


def _trace(session: Session) -> Trace:
    lines = session.lines
    return Trace(
        simulator=session.model.name,
        cycles=lines.last + 1,
        simulated=lines.cycle,
        settled=True,
        taken={name: source.taken for name, source in lines.sources.items()},
        given={name: sink.given for name, sink in lines.sinks.items()},
        watched=lines.watched,
    )


def _settle(session: Session, cycles: int, idle: int) -> None:
    if not session.settle(cycles, idle):
        raise OptionError(
            f"all rows must have gone through within {cycles} cycles; got some left; give more cycles"
        )


def engine_pairs(
    passage: Passage, keys: Keys, parameters: Mapping[str, int], times: Keys | None = None
) -> list[tuple[int, ...]]:
    """What the engine gives for these rows in the order in which they were accepted."""
    condition = f"right.k - left.k BETWEEN {-parameters['below']} AND {parameters['above']}"
    if times is None:
        counted: dict[str, Window] = {side: Rows(parameters[f"{side}_window"]) for side in SIDES}
        return expected([(side, {"k": keys[side][k]}) for side, k in passage.order], condition, counted)
    timed: dict[str, Window] = {side: Range(parameters[f"{side}_range"]) for side in SIDES}
    rows = [(side, {"k": keys[side][k], "ts": times[side][k]}) for side, k in passage.order]
    return expected(rows, condition, timed)


def check_room(passage: Passage, times: Keys, parameters: Mapping[str, int]) -> None:
    """Refuses windows of time that had not enough places: a row fell out, and one came after that which may see it."""
    places = {one: at for at, one in enumerate(passage.order)}
    for side, other in (SIDES, SIDES[::-1]):
        room, after = parameters[f"{side}_window"], parameters[f"{side}_range"]
        later = [(places[other, k], time) for k, time in enumerate(times[other])]
        for k in range(len(times[side]) - room):
            gone = places[side, k + room]
            sees = next((time for at, time in later if at > gone), None)
            if sees is not None and sees <= times[side][k] + after:
                raise OptionError(
                    f"{side}_window must have places for all rows within {side}_range; got {room}, and row {k} was pushed out too early"
                    "; give more"
                )


def uniform(rows: int, values: int, seed: int = 0) -> dict[str, list[int]]:
    """Keys from 0 to ``values - 1``, as many a stream as ``rows`` says."""
    rng = Random(seed)
    return {side: [rng.randrange(values) for _ in range(rows)] for side in SIDES}


def drive_with(
    name: str,
    build: Callable[..., Any],
    quiet: Callable[[Mapping[str, int]], int],
    bubbles: bool,
    pairs: Callable[[Any, Passage, Keys], list[tuple[int, ...]]] | None = None,
) -> Callable[..., Run]:
    """A registry's ``drive``: streams are keys by ``left`` and ``right``.

    ``quiet``: cycles for which a port may be at rest while there is still work. ``pairs``: how results become pairs of arrival
    numbers, where they are not pairs.
    """

    def drive(
        parameters: Mapping[str, int],
        streams: Keys | None,
        simulator: str,
        rows: int = 100,
        values: int = 16,
        seed: int = 0,
        times: Keys | None = None,
        **handshakes: Any,
    ) -> Run:
        """``times``: of the rows, in order, where the design's windows are of time; None: a row every few units."""
        keys = uniform(rows, values, seed) if streams is None else streams
        _check(keys, parameters["key"])
        if parameters.get("time"):
            times = _ticking(keys, seed) if times is None else times
            _check_times(keys, times, parameters["time"])
        design = build(**parameters)
        passage = pass_through(
            design,
            keys,
            simulator,
            quiet(parameters),
            parameters["left_window"] if bubbles else 0,
            times=times,
            **handshakes,
        )
        if times is not None:
            check_room(passage, times, parameters)
        if pairs is None:
            found = [(one["left"], one["right"]) for one in passage.given["results"]]
        else:
            found = [(left, right) for left, right in pairs(design, passage, keys)]
        return Run(
            design=name,
            parameters=parameters,
            rows=len(passage.order),
            results=tuple(found),
            cycles=passage.cycles,
            simulator=passage.simulator,
            agrees=same(found, engine_pairs(passage, keys, parameters, times)),
            notes={"pace": passage.pace},
        )

    return drive


def _ticking(keys: Keys, seed: int) -> dict[str, list[int]]:
    """Times that do not fall: a row every unit or so, in both streams."""
    rng = Random(f"times {seed}")
    return {side: list(accumulate(rng.choice((0, 1, 2)) for _ in keys[side])) for side in SIDES}


def _check_times(keys: Keys, times: Keys, bits: int) -> None:
    if not isinstance(times, Mapping) or {side: len(times.get(side, ())) for side in SIDES} != {
        side: len(keys[side]) for side in SIDES
    }:
        raise OptionError(f"times must be as many as the keys of left and right; got {times!r}")
    for side in SIDES:
        for before, time in pairwise([0, *times[side]]):
            if not before <= time < 1 << bits:
                raise OptionError(
                    f"a time must be from that of the row before it to {(1 << bits) - 1}; got {time!r} after {before} in {side}"
                )


def _check(keys: Keys, bits: int) -> None:
    if not isinstance(keys, Mapping) or set(keys) != set(SIDES):
        got = ", ".join(map(str, keys)) or "none" if isinstance(keys, Mapping) else repr(keys)
        raise OptionError(f"streams must be keys of left and right; got {got}")
    for side in SIDES:
        for key in keys[side]:
            if not isinstance(key, Integral) or not 0 <= key < 1 << bits:
                raise OptionError(f"a key must be from 0 to {(1 << bits) - 1}; got {key!r} in {side}")
