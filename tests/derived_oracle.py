"""Joins of derived streams the dull way: everything is worked out again from all rows so far. Imports nothing of ours.

A source is a value, of which both its text and its rows are made; all rows have the columns k, x and ts. ``rows`` gives them in sequence,
each with the place of the arrival that has caused it: AFTER, if only the watermark or the end has.

What came is a list of units: rows after which the watermark moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

Row = dict[str, Any]
Units = Sequence[Sequence[tuple[str, Row]]]
Ticks = tuple[tuple[str, int], ...]  # streams, and what a watermark is held back by, beside their lateness
Window = tuple[str, int]  # ("rows", n), ("range", t) or ("unbounded", 0)
LATENESS = 2  # of every stream
AFTER, BEFORE = float("inf"), -1.0
TABLE = [{"k": "a", "x": 7, "ts": 3}, {"k": "a", "x": 8, "ts": 4}, {"k": "b", "x": 9, "ts": 5}]


@dataclass(frozen=True)
class Placed:
    row: Row
    place: float


def mark(units: Units, ticks: Ticks) -> float:
    """The watermark when all this has come."""
    newest = {name: -AFTER for name, _ in ticks}
    for unit in units:
        for name, row in unit:
            if name in newest:
                newest[name] = max(newest[name], row["ts"])
    return min((newest[name] - LATENESS - held for name, held in ticks), default=-AFTER)


@dataclass(frozen=True)
class Stream:
    name: str

    placed = True

    def ticks(self) -> Ticks | None:
        return None if self.name == "t" else ((self.name, 0),)

    def text(self, names: Mapping[Any, str]) -> str:
        return f"SELECT k, x, ts FROM {self.name}"

    def below(self) -> tuple[Any, ...]:
        return ()

    def rows(self, units: Units, ended: bool, late_by: Ticks = ()) -> list[Placed]:
        if self.name == "t":
            return [Placed(row, BEFORE) for row in TABLE]
        found, place = [], 0
        for number, unit in enumerate(units):
            now = mark(units[:number], late_by)
            for name, row in unit:
                if name == self.name and row["ts"] >= now:
                    found.append(Placed(row, place))
                place += 1
        return found


@dataclass(frozen=True)
class UnionAll:
    parts: tuple[Any, ...]

    @property
    def placed(self) -> bool:
        return all(part.placed for part in self.parts)

    def ticks(self) -> Ticks | None:
        found = [part.ticks() for part in self.parts]
        return None if None in found else tuple(dict.fromkeys(tick for one in found for tick in one))

    def below(self) -> tuple[Any, ...]:
        return self.parts

    def text(self, names: Mapping[Any, str]) -> str:
        return " UNION ALL ".join(
            part.text(names) if isinstance(part, Stream) else f"SELECT k, x, ts FROM {names[part]}"
            for part in self.parts
        )

    def rows(self, units: Units, ended: bool, late_by: Ticks = ()) -> list[Placed]:
        found = [one for part in self.parts for one in part.rows(units, ended, late_by)]
        return sorted(found, key=lambda one: one.place)


@dataclass(frozen=True)
class Distinct:
    of: Any

    @property
    def placed(self) -> bool:
        return bool(self.of.placed)

    def ticks(self) -> Ticks | None:
        found: Ticks | None = self.of.ticks()
        return found

    def below(self) -> tuple[Any, ...]:
        return (self.of,)

    def text(self, names: Mapping[Any, str]) -> str:
        return f"SELECT DISTINCT k, x, ts FROM {names.get(self.of, getattr(self.of, 'name', ''))}"

    def rows(self, units: Units, ended: bool, late_by: Ticks = ()) -> list[Placed]:
        met: dict[Any, Placed] = {}
        for one in self.of.rows(units, ended, late_by):
            met.setdefault(tuple(one.row.values()), one)
        return list(met.values())


@dataclass(frozen=True)
class Windows:
    """How many rows of a key are in each window of event time."""

    of: Any
    size: int

    placed = False

    def ticks(self) -> Ticks | None:
        found: Ticks | None = self.of.ticks()
        return found

    def below(self) -> tuple[Any, ...]:
        return (self.of,)

    def text(self, names: Mapping[Any, str]) -> str:
        source = names.get(self.of, getattr(self.of, "name", ""))
        return f"SELECT k, COUNT(*) AS x, window.end AS ts FROM {source} GROUP BY k, window(ts, {self.size})"

    def rows(self, units: Units, ended: bool, late_by: Ticks = ()) -> list[Placed]:
        counts: dict[tuple[Any, int], int] = {}
        for one in self.of.rows(units, ended, self.of.ticks()):
            key = one.row["k"], one.row["ts"] // self.size * self.size + self.size
            counts[key] = counts.get(key, 0) + 1
        now = mark(units, self.of.ticks())
        return [
            Placed({"k": k, "x": count, "ts": end}, AFTER)
            for (k, end), count in counts.items()
            if ended or now >= end
        ]


@dataclass(frozen=True)
class Came:
    """A row that has come to a join: to which input, as which of it, having seen how many of each."""

    one: Placed
    k: int
    number: int
    seen: tuple[int, ...]


TRACKED = {"left": (0,), "right": (1,), "full": (0, 1), "anti": (0,), "right anti": (1,)}
SIDE = {"semi": 0, "anti": 0, "right semi": 1, "right anti": 1}
WORDS = {"left": "LEFT", "right": "RIGHT", "full": "FULL", "semi": "LEFT SEMI", "anti": "LEFT ANTI"}
WORDS |= {"right semi": "RIGHT SEMI", "right anti": "RIGHT ANTI"}


@dataclass(frozen=True)
class Join:
    """Where k is equal (and, with ``less``, x of the first is not greater than that of the last). ``time``: the input whose ts is shown; or
    -1: GREATEST of all."""

    inputs: tuple[Any, ...]
    windows: tuple[Window, ...]
    how: str = "inner"
    less: bool = False
    time: int = 0
    plain: bool = field(default=False)  # whether windows are left out of the text

    @property
    def kept(self) -> list[int]:
        return [k for k, one in enumerate(self.inputs) if one != Stream("t")]

    @property
    def passing(self) -> bool:
        return len(self.kept) == 1

    @property
    def timed(self) -> bool:
        return not self.passing and any(self.windows[k][0] == "range" for k in self.kept)

    @property
    def shown_time(self) -> int:
        return {"right": 1, **SIDE}.get(self.how, self.time)

    @property
    def placed(self) -> bool:
        alone = [*TRACKED.get(self.how, ()), *([SIDE[self.how]] if "semi" in self.how else [])]
        passing = self.kept if self.passing else []
        forever = [
            k for k, window in enumerate(self.windows) if window[0] == "unbounded" and "semi" not in self.how
        ]
        return all(one.placed for one in self.inputs) and all(k in passing or k in forever for k in alone)

    def ticks(self) -> Ticks | None:
        k = self.shown_time
        if self.passing:
            missing = k not in self.kept or self.how in ("full",) or (self.how == "left" and k == 1)
            return None if missing else self.inputs[k].ticks()
        missing = self.how == "full" or (self.how == "left" and k == 1)
        if not self.timed or missing or self.inputs[k] == Stream("t"):
            return None
        held = 0 if k < 0 else self.windows[k][1]
        return tuple((name, before + held) for name, before in self.own_ticks())

    def own_ticks(self) -> Ticks:
        """What moves the watermark of the join itself."""
        return tuple(dict.fromkeys(tick for k in self.kept for tick in self.inputs[k].ticks()))

    def below(self) -> tuple[Any, ...]:
        return self.inputs

    # ---- the text -----------------------------------------------------------------------------------------------

    def text(self, names: Mapping[Any, str]) -> str:
        said = []
        for k, (one, (kind, size)) in enumerate(zip(self.inputs, self.windows, strict=True)):
            name = names.get(one, getattr(one, "name", ""))
            function = {"rows": "last_rows", "range": "last_range", "unbounded": "unbounded"}[kind]
            given = f"{function}({name}{f', {size}' if size else ''})"
            said.append(f"{name if self.plain or one == Stream('t') else given} i{k}")
        last = len(said) - 1
        on = " AND ".join([f"i{k}.k = i{k + 1}.k" for k in range(last)])
        on += f" AND i0.x <= i{last}.x" * self.less
        if self.how == "inner":
            return f"{self._items} FROM {', '.join(said)} WHERE {on}"
        return f"{self._items} FROM {said[0]} {WORDS[self.how]} JOIN {said[1]} ON {on}"

    @property
    def _items(self) -> str:
        last, at = len(self.inputs) - 1, self.shown_time
        if self.how in SIDE:
            return f"SELECT i{at}.k, i{at}.x, i{at}.ts"
        every = ", ".join(f"i{k}.ts" for k in self.kept)
        ts = f"GREATEST({every}) AS ts" if at < 0 else f"i{at}.ts"
        key = "COALESCE(i0.k, i1.k) AS k" if self.how == "full" else "i1.k" if self.how == "right" else "i0.k"
        return f"SELECT {key}, i{0 if self.how == 'right' else last}.x, {ts}"

    def shown(self, rows: Sequence[Row]) -> Row:
        last, at = len(self.inputs) - 1, self.shown_time
        if self.how in SIDE:
            return {name: rows[at][name] for name in ("k", "x", "ts")}
        ts = max(rows[k]["ts"] for k in self.kept) if at < 0 else rows[at]["ts"]
        key = (
            rows[1]["k"]
            if self.how == "right" or (self.how == "full" and rows[0]["k"] is None)
            else rows[0]["k"]
        )
        return {"k": key, "x": rows[0 if self.how == "right" else last]["x"], "ts": ts}

    # ---- the rows -----------------------------------------------------------------------------------------------

    def came(self, units: Units, ended: bool, late_by: Ticks) -> list[Came]:
        """All rows of all inputs in the order in which they arrive here."""
        ticks = self.own_ticks() if self.timed else late_by if self.passing else ()
        events = [
            (one.place, k, at, one)
            for k, source in enumerate(self.inputs)
            for at, one in enumerate(source.rows(units, ended, ticks))
        ]
        counts, found = [0] * len(self.inputs), []
        for _, k, _, one in sorted(events, key=lambda event: event[:3]):
            found.append(Came(one, k, counts[k], tuple(counts)))
            counts[k] += 1
        return found

    def rows(self, units: Units, ended: bool, late_by: Ticks = ()) -> list[Placed]:
        found: list[tuple[Any, Placed]] = []
        partners: set[tuple[int, int]] = set()
        came = self.came(units, ended, late_by)
        for combination, last in self.combinations(came):
            for one in combination:
                fresh = (one.k, one.number) not in partners
                partners.add((one.k, one.number))
                if fresh and "semi" in self.how and one.k == SIDE[self.how]:
                    place = last.one.place if self.passing else AFTER
                    found.append(((place, 0, one.number), Placed(self.shown([one.one.row] * 2), place)))
            if self.how not in SIDE:
                numbers = [one.number for one in combination]
                row = self.shown([one.one.row for one in combination])
                found.append(((last.one.place, 0, *numbers), Placed(row, last.one.place)))
        nobody = {"k": None, "x": None, "ts": None}
        for one in came:
            waits = one.k in TRACKED.get(self.how, ()) and (one.k, one.number) not in partners
            if waits and (ended or self.is_over(one, came, units)):
                sides, numbers = [nobody, nobody], [-1, -1]
                sides[one.k], numbers[one.k] = one.one.row, one.number
                place = one.one.place if self.passing and one.k in self.kept else AFTER
                found.append(((place, 1, *numbers), Placed(self.shown(sides), place)))
        return [placed for _, placed in sorted(found, key=lambda pair: pair[0])]

    def combinations(self, came: Sequence[Came]) -> Iterator[tuple[tuple[Came, ...], Came]]:
        """The combinations that are results, and which row of each came last."""
        for at, last in enumerate(came):
            before = [[one for one in came[:at] if one.k == k] for k in range(len(self.inputs))]
            before[last.k] = [last]
            for some in product(*before):
                if self.holds(some) and all(
                    self.valid(one, other) for n, one in enumerate(some) for other in some[n + 1 :]
                ):
                    yield some, last

    def holds(self, some: Sequence[Came]) -> bool:
        rows = [one.one.row for one in some]
        if rows[0]["k"] is None or any(row["k"] != rows[0]["k"] for row in rows):
            return False
        ends = rows[0]["x"], rows[-1]["x"]
        return not self.less or (None not in ends and ends[0] <= ends[1])

    def valid(self, one: Came, other: Came) -> bool:
        if self.passing or Stream("t") in (self.inputs[one.k], self.inputs[other.k]):
            return True
        if self.timed:
            ts, others = one.one.row["ts"], other.one.row["ts"]
            return bool(ts - self.windows[other.k][1] <= others <= ts + self.windows[one.k][1])
        first, second = (other, one) if one.seen[other.k] > other.number else (one, other)
        kind, size = self.windows[first.k]
        return kind != "rows" or first.number >= second.seen[first.k] - size

    def is_over(self, one: Came, came: Sequence[Came], units: Units) -> bool:
        """Whether a row can find nobody any more."""
        if self.passing:
            return one.k in self.kept
        kind, size = self.windows[one.k]
        if self.inputs[one.k] == Stream("t") or kind == "unbounded":
            return False
        if kind == "rows":
            return one.number < sum(other.k == one.k for other in came) - size
        return bool(one.one.row["ts"] < mark(units, self.own_ticks()) - size)


def written(root: Any) -> str:
    """The text of a query: every source that is no stream is one of WITH."""
    names: dict[Any, str] = {}
    texts = []

    def name(source: Any) -> None:
        for one in source.below():
            name(one)
        if source is not root and not isinstance(source, Stream) and source not in names:
            text = source.text(names)
            names[source] = f"d{len(names)}"
            texts.append(f"{names[source]} AS ({text})")

    name(root)
    return f"WITH {', '.join(texts)} {root.text(names)}" if texts else root.text(names)
