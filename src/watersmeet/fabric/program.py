"""The instructions that program a fabric, as plain data: those of the thesis (4.1.2, 5.5, 7.2.7), made from an assignment.

Streams, columns and blocks are numbers here; a program knows their names. Stream-ID 0 marks an instruction for a block, 1 one for
the network, 2 is the end of all streams, the last one marks further segments of a row (7.2.6, 7.2.7); rows have the others.

Where the thesis is silent: results of an operator are a stream with an ID of its own, so that rows before and after a selection can pass
the same switch; a reset says by which ports the results of one operator leave, as a mask (4.1.1 says always to the right, 4.1.4 also to
the left); rows carry their arrival numbers, 32 bits a stream, by which windows expire and columns are put back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from watersmeet.errors import FabricError
from watersmeet.fabric.assignment import Assignment
from watersmeet.fabric.components import Brick
from watersmeet.fabric.operator import Attribute, Code, Constant, Flow, Operator, Stream, Term
from watersmeet.fabric.routes import END, Key, Routes, routes_of
from watersmeet.fabric.segments import segments_of

BLOCK, NETWORK, ENDED, FIRST = 0, 1, 2, 3  # stream-IDs
LAST = (1 << 12) - 1
INSTS = (
    "gswitch_l", "gswitch_d", "lswitch", "reset", "selection", "projection", "join", "aggregation", "order_by", "synchronise",
)  # fmt: skip
POLICIES = ("r_out", "s_out", "result")
TAGS = (
    "mask", "input", "share", "term", "condition", "output", "column", "constant", "call", "window", "key", "probe",
)  # fmt: skip


@dataclass(frozen=True)
class Chunk:
    """A further chunk of an instruction. Which fields it has is decided by its tag:

    - ``mask``: of ways out (``constant``). ``input``: stream (``other``), lane (``condition``: "r", "s" or ""), rows held (``constant``).
    - ``share``: this core's place (``attribute``) among all (``other``).
    - ``window``: of a join in OP-Blocks: stream (``other``), lane (``condition``), rows held (``attribute``; if 0, the constant has three
      numbers of 32 bits: the first slot that is held here, how many, and how many slots the window has in all).
    - ``term``: attribute, condition, other attribute, constant; function "key": the one by which a join looks at what it holds, a column of
      each stream. ``condition``, ``output``: so many steps follow (``attribute``), the
      output's function.
    - ``column``, ``constant``, ``call``: a step of postfix code; of a call the name is the constant, and ``attribute`` how many values it
      takes.
    - ``key``, ``probe``: of a join in hardware, by what a window is hashed, and in which order windows are searched (``hardware/ssp``).
    """

    tag: str
    attribute: int = 0
    condition: str = ""
    other: int = 0
    function: str = ""
    constant: Constant | None = None


@dataclass(frozen=True)
class Instruction:
    """For the block with this B-ID. ``port``: the mask of ways out of a GSwitch-L or of results; ``lane``: "s" if rows come from the
    right.
    """

    inst: str
    b_id: int
    stream: int
    out: int = 0
    port: int = 0
    segments: int = 0
    lane: str = ""
    body: tuple[Chunk, ...] = ()


@dataclass(frozen=True)
class Program:
    """Instructions, in the order in which they are sent, and what their numbers mean. Attribute n is ``attributes[n - 1]``."""

    instructions: tuple[Instruction, ...]
    blocks: Mapping[int, str]
    streams: Mapping[int, str]
    attributes: tuple[Attribute, ...]
    inputs: tuple[
        tuple[int, str, str], ...
    ] = ()  # stream-ID, stream and entry of what comes in; "": the end of all
    results: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # the streams that are each query's
    flows: Mapping[Key, int] = field(
        default_factory=dict
    )  # the stream-ID of each flow, also of those that are gone


def program_of(assignment: Assignment, before: Program | None = None) -> Program:
    """The program of an assignment. What ``before``, which runs, has a number for keeps it, so that only what has changed is sent."""
    return _Programming(assignment, before).program()


class _Programming:
    def __init__(self, assignment: Assignment, before: Program | None) -> None:
        self.assignment, self.topology = assignment, assignment.topology
        self.routes: Routes = routes_of(assignment)
        self.known = known = before.flows if before is not None else {}
        kept = {key: number for key, number in known.items() if key in self.routes.flows}
        numbers = count(
            max((FIRST - 1, *known.values())) + 1
        )  # results that are on their way keep their meaning
        self.ids: dict[Key, int] = {}
        for key in self.routes.flows:
            self.ids[key] = ENDED if key[0] == END else kept[key] if key in kept else next(numbers)
        if max(self.ids.values(), default=0) >= LAST:
            raise FabricError(
                f"a fabric must have at most {LAST - FIRST} flows, as a stream-ID has 12 bits; got {len(self.ids)}; "
                "drop queries, or use several fabrics"
            )
        self.attributes: dict[tuple[str, str], int] = {}
        self.columns: list[Attribute] = []
        for attribute in before.attributes if before is not None else ():
            self._attribute(attribute)
        self.segments = segments_of(assignment)

    def program(self) -> Program:
        network = [*self._switches(), *self._local_switches()]
        blocks = [one for op in self.assignment.placed for one in self._operator(op)]
        instructions = sorted(network, key=lambda one: (one.b_id, one.stream)) + sorted(
            blocks, key=lambda one: one.b_id
        )
        numbers: dict[Flow, list[int]] = {}
        for (flow, _), number in self.ids.items():
            numbers.setdefault(flow, []).append(number)
        results = {
            need.query: tuple(number for root in dict.fromkeys(need.roots) for number in numbers[root])
            for need in self.assignment.needs
        }
        return Program(
            tuple(instructions),
            {number: place for place, number in self.topology.block_ids.items()},
            {number: _flow_text(key) for key, number in self.ids.items()},
            tuple(self.columns),
            tuple(
                (number, flow.name, entry)
                for (flow, entry), number in self.ids.items()
                if isinstance(flow, Stream)
            ),
            results,
            {**self.known, **self.ids},
        )

    # ---- network ------------------------------------------------------------------------------------------------

    def _switches(self) -> list[Instruction]:
        found = []
        for (name, key), ports in self.routes.switches.items():
            component = self.topology.named[name]
            mask = _mask(list(component.outputs), ports)
            b_id, stream = self.topology.block_ids[name], self.ids[key]
            if component.kind == "gswitch_l":
                found.append(
                    Instruction("gswitch_l", b_id, stream, port=mask, segments=self.segments.get(key[0], 1))
                )
            else:
                found.append(
                    Instruction("gswitch_d", b_id, stream, body=(Chunk("mask", constant=_number(mask)),))
                )
        return found

    def _local_switches(self) -> list[Instruction]:
        found = []
        for (name, key), units in self.routes.bricks.items():
            brick = self.topology.named[name]
            assert isinstance(brick, Brick)
            mask = _mask([unit.name for unit in brick.units], units)
            body = (Chunk("mask", constant=_number(mask)),)
            found.append(Instruction("lswitch", self.topology.block_ids[name], self.ids[key], body=body))
        for place, keys in self.routes.synchronised.items():
            inputs = tuple(Chunk("input", other=self.ids[key], constant=_number(0)) for key in keys)
            found.append(
                Instruction("synchronise", self.topology.block_ids[place], self.ids[keys[0]], body=inputs)
            )
        return found

    # ---- operators ----------------------------------------------------------------------------------------------

    def _operator(self, op: Operator) -> list[Instruction]:
        """What programs the slots of an operator: where its results leave, then what it does."""
        found, slots = [], self.assignment.placed[op].slots
        inputs = self.routes.inputs[op]
        key: Key = (op, "")
        out = self.ids.get(key, 0)  # 0: nobody reads it
        body = self._body(op)
        for at, place in enumerate(slots):
            b_id = self.topology.block_ids[place]
            ports = self.routes.policies.get((place, key), [])
            found.append(Instruction("reset", b_id, out, port=_mask(list(POLICIES), ports)))
            shares = self._shares(op, at)
            found.append(
                Instruction(
                    op.kind, b_id, self.ids[inputs[0][0]], out, lane=inputs[0][1], body=(*shares, *body)
                )
            )
        return found

    def _shares(self, op: Operator, at: int) -> list[Chunk]:
        """Of a join, which share of each stream the slot at this place stores; of others, which further streams they read."""
        placement, inputs = self.assignment.placed[op], self.routes.inputs[op]
        if op.kind == "order_by":
            return [
                Chunk("input", condition=lane, other=self.ids[key], constant=_number(op.windows[0] or 0))
                for key, lane in inputs
            ]
        if op.kind != "join":  # the first one is in the instruction's head
            return [
                Chunk("input", condition=lane, other=self.ids[key], constant=_number(0))
                for key, lane in inputs[1:]
            ]
        cores = len(placement.slots)
        chained = all(lane for _, lane in inputs)
        chunks = [] if chained and cores == 1 else [Chunk("share", attribute=at, other=cores)]
        for k, (key, lane) in enumerate(inputs):
            window = op.windows[k]
            assert window is not None
            if chained:
                blocks = placement.slots if lane == "r" else placement.slots[::-1]
                chunks.append(self._window(self.ids[key], lane, window, blocks, placement.slots[at]))
            else:
                rows = -(-window // cores)
                chunks.append(Chunk("input", condition=lane, other=self.ids[key], constant=_number(rows)))
        return chunks

    def _window(self, stream: int, lane: str, window: int, blocks: Sequence[str], place: str) -> Chunk:
        """Which slots of a window an OP-Block holds: row n of the stream has slot n modulo the window's size."""
        shares = self._filled(window, blocks)
        first, held = sum(shares[name] for name in blocks[: blocks.index(place)]), shares[place]
        if held == window and window < 1 << 14:
            return Chunk("window", held, lane, stream)
        raw = b"".join(number.to_bytes(4, "little") for number in (first, held, window))
        text = f"{held} of {window} from {first}"
        return Chunk("window", 0, lane, stream, constant=Constant("binary", raw, text=text))

    def _filled(self, window: int, blocks: Sequence[str]) -> dict[str, int]:
        """How much of a window each OP-Block holds: in the order in which rows come by, each as much as it can."""
        shares = {}
        for name in blocks:
            shares[name] = min(window, getattr(self.topology.named[name], "window", 0))
            window -= shares[name]
        return shares

    def _body(self, op: Operator) -> list[Chunk]:
        chunks = [self._term(term) for term in op.terms]
        crossing = (
            at
            for at, term in enumerate(op.terms)
            if term.right is not None and term.left.leaf != term.right.leaf
        )
        key = next(crossing, None) if op.kind == "join" else None
        if key is not None:
            chunks[key] = replace(chunks[key], function="key")
        for code in op.code:
            chunks += [Chunk("condition", attribute=len(code)), *self._code(code)]
        for output in op.outputs:
            chunks += [
                Chunk("output", attribute=len(output.code), function=output.function),
                *self._code(output.code),
            ]
        return chunks

    def _term(self, term: Term) -> Chunk:
        other = 0 if term.right is None else self._attribute(term.right)
        return Chunk("term", self._attribute(term.left), term.condition, other, constant=term.constant)

    def _code(self, code: Code) -> list[Chunk]:
        chunks = []
        for token in code:
            if token.attribute is not None:
                chunks.append(Chunk("column", self._attribute(token.attribute)))
            elif token.constant is not None:
                chunks.append(Chunk("constant", constant=token.constant))
            else:
                chunks.append(
                    Chunk(
                        "call", token.arity, constant=Constant("text", token.call.encode(), text=token.call)
                    )
                )
        return chunks

    def _attribute(self, attribute: Attribute) -> int:
        key = (attribute.leaf, attribute.name)
        if key not in self.attributes:
            self.attributes[key] = len(self.columns) + 1
            self.columns.append(attribute)
        return self.attributes[key]


def _mask(names: Sequence[str], chosen: Sequence[str]) -> int:
    """A bit a way out, the first one lowest."""
    return sum(1 << at for at, name in enumerate(names) if name in chosen)


def _number(value: int) -> Constant:
    return Constant("int", value.to_bytes(8, "little", signed=False), text=str(value))


def _flow_text(key: Key) -> str:
    flow, entry = key
    if flow == END:
        return "the end"
    return f"{flow.name} by {entry}" if isinstance(flow, Stream) else str(flow)
