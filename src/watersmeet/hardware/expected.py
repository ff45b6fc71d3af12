"""What the engine gives for rows in the order in which a design took them: the answer that a run is compared with."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from watersmeet.api.stream_join import StreamJoin


def expected(
    rows: Sequence[tuple[str, Mapping[str, int]]], condition: str, windows: Mapping[str, Any]
) -> list[tuple[int, ...]]:
    """Arrival numbers, one a stream in the order of ``windows``, of every result; the numbers count in each stream from 0.

    A row is its stream's name and its values, all integers; ``windows`` is by stream: ``wm.Rows(n)``, ``wm.Range(...)``.
    """
    batches = {}
    for stream in windows:
        own = [row for of, row in rows if of == stream]
        if not own:
            return []
        batches[stream] = pa.table(
            {column: pa.array([row[column] for row in own], pa.int64()) for column in own[0]}
        )
    join = StreamJoin(condition, windows=windows)
    found = join.push(batches, order=[of for of, _ in rows]).pairs()
    return list(zip(*(found[stream].tolist() for stream in windows), strict=True))


def same(found: Iterable[Any], wanted: Iterable[Any]) -> bool:
    """Whether two answers are the same multiset."""
    return Counter(found) == Counter(wanted)
