"""What every index of a sub-window must do, checked against NumPy: used by the tests of each index."""

from collections.abc import Iterable

import numpy as np
from hypothesis import strategies as st

from watersmeet.index.base import Bounds, Index, Keys, PairBuffer

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
BUFFER_SIZES = (1, 2, 7, 65_536)

# Keys of every kind: few values (many duplicates), neighbours of the ends of int64, anything.
EDGES = st.sampled_from([LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST])
KEYS = st.one_of(
    st.lists(st.integers(-3, 3), max_size=60),
    st.lists(st.integers(0, 200), max_size=120),
    st.lists(st.one_of(EDGES, st.integers(LEAST, GREATEST)), max_size=60),
    st.integers(0, 150).map(lambda count: list(range(count))),
    st.integers(0, 150).map(lambda count: [7] * count),
    st.integers(0, 150).map(lambda count: [7] * count + list(range(count // 3))),
)
# How many rows each batch has; the last batch takes the rest.
CUTS = st.lists(st.integers(1, 40), max_size=8)


def batches(keys: Iterable[int], cuts: Iterable[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cut the keys, in arrival order, into batches, each sorted by key with the rows' numbers beside."""
    all_keys = np.array(list(keys), np.int64)
    result = []
    begin = 0
    for size in [*cuts, len(all_keys)]:
        part = all_keys[begin : begin + size]
        order = np.argsort(part, kind="stable")
        result.append((part[order], (order + begin).astype(np.int32)))
        begin += len(part)
    return [batch for batch in result if len(batch[0])]


def fill(index: Index, parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
    """Insert all batches."""
    for keys, rows in parts:
        index.insert(Keys(keys, rows), 0)


def bounds(keys: Iterable[int], below: int, above: int) -> tuple[np.ndarray, np.ndarray]:
    """Sorted probes [key - below, key + above], saturating; negative widths make bands that hold nothing."""
    ordered = sorted(keys)
    lo = [min(max(key - below, LEAST), GREATEST) for key in ordered]
    hi = [min(max(key + above, LEAST), GREATEST) for key in ordered]
    return np.array(lo, np.int64), np.array(hi, np.int64)


def found(index: Index, lo: np.ndarray, hi: np.ndarray, size: int) -> np.ndarray:
    """All pairs (probe, row) of an index, sorted, through a buffer of ``size``; probes count from 5."""
    buffer = PairBuffer(size)
    probes = np.arange(5, 5 + len(lo), dtype=np.int32)
    pieces = [np.empty((0, 2), np.int32)]
    for count in index.pairs(Bounds(lo, hi, probes), buffer):
        assert 0 < count <= size
        pieces.append(np.column_stack((buffer.probe[:count], buffer.row[:count])))
    pairs = np.concatenate(pieces)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def expected(parts: list[tuple[np.ndarray, np.ndarray]], lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """The same pairs, by comparing every probe with every row."""
    keys = np.concatenate([keys for keys, _ in parts]) if parts else np.empty(0, np.int64)
    rows = np.concatenate([rows for _, rows in parts]) if parts else np.empty(0, np.int32)
    probe, row = np.nonzero((lo[:, None] <= keys) & (keys <= hi[:, None]))
    pairs = np.column_stack((probe + 5, rows[row]))
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def check(
    index: Index,
    parts: list[tuple[np.ndarray, np.ndarray]],
    lo: np.ndarray,
    hi: np.ndarray,
    sizes: Iterable[int],
) -> None:
    """The index gives exactly the expected pairs, however small the buffer, before and after it is sealed."""
    wanted = expected(parts, lo, hi)
    for sealed in (False, True):
        if sealed:
            index.seal()
        for size in sizes:
            np.testing.assert_array_equal(
                found(index, lo, hi, size), wanted, f"sealed {sealed}, buffer {size}"
            )
    assert index.nbytes > 0
