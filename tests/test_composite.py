"""Equalities and a band as one driver: the pairs of any other plan, and few candidates beside them."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import multiway
import watersmeet as wm
from conditions import conditions
from harness import check, driver_of, examples
from strategies import Run, runs
from watersmeet.codes.floating import FloatDomain
from watersmeet.join import plan as planning
from watersmeet.join import planner
from watersmeet.join.drivers import Composite
from watersmeet.join.orders import Orders
from watersmeet.join.plan import Plan
from watersmeet.kernels.composite import FIELD, LAST, composite_ends, composite_keys

CONDITIONS = {
    "text and cents": "t.sym = q.sym AND ABS(t.cents - q.cents) <= 3",
    "text and float": "t.sym = q.sym AND t.price BETWEEN q.price - 0.5 AND q.price + 0.25",
    "text and decimal": "t.sym = q.sym AND t.money BETWEEN q.money - 0.05 AND q.money + 0.05",
    "text and time": "t.sym = q.sym AND t.at BETWEEN q.at - INTERVAL 2 SECONDS AND q.at",
    "two equalities": "t.sym = q.sym AND t.k = q.k AND t.cents BETWEEN q.cents - 40 AND q.cents + 40",
    "one side": "t.k = q.k AND t.cents - q.cents BETWEEN 1 AND 9",
    "and a residual": "t.k = q.k AND ABS(t.cents - q.cents) <= 3 AND t.price * 2 > q.price",
    "stabbing": "t.sym = q.sym AND t.cents BETWEEN q.low AND q.high",
    "stabbing from the other side": "q.k = t.k AND t.low <= q.cents AND q.cents < t.high",
    "stabbing with offsets": "t.sym = q.sym AND t.price >= q.bid - 0.05 AND t.price <= q.ask + 0.1",
    "stabbing alone": "t.cents BETWEEN q.low AND q.high",
    "stabbing in time": "t.k = q.k AND q.at <= t.at AND t.at <= q.until",
    "wide": "t.k = q.k AND t.cents BETWEEN q.cents - 9000000000000000000 AND q.cents + 5",
}


def rows(random: np.random.Generator, count: int, spread: int) -> dict[str, Any]:
    cents = random.integers(-spread, spread, count)
    k = random.integers(0, 5, count)
    # Intervals of all lengths, many short, some that end before they begin.
    lengths = (10.0 ** random.uniform(-1, np.log10(spread), count) - 2).astype(np.int64)
    low, high = cents - lengths // 2, cents + lengths
    return {
        "low": low,
        "high": pa.array(high, mask=random.random(count) < 0.05),
        "bid": low / 100,
        "ask": np.where(random.random(count) < 0.02, np.inf, high / 100),
        "until": pa.array((cents + lengths) * 10_000, pa.timestamp("us")),
        "sym": pa.array([f"S{i}" for i in k], mask=random.random(count) < 0.05),
        "k": k,
        "cents": pa.array(cents, mask=random.random(count) < 0.05),
        "price": pa.array(np.where(random.random(count) < 0.03, np.nan, cents / 100)),
        "money": pa.array([Decimal(int(c)) / 100 for c in cents], pa.decimal128(16, 2)),
        "at": pa.array(cents.astype("int64") * 10_000, pa.timestamp("us")),
    }


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (planning, planner):
        monkeypatch.setattr(module, "COMPOSITE_CANDIDATES", -1)
        monkeypatch.setattr(module, "COMPOSITE_SHARE", 2)


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("spread", [10, 3000, 2**40])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"index": "rap_table"},
        {"index": "wib_tree", "cores": 2},
        {"how": "full"},
        {"result": "count"},
        {"flow": "split_join", "cores": 2},
        {"flow": "handshake", "cores": 2},
        {"flow": "low_latency_handshake", "cores": 2},
        {"flow": "pan_join", "cores": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("text", CONDITIONS.values(), ids=CONDITIONS)
def test_the_pairs_are_those_of_a_scan(text: str, options: dict[str, Any], spread: int) -> None:
    random, used = np.random.default_rng(spread), 0
    one, scan = (
        wm.StreamJoin(text, t=wm.Rows(300), q=wm.Rows(200), **{**options, **index})
        for index in ({}, {"index": "scan"})
    )
    with one, scan:
        for _ in range(12):
            given_rows = {name: rows(random, int(random.integers(1, 150)), spread) for name in "tq"}
            got, wanted = one.push(given_rows), scan.push(given_rows)
            assert got.count == wanted.count
            if options.get("result") != "count":
                pairs = [
                    sorted(zip(*(c.tolist() for c in each.pairs().values()), strict=True))
                    for each in (got, wanted)
                ]
                assert pairs[0] == pairs[1]
            used += isinstance(driver_of(one), Composite)
        kinds = {kind for facts in one.stats()["streams"].values() for kind in facts["indexes"]}
        assert kinds <= {options.get("index", "bi_sort")} or "flow" in options
    assert used > 8 or "flow" in options  # flows stab nothing


@pytest.mark.usefixtures("_always")
@given(runs(conditions))
def test_any_join_is_the_same_with_drivers_of_several_bands(run: Run) -> None:
    check(run, index="auto")


@pytest.mark.usefixtures("_always")
def test_intervals_of_all_lengths_find_rows_whose_keys_grow_with_time() -> None:
    """Most runs lie outside of most intervals, but not of the long ones, which begin anywhere."""

    def found(index: str) -> list[int]:
        random = np.random.default_rng(5)
        join = wm.StreamJoin(
            "t.k = q.k AND q.x BETWEEN t.low AND t.high",
            t=wm.Rows(100),
            q=wm.Rows(4000),
            index=index,
            subwindow=300,
        )
        counts = []
        for push in range(8):
            low = random.integers(0, 4000, 200)
            high = low + np.where(random.random(200) < 0.3, random.integers(0, 2000, 200), 2)
            x = np.sort(random.integers(0, 500, 600)) + 500 * push
            stored = {"k": random.integers(0, 3, 600), "x": x}
            counts.append(
                join.push(q=stored, t={"k": random.integers(0, 3, 200), "low": low, "high": high}).count
            )
        if index == "auto":
            assert isinstance(driver_of(join), Composite)
        return counts

    assert found("auto") == found("scan")


@pytest.mark.usefixtures("_always")
@examples(60)
@given(multiway.runs(streams=st.integers(3, 4)))
def test_so_is_any_join_of_many_streams(run: multiway.Run) -> None:
    multiway.check(run, index="auto")


MANY = {
    "a chain": "t.sym = q.sym AND ABS(t.cents - q.cents) <= 3 AND q.k = n.k AND n.cents BETWEEN q.cents - 2 AND q.cents + 9",
    "one key": "t.sym = q.sym AND q.sym = n.sym AND ABS(t.cents - q.cents) <= 3 AND ABS(n.cents - t.cents) <= 50",
    "two equalities": "t.sym = q.sym AND t.k = q.k AND t.price <= q.price AND n.k = t.k AND n.at >= t.at",
    "times": "t.sym = q.sym AND t.at BETWEEN q.at - INTERVAL 2 SECONDS AND q.at AND n.sym = t.sym AND n.at <= q.at",
}


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"index": "rap_table"},
        {"index": "wib_tree"},
        {"result": "count"},
        {"flow": "circular_mj"},
        {"stash": 50},
    ],
    ids=str,
)
@pytest.mark.parametrize("spread", [10, 300, 2**40])
@pytest.mark.parametrize("text", MANY.values(), ids=MANY)
def test_steps_find_what_a_scan_finds(text: str, spread: int, options: dict[str, Any]) -> None:
    random, used = np.random.default_rng(spread), 0
    windows = {"t": wm.Rows(30), "q": wm.Rows(40), "n": wm.Rows(20)}
    one, scan = (
        wm.StreamJoin(text, windows=windows, **{**options, **index}) for index in ({}, {"index": "scan"})
    )
    with one, scan:
        for _ in range(8):
            given_rows = {name: rows(random, int(random.integers(1, 25)), spread) for name in "tqn"}
            got, wanted = one.push(given_rows), scan.push(given_rows)
            assert got.count == wanted.count
            if options.get("result") != "count":
                found = [
                    sorted(zip(*(c.tolist() for c in each.numbers().values()), strict=True))
                    for each in (got, wanted)
                ]
                assert found[0] == found[1]
            plan = one._engine.planning.plan
            assert isinstance(plan, Orders)
            used += any(step.shift is not None for steps in plan.steps for step in steps)
    assert used > 5


def ends_of(lo: list[int], hi: list[int], shift: int) -> list[list[tuple[int, int]]]:
    mixed = np.zeros(len(lo), np.int64)
    parts = [np.empty(len(lo), np.int64) for _ in range(4)]
    composite_ends(mixed, np.array(lo), np.array(hi), shift, *parts)
    return [
        [(a, b) for a, b in ((first, last), (again, end)) if a <= b]
        for first, last, again, end in zip(*(part.tolist() for part in parts), strict=True)
    ]


numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**25), 2**25))


@given(numbers, numbers, numbers, st.integers(0, 45))
def test_a_code_within_the_ends_has_a_key_within_the_bounds(lo: int, hi: int, x: int, shift: int) -> None:
    key = np.empty(1, np.int64)
    composite_keys(np.zeros(1, np.int64), np.array([x]), shift, key)
    (ranges,) = ends_of([lo], [hi], shift)
    inside = sum(first <= key[0] <= last for first, last in ranges)
    assert inside <= 1
    assert inside == 1 or not lo <= x <= hi
    assert all(0 <= first <= last <= LAST for first, last in ranges)


def test_what_goes_beyond_the_last_cell_goes_on_at_the_first() -> None:
    size = 1 << FIELD
    assert ends_of([size - 2], [size + 1], 0) == [[(size - 2, size - 1), (0, 1)]]
    assert ends_of([0], [size - 1], 0) == [[(0, size - 1)]]
    assert ends_of([5], [5 + size], 0) == [[(0, size - 1)]]
    assert ends_of([-3], [-1], 0) == [[(size - 3, size - 1)]]
    assert ends_of([4], [3], 0) == [[]]


floats = st.one_of(st.floats(), st.floats(-1e3, 1e3), st.sampled_from([0.0, -0.0, 5e-324, 1e308]))


@given(st.lists(floats, min_size=2), st.integers(-1000, 1000), st.booleans())
def test_proportional_codes_keep_the_order(values: list[float], power: int, single: bool) -> None:
    domain = FloatDomain("FLOAT" if single else "DOUBLE", single=single)
    codes, _ = domain.codes(pa.array(values, pa.float32() if single else pa.float64()))
    codes = np.sort(np.concatenate([codes, [-(2**63), 2**63 - 1]]))
    found = domain.proportional(codes, 2.0**power)
    assert (found[1:] >= found[:-1]).all()


@pytest.mark.usefixtures("_always")
def test_intervals_of_floats_of_several_magnitudes_are_cut_evenly() -> None:
    join = wm.StreamJoin(CONDITIONS["stabbing with offsets"], t=wm.Unbounded(), q=wm.Unbounded())
    random = np.random.default_rng(5)
    for _ in range(2):
        cents = [random.integers(1, 50_000, 1000) for _ in range(2)]
        prices = [
            {"sym": ["S"] * 1000, "price": c / 100, "bid": c / 100, "ask": (c + 3) / 100} for c in cents
        ]
        join.push(dict(zip("tq", prices, strict=True)))
    assert driver_of(join)._reach.factor is not None


def test_a_point_looks_once_for_intervals_of_similar_lengths_and_again_for_much_longer_ones() -> None:
    """Lengths of 9 to 40 would be in two classes of powers of sixteen codes."""
    random, classes = np.random.default_rng(6), []
    with wm.StreamJoin(CONDITIONS["stabbing"], t=wm.Unbounded(), q=wm.Unbounded()) as join:
        for longest in (40, 40, 40, 900_000):
            low = random.integers(0, 1_000_000, 20_000)
            high = low + random.integers(9, longest, low.size)
            row = {"sym": ["S"] * low.size, "cents": low, "low": low, "high": high}
            join.push(t=row, q=row)
            classes.append(int((driver_of(join)._reach._longest >= 0).sum()))
    assert classes == [1, 1, 1, 5]


@pytest.mark.usefixtures("_always")
def test_candidates_are_compared_first_with_what_they_may_fail() -> None:
    random = np.random.default_rng(2)
    join = wm.StreamJoin(
        "t.sym = q.sym AND t.price * 2 > q.ask AND t.cents BETWEEN q.low AND q.high",
        t=wm.Rows(100),
        q=wm.Rows(100),
    )
    for _ in range(2):
        join.push(t=rows(random, 90, 300), q=rows(random, 90, 300))
    plan = join._engine.planning.plan
    assert isinstance(plan, Plan)
    assert isinstance(plan.driver, Composite)
    assert [band.text for band in plan.checks][:2] == ["t.cents <= q.high", "t.cents >= q.low"]
    assert plan.checks[-1].text == "t.sym = q.sym"
    assert len(plan.checks) == len(plan.condition.bands)


def test_many_candidates_ask_for_it_and_few_do_not() -> None:
    random = np.random.default_rng(1)
    text = "t.sym = q.sym AND ABS(t.cents - q.cents) <= 3"
    few, many = (wm.StreamJoin(text, t=wm.Rows(size), q=wm.Rows(size)) for size in (20, 20_000))
    for _ in range(3):
        given_rows = {name: rows(random, 1000, 1_000) for name in "tq"}
        few.push(given_rows)
        many.push(given_rows)
    assert not isinstance(driver_of(few), Composite)
    assert isinstance(driver_of(many), Composite)
    (line,) = (line for line in many.explain().splitlines() if "  driver " in line)
    assert "t.sym = q.sym AND" in line
    share = many.describe()["plan"]["drivers"][0]["selectivity"]
    assert 0 < share < 0.5 * min(part["selectivity"] for part in many.describe()["plan"]["checks"])
    assert line.endswith(f"(about {share:.2g} of all pairs)")


@given(st.lists(st.tuples(numbers, numbers), max_size=8), st.lists(numbers, max_size=8), st.integers(0, 63))
def test_candidates_of_a_sample_are_counted_one_by_one(
    looked_for: list[tuple[int, int]], stored: list[int], shift: int
) -> None:
    """Rows that look for nothing count as probes alone; a range that is wider than all cells, once cut, has everything."""
    lo, hi = (np.array([ends[k] for ends in looked_for], np.int64) for k in (0, 1))
    keys = np.sort(np.array(stored, np.int64))
    found = 0
    for low, high in looked_for:
        if low <= high:
            everything = (high >> shift) - (low >> shift) >= LAST
            found += sum(everything or low >> shift <= key >> shift <= high >> shift for key in stored)
    one = planning._Range.of(0, lo, hi)
    assert one.candidates(keys, shift) == found
    widths = sorted(high - low for low, high in looked_for if low <= high)
    assert one.width == (widths[len(widths) // 2] if widths else None)
    assert one.probes == len(looked_for)


def test_a_join_of_streams_that_are_known_has_its_driver_before_its_first_row() -> None:
    """It looks at the rows once more, with its first push, or at the end of a warm start: and then has the same driver."""
    random = np.random.default_rng(1)
    qp = wm.Processor(t=wm.Rows(20_000), q=wm.Rows(20_000))
    text = "SELECT t.k FROM t JOIN q ON t.sym = q.sym AND ABS(t.cents - q.cents) <= 3"
    qp.push({name: rows(random, 2000, 1_000) for name in "tq"})
    qp.create("now", text)
    qp.create("warm", text.replace("<= 3", "<= 4"), start="warm")
    plannings = [engine.planning for engine in qp._running.feed.shared.readers]
    drivers = [planning.plan.driver for planning in plannings]  # type: ignore[union-attr]
    assert all(isinstance(driver, Composite) for driver in drivers)
    assert [len(planning.replans) for planning in plannings] == [1, 0]
    qp.push({name: rows(random, 10, 1_000) for name in "tq"})
    assert [planning.plan.driver for planning in plannings] == drivers  # type: ignore[union-attr]
    assert [len(planning.replans) for planning in plannings] == [0, 0]
