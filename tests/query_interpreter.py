"""Queries with aggregates the dull way: after each row everything is worked out again from all rows so far. Imports nothing of ours.

A query is a value, of which both its text and its answer are made. An arrival is the name of its stream and a row, a dict.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import aggregate_oracle as oracle

Row = dict[str, Any]
Arrival = tuple[str, Row]
Output = tuple[Any, ...]
LATENESS = 2  # of stream a, by its column ts

# What rows can be grouped by: the text, and its value for a row.
KEYS: dict[str, Callable[[Row], Any]] = {
    "k": lambda row: row["k"],
    "y": lambda row: row["y"],
    "x > 1": lambda row: None if row["x"] is None else row["x"] > 1,
    "COALESCE(x, 7)": lambda row: 7 if row["x"] is None else row["x"],
}
# Aggregates: the text, and what it is: function, value of a row, what it goes by, the type of a sum.
Value = Callable[[Row], Any]


def _x(row: Row) -> Any:
    return row["x"]


def _y(row: Row) -> Any:
    return row["y"]


def _big(row: Row) -> Any:
    return row["y"] if row["x"] is not None and row["x"] > 1 else None


AGGREGATES: dict[str, tuple[str, Value | None, Value | None, Any]] = {
    "COUNT(*)": ("count", None, None, None),
    "COUNT(x)": ("count", _x, None, None),
    "COUNT(DISTINCT y)": ("count_distinct", _y, None, None),
    "SUM(x)": ("sum", _x, None, int),
    "SUM(y)": ("sum", _y, None, float),
    "AVG(x)": ("avg", _x, None, float),
    "MIN(y)": ("min", _y, None, None),
    "MAX(k)": ("max", lambda row: row["k"], None, None),
    "VAR_POP(x)": ("var_pop", _x, None, None),
    "STDDEV(x)": ("stddev_samp", _x, None, None),
    "MIN_BY(y, x)": ("first", _y, _x, None),
    "MAX_BY(k, x)": ("last", lambda row: row["k"], _x, None),
    "SUM(y) FILTER (WHERE x > 1)": ("sum", _big, None, float),
    "COUNT(*) FILTER (WHERE x > 1)": ("count", lambda row: 1 if _big({**row, "y": 1}) else None, None, None),
}
TIMED = {  # of a stream with a time: by that, else by arrival
    "FIRST(x)": ("first", _x),
    "LAST(y)": ("last", _y),
    "FIRST(x) IGNORE NULLS": ("first", _x),
}


@dataclass(frozen=True)
class Asked:
    """``source``: "a", "where", "derived", "union" or "join". ``sliding``: ("rows", n) or ("range", t) around a; ("derived", n) rows of a
    derived stream. ``event``: ("window", size, slide) or ("session", gap).
    """

    source: str = "a"
    keys: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ("COUNT(*)",)
    having: bool = False
    sliding: tuple[str, int] | None = None
    event: tuple[Any, ...] | None = None
    order: tuple[
        tuple[int, str], ...
    ] = ()  # places in the select list, and "", "DESC", "DESC NULLS FIRST" or "NULLS LAST"
    limit: int | None = None
    emit: str = "complete"

    # ---- the text -----------------------------------------------------------------------------------------------

    @property
    def columns(self) -> list[str]:
        return [f"o{number}" for number in range(len(self.names))]

    @property
    def names(self) -> list[str]:
        ends = []
        if self.event is not None:
            ends = [f"{self.window}.start", f"{self.window}.end"]
        return [*ends, *self.keys, *self.aggregates]

    @property
    def window(self) -> str:
        return "session_window" if self.event is not None and self.event[0] == "session" else "window"

    @property
    def sql(self) -> str:
        items = ", ".join(f"{text} AS {name}" for text, name in zip(self.names, self.columns, strict=True))
        with_ = ""
        if self.sliding is not None and self.sliding[0] == "derived":
            with_, source = (
                f"WITH d AS (SELECT * FROM {self._from} WHERE x > 0) ",
                f"last_rows(d, {self.sliding[1]})",
            )
        elif self.sliding is not None:
            function = {"rows": "last_rows", "range": "last_range"}[self.sliding[0]]
            source = f"{function}(a, {self.sliding[1]}){' WHERE x > 0' * (self.source == 'where')}"
        else:
            source = self._from + " WHERE x > 0" * (self.source == "where")
        group = list(self.keys)
        if self.event is not None:
            group.insert(len(group) // 2, f"{self.window}(ts, {', '.join(map(str, self.event[1:]))})")
        text = f"{with_}SELECT {items} FROM {source}"
        text += f" GROUP BY {', '.join(group)}" if group else ""
        text += " HAVING COUNT(*) > 1" if self.having else ""
        text += (
            f" ORDER BY {', '.join(f'o{at} {how}'.strip() for at, how in self.order)}" if self.order else ""
        )
        return text + (f" LIMIT {self.limit}" if self.limit is not None else "")

    @property
    def _from(self) -> str:
        return {
            "a": "a",
            "where": "a",
            "derived": "(SELECT x, k, y, ts FROM a)",
            "union": "(SELECT k, x, y, ts FROM a UNION ALL SELECT k, x, y, ts FROM b)",
            "join": "(SELECT a.k, a.x, b.y, a.ts FROM last_rows(a, 3) JOIN unbounded(b) ON a.k = b.k)",
        }[self.source]

    # ---- the answer ---------------------------------------------------------------------------------------------

    def rows(self, arrivals: list[Arrival]) -> list[Row]:
        """What FROM and WHERE give, in sequence."""
        if self.source == "union":
            return [row for _, row in arrivals]
        if self.source == "join":
            return joined(arrivals)
        return [row for name, row in arrivals if name == "a"]

    def held(self, arrivals: list[Arrival]) -> list[tuple[int, Row]]:
        """The rows that the aggregates are over, numbered."""
        rows = list(enumerate(self.rows(arrivals)))
        if self.sliding is None:
            if self.event is not None:
                rows = [(number, row) for number, row in rows if not row["late"]]
            return [pair for pair in rows if self.source != "where" or positive(pair[1])]
        kind, size = self.sliding
        if kind == "derived":
            return [pair for pair in rows if positive(pair[1])][-size:]
        if kind == "rows":
            rows = rows[-size:]
        elif rows:
            now = max(row["ts"] for _, row in rows)
            rows = [pair for pair in rows if pair[1]["ts"] >= now - size]
        return [pair for pair in rows if self.source != "where" or positive(pair[1])]

    def groups(self, arrivals: list[Arrival]) -> dict[Output, tuple[Output, int]]:
        """By key: a row of the answer, and the number of the group's first row. HAVING is applied, order and limit are not."""
        rows = self.held(arrivals)
        keyed: dict[Output, list[tuple[int, Row]]] = {} if self.keys or self.event else {(): []}
        for number, row in in_windows(rows, self):
            key = tuple(oracle.normal(value) for value in self.key(row))
            keyed.setdefault(key, []).append((number, row))
        found = {}
        for key, members in keyed.items():
            if self.having and len(members) < 2:
                continue
            shown = self.key(members[0][1]) if members else ()
            values = tuple(aggregate(members, text, self) for text in self.aggregates)
            found[key] = (
                (*map(shown_value, shown), *map(shown_value, values)),
                (members[0][0] if members else 0),
            )
        return found

    def key(self, row: Row) -> Output:
        ends = (row["start"], row["end"]) if self.event is not None else ()
        return (*ends, *(KEYS[text](row) for text in self.keys))

    def answer(self, arrivals: list[Arrival]) -> list[Output]:
        """All rows of the answer, in order; equal ones by their groups' first rows."""
        rows = sorted(self.groups(arrivals).values(), key=lambda pair: pair[1])
        for at, how in reversed(self.order):
            rows = in_order(rows, at, how)
        return [row for row, _ in rows][: self.limit]

    def final(self, arrivals: list[Arrival], ended: bool) -> list[Output]:
        """The rows of windows that are over."""
        mark = watermark(arrivals, self.streams)
        asked = replace(self, order=(), limit=None)
        return [row for row in asked.answer(arrivals) if ended or self.is_over(row[1], mark)]

    def is_over(self, end: int, mark: float) -> bool:
        return mark > end if self.window == "session_window" else mark >= end

    @property
    def streams(self) -> str:
        return "ab" if self.source == "union" else "a"


