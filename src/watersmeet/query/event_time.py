"""Which columns of rows that only come are event times, and the clock that is their watermark: no older row will come.

- A stream's own time column has the stream's watermark; rows that are late by it are put aside.
- In the results of a join, the time column of an input with a Range of T: a row that comes is not older than the join's watermark, and
  those that it meets are at most T older. So the watermark is the join's, less T. Of rows without a partner too: they are given up
  when the watermark has passed them by T, not before. GREATEST of the times of all inputs: the join's watermark.
- A stream that is joined with tables alone is as if it were selected from. So is a derived stream.
- A window of event time comes when its end is passed: its end has the watermark, its start that less the window's size.
- DISTINCT hands on what it is given. UNION ALL has the smallest watermark of its parts; rows of streams are late by that.

So every watermark is the smallest, over some streams, of (largest time seen - lateness - something): a ``Clock``, which judges row by row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.aggregate.event_time import Hop
from watersmeet.errors import listed
from watersmeet.join.outer import join_type
from watersmeet.query.instruction import (
    Clock,
    Distinct,
    Filter,
    Instruction,
    Join,
    JoinOf,
    Project,
    Punctual,
    Rows,
    Scan,
    Source,
    Tick,
    Union,
    Windows,
)
from watersmeet.query.scope import Branch
from watersmeet.query.setting import Setting
from watersmeet.query.statement import END, START
from watersmeet.sql.tree import Call, Column, Expr
from watersmeet.streams.window import Duration, Passing, Range


class NoTimeError(Exception):
    """An expression is no event time. Its text: what it is instead, and what to do; empty: just some expression."""


@dataclass(frozen=True)
class _Time:
    """An event time: what moves its clock, and whose rows it is of."""

    ticks: tuple[Tick, ...]
    over: tuple[Join | JoinOf | Windows, ...] = ()


@dataclass(frozen=True)
class Timed:
    """An input of a join with a window of time. ``own``: it is a stream, whose rows are late by the time of that window."""

    branches: tuple[Branch, ...]
    window: Range
    own: bool


def by_clock(branches: Sequence[Branch], times: Sequence[Expr], setting: Setting) -> list[Branch]:
    """Branches without late rows, and with the watermark of their times, one a branch."""
    found = [_time(branch.source, time, setting) for branch, time in zip(branches, times, strict=True)]
    clock = _clock(found, setting)
    return [replace(branch, source=_behind(branch.source, clock, setting)) for branch in branches]


def clocked(inputs: Sequence[Timed], setting: Setting) -> tuple[Clock, list[list[Branch]]]:
    """The watermark of a join of some inputs, and their branches without rows of streams that are late by it."""
    found = [[_tick(branch, one, setting) for branch in one.branches] for one in inputs]
    clock = _clock([time for some in found for time in some], setting)
    return clock, [
        [
            replace(branch, source=_behind(branch.source, clock, setting)) if _judges(time) else branch
            for branch, time in zip(one.branches, times, strict=True)
        ]
        for one, times in zip(inputs, found, strict=True)
    ]


def event_times(branches: Sequence[Branch], setting: Setting) -> tuple[list[str], str]:
    """The columns of some branches that are event times in all of them; and, if one is nearly so, why it is not."""
    names, reason = [], ""
    for name, _ in branches[0].columns:
        try:
            _clock([_time(one.source, dict(one.columns)[name], setting) for one in branches], setting)
        except NoTimeError as error:
            reason = reason or (f"{name}: {error}" if str(error) else "")
        else:
            names.append(name)
    return names, reason


def _tick(branch: Branch, one: Timed, setting: Setting) -> _Time:
    if isinstance(branch.source, Scan) and one.own:
        return _Time((Tick(branch.source.stream, one.window, judged=True),))
    return _time(branch.source, dict(branch.columns)[one.window.time], setting)


def _judges(time: _Time) -> bool:
    return any(tick.judged for tick in time.ticks)


def _clock(found: Sequence[_Time], setting: Setting) -> Clock:
    """What all of these move together."""
    ticks = dict.fromkeys(tick for one in found for tick in one.ticks)
    kinds = {_unit(setting.schemas[tick.stream].field(tick.window.time).type) for tick in ticks}
    if len(kinds) > 1:
        raise NoTimeError(f"times in {listed(sorted(map(str, kinds)))}; give all streams times of one type")
    columns = dict[str, str]()
    for tick in ticks:
        if tick.judged and columns.setdefault(tick.stream, tick.window.time) != tick.window.time:
            raise NoTimeError(
                f"{columns[tick.stream]!r} and {tick.window.time!r} of stream {tick.stream!r}, whose rows can be late by one time only; "
                "give it one Range"
            )
    return Clock(
        tuple(sorted(ticks, key=lambda tick: not tick.judged)),
        tuple(dict.fromkeys(source for one in found for source in one.over)),
    )


def _unit(kind: pa.DataType) -> str:
    return (
        f"timestamp[{kind.unit}]"
        if pt.is_timestamp(kind)
        else "whole numbers"
        if pt.is_integer(kind)
        else str(kind)
    )


def _time(source: Source, time: Expr, setting: Setting) -> _Time:
    match source:
        case Scan():
            return _Time((_own(source.stream, time, source.stream, setting),))
        case Join():
            return _of_join(source, time, setting)
        case JoinOf():
            return _of_join_of(source, time, setting)
        case Windows():
            return _of_windows(source, time)
        case Distinct():
            return _of_distinct(source, time, setting)
        case _:
            raise NoTimeError


def _own(stream: str, time: Expr, leaf: str, setting: Setting) -> Tick:
    """The time of a stream that nobody remembers rows of."""
    window = setting.windows[stream]
    if not isinstance(window, Range) or not _is(time, leaf, window.time):
        raise NoTimeError
    return Tick(stream, window, judged=True)


def _is(time: Expr, leaf: str, name: str) -> bool:
    return isinstance(time, Column) and (time.stream, time.name) == (leaf, name)


# ---- joins --------------------------------------------------------------------------------------------------------


def _of_join(join: Join, time: Expr, setting: Setting) -> _Time:
    how, passing = join_type(join.how), _passing(join, setting)
    if isinstance(time, Call) and time.op == "greatest":
        return _of_greatest(join, time, setting)
    if not isinstance(time, Column) or time.stream not in join.leaves:
        raise NoTimeError
    k = join.leaves.index(time.stream)
    if how.may_miss(k) and time.name in (join.windows[k].time, setting.times.get(join.streams[k])):
        raise NoTimeError("which is NULL where a row has no partner; name the time of the other side")
    if how.may_miss(k):
        raise NoTimeError
    if passing is not None:
        return _Time((_own(join.streams[passing], time, join.leaves[passing], setting),))
    window = join.windows[k]
    if not isinstance(window, Range):
        stream = join.streams[k]
        if setting.times.get(stream) != time.name:
            raise NoTimeError
        raise NoTimeError(
            f"of {stream!r}, which is in the join with {window}: rows of any age may come out; give it a Range there"
        )
    if time.name != window.time:
        raise NoTimeError
    return _Time(_timed(join, (window.duration,)), (join,))


def _of_greatest(join: Join, time: Call, setting: Setting) -> _Time:
    inputs = list(zip(join.streams, join.leaves, join.windows, strict=True))
    wanted = {
        (leaf, window.time) for stream, leaf, window in inputs if stream not in setting.tables
    }  # without a time: (leaf, None)
    named = {(arg.stream, arg.name) for arg in time.args if isinstance(arg, Column)}
    if (
        join.how != "inner"
        or len(named) < len(time.args)
        or named != wanted
        or _passing(join, setting) is not None
    ):
        raise _not_greatest()
    return _Time(_timed(join, ()), (join,))


def _not_greatest() -> NoTimeError:
    return NoTimeError(
        "which is GREATEST of something else than the times of all streams of an inner join, each with a Range; name those, or one time"
    )


def _of_join_of(join: JoinOf, time: Expr, setting: Setting) -> _Time:
    how = join_type(join.how)
    if isinstance(time, Call) and time.op == "greatest":
        named = {(arg.stream, arg.name) for arg in time.args if isinstance(arg, Column)}
        wanted = {
            (leaf, window.time)
            for leaf, rows, window in zip(join.leaves, join.rows, join.windows, strict=True)
            if not _is_table(rows, setting)
        }
        if join.clock is None or how.name != "inner" or len(named) < len(time.args) or named != wanted:
            raise _not_greatest()
        return _handed_on(join, join.clock, ())
    if not isinstance(time, Column) or time.stream not in join.leaves:
        raise NoTimeError
    k = join.leaves.index(time.stream)
    window, missing = join.windows[k], how.may_miss(k)
    if isinstance(window, Range) and time.name != window.time:
        raise NoTimeError
    found = None if isinstance(window, Range) else _of_rows(join.rows[k], time.name, setting)
    if missing:
        raise NoTimeError("which is NULL where a row has no partner; name the time of the other side")
    if isinstance(window, Range) and join.clock is not None:
        return _handed_on(join, join.clock, (window.duration,))
    if isinstance(window, Passing) and found is not None:
        return found
    raise NoTimeError(
        f"which is in the join with {window}: rows of any age may come out; give it last_range there"
    )


def _handed_on(join: JoinOf, clock: Clock, held: tuple[Duration, ...]) -> _Time:
    ticks = tuple(replace(tick, held=(*tick.held, *held), judged=False) for tick in clock.ticks)
    return _Time(tuple(dict.fromkeys(ticks)), (join,))


def _is_table(rows: Rows, setting: Setting) -> bool:
    return isinstance(rows, Project) and isinstance(rows.input, Scan) and rows.input.stream in setting.tables


def _timed(join: Join, held: tuple[Duration, ...]) -> tuple[Tick, ...]:
    """What moves the watermark of a join."""
    return tuple(
        Tick(stream, window, held)
        for stream, window in zip(join.streams, join.windows, strict=True)
        if isinstance(window, Range)
    )


def _passing(join: Join, setting: Setting) -> int | None:
    """The one input that is not a table: no row of it is remembered."""
    streams = [k for k, stream in enumerate(join.streams) if stream not in setting.tables]
    return streams[0] if len(streams) == 1 else None


# ---- what is made -------------------------------------------------------------------------------------------------


def _of_windows(windows: Windows, time: Expr) -> _Time:
    clock = next(_clocks(windows.input))
    held: tuple[Duration, ...] = ()
    if _is(time, windows.leaf, START):
        if not isinstance(windows.by, Hop):
            raise NoTimeError("the start of a session, which may be as long as it likes; name its end")
        kind = dict(windows.fields)[START]
        held = (f"{windows.by.size} {kind.unit}" if pt.is_timestamp(kind) else windows.by.size,)
    elif not _is(time, windows.leaf, END):
        raise NoTimeError
    ticks = tuple(replace(tick, held=(*tick.held, *held), judged=False) for tick in clock.ticks)
    return _Time(ticks, (windows,))


def _clocks(plan: Instruction) -> Iterator[Clock]:
    if isinstance(plan, Clock):
        yield plan
    for below in plan.inputs:
        yield from _clocks(below)


def _of_distinct(distinct: Distinct, time: Expr, setting: Setting) -> _Time:
    if not isinstance(time, Column) or time.stream != distinct.leaf:
        raise NoTimeError
    return _of_rows(distinct.input, time.name, setting)


def _of_rows(rows: Rows, column: str, setting: Setting) -> _Time:
    """A column of a plan's rows."""
    found = [
        _time(_source(one), dict(zip(one.names, one.exprs, strict=True))[column], setting)
        for one in _parts(rows)
    ]
    ticks = dict.fromkeys(tick for one in found for tick in one.ticks)
    return _Time(tuple(ticks), tuple(dict.fromkeys(source for one in found for source in one.over)))


