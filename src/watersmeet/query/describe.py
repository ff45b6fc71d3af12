"""A processor's plan as plain data: what ``Processor.describe()`` gives, and what the page draws.

Dicts, lists, texts and numbers, nothing else, as ``contract.PLAN`` has it. What changes with every push is in ``stats.py``; ids of blocks
are the same in both, and stay for as long as the block is there. Looking changes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from watersmeet.contract import VERSION
from watersmeet.fabric.plain import to_plain
from watersmeet.fabric.program import program_of
from watersmeet.fabric.show import as_plain
from watersmeet.join.orders import Orders
from watersmeet.query.block import Block, JoinBlock
from watersmeet.query.explain import block_readers, explain_block, explain_query
from watersmeet.query.graph import blocks_of
from watersmeet.query.group_blocks import GroupsBlock
from watersmeet.query.instruction import Clock, Instruction, Join, JoinOf, Scan
from watersmeet.query.join_of import JoinOfBlock
from watersmeet.query.rules import Place
from watersmeet.query.running import Running


def describe_processor(running: Running, ended: str) -> dict[str, Any]:
    """Everything but what a push changes. ``ended``: "finished", "closed" or ""."""
    feed, entries, rules = running.feed, running.entries, running.graph.rules
    readers = block_readers(entries)
    users: dict[Block, list[str]] = {}
    for entry in entries.values():
        for block in () if entry.root is None else dict.fromkeys(blocks_of(entry.root)):
            users.setdefault(block, []).append(entry.name)
    assigned = running.assigned
    return {
        "version": VERSION,
        "ended": ended,
        "cores": feed.shared.pool.cores,
        "watermark": "push" if feed.by_push else "row",
        "streams": [
            {
                "name": name,
                "table": name in feed.tables,
                "window": str(feed.windows[name]),
                "rows": feed.windows[name].rows,
                "schema": _columns(feed.known.schemas.get(name)),
            }
            for name in feed.names
        ],
        "blocks": [
            _block(block, users.get(block, []), readers, rules)
            for block in sorted(running.graph.blocks.values(), key=lambda block: block.number)
        ],
        "queries": [
            {
                "name": entry.name,
                "number": entry.number,
                "generation": entry.generation,
                "sql": entry.asked.sql,
                "emit": entry.asked.emit,
                "state": "running" if entry.runs else "waiting" if entry.waits else "stopped",
                "reason": entry.waits or entry.stopped,
                "root": None if entry.root is None else str(entry.root.number),
                "streams": sorted(entry.asked.streams),
                "complete_from": entry.complete_from,
                "explain": explain_query(entry, readers, rules, assigned),
            }
            for entry in entries.values()
        ],
        "fabric": None
        if assigned is None
        else {
            "topology": to_plain(assigned.topology),
            "assignment": as_plain(assigned, program_of(assigned)),
        },
    }


def _columns(schema: Any) -> dict[str, str] | None:
    return None if schema is None else {field.name: str(field.type) for field in schema}


def _block(
    block: Block, queries: list[str], readers: Mapping[Block, int], rules: Mapping[Block, Place]
) -> dict[str, Any]:
    instruction = block.instruction
    together = None
    if block in rules:
        found, _ = rules[block]
        together = {"others": len(found.filters) - 1, "by": found.by}
    text = str(instruction)
    if isinstance(block, GroupsBlock) and block.ranges_read:
        text += " from ranges"
    return {
        "id": str(block.number),
        "kind": "join" if isinstance(instruction, JoinOf) else type(instruction).__name__.lower(),
        "instruction": text,
        "inputs": [str(below.number) for below in block.inputs],
        "streams": _reads(block),
        "queries": queries,
        "together": together,
        "remembers": instruction.remembers,
        "explain": explain_block(block, readers, rules),
        "join": _join(block) if isinstance(block, JoinBlock | JoinOfBlock) else None,
    }


def _reads(block: Block) -> list[str]:
    """The streams that a block reads by itself."""
    instruction = block.instruction
    if isinstance(instruction, Join | Clock):
        return list(dict.fromkeys(instruction.streams))
    return [instruction.stream] if isinstance(instruction, Scan) else []


def _streams(join: Join | JoinOf) -> Sequence[str]:
    """The stream of each input; of a derived one those that it is made of."""
    if isinstance(join, Join):
        return join.streams
    return [", ".join(sorted(_made_of(rows))) for rows in join.rows]


def _made_of(plan: Instruction) -> set[str]:
    """The streams whose rows a plan reads; its clocks may go by others too."""
    if isinstance(plan, Join):
        return set(plan.streams)
    if isinstance(plan, Scan):
        return {plan.stream}
    return set() if isinstance(plan, Clock) else set().union(*map(_made_of, plan.inputs))


def _join(block: JoinBlock | JoinOfBlock) -> dict[str, Any]:
    instruction, plan = block.instruction, block.engine.planning.plan
    assert isinstance(instruction, Join | JoinOf)
    found: dict[str, Any] = {
        "how": instruction.how,
        "condition": str(instruction.condition),
        "bands": [band.text for band in block.condition.bands],
        "sides": [
            {"name": leaf, "stream": stream, "window": str(window), "rows": window.rows}
            for leaf, stream, window in zip(
                block.leaves, _streams(instruction), instruction.windows, strict=True
            )
        ],
        "drivers": [],
        "checks": [],
        "residual": None,
        "orders": {},
    }
    if isinstance(plan, Orders):
        found["orders"] = {
            block.leaves[k]: [block.leaves[step.stream] for step in steps]
            for k, steps in enumerate(plan.steps)
        }
    elif plan is not None:
        residual = plan.condition.residual
        found["drivers"] = list(plan.driver.texts)
        found["checks"] = [band.text for band in plan.checks]
        found["residual"] = None if residual is None else str(residual)
    return found
