"""How wide rows are in a fabric: only what a block, or a result, still needs of them travels.

A row has the arrival number of each stream that it is made of, and the columns that somebody downstream reads. Where a composer puts
columns back, results need no more than the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet.fabric.assignment import Assignment
from watersmeet.fabric.operator import Attribute, Flow, Operator

SEGMENT = 64
NUMBER = 32
Wants = set[Attribute]


def wants_of(assignment: Assignment) -> dict[Flow, Wants]:
    """The columns that somebody downstream reads of each flow, as the flow names them."""
    wants: dict[Flow, Wants] = {}
    for op in reversed(list(assignment.placed)):  # consumers before producers
        passed = wants.get(op, set()) if op.kind in ("selection", "join", "order_by") else set()
        for at, flow in enumerate(op.inputs):
            wants.setdefault(flow, set()).update(_asked(op, at, flow, passed | set(op.attributes)))
    return wants


def segments_of(assignment: Assignment) -> Mapping[Flow, int]:
    """Segments of 64 bits that a row of each flow has."""
    wants = wants_of(assignment)
    flows = [*wants, *assignment.placed, *(root for need in assignment.needs for root in need.roots)]
    return {flow: _segments(flow, wants.get(flow, set())) for flow in flows}


def _asked(op: Operator, at: int, flow: Flow, attributes: Wants) -> Wants:
    """What of the attributes comes by an input, as that names it."""
    if op.kind != "join":
        return attributes
    leaf, (name, *_) = op.leaves[at], leaves_of(flow)
    return {Attribute(name, one.name, one.bits) for one in attributes if one.leaf == leaf}


def leaves_of(flow: Flow) -> tuple[str, ...]:
    """The streams that rows of a flow are made of; an aggregation makes rows of its own."""
    if not isinstance(flow, Operator):
        return (flow.name,)
    if flow.kind == "join":
        return flow.leaves
    return ("",) if flow.kind == "aggregation" else leaves_of(flow.inputs[0])


def _segments(flow: Flow, wants: Wants) -> int:
    if isinstance(flow, Operator) and flow.kind in ("projection", "aggregation"):
        bits = sum(
            output.code[0].attribute.bits if len(output.code) == 1 and output.code[0].attribute else SEGMENT
            for output in flow.outputs
        )
    else:
        bits = sum(one.bits for one in wants)
    return max(1, -(-(bits + NUMBER * len(leaves_of(flow))) // SEGMENT))
