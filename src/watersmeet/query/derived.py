"""Joins of derived streams, bound: within which windows, by which clock, and what is refused.

A derived stream is joined as its rows come: pairs with the arrival that completes them. Rows without a partner, and windows of event
time, come when a watermark passes, at a place within a push that is not known more exactly: so they may be joined where that does not
matter, which is where all windows are of time, or none has an end. Windows of time and others side by side are refused for derived
streams: there is no saying what "now" is for a stream whose rows come late by nature.

No derived stream is kept without an end unless the text says so, or says so of all that it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from watersmeet.errors import OptionError, listed
from watersmeet.join.outer import How, join_type
from watersmeet.query.event_time import NoTimeError, Timed, clocked, event_times
from watersmeet.query.instruction import Clock, Instruction, Join, JoinOf, Scan, Windows
from watersmeet.query.scope import Branch, rows_of
from watersmeet.query.setting import Setting
from watersmeet.query.statement import Derived, StreamName, WindowCall
from watersmeet.sql.syntax import Source
from watersmeet.sql.tree import Expr
from watersmeet.streams.clock import TimeAxis
from watersmeet.streams.window import Passing, Range, Rows, Unbounded, Window, in_words


@dataclass(frozen=True)
class Input:
    """One input of a join: a stream, perhaps with a predicate and columns of its own, or a derived stream (``stream`` is None)."""

    item: StreamName | Derived
    stream: str | None
    leaf: str
    predicate: Expr | None
    columns: Mapping[str, Expr]  # over the leaf
    window: Window | None  # None: of a derived stream that nothing is said of
    branches: tuple[Branch, ...] = ()  # that its rows are of, if it is derived

    @property
    def alias(self) -> str:
        return self.item.alias

    def is_table(self, setting: Setting) -> bool:
        return self.stream is not None and self.stream in setting.tables


def said_window(
    item: Derived, said: WindowCall | None, branches: Sequence[Branch], source: Source, setting: Setting
) -> Window | None:
    """The window of a derived stream that the text gives, or windows=; None: neither does."""
    own = setting.own.get(item.alias)
    if own is not None:
        if said is not None:
            raise source.error(
                said.span,
                f"a window must be given once; got {said.function} and windows={{{item.alias!r}: ...}}; leave one out",
            )
        return _checked(item, own, branches, source, setting)
    if said is None:
        return None
    if said.function == "unbounded":
        return Unbounded()
    assert said.size is not None
    if said.function == "last_rows":
        assert isinstance(said.size, int)
        return Rows(said.size)
    times, reason = event_times(branches, setting)
    if len(times) != 1:
        got = f"several: {listed(times)}" if times else "none" + (f" ({reason})" if reason else "")
        wants = (
            f"name one with windows={{{item.alias!r}: Range(..., time={times[0]!r})}}"
            if times
            else "select one, or write last_rows"
        )
        raise source.error(
            said.span,
            f"last_range of a query must have one time that has a watermark among the query's columns; got {got}; {wants}",
        )
    return Range(in_words(said.size) if isinstance(said.size, timedelta) else said.size, times[0])


def _checked(
    item: Derived, own: Window, branches: Sequence[Branch], source: Source, setting: Setting
) -> Window:
    if not isinstance(own, Range):
        return own
    times, reason = event_times(branches, setting)
    if own.time not in times:
        raise OptionError(
            f"windows= of a query in FROM must be by a time that has a watermark: {listed(times) if times else 'it has none'}; got "
            f"{own.time!r} of {item.alias!r}{f' ({reason})' if reason else ''}; name another, or give it Rows(n)"
        )
    if own.lateness:
        raise OptionError(
            f"windows= of a query in FROM must have no lateness, as rows that are made here are never late; got {own.lateness!r} of "
            f"{item.alias!r}; leave it out"
        )
    return own


def join_of(
    inputs: Sequence[Input],
    how: How,
    condition: Expr,
    fields: Sequence[pa.Schema],
    source: Source,
    setting: Setting,
) -> JoinOf:
    """The join of some inputs, of which one is derived at least. ``fields``: the columns of the inputs' rows."""
    windows = [_window(one, inputs, source, setting) for one in inputs]
    kept = [k for k, one in enumerate(inputs) if not one.is_table(setting)]
    timed = [k for k in kept if windows[k].timed]
    if timed and len(timed) < len(kept):
        _refuse_mixed(inputs, windows, timed, kept, source)
    if any(isinstance(windows[k], Rows) and not isinstance(windows[k], Passing) for k in kept):
        _refuse_unplaced([inputs[k] for k in kept], source, setting)
    branches = [one.branches for one in inputs]
    clock = None
    if timed:
        clock, found = _clocked(inputs, windows, timed, fields, source, setting)
        for k, behind in zip(timed, found, strict=True):
            branches[k] = tuple(behind)
    return JoinOf(
        tuple(rows_of(some) for some in branches),
        tuple(one.leaf for one in inputs),
        tuple(windows),
        how.name,
        condition,
        tuple(tuple((field.name, field.type) for field in schema) for schema in fields),
        clock,
    )


