"""When memory is given back."""

import gc
import weakref

import numpy as np
import pytest

import watersmeet as wm
from watersmeet.join.chain import Chain


def used(index: str, how: str) -> list[weakref.ref[Chain]]:
    """The chains of a join that was pushed to and that nobody holds any more."""
    second = "" if index == "hash" else " AND r.y BETWEEN s.b - 1 AND s.b + 1"
    driver = "r.x = s.a" if index == "hash" else "r.x BETWEEN s.a - 1 AND s.a + 1"
    join = wm.StreamJoin(driver + second, r=wm.Rows(500), s=wm.Rows(500), index=index, how=how)
    numbers = np.arange(400)
    for _ in range(4):
        join.push(r={"x": numbers, "y": numbers}, s={"a": numbers, "b": numbers})
    return [weakref.ref(chain) for chain in join._engine.ledger.chains]


@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize("index", ["scan", "hash", "rap_table", "wib_tree", "bi_sort", "grid"])
def test_memory_is_free_as_soon_as_nobody_holds_the_join(index: str, how: str) -> None:
    """Arrays do not wake the garbage collector: a join that needed it would keep its windows."""
    used(index, how)  # Numba, as it compiles, may hold its callers until the next collection
    gc.collect()
    gc.disable()
    try:
        assert [chain() for chain in used(index, how)] == [None, None]
    finally:
        gc.enable()
