"""What cannot be run is refused by its name before anything is built, and queries on fabrics give what the engine gives."""

from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm

pytest.importorskip("amaranth")

from watersmeet import hardware

TRADES = pa.table(
    {"sym": pa.array([1, 2, 3, 1], pa.int32()), "price": pa.array([10, 20, 30, 50], pa.int32())}
)
QUOTES = pa.table({"sym": pa.array([1, 2, 9], pa.int32()), "bid": pa.array([9, 21, 1], pa.int32())})
ROWS = {"trades": TRADES, "quotes": QUOTES}
WINDOWS = {"trades": wm.Rows(8), "quotes": wm.Rows(8)}
JOIN = "SELECT t.sym, t.price, q.bid FROM trades t JOIN quotes q ON t.sym = q.sym WHERE t.price > 15"
CHAIN = wm.Fabric.op_chain(2, window=8)
BRICKS = wm.Fabric.ssp([[[wm.Unit("one", "selection")]], [[wm.Unit("two", "join", window=8)]]])


@pytest.mark.parametrize("fabric", [CHAIN, BRICKS], ids=["op_blocks", "bricks"])
def test_own_rows_on_a_fabric_give_what_the_engine_gives(fabric: wm.Fabric) -> None:
    ran = hardware.run(fabric, {"j": JOIN}, ROWS, windows=WINDOWS, simulator="python")
    assert isinstance(ran, hardware.QueryRun)
    assert ran.agrees
    assert sorted(ran.results["j"]) == [(1, 50, 9), (2, 20, 21)]


def test_a_query_without_results_is_among_the_results() -> None:
    empty = {name: table.slice(0, 0) for name, table in ROWS.items()}
    ran = hardware.run(CHAIN, {"j": JOIN}, empty, windows=WINDOWS, simulator="python")
    assert isinstance(ran, hardware.QueryRun)
    assert ran.results == {"j": []}


@pytest.mark.parametrize("fabric", [CHAIN, BRICKS], ids=["op_blocks", "bricks"])
@pytest.mark.parametrize(
    ("queries", "rows", "windows", "said"),
    [
        ({"j": JOIN}, {"trades": TRADES}, WINDOWS, "windows must name the streams that have rows, 'trades'; got"),
        ({"j": JOIN}, ROWS, {"trades": wm.Rows(8)}, "'trades', 'quotes'; got 'trades'; a stream without rows"),
        ({"j": JOIN}, {"trades": TRADES}, {"trades": wm.Rows(8)}, "got 'quotes'"),
        ({"j": JOIN}, ROWS, None, "got None"),
        (JOIN, ROWS, WINDOWS, "queries must be SQL by name"),
        ({}, ROWS, WINDOWS, "queries must be SQL by name; got {}"),
        ({"j": JOIN}, TRADES, WINDOWS, "rows must be Arrow tables by stream; got Table; write"),
        ({"j": JOIN}, {"trades": [1], "quotes": QUOTES}, WINDOWS, "got list for 'trades'"),
    ],
)  # fmt: skip
def test_what_has_no_stream_is_refused(
    fabric: wm.Fabric, queries: Any, rows: Any, windows: Any, said: str
) -> None:
    with pytest.raises(wm.WatersmeetError) as refused:
        hardware.run(fabric, queries, rows, windows=windows, simulator="python")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("design", "parameters", "streams", "said"),
    [
        ("split_join", {"cores": "4"}, None, "cores must be a whole number; got '4'"),
        ("split_join", {"cores": 2.5}, None, "cores must be a whole number; got 2.5"),
        ("split_join", [4], None, "parameters of split_join must be numbers by name; got [4]"),
        ("handshake", {}, [1, 2], "streams must be keys of left and right; got [1, 2]"),
        ("handshake", {"key": 4}, {"left": ["a"], "right": []}, "a key must be from 0 to 15; got 'a' in left"),
        ("circular_mj", {}, [(7, (1,))], "with a stream from 0 to 2 and 1 key(s); got (7, (1,))"),
        ("circular_mj", {}, [(0, (1, 2))], "with a stream from 0 to 2 and 1 key(s); got (0, (1, 2))"),
        ("stashed_mj", {}, {"a": [1]}, "rows must be a list of (stream, keys) in the order of arrival; got dict"),
    ],
)  # fmt: skip
def test_wrong_parameters_and_rows_of_a_design_are_refused(
    design: str, parameters: Any, streams: Any, said: str
) -> None:
    with pytest.raises(wm.OptionError) as refused:
        hardware.run(design, parameters, streams, simulator="python")
    assert said in str(refused.value)