def positive(row: Row) -> bool:
    return row["x"] is not None and row["x"] > 0


def joined(arrivals: list[Arrival]) -> list[Row]:
    """a JOIN b ON k, with the last three rows of a; in the order of arrivals, of one arrival in that of the other stream."""
    found, seen = [], {"a": list[Row](), "b": list[Row]()}
    for name, row in arrivals:
        for other in seen["b"] if name == "a" else seen["a"][-3:]:
            left, right = (row, other) if name == "a" else (other, row)
            if left["k"] is not None and left["k"] == right["k"]:
                found.append({**left, "y": right["y"]})
        seen[name].append(row)
    return found


def in_windows(rows: list[tuple[int, Row]], asked: Asked) -> list[tuple[int, Row]]:
    """Each row as often as there are windows that it is in."""
    if asked.event is None:
        return rows
    found = []
    if asked.event[0] == "window":
        _, size, *rest = asked.event
        slide = rest[0] if rest else size
        for number, row in rows:
            for start in range(row["ts"] - size + 1, row["ts"] + 1):
                if start % slide == 0:
                    found.append((number, {**row, "start": start, "end": start + size}))
        return found
    gap = asked.event[1]
    for key in {tuple(oracle.normal(KEYS[text](row)) for text in asked.keys) for _, row in rows}:
        mine = [
            pair for pair in rows if tuple(oracle.normal(KEYS[text](pair[1])) for text in asked.keys) == key
        ]
        session: list[tuple[int, Row]] = []
        for pair in [*sorted(mine, key=lambda pair: pair[1]["ts"]), None]:
            if session and (pair is None or pair[1]["ts"] > session[-1][1]["ts"] + gap):
                ends = {"start": session[0][1]["ts"], "end": session[-1][1]["ts"] + gap}
                found += [(number, {**row, **ends}) for number, row in session]
                session = []
            if pair is not None:
                session.append(pair)
    return sorted(found, key=lambda pair: pair[0])


