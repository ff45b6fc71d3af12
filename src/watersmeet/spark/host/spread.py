"""How a query lies on the cores: a value, chosen when its statement is judged, written in the log, the same for every task.

- ``one``: whole on one core, that of the query's number. Right for every plan.
- ``rows``: a selection stores nothing, so a row may go to any core.
- ``hash``: an equality class of plain columns of one type spans all streams of the join. All rows of a combination lie on one core. Any
  part of the classes will do, so a query takes a spreading that is there if it can. Groups are spread so too (``grouped.py``), by columns
  that they are grouped by.
- ``broadcast``: the rows of one stream are dealt out, those of the others are on all cores. A combination has one row of the dealt
  stream, so it is found on one core. An outer, semi or anti join deals out the stream whose rows it decides about.

Only joins in windows of the streams' own times, or without any bound, are spread: there it does not matter in which order rows come, and
one watermark for all cores is all that they must have in common. Everything else is on one core.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.codes import common_domain, mix
from watersmeet.codes.text import BytesDomain
from watersmeet.join.outer import join_type
from watersmeet.query.answer import Bound
from watersmeet.query.graph import joins_of
from watersmeet.query.instruction import Filter, Instruction, Join, Project, Scan, Union
from watersmeet.spark.host.grouped import Grouped, grouped
from watersmeet.spark.host.setting import Setting
from watersmeet.spark.shuffle.layout import contents
from watersmeet.sql.tree import Call, Column, conjuncts
from watersmeet.streams.window import Range, Unbounded

Keys = tuple[tuple[str, tuple[str, ...]], ...]  # by stream, its key columns


@dataclass(frozen=True)
class Spread:
    """How a query's rows get to the cores."""

    kind: str
    core: int = 0  # of ``one``
    keys: Keys = ()  # of ``hash``
    home: str = ""  # of ``broadcast``: the stream that is dealt out

    @property
    def id(self) -> str:
        """Its name in headers and manifests."""
        return json.dumps([self.kind, self.core, self.keys, self.home])

    @classmethod
    def from_id(cls, text: str) -> "Spread":
        kind, core, keys, home = json.loads(text)
        return cls(kind, core, tuple((stream, tuple(columns)) for stream, columns in keys), home)

    @property
    def shares(self) -> bool:
        """Whether a core sees only some of the rows, and must be told of the times of the others."""
        return self.kind in ("hash", "broadcast")

    @property
    def is_whole(self) -> bool:
        """Whether a core sees all rows of the streams that queries read there, and no others."""
        return self.kind == "one"

    def is_on(self, core: int) -> bool:
        """Whether a core has anything of it. COUNT(*) has an answer also without rows, and must have one only."""
        return self.kind != "one" or self.core == core

    def __str__(self) -> str:
        if self.kind == "hash":
            columns = " = ".join(f"{stream}({', '.join(names)})" for stream, names in self.keys)
            return f"hash of {columns}: a row is on one core"
        if self.kind == "broadcast":
            return f"broadcast: {self.home} is dealt out, other streams are on all cores"
        return {
            "rows": "rows: a row is on any one core",
            "one": f"one core: all rows are on core {self.core}",
        }[self.kind]


def spread_of(
    bound: Bound,
    setting: Setting,
    number: int,
    there: Collection[Spread],
    before: Spread | None,
    stored: Collection[Spread] = (),
) -> Spread:
    """How query ``number`` is spread. ``there``: spreadings that others have. ``before``: the query's own before it was altered.
    ``stored``: of a query that starts warm, the spreadings in which others read its streams."""
    wanted = [] if setting.cores == 1 else list(_wanted(bound.plan, setting))
    mine = [] if before is None else [before]
    if not wanted:
        ones = [spread for spread in [*mine, *stored] if spread.kind == "one"]
        return ones[0] if ones else Spread("one", number % setting.cores)
    known = [spread for spread in [*mine, *stored, *there] if _serves(spread, wanted)]
    return next(iter([*known, *wanted]))


def _wanted(plan: Instruction, setting: Setting) -> Iterator[Spread]:
    """The spreadings that are right for a plan, the best first."""
    groups = None
    if not only_rows(plan):
        groups = grouped(plan)
        if groups is None:
            return
        plan = groups.rows
    joins = list(joins_of(plan))
    if not joins:
        yield from [Spread("rows")] if groups is None else _by_group(groups, setting)
    elif all(_order_is_nothing(join, setting) for join in joins):
        classes = [_classes(join, setting) for join in joins]
        if groups is not None:
            within = groups.columns
            classes = [[one for one in some if not within.isdisjoint(one.items())] for some in classes]
        yield from (Spread("hash", keys=keys) for keys in _keys_of(plan, joins, classes) if keys)
        if groups is None:
            yield from (Spread("broadcast", home=home) for home in _homes(plan, joins))


def _by_group(groups: Grouped, setting: Setting) -> Iterator[Spread]:
    """Of one stream: by all columns that its groups have, or by one of them, if others have a copy that is spread so."""
    columns = sorted(
        (stream, name)
        for stream, name in groups.columns
        if _hashable([setting.schemas[stream].field(name).type])
    )
    for some in [columns, *([one] for one in columns)]:
        if some:
            yield Spread("hash", keys=((some[0][0], tuple(name for _, name in some)),))


def _serves(spread: Spread, wanted: Sequence[Spread]) -> bool:
    """Whether a spreading that is there is right: it may be one of more streams."""
    return any(
        spread == one or (spread.kind == one.kind == "hash" and set(one.keys) <= set(spread.keys))
        for one in wanted
    )