def _window(one: Input, inputs: Sequence[Input], source: Source, setting: Setting) -> Window:
    """Rows of the only input beside tables need not be remembered: whoever they could meet is there."""
    if one.is_table(setting):
        assert one.window is not None
        return one.window
    if all(other.is_table(setting) for other in inputs if other is not one):
        return Passing()
    if one.window is not None:
        return one.window
    if all(_unbounded(branch.source, setting) for branch in one.branches):
        return Unbounded()
    name = one.alias
    raise source.error(
        one.item.span,
        f"a query that is joined must have a window, as its streams have, or all of its rows would be kept; got {name!r} without; write "
        f"WITH {name} AS (...) and, in FROM, last_rows({name}, 100), last_range({name}, INTERVAL 1 MINUTE) or unbounded({name}), or give "
        f"windows={{{name!r}: ...}}",
    )


def _unbounded(plan: Instruction, setting: Setting) -> bool:
    """Whether all rows of streams that a plan reads are kept anyway, or would be in a join."""
    if isinstance(plan, Scan):
        return isinstance(setting.windows[plan.stream], Unbounded)
    if isinstance(plan, Join):
        return all(
            isinstance(setting.windows[stream] if isinstance(window, Passing) else window, Unbounded)
            for stream, window in zip(plan.streams, plan.windows, strict=True)
        )
    if isinstance(plan, JoinOf):
        return all(
            _unbounded(rows, setting) if isinstance(window, Passing) else isinstance(window, Unbounded)
            for rows, window in zip(plan.rows, plan.windows, strict=True)
        )
    return not isinstance(plan, Windows) and all(_unbounded(below, setting) for below in plan.inputs)


# ---- what depends on the exact place of a row ----------------------------------------------------------------------


def _refuse_mixed(
    inputs: Sequence[Input],
    windows: Sequence[Window],
    timed: Sequence[int],
    kept: Sequence[int],
    source: Source,
) -> None:
    first, other = inputs[timed[0]], next(k for k in kept if k not in timed)
    raise source.error(
        inputs[other].item.span,
        f"a join with a query in it must have windows of time for all inputs, or for none; got {first.alias!r} with "
        f"{windows[timed[0]]} and {inputs[other].alias!r} with {windows[other]}; give both last_range, or both last_rows or unbounded",
    )


def _refuse_unplaced(inputs: Sequence[Input], source: Source, setting: Setting) -> None:
    for one in inputs:
        reason = next(filter(None, (unplaced(branch.source, setting) for branch in one.branches)), None)
        if one.stream is None and reason is not None:
            raise source.error(
                one.item.span,
                f"a join in which last rows are counted must be of rows that come at a known place; got {one.alias!r} with {reason}, which "
                "come somewhere within a push; give all inputs last_range, or all unbounded",
            )


def unplaced(plan: Instruction, setting: Setting) -> str | None:
    """Which rows of a plan come at a place within a push that is not known exactly, however they are pushed; None: none do."""
    match plan:
        case Scan() | Clock():
            return None
        case Windows():
            return "windows of event time"
        case Join() | JoinOf():
            how = join_type(plan.how)
            if how.semi is not None and not isinstance(plan.windows[how.semi], Passing):
                return "rows of a SEMI JOIN"
            for k in how.unmatched:  # rows that pass by come out at once, those that stay for ever at the end
                if not isinstance(plan.windows[k], Passing | Unbounded):
                    return "rows without a partner"
    found = (unplaced(below, setting) for below in plan.inputs)
    return next(filter(None, found), None)


# ---- time ----------------------------------------------------------------------------------------------------------


def _clocked(
    inputs: Sequence[Input],
    windows: Sequence[Window],
    timed: Sequence[int],
    fields: Sequence[pa.Schema],
    source: Source,
    setting: Setting,
) -> tuple[Clock, list[list[Branch]]]:
    """The watermark of a join, and the rows of its timed inputs without those that are late by it."""
    aliases = [one.alias for one in inputs]
    span = inputs[timed[0]].item.span
    try:
        clock, found = clocked(
            [
                Timed(one.branches, window, one.stream is not None)
                for one, window in ((inputs[k], windows[k]) for k in timed)
                if isinstance(window, Range)
            ],
            setting,
        )
        axis = TimeAxis(aliases, windows, fields)  # refuses windows that do not fit the times
        names = [f"{tick.stream}#{k}" for k, tick in enumerate(clock.ticks)]
        of_clock = TimeAxis(
            names, [tick.window for tick in clock.ticks], [setting.schemas[one.stream] for one in clock.ticks]
        )
        if axis.domain.name != of_clock.domain.name:
            raise NoTimeError(
                f"times in {axis.domain.name} and {of_clock.domain.name}; give all streams times of one type"
            )
    except NoTimeError as error:
        raise source.error(span, f"the times of what is joined must go together; got {error}") from None
    return clock, found
