"""Stored rows on other cores: another number of cores, another way of spreading, or borders that have moved.

The new state of a core is a pure function of all manifests of the batch before: every core reads all of them, and takes what the new
layout gives it. Nothing is changed where the rows lay before, so that a batch can be tried again. Rows are read core by core and dealt
out piece by piece: what is held in memory is the core's own share, and no column of more than 2 GB ever becomes one array.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from watersmeet.errors import StateError
from watersmeet.join.outer import How
from watersmeet.join.snapshot import DONE, EXTRA
from watersmeet.spark.shuffle.layout import Dealing, Layout, Router, dealings
from watersmeet.spark.shuffle.planning import Outlook
from watersmeet.spark.spec import GUEST, Binding, Section
from watersmeet.spark.state.core_state import CoreState
from watersmeet.spark.state.course import check_one_course
from watersmeet.spark.state.manifests import Manifest, not_evaluated, read_last
from watersmeet.spark.state.saving import sight_fields, stored_table
from watersmeet.spark.task import Task

NUMBER = "__number"  # arrival number over all cores, where rows are counted
PIECE = 1 << 16  # rows that are dealt out at once
SUBWINDOW, BYTES = 1 << 17, 1 << 28  # rows and bytes of a new sub-window, about


def rebucketed(
    bound: Binding, task: Task, core: int, last: Manifest, outlook: Outlook
) -> tuple[CoreState, dict[int, pa.Table]]:
    """A core with the rows that the new layouts give it; ``last``: a manifest of the set to read from."""
    manifests = list(_all(bound, task, last))
    counted = bound.spec.spread == "counted"
    tables, totals = {}, list(last.counts)
    numbered: dict[
        int, np.ndarray
    ] = {}  # by stream, where rows are counted: the numbers of its rows over all cores
    for k in bound.stream_numbers:
        sources = _Sources(bound, task, manifests, k, bound.section(core))
        shares = list(_shares(bound, outlook, core, k, sources))
        if counted:
            numbered[k] = np.sort(np.concatenate([share.column(NUMBER).to_numpy() for share in shares]))
        tables[k] = _in_order(shares)
        if counted and not sources.numbered:
            totals[k] = sources.rows
    for k in tables if counted else ():  # else only tables look back, which have seen nothing
        for j in bound.looks_back(k):
            tables[k] = _seen_anew(
                tables[k], f"{EXTRA}seen_{j}", last.counts[j] - last.numbers["counts"][j], numbered[j]
            )
    numbers = {
        **last.numbers,
        "counts": [table.num_rows for table in tables.values()],
        "subwindows": [_borders(table) for table in tables.values()],
    }
    late = [0 for _ in tables]
    if core == 0:  # the totals go on in one place
        late = [sum(manifest.late[k] for manifest in manifests) for k in tables]
    arrived = totals if counted else numbers["counts"]
    return CoreState(numbers, arrived, last.habits, late, [[] for _ in tables]), tables


def _all(bound: Binding, task: Task, last: Manifest) -> Iterator[Manifest]:
    cores = last.cores
    for core in range(cores):
        found = read_last(bound.spec, task, last.batch, core, cores)
        if found is None:
            raise StateError(not_evaluated(bound.spec, task, last.batch, cores))
        check_one_course(found, last)
        yield found


class _Sources:
    """Where the rows of stream k lie: the manifests of the section whose flags the new core needs."""

    def __init__(
        self, bound: Binding, task: Task, manifests: list[Manifest], k: int, needing: Section
    ) -> None:
        self.bound, self.task, self.k = bound, task, k
        layouts = [Layout.from_json(data) for data in manifests[0].layouts]
        self.section = _source_section(len(layouts), needing.how, k)
        self.layout = layouts[self.section]
        cores, counted = self.layout.cores, self.layout.kind == "counted"
        self.dealt = self.layout.deals(bound.how.name, bound.many, k)
        by_number = bound.many or bound.spec.windows[k].rows is not None
        self.numbered = counted and (not self.dealt or by_number)
        # Where rows are counted and not dealt out, every core has all of them.
        several = not counted or self.dealt
        self.manifests = manifests[self.section * cores :][: cores if several else 1]
        self.rows = 0  # given so far

    def pieces(self) -> Iterator[pa.RecordBatch]:
        """Every stored row once, with its flag; with its number where the state counts rows."""
        for manifest in self.manifests:
            table = stored_table(self.bound, self.task, manifest, self.k)
            if self.numbered:
                core = manifest.core - self.section * self.layout.cores
                deal = Dealing(self.layout.cores, core) if self.dealt else Dealing()
                table = table.append_column(NUMBER, pa.array(_numbers(manifest, self.k, deal)))
            for piece in table.to_batches(max_chunksize=PIECE):
                once = piece
                if self.layout.copies:
                    guests = piece.column(GUEST).to_numpy(zero_copy_only=False)
                    once = piece.filter(pa.array(~guests)).drop_columns([GUEST])
                yield once
                self.rows += once.num_rows


def _source_section(sections: int, how: How, k: int) -> int:
    """Where the flags that a core of this join type needs lie: flags of a stream are right where that stream is at home."""
    if sections == 1:
        return 0
    return k if how.tracks(0) and how.tracks(1) else (0 if how.tracks(0) else 1)


def _numbers(manifest: Manifest, k: int, deal: Dealing) -> np.ndarray:
    """The arrival numbers over all cores of the rows in a manifest's sub-windows."""
    borders = manifest.numbers["subwindows"][k]
    own = np.concatenate([np.arange(base, end) for base, end in borders] or [np.empty(0, np.int64)])
    offset = manifest.numbers["counts"][k] - int(deal.below(manifest.counts[k]))
    return (own - offset) * deal.cores + deal.core


