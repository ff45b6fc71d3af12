"""The linked list adaptive table keeps every row of every partition in 2P entries, whatever the skew."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.index.llat import Llat
from watersmeet.kernels.llat import append
from watersmeet.kernels.search import rebound, rebound_below

WIDTH = 4
TESTS = Path(__file__).resolve().parent
SMALL = "nested_loop or tiny or overflow or rebounding or two_entries or splitters or bound or int64"


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="this is the run without the compiler")
def test_llat_and_the_indexes_beside_it_hold_without_the_compiler() -> None:
    """Small tests again, in a process where kernels are plain Python and a number that wraps is an error."""
    files = ["test_llat.py", "test_rap_table.py", "test_wib_tree.py", "test_hash_index.py"]
    options = ["-q", "-p", "no:cacheprovider", "--hypothesis-profile=no_jit", "-W", "error::RuntimeWarning"]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files, "-k", SMALL],
        cwd=TESTS,
        env={**outside, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def put(table: Llat, part: int, keys: np.ndarray, rows: np.ndarray) -> None:
    """Append rows to one partition."""
    places = (table.keys, table.rows, table.start, table.used, table.link, table.last, table.fresh)
    append(keys, rows, 0, len(keys), part, table.width, *places)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), max_size=12))
def test_two_entries_a_partition_are_enough(runs: list[tuple[int, int]]) -> None:
    parts = 5
    capacity = parts * WIDTH - 1
    table = Llat(2 * parts, WIDTH, parts)
    stored: dict[int, list[int]] = {part: [] for part in range(parts)}
    count = 0
    for part, size in runs:
        size = min(size, capacity - count)
        rows = np.arange(count, count + size, dtype=np.int32)
        put(table, part, rows.astype(np.int64) * 10, rows)
        stored[part] += rows.tolist()
        count += size
    assert table.fresh[0] <= 2 * parts
    keys, rows, _, _ = table.gathered(count)
    assert rows.tolist() == [row for part in range(parts) for row in stored[part]]
    assert (keys == rows * 10).all()
    table.seal(count)
    assert [table.used[part] for part in range(parts)] == [len(stored[part]) for part in range(parts)]
    assert table.keys.nbytes + table.rows.nbytes == 12 * count


def test_growing_keeps_what_is_stored() -> None:
    table = Llat(2, WIDTH, 1)
    rows = np.arange(8, dtype=np.int32)
    put(table, 0, rows.astype(np.int64), rows)
    table.grow(4)
    put(table, 0, rows.astype(np.int64), rows + 8)
    assert table.gathered(16)[1].tolist() == list(range(16))
    assert table.entries == 4


@pytest.mark.parametrize("start", [0, 3, 10])
@given(table=st.lists(st.integers(0, 20), min_size=10, max_size=40), key=st.integers(-1, 21))
def test_rebounding_search_is_a_binary_search_from_the_last_place(
    start: int, table: list[int], key: int
) -> None:
    ordered = np.sort(np.array(table, np.int64))
    assert rebound(ordered, start, len(ordered), key) == max(start, np.searchsorted(ordered, key, "right"))
    assert rebound_below(ordered, start, len(ordered), key) == max(
        start, np.searchsorted(ordered, key, "left")
    )
