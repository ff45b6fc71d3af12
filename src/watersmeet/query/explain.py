"""Queries and their blocks in words."""

from collections import Counter
from collections.abc import Mapping

from watersmeet.api.show import counted
from watersmeet.fabric.assignment import Assignment
from watersmeet.fabric.show import placement_lines, summary
from watersmeet.query.block import Block
from watersmeet.query.catalog import Entry
from watersmeet.query.feed import Feed
from watersmeet.query.graph import blocks_of
from watersmeet.query.group_blocks import GroupsBlock
from watersmeet.query.rules import Place


def explain_processor(
    feed: Feed, entries: Mapping[str, Entry], rules: Mapping[Block, Place], assigned: Assignment | None = None
) -> str:
    """The streams, the fabric, then each query."""
    lines = [
        f"table {name}: {counted(feed.stored(name), 'row')}"
        if name in feed.tables
        else f"stream {name}: {window}; {counted(feed.arrived(name), 'row')} arrived, {feed.stored(name):,} stored"
        for name, window in feed.windows.items()
    ]
    if feed.by_push:
        lines.append("watermarks move once after each push")
    if assigned is not None:
        lines.append(summary(assigned))
    readers = block_readers(entries)
    return "\n".join(
        [*lines, *(explain_query(entry, readers, rules, assigned) for entry in entries.values())]
    )


def block_readers(entries: Mapping[str, Entry]) -> Counter[Block]:
    """How many queries each block is for."""
    roots = [entry.root for entry in entries.values() if entry.root is not None]
    return Counter(block for root in roots for block in set(blocks_of(root)))


def explain_query(
    entry: Entry,
    readers: Mapping[Block, int],
    rules: Mapping[Block, Place],
    assigned: Assignment | None = None,
) -> str:
    """A query: what it is doing, its blocks, each above those it reads from, and where it stands in the fabric. ``rules``: filters that are
    evaluated together.
    """
    state = "running"
    if entry.waits is not None:
        state = f"waiting for {entry.waits}"
    elif entry.stopped is not None:
        state = f"stopped: {entry.stopped}"
    head = f"query {entry.name}: {state}"
    if entry.root is None:
        return head
    places = (
        [] if assigned is None else [f"  fabric: {line}" for line in placement_lines(assigned, entry.name)]
    )
    return "\n".join([head, *_lines(entry.root, readers, rules, 1), *places])


def explain_block(block: Block, readers: Mapping[Block, int], rules: Mapping[Block, Place]) -> str:
    """A block, above those it reads from."""
    return "\n".join(_lines(block, readers, rules, 0))


def _lines(block: Block, readers: Mapping[Block, int], rules: Mapping[Block, Place], depth: int) -> list[str]:
    shared = "; shared" if readers[block] > 1 else ""
    if block in rules:
        together, _ = rules[block]
        shared += f"; evaluated with {counted(len(together.filters) - 1, 'other')} by {together.by}"
    first, *rest = str(block.instruction).split("\n")
    if isinstance(block, GroupsBlock) and block.ranges_read:
        first += " from ranges"
    lines = [f"{first} ({counted(block.rows, 'row')}{shared})", *rest]
    below = [line for one in block.inputs for line in _lines(one, readers, rules, depth + 1)]
    return ["  " * depth + line for line in lines] + below