def aggregate(members: list[tuple[int, Row]], text: str, asked: Asked) -> Any:
    members = sorted(members, key=lambda pair: pair[0])
    if text in TIMED:
        function, value = TIMED[text]
        timed = asked.source != "join"
        by: Value | None = (lambda row: row["ts"]) if timed else (lambda row: 0)
        kind = None
        if "IGNORE" in text:
            members = [pair for pair in members if value(pair[1]) is not None]
    else:
        function, given, by, kind = AGGREGATES[text]
        if given is None:
            return len(members)
        value = given
    rows = [(number, {"v": value(row), "by": by(row) if by is not None else None}) for number, row in members]
    return oracle.one(rows, function, "v", None if by is None else "by", kind)


def in_order(rows: list[tuple[Output, int]], at: int, how: str) -> list[tuple[Output, int]]:
    """Sorted by a column, NULL first unless DESC or the text says otherwise; equal rows stay as they are, also in a reversed sort."""
    down, first = "DESC" in how, "FIRST" in how or not ("DESC" in how or "LAST" in how)
    none = [pair for pair in rows if pair[0][at] is None]
    some = [pair for pair in rows if pair[0][at] is not None]
    some = sorted(some, key=lambda pair: place(pair[0][at]), reverse=down)
    return none + some if first else some + none


def place(value: Any) -> Any:
    return (1, 0.0) if value == "NaN" else (0, value) if isinstance(value, float) else value


def shown_value(value: Any) -> Any:
    return oracle.normal(value)


def judged(arrivals: list[Arrival], streams: str) -> list[Arrival]:
    """Each row of these streams with whether it is late: whether the watermark had passed it when it came."""
    return [row for push in judged_pushes([[arrival] for arrival in arrivals], streams) for row in push]


def judged_pushes(pushes: Sequence[Sequence[Arrival]], streams: str) -> list[list[Arrival]]:
    """The same where the watermark moves once after each push."""
    found: list[list[Arrival]] = []
    for push in pushes:
        mark = watermark([row for before in found for row in before], streams)
        found.append([(name, {**row, "late": name in streams and row["ts"] < mark}) for name, row in push])
    return found


def watermark(arrivals: list[Arrival], streams: str) -> float:
    times = {one: [row["ts"] - LATENESS for name, row in arrivals if name == one] for one in streams}
    return min(max(own, default=float("-inf")) for own in times.values())


def difference(new: list[Output], old: list[Output]) -> Counter[Output]:
    """Rows with how often they have come, or, below zero, gone."""
    found = Counter(new)
    found.subtract(Counter(old))
    return Counter({row: count for row, count in found.items() if count})
