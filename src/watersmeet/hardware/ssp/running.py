"""Queries and rows through an SSP: ``run(fabric, queries, rows)`` gives results and cycles, and what the engine says.

What stays true: the engine (``wm.Processor`` with the same fabric) gets the same rows in the order in which the hardware takes them, and
the same changes of queries between the same rows; its assignment is what programs the hardware. Instructions come in by the same way as
rows, between them, so a change takes effect between two rows everywhere.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import FabricError, OptionError, WatersmeetError
from watersmeet.fabric.components import Brick, Entry, Exit, GSwitchL
from watersmeet.fabric.fabric import Fabric
from watersmeet.fabric.operator import operators_of
from watersmeet.hardware.prepared import Prepared, Results
from watersmeet.hardware.simulate import Session
from watersmeet.hardware.ssp.codes import Codes
from watersmeet.hardware.ssp.composing import Composer, decomposed, rows_of
from watersmeet.hardware.ssp.lowered import LAST, Lowered, words_of
from watersmeet.hardware.ssp.lowering import Lowering, entries_of
from watersmeet.hardware.ssp.processor import SSP
from watersmeet.hardware.ssp.sizes import Sizes
from watersmeet.hardware.ssp.words import ENDED
from watersmeet.query.processor import Processor
from watersmeet.streams.window import Window

Changes = Sequence[tuple[int, Mapping[str, str | None]]]


@dataclass
class Ran:
    """What came of a run. ``results`` and ``engine``: by query, its rows; an answer (of groups, or in an order) is what it is at the end.

    ``cycles``: from the first word to the last result; ``programming``: words of instructions among them; ``arrivals``: by query, the
    arrival numbers of each result's rows (of groups, none).
    """

    rows: int
    cycles: int
    simulator: str
    programming: int
    results: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    arrivals: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    engine: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    ordered: set[str] = field(default_factory=set)
    session: Any = None

    @property
    def agrees(self) -> bool:
        """Whether hardware and engine have the same results: in order where the query has one, else as a multiset."""
        return self.results.keys() == self.engine.keys() and all(
            rows == self.engine[name] if name in self.ordered else Counter(rows) == Counter(self.engine[name])
            for name, rows in self.results.items()
        )

    @property
    def cycles_a_row(self) -> float:
        """Cycles divided by rows that were taken."""
        return self.cycles / max(1, self.rows)


def run(
    fabric: Fabric,
    queries: Mapping[str, str],
    rows: Mapping[str, pa.Table],
    *,
    windows: Mapping[str, Window],
    order: Sequence[str] | None = None,
    changes: Changes = (),
    sizes: Sizes | None = None,
    simulator: str = "auto",
    pauses: int = 0,
    stalls: Iterable[bool] | None = None,
    cycles: int | None = None,
    watch: bool = False,
) -> Ran:
    """``rows`` through the hardware of ``fabric``, programmed with ``queries``.

    - ``order``: the stream of each row, in the order of arrival; by default streams are mixed evenly.
    - ``changes``: (n, {"name": text or None}): after n rows, queries that come (text) or go (None).
    - ``pauses``: cycles between two words that are offered, at least; ``stalls``: when the exit takes nothing, round and round.
    - ``cycles``: after so many it is given up. ``watch``: ``ran.session.watched()`` has levels of queues; it simulates more slowly.
    """
    sizes = sizes or Sizes()
    plan = _planned(fabric, queries, rows, windows, order, changes, sizes)
    sequence = plan.sequence
    design = SSP(fabric.topology, sizes)
    entry, out = _ends(fabric)
    words = plan.words
    session = Session(design, simulator, watch)
    if stalls is not None:
        session.stall(out, stalls)
    # Where ways meet, instructions and rows may overtake each other: then the host waits until all is quiet, after the program and before
    # the end of all streams.
    waits = [plan.programming, len(words) - 1] if _meets(fabric) else []
    bound = cycles or (40 + pauses) * len(words) + 64 * len(sequence) + 20_000  # nested loops take longer
    quiet = 2 * sizes.table + 2 * sizes.groups + 16 * _largest(fabric) + 500  # longer than any unit is silent
    for begin, end in pairwise([0, *waits, len(words)]):
        when = [session.cycle + k * (pauses + 1) for k in range(end - begin)] if pauses else None
        session.offer(entry, words[begin:end], when)
        if not session.settle(bound, quiet):
            raise WatersmeetError(
                f"all rows must be through within {bound} cycles; got {len(session.taken(entry))} of {len(words)} words taken; "
                "give more cycles"
            )
    given = session.given(out)
    last = max([*session.taken(entry)[-1:], *(cycle for cycle, _ in given[-1:])], default=-1)
    ran = Ran(len(sequence), last + 1, session.model.name, plan.programming, session=session)
    plan.compose(given, ran)
    return ran


def prepared(
    fabric: Fabric,
    queries: Mapping[str, str],
    rows: Mapping[str, pa.Table],
    *,
    windows: Mapping[str, Window],
    order: Sequence[str] | None = None,
    sizes: Sizes | None = None,
) -> Prepared:
    """The same, to be run by somebody else; where two ways meet, he has to wait until all is quiet after the program."""
    sizes = sizes or Sizes()
    plan = _planned(fabric, queries, rows, windows, order, (), sizes)
    design = SSP(fabric.topology, sizes)

    def composed(given: Sequence[tuple[int, int]]) -> Results:
        ran = Ran(len(plan.sequence), 0, "", plan.programming)
        plan.compose(given, ran)
        return ran.results

    return Prepared(
        design, *_ends(fabric), plan.words, plan.programming, design.wires(), composed, plan.engine
    )


def _planned(
    fabric: Fabric,
    queries: Mapping[str, str],
    rows: Mapping[str, pa.Table],
    windows: Mapping[str, Window],
    order: Sequence[str] | None,
    changes: Changes,
    sizes: Sizes,
) -> "_Programs":
    """All words that go in, and the engine's answer."""
    _check(fabric, changes)
    sequence = (
        list(order) if order is not None else mixed({name: table.num_rows for name, table in rows.items()})
    )
    if Counter(sequence) != Counter({name: table.num_rows for name, table in rows.items() if table.num_rows}):
        raise OptionError("order must name the stream of each row once; got another number of rows")
    every = [queries, *(change for _, change in changes)]
    texts = {text for some in every for query in some.values() for text in _literals(query or "")}
    plan = _Programs(fabric, rows, windows, sizes, sequence, texts)
    plan.change(queries)
    at = 0
    for after, change in changes:
        if not at <= after <= len(sequence):
            raise OptionError(
                f"changes must come in order, within the {len(sequence)} rows; got one after {after}"
            )
        plan.push(sequence[at:after])
        plan.change(change)
        at = after
    plan.push(sequence[at:])
    plan.end()
    return plan