def _parts(rows: Rows) -> tuple[Project, ...]:
    return rows.inputs if isinstance(rows, Union) else (rows,)


def _source(rows: Project) -> Source:
    return rows.input.input if isinstance(rows.input, Filter) else rows.input


# ---- the plan -----------------------------------------------------------------------------------------------------


def _behind(source: Source, clock: Clock, setting: Setting) -> Source:
    """A source with the clock's watermark, and without rows of streams that are late by it."""
    stream = source.stream if isinstance(source, Scan) else None
    if isinstance(source, Join):
        passing = _passing(source, setting)
        stream = None if passing is None else source.streams[passing]
    elif isinstance(source, JoinOf):
        rows = tuple(
            _rows_behind(below, clock, setting) if isinstance(window, Passing) else below
            for below, window in zip(source.rows, source.windows, strict=True)
        )
        source = replace(source, rows=rows)
    elif isinstance(source, Distinct):
        source = replace(source, input=_rows_behind(source.input, clock, setting))
    return Punctual(source, clock, stream)


def _rows_behind(rows: Rows, clock: Clock, setting: Setting) -> Rows:
    if isinstance(rows, Union):
        return Union(tuple(_project_behind(one, clock, setting) for one in rows.inputs))
    return _project_behind(rows, clock, setting)


def _project_behind(rows: Project, clock: Clock, setting: Setting) -> Project:
    below = _behind(_source(rows), clock, setting)
    return replace(rows, input=replace(rows.input, input=below) if isinstance(rows.input, Filter) else below)
