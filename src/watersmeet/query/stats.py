"""What a processor holds and has done, in numbers: rows once for all queries, indexes once for all joins that share them.

Plain data, as ``contract.STATS`` has it. What does not change from push to push is in ``describe.py``.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from watersmeet.join.chain import Chain
from watersmeet.query.block import Block, JoinBlock
from watersmeet.query.feed import Feed
from watersmeet.query.join_of import JoinOfBlock
from watersmeet.query.running import Running


def processor_stats(running: Running) -> dict[str, Any]:
    """Everything that changes with a push."""
    feed, blocks = running.feed, list(running.graph.blocks.values())
    return {
        "pushes": running.pushes,
        "streams": {
            name: {
                **_numbers(feed, name),
                "late": _late(blocks, name),
                "newest": _newest(feed, name, held_back=False),
                "watermark": _newest(feed, name, held_back=True),
            }
            for name in feed.names
        },
        "blocks": {str(block.number): _block(block) for block in blocks},
        "queries": {
            name: {"rows": 0 if entry.root is None else entry.root.rows}
            for name, entry in running.entries.items()
        },
    }


def _block(block: Block) -> dict[str, Any]:
    inside = []
    if isinstance(block, JoinBlock | JoinOfBlock):
        for leaf, chain in zip(block.leaves, block.engine.ledger.chains, strict=True):
            newest = chain.subwindows[-1] if chain.subwindows else None
            inside.append(
                {
                    "name": leaf,
                    "rows": chain.rows,
                    "subwindows": len(chain.subwindows),
                    "indexes": [] if newest is None else [index.name for index in newest.indexes],
                    "bytes": chain.nbytes,
                }
            )
    return {
        "rows": block.rows,
        "seconds": block.seconds + (block.engine.seconds if isinstance(block, JoinBlock) else 0.0),
        "held": block.held,
        "bytes": block.nbytes,
        "late": dict(block.late),
        "watermark": block.watermark,
        "inside": inside,
    }


def _late(blocks: Iterable[Block], stream: str) -> int:
    """Rows of a stream that were late, for the block that has found most of them so. A stream that a join reads twice counts once."""
    return max((block.late.get(stream, 0) for block in blocks), default=0)


def _newest(feed: Feed, name: str, held_back: bool) -> str | None:
    """The largest time of a stream so far, or that less its lateness; None: it has none."""
    axis, known = feed.known.axes.get(name), feed.history.clocks.get(feed.names.index(name))
    if axis is None or known is None:
        return None
    code = known[0]
    return axis.text(int(axis.shift(np.array([code]), -axis.lateness[0])[0]) if held_back else code)


def _numbers(feed: Feed, name: str) -> dict[str, Any]:
    known = feed.streams_of(name)
    payload_bytes = known[0].payload.nbytes
    chains = [engine.ledger.chains[k] for stream in known for engine, k in stream.readers]
    index_bytes = _index_bytes(chains)
    return {
        "rows": feed.stored(name),
        "arrived": feed.arrived(name),
        "joins": len(chains),
        "index_bytes": index_bytes,
        "payload_bytes": payload_bytes,
        "bytes": index_bytes + payload_bytes,
    }


def _index_bytes(chains: list[Chain]) -> int:
    """Of the sub-windows of all readers; what several hold counts once."""
    held: dict[int, Any] = {}
    beside = 0
    for chain in chains:
        for sub in chain.subwindows:
            held.update({id(index): index for index in sub.indexes})
            beside += sub.nbytes - sum(index.nbytes for index in sub.indexes)
    return beside + sum(index.nbytes for index in held.values())
