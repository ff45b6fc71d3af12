"""Queries on fabrics of OP-Blocks and of bricks: the same texts and rows give the same results, those of the processor."""

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet import hardware
from watersmeet.errors import OptionError
from watersmeet.hardware.ssp.sizes import Sizes

CHAIN = wm.Fabric.op_chain(2, window=4)
BRICKS = wm.Fabric.ssp([[[wm.Unit("one", "selection", memory=4)]], [[wm.Unit("join", "join", 16)]]])
ROWS = {
    "a": pa.table({"k": pa.array([1, 2, 1, 3, 2], pa.int32()), "x": pa.array([5, 9, 2, 7, 8], pa.int32())}),
    "b": pa.table({"k": pa.array([2, 1, 1, 3], pa.int32()), "y": pa.array([1, 2, 3, 4], pa.int32())}),
}
WINDOWS = {"a": wm.Rows(3), "b": wm.Rows(4)}
QUERY = {"near": "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k WHERE a.x > 4"}


def test_op_blocks_and_bricks_give_what_the_processor_gives() -> None:
    order = ["a", "b", "a", "a", "b", "b", "a", "b", "a"]
    chain = hardware.run(CHAIN, QUERY, ROWS, windows=WINDOWS, order=order, simulator="python")
    bricks = hardware.run(
        BRICKS,
        QUERY,
        ROWS,
        windows=WINDOWS,
        order=order,
        simulator="python",
        sizes=Sizes(table=4, streams=16),
    )
    assert isinstance(chain, hardware.QueryRun)
    assert isinstance(bricks, hardware.QueryRun)
    assert chain.agrees
    assert bricks.agrees
    assert sorted(chain.results["near"]) == sorted(bricks.results["near"]) != []
    assert chain.rows == bricks.rows == 9
    assert chain.cycles > 0 < bricks.cycles


def test_rows_and_their_order_are_checked() -> None:
    with pytest.raises(OptionError, match="rows must be Arrow tables by stream; got list for 'a'"):
        hardware.run(CHAIN, QUERY, {"a": [1]}, windows=WINDOWS)
    with pytest.raises(OptionError, match="got 'a' more often than it has rows"):
        hardware.run(CHAIN, QUERY, ROWS, windows=WINDOWS, order=["a"] * 6)
    with pytest.raises(OptionError, match="got too few names"):
        hardware.run(CHAIN, QUERY, ROWS, windows=WINDOWS, order=["a"])
