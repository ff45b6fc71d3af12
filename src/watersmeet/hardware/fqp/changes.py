"""A program as FQP runs it: what it cannot do is refused; of a program that follows another, only what has changed is sent.

What stays true: instructions that are the same in both programs are not sent again, so a join that stays keeps what it holds. An operator
that is gone is taken out by a ``reset`` without an operator after it; a switch forgets a stream by an empty mask.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from watersmeet.errors import FabricError
from watersmeet.fabric.assignment import Assignment
from watersmeet.fabric.encoding import encode
from watersmeet.fabric.operator import Constant, Operator
from watersmeet.fabric.program import Chunk, Instruction, Program
from watersmeet.hardware.fqp.codes import Codes, Schemas
from watersmeet.hardware.fqp.words import TO_R, TO_S

LAST = 1 << 76  # the bit of a word that ends an instruction or row
FENCE = Instruction("reset", 0, 0)  # for no block: who lets rows in waits before it and after it


@dataclass(frozen=True)
class Loaded:
    """A program with codes for constants: by block and stream, the ways out and the operator; by switch and stream, the mask."""

    program: Program
    operators: Mapping[tuple[int, int], tuple[Instruction, Instruction]]
    switches: Mapping[tuple[int, int], Instruction]
    columns: Mapping[str, tuple[int, ...]]  # by stream, the attributes that travel
    lanes: Mapping[
        int, int
    ]  # by stream-ID, the words that one row of it may put into lanes; none if it puts nothing there


def loaded(assignment: Assignment, program: Program, codes: Codes, schemas: Schemas) -> Loaded:
    """The program, checked."""
    for op in assignment.placed:
        _check(op)
    operators: dict[tuple[int, int], tuple[Instruction, Instruction]] = {}
    switches: dict[tuple[int, int], Instruction] = {}
    reset = FENCE
    columns: dict[str, dict[int, None]] = {}
    for one in program.instructions:
        if one.inst == "gswitch_d":
            switches[one.b_id, one.stream] = one
        elif one.inst == "reset":
            reset = one
        else:
            own = replace(one, body=tuple(_chunk(chunk, program, codes, schemas) for chunk in one.body))
            operators[one.b_id, one.out] = (reset, own)
            for number in _attributes(own.body):
                columns.setdefault(program.attributes[number - 1].leaf, {}).setdefault(number)
    travel = {stream: tuple(numbers) for stream, numbers in columns.items()}
    return Loaded(program, operators, switches, travel, _in_lanes(program, operators, travel))


def _check(op: Operator) -> None:
    if op.code or any(len(output.code) != 1 or output.code[0].attribute is None for output in op.outputs):
        raise FabricError(
            f"an operator on FQP must compare columns and constants, and keep columns; got {op}; compute it before, or after"
        )
    if op.kind == "join" and any("#" in leaf for leaf in op.leaves):
        raise FabricError(
            f"a join on FQP must be of two different streams; got {op}; run it without hardware"
        )
    below = op.inputs[0]
    if isinstance(below, Operator) and below.kind == "projection":
        raise FabricError(
            f"an operator on FQP must read rows before they are projected; got {op}; run it without hardware"
        )


def _chunk(chunk: Chunk, program: Program, codes: Codes, schemas: Schemas) -> Chunk:
    return codes.term(chunk, program.attributes, schemas) if chunk.tag == "term" else chunk


def _attributes(body: Sequence[Chunk]) -> list[int]:
    found = [chunk.attribute for chunk in body if chunk.tag in ("term", "column")]
    return found + [chunk.other for chunk in body if chunk.tag == "term" and chunk.other]


def _in_lanes(
    program: Program,
    operators: Mapping[tuple[int, int], tuple[Instruction, Instruction]],
    columns: Mapping[str, tuple[int, ...]],
) -> dict[int, int]:
    """How many words a row of each input puts into lanes, with all that selections make of it. Results of joins may take one lane only."""
    joined: set[int] = {one.out for _, one in operators.values() if one.inst == "join"}
    readers: dict[int, set[int]] = {}
    ports: dict[int, int] = {}
    for reset, one in operators.values():
        if one.inst != "join":
            readers.setdefault(one.stream, set()).add(one.out)
        ports[one.out] = ports.get(one.out, 0) | reset.port & (TO_R | TO_S)
    made = _below(readers, joined)
    ways = {ports.get(out, 0) for out in made} - {0}
    if len(ways) > 1 or TO_R | TO_S in ways:
        raise FabricError(
            "results of joins on FQP must leave by the result port, or all by one lane; got both lanes: they could wait for each other;"
            " use a fabric with more memory a block, so that what reads them stands where they are made"
        )
    found = {}
    for stream, name, _ in program.inputs:
        derived = _below(readers, {stream}) - {stream}
        copies = sum((ports[out] & TO_R != 0) + (ports[out] & TO_S != 0) for out in derived)
        if copies:
            found[stream] = (1 + copies) * (1 + len(columns.get(name, ())))
    return found


def _below(readers: Mapping[int, set[int]], streams: set[int]) -> set[int]:
    """The streams, and all that operators make of them."""
    found, todo = set(streams), list(streams)
    while todo:
        for out in readers.get(todo.pop(), set()) - found:
            found.add(out)
            todo.append(out)
    return found


def changes(before: Loaded | None, after: Loaded) -> list[Instruction]:
    """What makes the second program of the first."""
    old = before.operators if before else {}
    masks = before.switches if before else {}
    empty = Chunk("mask", constant=Constant("int", bytes(8)))
    # First what is forgotten: a switch has room for the streams of one program.
    found = [replace(one, body=(empty,)) for key, one in masks.items() if key not in after.switches]
    found += [one for key, one in after.switches.items() if masks.get(key) != one]
    found += [Instruction("reset", b_id, out) for (b_id, out) in old if (b_id, out) not in after.operators]
    for key, pair in after.operators.items():
        if old.get(key) != pair:
            found += pair
    return found


def words_of(instructions: Sequence[Instruction]) -> list[int]:
    """The words of instructions, each with its end marked."""
    found: list[int] = []
    for one in instructions:
        words = encode([one])
        found += [*words[:-1], words[-1] | LAST]
    return found