def _ends(fabric: Fabric) -> tuple[str, str]:
    """The names of entry and exit."""
    entry = next(one.name for one in fabric.topology.components if isinstance(one, Entry))
    return entry, next(one.name for one in fabric.topology.components if isinstance(one, Exit))


def mixed(counts: Mapping[str, int]) -> list[str]:
    """Streams mixed evenly: row k of n comes at (k + 1/2) / n."""
    names = [name for name, count in counts.items() for _ in range(count)]
    when = np.concatenate(
        [(np.arange(count) + 0.5) / max(count, 1) for count in counts.values()] or [np.zeros(0)]
    )
    return [names[k] for k in np.argsort(when, kind="stable")]


def _check(fabric: Fabric, changes: Changes) -> None:
    kinds = Counter(type(one) for one in fabric.topology.components)
    if kinds[Entry] != 1 or kinds[Exit] != 1:
        raise FabricError(
            f"an SSP in hardware must have one entry and one exit; got {kinds[Entry]} and {kinds[Exit]} in {fabric.topology.name}"
        )
    if fabric.topology.holds:
        raise OptionError(
            "a fabric for SSP in hardware must hold windows of rows; got holding(), which is for windows of time; give its streams Rows(n)"
        )
    meets = _meets(fabric)
    if changes and meets:
        raise FabricError(
            f"queries can change while rows flow only where rows have one way"
            f"; got {meets[0]}, where two meet; give the queries at the beginning"
        )


def _largest(fabric: Fabric) -> int:
    """The largest window of a unit."""
    bricks = [one for one in fabric.topology.components if isinstance(one, Brick)]
    return max((unit.window for brick in bricks for unit in brick.units), default=0)


def _meets(fabric: Fabric) -> list[str]:
    """Switches where two ways meet."""
    wired = {link.target for link in fabric.topology.links}
    switches = [one for one in fabric.topology.components if isinstance(one, GSwitchL)]
    return [one.name for one in switches if all(f"{one.name}.{port}" in wired for port in one.inputs)]


