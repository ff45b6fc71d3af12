"""Queries, a fabric and rows in; results and cycles out.

What stays true: the order of the script is the order in which the hardware takes rows and instructions, and the processor in software gets
the same script; so the two must give the same results, whatever stalls. A result belongs to the query that had its stream when the last
of its rows came.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from watersmeet.errors import FabricError, OptionError
from watersmeet.fabric.fabric import Fabric
from watersmeet.fabric.operator import Operator
from watersmeet.fabric.program import Program, program_of
from watersmeet.hardware.fqp.changes import FENCE, Loaded, changes, loaded, words_of
from watersmeet.hardware.fqp.codes import BITS, Codes
from watersmeet.hardware.fqp.processor import Fqp, lanes_of
from watersmeet.hardware.fqp.words import WORD
from watersmeet.hardware.ports import pack, unpack
from watersmeet.hardware.prepared import Prepared, Results
from watersmeet.hardware.simulate import Trace, simulate
from watersmeet.query.processor import Processor
from watersmeet.streams.window import Rows

Step = str | tuple[str, Mapping[str, Any]]
SIZES = {"operators": 4, "terms": 8, "attributes": 16, "columns": 4, "queue": 32, "streams": 8}


@dataclass(frozen=True)
class Answer:
    """What a fabric in hardware has given for a script, and what the processor in software gives."""

    results: Mapping[str, list[dict[str, Any]]]  # by query
    expected: Mapping[str, list[dict[str, Any]]]
    rows: int
    instructions: int  # words of instructions
    cycles: int
    taken: Sequence[
        int | None
    ]  # by row of the script, the cycle at which its first word was taken; None: no query reads it
    numbers: Sequence[
        tuple[int, ...]
    ]  # of each result that left, the arrival numbers: of lane R, then of lane S
    trace: Trace = field(repr=False, compare=False)
    design: Fqp = field(repr=False, compare=False)

    @property
    def agrees(self) -> bool:
        """Whether both are the same, as multisets."""
        return not self.missing and not self.extra

    @property
    def cycles_a_row(self) -> float:
        return self.cycles / max(1, self.rows)

    @cached_property
    def missing(self) -> Counter[Any]:
        """What only the software has given."""
        return _counted(self.expected) - _counted(self.results)

    @cached_property
    def extra(self) -> Counter[Any]:
        """What only the hardware has given."""
        return _counted(self.results) - _counted(self.expected)


def run(
    fabric: Fabric,
    script: Iterable[Step],
    *,
    schemas: Mapping[str, Any],
    windows: Mapping[str, Rows],
    simulator: str = "auto",
    stalls: Iterable[bool] | None = None,
    offers: Sequence[int] | None = None,
    cycles: int = 1_000_000,
    watch: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> Answer:
    """Run a script on a fabric of OP-Blocks, cycle by cycle.

    A step of the script is a row, ``("trades", {"price": 3})``, or a statement, ``"CREATE QUERY q AS SELECT ..."``, ``"DROP QUERY q"``, or
    ``("+trades", {"venue": pa.string()})``: the stream has more columns from then on. ``stalls``: when the results' port is not ready,
    ``offers``: the earliest cycle of each word. ``sizes``: of the design, where the smallest that the script needs are not wanted.
    """
    made = _played(fabric, script, schemas, windows)
    own = made.sizes(sizes or {})
    words = made.words(own["queue"])
    design = Fqp(fabric.topology, **own)
    trace = simulate(
        design,
        {"chunks": words},
        offers=None
        if offers is None
        else {"chunks": [*offers[: len(words)], *[0] * (len(words) - len(offers))]},
        stalls=None if stalls is None else {"results": stalls},
        cycles=cycles,
        simulator=simulator,
        watch=watch,
    )
    results, numbers = made.results([payload for _, payload in trace.given["results"]])
    taken = [None if at is None else trace.taken["chunks"][at] for at in made.starts]
    return Answer(
        results, made.expected, len(made.rows), made.coded, trace.cycles, taken, numbers, trace, design
    )


def prepared(
    fabric: Fabric, script: Iterable[Step], *, schemas: Mapping[str, Any], windows: Mapping[str, Rows]
) -> Prepared:
    """The same, to be run by somebody else, on the smallest design that the script needs."""
    made = _played(fabric, script, schemas, windows)
    own = made.sizes({})
    words = made.words(own["queue"])
    design = Fqp(fabric.topology, **own)

    def composed(given: Sequence[tuple[int, int]]) -> Results:
        payloads = [payload for _, payload in given]
        while payloads and not unpack(WORD, payloads[-1])["last"]:
            payloads.pop()  # the rest of this row is still inside
        return _rows(made.results(payloads)[0])

    return Prepared(
        design, "chunks", "results", words, made.coded, design.wires(), composed, _rows(made.expected)
    )


def _rows(results: Mapping[str, list[dict[str, Any]]]) -> Results:
    return {name: [tuple(row.values()) for row in rows] for name, rows in results.items()}


def _played(
    fabric: Fabric, script: Iterable[Step], schemas: Mapping[str, Any], windows: Mapping[str, Rows]
) -> "_Script":
    made = _Script(fabric, schemas, windows)
    for step in script:
        made.step(step)
    return made


class _Script:
    """What a script is for the hardware, and what the software says to it."""

    def __init__(self, fabric: Fabric, schemas: Mapping[str, Any], windows: Mapping[str, Rows]) -> None:
        self.lanes = lanes_of(fabric.topology)
        for name, window in windows.items():
            if not isinstance(window, Rows):
                raise OptionError(
                    f"windows on FQP must be Rows(n), slots for n rows; got {window!r} for {name!r}"
                )
        if fabric.topology.holds:
            raise OptionError(
                "a fabric for FQP must hold windows of rows; got holding(), which is for windows of time"
            )
        self.qp = Processor(windows=dict(windows), schemas=schemas, fabric=fabric)
        self.schemas = {stream: dict(_fields(schema)) for stream, schema in schemas.items()}
        self.codes = Codes()
        self.parts: list[tuple[Loaded | None, list[int] | tuple[str, list[tuple[int, Any]]]]] = []
        self.rows: list[tuple[str, Loaded | None]] = []
        self.counts: Counter[str] = Counter()
        self.places: dict[tuple[str, int], int] = {}  # by stream and arrival number, the place among all rows
        self.expected: dict[str, list[dict[str, Any]]] = {}
        self.starts: list[int | None] = []
        self.coded = 0
        self.all: list[Loaded] = []
        self.program: Program | None = None
        self.loaded: Loaded | None = None
        self.kinds: dict[tuple[int, int], list[tuple[str, int, pa.DataType]]] = {}

    def step(self, step: Step) -> None:
        if isinstance(step, str):
            self.qp.execute(step)
            self._programmed()
            return
        stream, values = step
        if stream.startswith("+"):
            self.qp.alter_stream(stream[1:], add=values)
            self.schemas[stream[1:]] |= dict(_fields(values))
            return
        given = self.qp.push({stream: pa.Table.from_pylist([dict(values)], schema=self._schema(stream))})
        for query, result in given.items():
            self.expected.setdefault(query, []).extend(result.to_arrow().to_pylist())
        number = self.counts[stream]
        self.counts[stream] += 1
        self.places[stream, number] = len(self.rows)
        self.rows.append((stream, self.loaded))
        now = self.loaded
        columns = now.columns.get(stream, ()) if now else ()
        kinds = self.schemas[stream]
        sent: list[tuple[int, Any]] = []
        for one in columns:
            assert now is not None
            name = now.program.attributes[one - 1].name
            value = values.get(name)
            sent.append((one, None if value is None else self.codes.code(kinds[name], value)))
        self.parts.append((now, (stream, [(-1, number), *sent])))

    def _schema(self, stream: str) -> pa.Schema:
        return pa.schema(list(self.schemas[stream].items()))

    def _programmed(self) -> None:
        assignment = self.qp.fabric_assignment().assignment
        if any(op.kind == "join" for op in assignment.moved):
            raise FabricError(
                "a join on FQP must stay where it holds its rows; got a change that moves one; use a larger fabric, or create the queries"
                " in another order"
            )
        before = self.loaded
        self.program = program_of(assignment, self.program)
        self.loaded = loaded(assignment, self.program, self.codes, self.schemas)
        self.all.append(self.loaded)
        words = words_of(changes(before, self.loaded))
        self.coded += len(words)
        self.parts.append((self.loaded, words))
        for need in assignment.needs:
            for root in need.roots:
                self._shown(root, self.loaded)

    def _shown(self, root: Any, now: Loaded) -> None:
        """Of what leaves, the columns."""
        if not isinstance(root, Operator) or root.kind != "projection":
            raise FabricError(f"a query on FQP must select columns; got {root}; run it without hardware")
        numbers = {(one.leaf, one.name): at for at, one in enumerate(now.program.attributes, start=1)}
        found = []
        for output in root.outputs:
            attribute = output.code[0].attribute
            assert attribute is not None
            number = numbers[attribute.leaf, attribute.name]
            found.append((output.name, number, self.schemas[attribute.leaf][attribute.name]))
        self.kinds[id(now), now.program.flows[root, ""]] = found

    # ---- in -------------------------------------------------------------------------------------------------------

    def sizes(self, given: Mapping[str, int]) -> dict[str, int]:
        """The smallest design, from the default on, that all programs fit; refused if it was given too small."""
        need = dict.fromkeys(SIZES, 1)
        for one in self.all:
            blocks = Counter(b_id for b_id, _ in one.operators)
            terms: Counter[int] = Counter()
            for (b_id, _), (_, own) in one.operators.items():
                terms[b_id] += sum(chunk.tag == "term" for chunk in own.body)
            need["operators"] = max(need["operators"], *blocks.values(), 1)
            need["terms"] = max(need["terms"], *terms.values(), 1)
            need["attributes"] = max(need["attributes"], 1 << len(one.program.attributes).bit_length())
            need["columns"] = max(need["columns"], *map(len, one.columns.values()), 1)
            need["queue"] = max(need["queue"], *one.lanes.values(), 1)
            need["streams"] = max(need["streams"], *Counter(b_id for b_id, _ in one.switches).values(), 1)
        for name, value in given.items():
            if name not in need:
                raise OptionError(f"a size of FQP must be one of {', '.join(need)}; got {name!r}")
            if value < need[name]:
                raise OptionError(f"{name} must be at least {need[name]} for these queries; got {value}")
        return {name: max(need[name], SIZES[name]) for name in need} | dict(given)

    def words(self, queue: int) -> list[int]:
        """All words in order. Where operators put rows into lanes, no more is on its way at once than a queue holds."""
        words: list[int] = []
        streak = 0
        before = ""
        for now, part in self.parts:
            if isinstance(part, list):
                words += part
                before = ""
                continue
            stream, segments = part
            inputs = [one for one in now.program.inputs if one[1] == stream] if now else []
            self.starts.append(len(words) if inputs else None)
            for number, _, entry in inputs:
                room = queue // now.lanes[number] if now and number in now.lanes else 0
                streak = streak + 1 if stream == before else 1
                if room and streak > room:
                    words += words_of([FENCE])
                    streak = 1
                words += self._row(number, self.lanes[entry] == "s", segments)
            before = stream
        return words

    @staticmethod
    def _row(stream: int, by_s: bool, segments: Sequence[tuple[int, Any]]) -> list[int]:
        found = []
        for at, (attribute, code) in enumerate(segments):
            field = {
                "id": stream if at == 0 else attribute,
                "data": 0 if code is None else code & (1 << BITS) - 1,
                "mark": code is None,
                "last": at == len(segments) - 1,
                "s": by_s,
            }
            found.append(pack(WORD, field))
        return found

    # ---- out ------------------------------------------------------------------------------------------------------

    def results(
        self, payloads: Sequence[int]
    ) -> tuple[dict[str, list[dict[str, Any]]], list[tuple[int, ...]]]:
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in self.expected}
        numbers, row = [], []
        for payload in payloads:
            row.append(unpack(WORD, payload))
            if row[-1]["last"]:
                numbers.append(self._result(row, found))
                row = []
        if row:
            raise FabricError(f"results must leave whole; got {len(row)} words without an end")
        return found, numbers

    def _result(self, row: list[dict[str, int]], found: dict[str, list[dict[str, Any]]]) -> tuple[int, ...]:
        first, *segments = row
        stream, both = first["id"], (first["data"] & (1 << 32) - 1, first["data"] >> 32)
        now, numbers = self._when(stream, both)
        values = {one["id"]: one for one in segments}
        for query, streams in now.program.results.items():
            if stream in streams:
                shown = self.kinds[id(now), stream]
                found.setdefault(query, []).append(
                    {name: self._value(values, at, kind) for name, at, kind in shown}
                )
        return numbers

    def _value(self, values: Mapping[int, dict[str, int]], number: int, kind: pa.DataType) -> Any:
        one = values.get(number)
        if one is None or one["mark"]:
            return None
        code = one["data"] - (1 << BITS) if one["data"] >> BITS - 1 else one["data"]
        return self.codes.value(kind, code)

    def _when(self, stream: int, both: tuple[int, int]) -> tuple[Loaded, tuple[int, ...]]:
        """The program that was in force when the last of a result's rows came: the latest that says so of itself."""
        for now in reversed(self.all):
            lanes = _sources(now, stream)
            if not lanes:
                continue
            numbers = both if len(lanes) == 2 else both[:1]
            place = max(
                (self.places.get((name, number), -1) for name, number in zip(lanes, numbers, strict=True)),
                default=-1,
            )
            if place >= 0 and self.rows[place][1] is now:
                return now, numbers
        raise FabricError(f"a result must be of rows that were sent; got stream {stream} with numbers {both}")


def _sources(now: Loaded, stream: int) -> tuple[str, ...]:
    """The streams that rows of a stream-ID are made of: one, or those of lanes R and S."""
    names = {number: name for number, name, _ in now.program.inputs}
    if stream in names:
        return (names[stream],)
    for _, one in now.operators.values():
        if one.out != stream:
            continue
        if one.inst != "join":
            return _sources(now, one.stream)
        lanes = {chunk.condition: chunk.other for chunk in one.body if chunk.tag == "window"}
        return (*_sources(now, lanes["r"]), *_sources(now, lanes["s"]))
    return ()


def _fields(schema: Any) -> Iterable[tuple[str, pa.DataType]]:
    return zip(schema.names, schema.types, strict=True) if isinstance(schema, pa.Schema) else schema.items()


def _counted(results: Mapping[str, list[dict[str, Any]]]) -> Counter[Any]:
    return Counter((query, tuple(row.items())) for query, rows in results.items() for row in rows)
