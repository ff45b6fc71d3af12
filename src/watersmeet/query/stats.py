"""What a processor holds, in numbers: rows once for all queries, indexes once for all joins that share them."""

from typing import Any

from watersmeet.join.chain import Chain
from watersmeet.query.feed import Feed


def stream_stats(feed: Feed) -> dict[str, dict[str, int]]:
    """By stream, and by table."""
    return {name: _numbers(feed, name) for name in feed.names}


def _numbers(feed: Feed, name: str) -> dict[str, int]:
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
