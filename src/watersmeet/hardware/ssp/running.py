"""Queries and rows through an SSP: ``run(fabric, queries, rows)`` gives results and cycles, and what the engine says.

What stays true: the engine (``wm.Processor`` with the same fabric) gets the same rows in the order in which the hardware takes them, and
the same changes of queries between the same rows; its assignment is what programs the hardware. Instructions come in by the same way as
rows, between them, so a change takes effect between two rows everywhere.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import FabricError, OptionError
from watersmeet.fabric.components import Entry, Exit, GSwitchL
from watersmeet.fabric.fabric import Fabric
from watersmeet.fabric.operator import Flow, Operator, operators_of
from watersmeet.hardware.simulate import simulate
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
    trace: Any = None

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
    **stimulus: Any,
) -> Ran:
    """``rows`` through the hardware of ``fabric``, programmed with ``queries``.

    - ``order``: the stream of each row, in the order of arrival; by default streams are mixed evenly.
    - ``changes``: (n, {"name": text or None}): after n rows, queries that come (text) or go (None).
    - ``stimulus``: ``offers``, ``stalls``, ``cycles``, ``idle``, ``watch`` of ``simulate``; ``offers`` are by word.
    """
    sizes = sizes or Sizes()
    _check(fabric, changes)
    sequence = list(order) if order is not None else mixed({name: table.num_rows for name, table in rows.items()})
    if Counter(sequence) != Counter({name: table.num_rows for name, table in rows.items() if table.num_rows}):
        raise OptionError("order must name the stream of each row once; got another number of rows")
    plan = _Programs(fabric, rows, windows, sizes, len(sequence))
    plan.change(queries)
    at = 0
    for after, change in changes:
        if not at <= after <= len(sequence):
            raise OptionError(f"changes must come in order, within the {len(sequence)} rows; got one after {after}")
        plan.push(sequence[at:after])
        plan.change(change)
        at = after
    plan.push(sequence[at:])
    plan.end()
    design = SSP(fabric.topology, sizes)
    entry = next(one.name for one in fabric.topology.components if isinstance(one, Entry))
    out = next(one.name for one in fabric.topology.components if isinstance(one, Exit))
    words = plan.words
    cycles = stimulus.pop("cycles", 40 * len(words) + 64 * len(sequence) + 20_000)
    options = {name: {entry if name == "offers" else out: value} for name, value in stimulus.items() if name in ("offers", "stalls")}
    options |= {name: value for name, value in stimulus.items() if name not in ("offers", "stalls")}
    idle = options.pop("idle", 4 * sizes.table + 2 * sizes.groups + 2000)
    trace = simulate(design, {entry: words}, simulator=simulator, cycles=cycles, idle=idle, **options)
    ran = Ran(len(sequence), trace.cycles, trace.simulator, plan.programming, trace=trace)
    plan.compose(trace.given[out], ran)
    return ran


def mixed(counts: Mapping[str, int]) -> list[str]:
    """Streams mixed evenly: row k of n comes at (k + 1/2) / n."""
    names = [name for name, count in counts.items() for _ in range(count)]
    when = np.concatenate([(np.arange(count) + 0.5) / max(count, 1) for count in counts.values()] or [np.zeros(0)])
    return [names[k] for k in np.argsort(when, kind="stable")]


def _check(fabric: Fabric, changes: Changes) -> None:
    kinds = Counter(type(one) for one in fabric.topology.components)
    if kinds[Entry] != 1 or kinds[Exit] != 1:
        raise FabricError(
            f"an SSP in hardware must have one entry and one exit; got {kinds[Entry]} and {kinds[Exit]} in {fabric.topology.name}"
        )
    wired = {link.target for link in fabric.topology.links}
    meets = [one.name for one in fabric.topology.components if isinstance(one, GSwitchL) and all(f"{one.name}.{port}" in wired for port in one.inputs)]
    if changes and meets:
        raise FabricError(
            f"queries can change while rows flow only where rows have one way; got {meets[0]}, where two meet; give the queries at the beginning"
        )


class _Programs:
    """The words that go in, and what the engine says meanwhile."""

    def __init__(self, fabric: Fabric, rows: Mapping[str, pa.Table], windows: Mapping[str, Window], sizes: Sizes, count: int) -> None:
        self.tables, self.fabric = dict(rows), fabric
        self.qp = Processor(windows=windows, schemas={name: table.schema for name, table in rows.items()}, fabric=fabric)
        self.columns = {(name, column): table[column] for name, table in rows.items() for column in table.column_names}
        self.sizes, self.count = sizes, count
        self.words: list[int] = []
        self.programming = 0
        self.lowering: Lowering | None = None
        self.before = Lowered()
        self.taken: Counter[str] = Counter()
        self.encoded: dict[str, tuple[int, list[list[int]]]] = {}
        self.answers: dict[str, bool] = {}
        self.composers: dict[int, list[tuple[str, Composer]]] = {}
        self.engine: dict[str, list[tuple[Any, ...]]] = {}
        self.ordered: set[str] = set()
        self.texts: set[str] = set()
        self.finished: dict[str, Any] = {}

    # ---- in -----------------------------------------------------------------------------------------------------

    def change(self, queries: Mapping[str, str | None]) -> None:
        for name, text in queries.items():
            if text is None:
                self.qp.drop(name)
            else:
                self.qp.create(name, text)
                if self._is_answer(name):  # the whole answer, at the end
                    self.qp.drop(name)
                    self.qp.create(name, text, emit="complete")
                self.engine[name] = []
        assignment = self.qp.fabric_assignment().assignment
        if self.lowering is None:
            texts = _texts(need.roots for need in assignment.needs)
            used = _columns(assignment)
            self.codes = Codes({key: column for key, column in self.columns.items() if key in used or True}, texts)
            self.lowering = Lowering(self.codes, self.sizes, self.count)
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
                composer = Composer(wanted, root, self.lowering.flows[root], self.codes, self.tables)
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
            words = decomposed(name, number, layout, self.codes, self.tables[name].num_rows)
            self.encoded[name] = (len(layout.places), words)
        return self.encoded[name][1]

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
                ran.results[name].append(composer.row(bits))
                ran.arrivals[name].append(composer.arrivals(bits))


def _texts(roots: Iterable[Iterable[Flow]]) -> set[str]:
    """Constants that are texts, everywhere in some plans."""
    found = set()
    for some in roots:
        for op in operators_of(some):
            constants = [term.constant for term in op.terms]
            codes = [*op.code, *(output.code for output in op.outputs)]
            constants += [token.constant for code in codes for token in code]
            found |= {one.raw.decode() for one in constants if one is not None and one.kind == "text"}
    return found


def _columns(assignment: Any) -> set[tuple[str, str]]:
    return {(one.leaf.split("#")[0], one.name) for op in assignment.placed for one in op.attributes if isinstance(op, Operator)}