class _Programs:
    """The words that go in, and what the engine says meanwhile."""

    def __init__(
        self,
        fabric: Fabric,
        rows: Mapping[str, pa.Table],
        windows: Mapping[str, Window],
        sizes: Sizes,
        sequence: Sequence[str],
        texts: set[str],
    ) -> None:
        self.tables, self.sequence = dict(rows), sequence
        self.qp = Processor(
            windows=windows, schemas={name: table.schema for name, table in rows.items()}, fabric=fabric
        )
        columns = {
            (name, column): table[column] for name, table in rows.items() for column in table.column_names
        }
        self.codes = Codes(columns, texts)
        self.lowering = Lowering(self.codes, sizes, len(sequence))
        self.positions: dict[str, list[int]] = {name: [] for name in rows}  # of each row among all
        for at, name in enumerate(sequence):
            self.positions[name].append(at)
        self.words: list[int] = []
        self.programming = 0
        self.before = Lowered()
        self.taken: Counter[str] = Counter()
        self.encoded: dict[str, tuple[int, list[list[int]]]] = {}
        self.answers: dict[str, bool] = {}
        self.composers: dict[int, list[tuple[str, Composer]]] = {}
        self.lives: dict[str, list[tuple[int, int | None]]] = {}  # from which row of all to which
        self.engine: dict[str, list[tuple[Any, ...]]] = {}
        self.ordered: set[str] = set()

    # ---- in -----------------------------------------------------------------------------------------------------

    def change(self, queries: Mapping[str, str | None]) -> None:
        now = self.taken.total()
        for name, text in queries.items():
            if text is None:
                self.qp.drop(name)
                self.lives[name][-1] = (self.lives[name][-1][0], now)
            else:
                self.lives.setdefault(name, []).append((now, None))
                self.qp.create(name, text)
                if self._is_answer(name):  # the whole answer, at the end
                    self.qp.drop(name)
                    self.qp.create(name, text, emit="complete")
                self.engine.setdefault(name, [])
        assignment = self.qp.fabric_assignment().assignment
        lowered = self.lowering.lower(assignment)
        words = words_of(lowered.after(self.before))
        self.before = lowered
        self.words += words
        self.programming += len(words)
        asked = {need.query: need for need in assignment.asked}
        for need in assignment.needs:
            if need.query not in queries:
                continue
            for wanted, root in zip(asked[need.query].roots, need.roots, strict=True):
                (number,) = {number for (flow, _), number in self.lowering.ids.items() if flow == root}
                composer = Composer(
                    wanted, root, self.lowering.flows[root], self.codes, self.tables, self._row_of
                )
                self.composers.setdefault(number, []).append((need.query, composer))
        self.entries = entries_of(self.lowering)

    def _is_answer(self, name: str) -> bool:
        assignment = self.qp.fabric_assignment().assignment
        (need,) = [one for one in assignment.asked if one.query == name]
        kinds = [op.kind for op in operators_of(need.roots)]
        self.answers[name] = "aggregation" in kinds or "order_by" in kinds
        if "order_by" in kinds:
            self.ordered.add(name)
        return self.answers[name]

    def push(self, sequence: Sequence[str]) -> None:
        if not sequence:
            return
        counts = Counter(sequence)
        push = {name: self.tables[name].slice(self.taken[name], n) for name, n in counts.items()}
        for name, result in self.qp.push(push, order=list(sequence)).items():
            if not self.answers[name]:
                self.engine[name] += [tuple(row.values()) for row in result.to_arrow().to_pylist()]
        at = dict(self.taken)
        for name in sequence:
            words = self._words(name)
            if words is not None:
                self.words += words[at.get(name, 0)]
            at[name] = at.get(name, 0) + 1
        self.taken.update(counts)

    def _words(self, name: str) -> list[list[int]] | None:
        """Of all rows of a stream; None if no query reads it."""
        found = [one for (stream, _), one in self.entries.items() if stream == name]
        if not found:
            return None
        number, layout = found[0]
        if name not in self.encoded or self.encoded[name][0] != len(layout.places):
            words = decomposed(name, number, layout, self.codes, self._numbers(name))
            self.encoded[name] = (len(layout.places), words)
        return self.encoded[name][1]

    def _numbers(self, name: str) -> np.ndarray:
        """Of the rows of a stream: in its own order of arrival, or that of all streams that pass a synchroniser."""
        if name not in self.lowering.tickets:
            return np.arange(self.tables[name].num_rows, dtype=np.int64)
        every = np.sort(np.concatenate([self.positions[one] for one in self.lowering.tickets]))
        return np.searchsorted(every, self.positions[name])

    def _row_of(self, name: str, number: int) -> int:
        if name not in self.lowering.tickets:
            return number
        return int(np.searchsorted(self._numbers(name), number))

    def end(self) -> None:
        self.words.append(ENDED << 64 | LAST)
        for name, result in self.qp.finish().items():
            rows = [tuple(row.values()) for row in result.to_arrow().to_pylist()]
            self.engine[name] = rows if self.answers[name] else self.engine[name] + rows

    # ---- out ----------------------------------------------------------------------------------------------------

    def compose(self, given: Iterable[tuple[int, int]], ran: Ran) -> None:
        ran.engine, ran.ordered = self.engine, self.ordered
        for name in self.engine:
            ran.results[name], ran.arrivals[name] = [], []
        for stream, bits in rows_of([word for _, word in given]):
            for name, composer in self.composers.get(stream, []):
                arrivals = composer.arrivals(bits)
                at = max((self.positions[of][number] for of, number in arrivals), default=None)
                if self._lived(name, at):
                    ran.results[name].append(composer.row(bits))
                    ran.arrivals[name].append(tuple(number for _, number in arrivals))

    def _lived(self, name: str, at: int | None) -> bool:
        """Whether a query was there when the last row of a result came; a group's result comes at the end."""
        lives = self.lives[name]
        if at is None:
            return lives[-1][1] is None
        return any(begin <= at and (end is None or at < end) for begin, end in lives)


def _literals(query: str) -> list[str]:
    """Texts in a query's text."""
    return [one.replace("''", "'") for one in re.findall(r"'((?:[^']|'')*)'", query)]
