"""Stored rows on other cores: another number of cores, another way of spreading, or borders that have moved.

The new state of a core is a pure function of all manifests of the batch before: every core reads all of them, and takes what the new
layout gives it. Nothing is changed where the rows lay before, so that a batch can be tried again.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.batch import one_batch
from watersmeet.errors import StateError
from watersmeet.outer import join_type
from watersmeet.snapshot import DONE
from watersmeet.spark.layout import Dealing, Layout, Router
from watersmeet.spark.live import LiveCore
from watersmeet.spark.manifests import Manifest, missing_cores, operator_folder, read_last
from watersmeet.spark.planning import Outlook
from watersmeet.spark.saving import stored_table
from watersmeet.spark.spec import GUEST, Binding
from watersmeet.spark.task import Task
from watersmeet.window import Rows

NUMBER = "__number"  # arrival number over all cores, where rows are counted


def rebucketed(bound: Binding, task: Task, core: int, last: Manifest, outlook: Outlook) -> LiveCore:
    """A core with the rows that the new layouts give it; ``last``: a manifest of the set to read from."""
    live = LiveCore(bound, core)
    manifests = list(_all(bound, task, last))
    tables, totals = {}, list(last.counts)
    for k in (0, 1):
        rows = _home_rows(bound, task, manifests, k, live)
        if bound.spec.spread == "counted" and NUMBER not in rows.schema.names:
            rows = rows.append_column(NUMBER, pa.array(np.arange(rows.num_rows)))
            totals[k] = rows.num_rows
        tables[k] = _mine(bound, outlook, live, k, rows, totals[k])
    numbers = {
        **last.numbers,
        "counts": [tables[k].num_rows for k in (0, 1)],
        "subwindows": [_borders(tables[k].num_rows) for k in (0, 1)],
    }
    live.restore(
        numbers, totals if bound.spec.spread == "counted" else numbers["counts"], tables, last.habits
    )
    if live.number == live.section.first == 0:  # the totals go on in one place
        live.late = [sum(manifest.late[k] for manifest in manifests) for k in (0, 1)]
    return live


def _all(bound: Binding, task: Task, last: Manifest) -> Iterator[Manifest]:
    cores = last.cores
    for core in range(cores):
        found = read_last(bound.spec, task, last.batch, core, cores)
        if found is None:
            absent = missing_cores(bound.spec, task, last.batch, cores)
            raise StateError(
                f"rows can be spread anew only from a complete batch; got batch {last.batch} without cores "
                f"{', '.join(map(str, absent))} of {cores} in {operator_folder(bound.spec, task)}; do: restore the "
                "missing files from a copy"
            )
        yield found


def _home_rows(bound: Binding, task: Task, manifests: list[Manifest], k: int, live: LiveCore) -> pa.Table:
    """Every stored row of stream k once, with its flag as the live core's section needs it."""
    old = [Layout.from_json(data) for data in manifests[0].layouts]
    sections = len(old)
    per = manifests[0].cores // sections
    section = _source_section(sections, live, k)
    homes = _homes(bound.how.name, sections)
    counted = old[section].kind == "counted"
    dealt = counted and (bound.how.name == "inner" or k == homes[section])
    numbered = counted and (not dealt or isinstance(bound.spec.windows[k], Rows))
    parts = []
    for manifest in manifests[section * per : (section + 1) * per]:
        core = manifest.core - section * per
        if counted and not dealt and core:
            continue  # every core has all rows of this stream
        table = stored_table(bound, task, manifest, k)
        if GUEST in table.schema.names and old[section].kind == "buckets":
            guests = table.column(GUEST).to_numpy()
            table = table.filter(pa.array(~guests))
        if numbered:
            numbers = _numbers(manifest, k, Dealing(per, core) if dealt else Dealing())
            table = table.append_column(NUMBER, pa.array(numbers))
        parts.append(table)
    return pa.concat_tables(parts)


def _homes(how: str, sections: int) -> list[int]:
    if sections == 2:
        return [0, 1]
    kind = join_type(how)
    return [kind.unmatched[0] if kind.unmatched else (kind.semi or 0)]


def _source_section(sections: int, live: LiveCore, k: int) -> int:
    """Where the flags that the live core needs lie: flags of a stream are right where that stream is at home."""
    if sections == 1:
        return 0
    how = live.section.how
    return k if how.tracks(0) and how.tracks(1) else (0 if how.tracks(0) else 1)


def _numbers(manifest: Manifest, k: int, deal: Dealing) -> np.ndarray:
    """The arrival numbers over all cores of the rows in a manifest's sub-windows."""
    borders = manifest.numbers["subwindows"][k]
    own = np.concatenate([np.arange(base, end) for base, end in borders] or [np.empty(0, np.int64)])
    offset = manifest.numbers["counts"][k] - int(deal.below(manifest.counts[k]))
    return (own - offset) * deal.cores + deal.core


def _mine(bound: Binding, outlook: Outlook, live: LiveCore, k: int, rows: pa.Table, total: int) -> pa.Table:
    """The rows that the new layouts give the live core, in order of arrival; ``total``: how many have arrived, where they are counted."""
    window = bound.spec.windows[k]
    if NUMBER in rows.schema.names:
        numbers = rows.column(NUMBER).to_numpy()
        if isinstance(window, Rows) and numbers.size:
            # Cores drop old rows at different times. What all have is what can still be seen.
            seen = numbers >= total - window.n
            rows, numbers = rows.filter(pa.array(seen)), numbers[seen]
        rows = rows.take(pa.array(np.argsort(numbers, kind="stable")))
        if bound.spec.spread == "counted":
            deal = live.dealing[k]
            mine = np.sort(rows.column(NUMBER).to_numpy()) % deal.cores == deal.core
            return rows.filter(pa.array(mine)).drop_columns([NUMBER])
        rows = rows.drop_columns([NUMBER])
    plain = rows.drop_columns([name for name in (GUEST,) if name in rows.schema.names])
    batch = one_batch(plain)
    for core, places, copies in Router(bound, outlook.layouts).shares(k, batch.drop_columns([DONE])):
        if core == live.number:
            taken = plain if places is None else plain.take(pa.array(places))
            return _flagged(bound, k, taken, copies)
    return _flagged(bound, k, plain.slice(0, 0), None)


def _flagged(bound: Binding, k: int, table: pa.Table, copies: np.ndarray | None) -> pa.Table:
    """With the column that marks copies where it belongs: before the flags."""
    if not bound.copies:
        return table
    guests = np.zeros(table.num_rows, np.bool_) if copies is None else copies
    place = table.schema.get_field_index(DONE)
    return table.add_column(place, pa.field(GUEST, pa.bool_()), pa.array(guests))


SUBWINDOW = 1 << 17


def _borders(rows: int) -> list[list[int]]:
    return [[start, min(start + SUBWINDOW, rows)] for start in range(0, rows, SUBWINDOW)]
