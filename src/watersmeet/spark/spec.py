"""A join as its workers get it: a small frozen value that travels with the function, and what a worker makes of it once.

A ``JoinSpec`` holds texts, windows and Arrow schemas. ``Binding`` is the same thing bound: condition, axis of time, select list.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from watersmeet.join.binding import Texts
from watersmeet.join.outer import How, join_type
from watersmeet.kernels.code import INT_MAX
from watersmeet.spark.graph import BandTree, Dimension, EqualityClass, band_tree, dimensions, equality_classes
from watersmeet.sql.parse import one_line
from watersmeet.streams.window import Window

GUEST = "__guest"  # the column that tells a row's copies from the row itself


@dataclass(frozen=True)
class Table:
    """A static table among the streams: where its rows are, and what they were. See ``state/tables.py``."""

    file: str
    rows: int
    sums: Mapping[str, str]  # by column


@dataclass(frozen=True)
class JoinSpec:
    """Everything that the tasks of one ``stream_join`` need to know."""

    condition: str
    streams: tuple[str, ...]
    windows: tuple[Window, ...]
    schemas: tuple[pa.Schema, ...] = field(compare=False)  # of the columns that travel
    how: str = "inner"
    select: str = "*"
    order: str | None = None
    index: str = "auto"
    spread: str = "hash"
    cores: int = 1
    late: str | None = None  # the column that marks late rows, if they are wanted
    streaming: bool = True
    state: str = ""  # where the state of all queries lives
    name: str = "join"
    retain: int = 100  # batches that Spark may go back
    instance: str = ""  # this very call of stream_join
    layouts: tuple[
        Any, ...
    ] = ()  # of a batch join in range buckets; a streaming one finds its own, batch by batch
    tables: tuple[Table | None, ...] = ()  # by stream, if any is static
    stores: bool = True  # False: receive, store nothing, emit nothing; what the way alone costs


@dataclass(frozen=True)
class Section:
    """A group of cores that together compute one join type: each row of the home stream is decided on one core, which sees all of
    its partners; rows of the other stream go wherever they may be needed."""

    how: How
    home: int
    first: int  # its first core
    homes: tuple[int, ...] = ()  # streams that layouts may put at home; ``home`` is the first try


class Binding:
    """A spec, bound: what pack and join work with. Made once a worker."""

    def __init__(self, spec: JoinSpec) -> None:
        self.spec, self.how = spec, join_type(spec.how)
        windows = dict(zip(spec.streams, spec.windows, strict=True))
        bound = Texts(windows, spec.condition, spec.select, self.how).bind_for_good(spec.schemas)
        self.condition, self.select, self.axis = bound.condition, bound.select, bound.axis
        self._needed = bound.columns

    @property
    def stream_numbers(self) -> range:
        return range(len(self.spec.streams))

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """A full join whose rows are copied needs two: none of its cores could see all partners of both streams' rows."""
        how = self.how
        if how.name == "inner":  # decides nothing but results: any stream that has keys may be at home
            homes = tuple(self.stream_numbers) if self.tree is None else tuple(self.tree.bands)
            home = self._dealt() if self.many and self.spec.spread == "counted" else homes[0]
            return (Section(how, home, 0, homes),)
        if self.spec.spread == "hash" or len(how.unmatched) < 2:
            home = how.unmatched[0] if how.unmatched else (how.semi or 0)
            return (Section(how, home, 0, (home,)),)
        sections = ((join_type("left"), 0, 0), (join_type("right_anti"), 1, self.spec.cores))
        return tuple(Section(*one, (one[1],)) for one in sections)

    def _dealt(self) -> int:
        """Where every core sees every row of many streams, the one that is dealt out: without a time, as what rows of such a stream have
        seen of timed ones is kept in numbers that all cores must share; and likely the longest."""
        sizes = {k: window.rows or INT_MAX for k, window in enumerate(self.spec.windows) if not window.timed}
        return max(sizes, key=lambda k: sizes[k])

    @property
    def tasks(self) -> int:
        """How many partitions the shuffle has."""
        return self.spec.cores * len(self.sections)

    def section(self, core: int) -> Section:
        return self.sections[core // self.spec.cores]

    @property
    def many(self) -> bool:
        """Whether there are more than two streams."""
        return len(self.spec.streams) > 2

    @cached_property
    def spanning(self) -> tuple[EqualityClass, ...]:
        """The equalities that all rows of a result are spread by."""
        classes = equality_classes(self.condition)
        return tuple(one for one in classes if len(one.bands) == len(self.spec.streams))

    @cached_property
    def tree(self) -> BandTree | None:
        """The bands that rows are spread by in range buckets."""
        return band_tree(self.condition)

    @cached_property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Of the grid that rows of many streams are spread in."""
        return dimensions(self.condition, self.spec.spread)

    @cached_property
    def static(self) -> frozenset[int]:
        """The streams that are tables: all of their rows came before any other."""
        return frozenset(k for k, table in enumerate(self.spec.tables) if table is not None)

    def looks_back(self, k: int) -> list[int]:
        """The timed streams of which rows of stream k, which have no time, must know what they had seen: see ``join/sights.py``."""
        timed = [j for j in self.stream_numbers if self.spec.windows[j].timed]
        return timed if self.many and len(timed) > 1 and not self.spec.windows[k].timed else []

    @cached_property
    def columns(self) -> tuple[list[str], ...]:
        """Of each stream, what is stored: what condition, window and select list need."""
        return tuple([*names, GUEST] if self.copies else names for names in self._needed)

    @property
    def copies(self) -> bool:
        """Whether blobs say which rows are copies."""
        return self.spec.spread in ("range", "broadcast") or (self.many and self.spec.spread != "counted")

    @cached_property
    def schemas(self) -> tuple[pa.Schema, ...]:
        """Of blobs, and of the engine."""
        return tuple(
            schema.append(pa.field(GUEST, pa.bool_())) if self.copies else schema
            for schema in self.spec.schemas
        )

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """What must stay the same for stored rows to mean the same."""
        spec = self.spec
        types = {}
        for stream, window, schema in zip(spec.streams, spec.windows, spec.schemas, strict=True):
            used = set(self.condition.columns[stream]) | (set() if window.time is None else {window.time})
            types[stream] = {name: str(schema.field(name).type) for name in schema.names if name in used}
        tables = {
            stream: {"rows": table.rows, "columns": dict(table.sums)}
            for stream, table in zip(spec.streams, spec.tables, strict=False)
            if table is not None
        }
        return {
            "condition": one_line(spec.condition),
            "how": self.how.name,
            "streams": list(spec.streams),
            "windows": [window.to_json() for window in spec.windows],
            "types": types,
            **({"tables": tables} if tables else {}),
        }


_bindings: dict[str, Binding] = {}


def binding(spec: JoinSpec) -> Binding:
    """The spec's binding, kept for the next task of the same join."""
    found = _bindings.get(spec.instance)
    if found is None or not spec.instance:
        if len(_bindings) >= 32:
            _bindings.clear()
        found = _bindings[spec.instance] = Binding(spec)
    return found


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What changed between two fingerprints, in words."""
    found = []
    for what in ("condition", "how", "streams"):
        if was.get(what) != now[what]:
            found.append(f"{what} was {was.get(what)!r} and is now {now[what]!r}")
    if not found:
        for stream, old, new in zip(now["streams"], was["windows"], now["windows"], strict=True):
            if old != new:
                found.append(f"the window of stream {stream!r} was {old} and is now {new}")
        for stream in now["streams"]:
            if was["types"][stream] != now["types"][stream]:
                found.append(
                    f"the columns that condition and window use of stream {stream!r} were {was['types'][stream]} and are now "
                    f"{now['types'][stream]}"
                )
        found += _changed_tables(was.get("tables", {}), now.get("tables", {}))
    return found


def _changed_tables(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Columns that the select list has come to name, or names no more, are not compared."""
    found = []
    for stream in sorted(was.keys() | now.keys()):
        old, new = was.get(stream), now.get(stream)
        if old is None or new is None:
            kinds = ["a stream" if one is None else "a table" for one in (old, new)]
            found.append(f"{stream!r} was {kinds[0]} and is now {kinds[1]}")
            continue
        if old["rows"] != new["rows"]:
            found.append(f"the table {stream!r} had {old['rows']} rows and now has {new['rows']}")
            continue
        other = [name for name, total in new["columns"].items() if old["columns"].get(name, total) != total]
        if other:
            found.append(f"the table {stream!r} now has other values in {', '.join(other)}")
    return found
