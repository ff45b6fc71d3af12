"""Queries and their blocks in words."""

from collections.abc import Mapping

from watersmeet.api.show import counted
from watersmeet.query.block import Block
from watersmeet.query.catalog import Entry
from watersmeet.query.feed import Feed
from watersmeet.query.graph import blocks_of


def explain_processor(feed: Feed, entries: Mapping[str, Entry]) -> str:
    """The streams, then each query."""
    lines = [
        f"stream {name}: {window}; {counted(feed.arrived(name), 'row')} arrived, {feed.stored(name):,} stored"
        for name, window in feed.windows.items()
    ]
    return "\n".join([*lines, *(explain_query(entry, entries) for entry in entries.values())])


def explain_query(entry: Entry, entries: Mapping[str, Entry]) -> str:
    """A query: what it is doing, and its blocks, each above those it reads from."""
    state = "running"
    if entry.waits is not None:
        state = f"waiting for {entry.waits}"
    elif entry.stopped is not None:
        state = f"stopped: {entry.stopped}"
    head = f"query {entry.name}: {state}"
    if entry.root is None:
        return head
    others = {
        id(block): other.name
        for other in entries.values()
        if other.name != entry.name and other.root is not None
        for block in blocks_of(other.root)
    }
    return "\n".join([head, *_lines(entry.root, others, 1)])


def _lines(block: Block, others: Mapping[int, str], depth: int) -> list[str]:
    shared = "; shared" if id(block) in others else ""
    first, *rest = str(block.instruction).split("\n")
    lines = [f"{first} ({counted(block.rows, 'row')}{shared})", *rest]
    below = [line for one in block.inputs for line in _lines(one, others, depth + 1)]
    return ["  " * depth + line for line in lines] + below
