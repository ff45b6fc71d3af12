"""Assignments and programs in words: where operators stand, and the instructions as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watersmeet.fabric.assignment import Assignment
from watersmeet.fabric.operator import Constant, operators_of
from watersmeet.fabric.program import POLICIES, Chunk, Instruction, Program

_PORTS = {"gswitch_l": ("south", "east"), "reset": POLICIES}


def placement_lines(assignment: Assignment, query: str) -> list[str]:
    """The operators of a query, and where they stand."""
    need = next((need for need in assignment.needs if need.query == query), None)
    if need is None:
        return []
    found = []
    for op in dict.fromkeys(operators_of(need.roots)):
        others = [other for other in assignment.queries_of(op) if other != query]
        shared = f"; also for {', '.join(others)}" if others else ""
        found.append(f"{op} at {assignment.placed[op]}{shared}")
    return found or ["no block: rows go from entry to exit as they are"]


def summary(assignment: Assignment) -> str:
    """How full the fabric is."""
    best = "" if assignment.proven else "; a better assignment may exist"
    slots = f"{assignment.slots} block{'' if assignment.slots == 1 else 's'} in use"
    return f"fabric {assignment.topology.name}: {slots}, {assignment.hops} hops{best}"


def notes_of(assignment: Assignment) -> dict[str, list[str]]:
    """By slot, the operators there."""
    found: dict[str, list[str]] = {}
    for op, placement in assignment.placed.items():
        for place in placement.slots:
            found.setdefault(place, []).append(f"{op.kind} ({', '.join(assignment.queries_of(op))})")
    return found


def table(program: Program) -> str:
    """The instructions, one a line."""
    head = ("B-ID", "block", "instruction", "stream", "out", "port", "seg", "fields")
    rows = [head, *(_row(program, instruction) for instruction in program.instructions)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    streams = [f"stream {number}: {text}" for number, text in program.streams.items()]
    queries = [
        f"query {name}: stream {', '.join(map(str, numbers))}" for name, numbers in program.results.items()
    ]
    return "\n".join([*lines, *streams, *queries])


def _row(program: Program, one: Instruction) -> tuple[str, ...]:
    return (
        str(one.b_id),
        program.blocks[one.b_id],
        one.inst,
        f"{one.stream}{one.lane}",
        str(one.out) if one.out else "",
        _ports(one),
        str(one.segments) if one.inst == "gswitch_l" else "",
        _body(program, one.body),
    )


def _ports(one: Instruction) -> str:
    names: Sequence[str] = _PORTS.get(one.inst, ())
    chosen = [name for at, name in enumerate(names) if one.port >> at & 1]
    return ", ".join(chosen) or ("inside" if one.inst == "reset" else "")


def _body(program: Program, body: Sequence[Chunk]) -> str:
    """The chunks of an instruction; steps of code go with the condition or output that they are of."""
    texts, at = [], 0
    while at < len(body):
        chunk = body[at]
        steps = chunk.attribute if chunk.tag in ("condition", "output") else 0
        code = " ".join(_chunk(program, one) for one in body[at + 1 : at + 1 + steps])
        texts.append(f"{_chunk(program, chunk)} {code}".strip())
        at += 1 + steps
    return "; ".join(texts)


def _chunk(program: Program, chunk: Chunk) -> str:
    def column(number: int) -> str:
        return str(program.attributes[number - 1])

    value = _constant(chunk.constant)
    match chunk.tag:
        case "mask":
            return f"S-filter {int(value):b}"
        case "input":
            return (
                f"stream {chunk.other}{chunk.condition} holds {value}"
                if value != "0"
                else f"stream {chunk.other}"
            )
        case "window":
            return f"stream {chunk.other}{chunk.condition} holds {value or chunk.attribute}"
        case "share":
            return f"core {chunk.attribute + 1} of {chunk.other}"
        case "term":
            right = column(chunk.other) if chunk.other else ""
            return f"{column(chunk.attribute)} {chunk.condition} {' + '.join(filter(None, (right, value)))}"
        case "column":
            return column(chunk.attribute)
        case _:
            return chunk.function or value


def _constant(constant: Constant | None) -> str:
    return "" if constant is None else str(constant)


def as_plain(assignment: Assignment, program: Program) -> Mapping[str, object]:
    """Everything as dicts, lists, texts and numbers."""
    return {
        "fabric": assignment.topology.name,
        "slots": assignment.slots,
        "hops": assignment.hops,
        "proven": assignment.proven,
        "moved": [str(op) for op in assignment.moved],
        "operators": [
            {
                "operator": str(op),
                "kind": op.kind,
                "queries": assignment.queries_of(op),
                "slots": list(placement.slots),
                "flipped": placement.flipped,
            }
            for op, placement in assignment.placed.items()
        ],
        "streams": {str(number): text for number, text in program.streams.items()},
        "attributes": [str(attribute) for attribute in program.attributes],
        "inputs": [
            {"stream": number, "name": name, "entry": entry} for number, name, entry in program.inputs
        ],
        "results": {name: list(numbers) for name, numbers in program.results.items()},
        "instructions": [_plain_instruction(program, one) for one in program.instructions],
    }


def _plain_instruction(program: Program, one: Instruction) -> dict[str, object]:
    return {
        "inst": one.inst,
        "b_id": one.b_id,
        "block": program.blocks[one.b_id],
        "stream": one.stream,
        "out": one.out,
        "port": one.port,
        "segments": one.segments,
        "lane": one.lane,
        "fields": [
            {
                "tag": chunk.tag,
                "attribute": chunk.attribute,
                "condition": chunk.condition,
                "other": chunk.other,
                "function": chunk.function,
                "constant": None
                if chunk.constant is None
                else {
                    "kind": chunk.constant.kind,
                    "raw": chunk.constant.raw.hex(),
                    "scale": chunk.constant.scale,
                    "text": chunk.constant.text,
                },
            }
            for chunk in one.body
        ],
    }