def only_rows(plan: Instruction) -> bool:
    """Whether a plan is of scans, joins, filters and select lists alone: rows that only come."""
    return isinstance(plan, Scan | Join | Filter | Project | Union) and all(map(only_rows, plan.inputs))


def _order_is_nothing(join: Join, setting: Setting) -> bool:
    own = [
        isinstance(window, Range) and window.time == setting.windows[stream].time
        for stream, window in zip(join.streams, join.windows, strict=True)
    ]
    return all(own) or all(isinstance(window, Unbounded) for window in join.windows)


def _classes(join: Join, setting: Setting) -> list[dict[str, str]]:
    """Equality classes of plain columns that span the join: by leaf, its column."""
    of = dict(zip(join.leaves, join.streams, strict=True))
    groups: list[set[tuple[str, str]]] = []
    for part in conjuncts(join.condition):
        if not (
            isinstance(part, Call) and part.op == "=" and all(isinstance(side, Column) for side in part.args)
        ):
            continue
        sides = {(side.stream, side.name) for side in part.args if isinstance(side, Column)}
        if any(leaf not in of for leaf, _ in sides) or not _hashable(
            [setting.schemas[of[leaf]].field(name).type for leaf, name in sides]
        ):
            continue
        touching = [group for group in groups if group & sides]
        groups = [group for group in groups if not group & sides] + [sides.union(*touching)]
    found = []
    for group in groups:
        columns = dict(sorted(group, reverse=True))
        if set(columns) == set(of):
            found.append(columns)
    return found


def _hashable(kinds: Sequence[pa.DataType]) -> bool:
    """Types whose equal values have equal codes; whole numbers of any width are the same."""
    if all(map(pa.types.is_signed_integer, kinds)):
        return True
    first = kinds[0]
    simple = (
        pa.types.is_boolean,
        pa.types.is_string,
        pa.types.is_binary,
        pa.types.is_floating,
        pa.types.is_date,
        pa.types.is_timestamp,
    )
    return all(kind == first for kind in kinds) and any(test(first) for test in simple)


def _keys_of(
    plan: Instruction, joins: Sequence[Join], classes: Sequence[list[dict[str, str]]]
) -> Iterator[Keys]:
    """The keys that all joins of a plan can be spread by: all classes together first, then each alone."""
    scanned = set(_scanned(plan))
    options = classes[0]
    choices = ([options] if len(options) > 1 else []) + [[one] for one in options]
    for choice in choices:
        found: dict[str, tuple[str, ...]] = {}
        fits = bool(choice)
        for number, join in enumerate(joins):
            mine = choice if number == 0 else classes[number][: len(choice)]
            fits = fits and len(mine) == len(choice)
            for leaf, stream in zip(join.leaves, join.streams, strict=True):
                columns = tuple(one[leaf] for one in mine)
                fits = fits and found.setdefault(stream, columns) == columns
        if fits and scanned <= found.keys():
            yield tuple(sorted(found.items()))


def _scanned(plan: Instruction) -> Iterator[str]:
    if isinstance(plan, Scan):
        yield plan.stream
    for below in plan.inputs:
        yield from _scanned(below)


def _homes(plan: Instruction, joins: Sequence[Join]) -> Iterator[str]:
    """The streams that may be dealt out: each join reads it once, and decides about its rows only."""
    if set(_scanned(plan)):  # rows of a stream that is on all cores would come out on all
        return
    possible = [set(_decided(join)) for join in joins]
    for stream in joins[0].streams:
        if all(stream in some for some in possible):
            yield stream


def _decided(join: Join) -> Iterator[str]:
    how = join_type(join.how)
    homes = range(len(join.streams))
    if how.name != "inner":
        decided = {*how.unmatched, *(() if how.semi is None else (how.semi,))}
        homes = range(0) if len(decided) > 1 else range(min(decided), min(decided) + 1)
    for k in homes:
        if join.streams.count(join.streams[k]) == 1:
            yield join.streams[k]


# ---- rows to cores ---------------------------------------------------------------------------------------------------

Share = tuple[int, np.ndarray | None]  # a core, and which rows it gets; None: all


def shares(spread: Spread, stream: str, batch: pa.RecordBatch, cores: int, deal: int) -> Iterator[Share]:
    """Who gets which rows of a batch. ``deal``: the number of the batch among those of its map partition, and of that."""
    if spread.kind == "one":
        yield spread.core, None
    elif spread.kind == "rows":
        yield deal % cores, None
    elif spread.kind == "broadcast" and stream != spread.home:
        yield from ((core, None) for core in range(cores))
    else:
        hashes = contents(batch) if spread.kind == "broadcast" else _hashes(dict(spread.keys)[stream], batch)
        places = hashes % np.uint64(cores)
        for core in range(cores):
            rows = np.flatnonzero(places == core)
            if rows.size:
                yield core, rows


def _hashes(names: Sequence[str], batch: pa.RecordBatch) -> np.ndarray:
    codes = []
    for name in names:
        column = batch.column(name)
        if pa.types.is_signed_integer(column.type):
            column = column.cast(pa.int64())
        domain = common_domain(column.type, column.type, ordered=False)
        assert domain is not None
        if isinstance(domain, BytesDomain):
            domain = domain.everywhere()
        codes.append(np.ascontiguousarray(domain.codes(column, null_code=True)[0]))
    return mix(codes).view(np.uint64)