def _shares(bound: Binding, outlook: Outlook, core: int, k: int, sources: _Sources) -> Iterator[pa.Table]:
    """Of each piece, what the new layouts give the core; first of all nothing, which has the columns."""
    fields = [bound.schemas[k].field(name) for name in bound.columns[k]]
    kept = pa.schema([*fields, *sight_fields(bound, k), pa.field(DONE, pa.bool_())])
    counted, router = bound.spec.spread == "counted", Router(bound, outlook.layouts)
    if counted or sources.numbered:
        kept = kept.append(pa.field(NUMBER, pa.int64()))
    deal = dealings(bound, core)[k]
    yield kept.empty_table()
    for piece in sources.pieces():
        rows = piece
        if counted and not sources.numbered:
            rows = rows.append_column(NUMBER, pa.array(np.arange(rows.num_rows) + sources.rows))
        rows = _seen(bound, sources, k, rows)
        rows = _dealt(deal, rows) if counted else _routed(bound, router, core, k, rows)
        yield pa.Table.from_batches([rows.select(kept.names)], kept)


def _seen(bound: Binding, sources: _Sources, k: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Cores drop old rows of a Rows window at different times. What all have is what can still be seen."""
    window = bound.spec.windows[k]
    if window.rows is None:
        return rows
    oldest = window.lowest(sources.manifests[0].counts[k])
    return rows.filter(pa.array(rows.column(NUMBER).to_numpy() >= oldest))


def _dealt(deal: Dealing, rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(pa.array(rows.column(NUMBER).to_numpy() % deal.cores == deal.core))


def _routed(bound: Binding, router: Router, core: int, k: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The core's share; which of its rows are copies is told where the new layouts make some."""
    taken, copies = rows.slice(0, 0), None
    plain = rows.select(
        [name for name in rows.schema.names if name not in (DONE, NUMBER) and not name.startswith(EXTRA)]
    )
    for to, places, marks in router.shares(k, plain):
        if to == core:
            taken, copies = (rows if places is None else rows.take(pa.array(places))), marks
    if not bound.copies:
        return taken
    guests = np.zeros(taken.num_rows, np.bool_) if copies is None else copies
    return taken.append_column(pa.field(GUEST, pa.bool_()), pa.array(guests))


def _seen_anew(table: pa.Table, name: str, before: int, numbers: np.ndarray) -> pa.Table:
    """How many rows of a timed stream each row had seen, as this core numbers them now. Such a stream is whole on every core.

    ``before``: its rows that the old core had not numbered; ``numbers``: over all cores, of those that are here.
    """
    seen = np.searchsorted(numbers, table.column(name).to_numpy() + before)
    place = table.schema.get_field_index(name)
    return table.set_column(place, name, pa.array(seen.astype(np.int64)))


def _in_order(shares: list[pa.Table]) -> pa.Table:
    """Shares as one table, in order of arrival where that is known: merged a stretch at a time, as whole columns may be too large."""
    table = pa.concat_tables(shares)
    if NUMBER not in table.schema.names:
        return table
    numbers = [share.column(NUMBER).to_numpy() for share in shares]
    joined = np.concatenate(numbers)
    ordered = np.sort(joined)
    if np.array_equal(joined, ordered):
        return table.drop_columns([NUMBER])
    edges = [*ordered[:: _stretch(table)], np.iinfo(np.int64).max]
    stretches = [table.slice(0, 0)]
    for low, high in pairwise(edges):
        parts = []
        for share, own in zip(shares, numbers, strict=True):
            first, stop = np.searchsorted(own, (low, high))
            parts.append(share.slice(first, stop - first))
        part = pa.concat_tables(parts)
        order = np.argsort(part.column(NUMBER).to_numpy(), kind="stable")
        stretches.append(part.take(pa.array(order)))
    return pa.concat_tables(stretches).drop_columns([NUMBER])


def _borders(table: pa.Table) -> list[list[int]]:
    """Of new sub-windows."""
    rows, size = table.num_rows, _stretch(table)
    return [[start, min(start + size, rows)] for start in range(0, rows, size)]


def _stretch(table: pa.Table) -> int:
    """Rows of it that can well be one array."""
    return max(1, min(SUBWINDOW, BYTES * table.num_rows // max(table.nbytes, 1)))
