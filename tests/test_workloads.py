"""Workloads are what they say: seeded, of the stated selectivity, and recounted without the engine."""

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.errors import OptionError
from watersmeet.workloads import market
from watersmeet.workloads.catalog import WORKLOADS, Source, Workload, count_matches, workload
from watersmeet.workloads.feed import STREAMS, Feed

WINDOW = 2048


def quadratic_count(work: Workload, r: pa.RecordBatch | pa.Table, s: pa.RecordBatch | pa.Table) -> int:
    """Every row of r with every row of s, the condition's text spelled out."""
    holds = np.ones((r.num_rows, s.num_rows), bool)
    for band in work.bands:
        left = np.asarray(r.column(band.left))[:, None]
        right = np.asarray(s.column(band.right))[None, :]
        holds &= (left >= right - right.dtype.type(band.width)) & (
            left <= right + right.dtype.type(band.width)
        )
    return int(holds.sum())


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_recount_equals_the_quadratic_count(name: str) -> None:
    feed = Feed(workload(name, 500))
    feed.pushes(300, 2)
    push = feed.pushes(200, 1)[0]
    r, s = feed.held("r"), feed.held("s")
    assert count_matches(feed.work, "r", push["r"], s) == quadratic_count(feed.work, push["r"], s)
    assert count_matches(feed.work, "s", push["s"], r) == quadratic_count(feed.work, r, push["s"])


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_selectivity_is_as_stated(name: str) -> None:
    feed = Feed(workload(name, WINDOW))
    feed.pushes(WINDOW, 1)
    found = rows = 0
    for _ in range(8):
        push = feed.pushes(WINDOW, 1)[0]
        found, rows = found + feed.expected(push), rows + 2 * WINDOW
    expected = feed.work.selectivity * rows
    # Zipf's few heavy keys make the count vary more than a count of independent pairs would.
    tolerance = 0.5 * expected if name.startswith("zipf") else 6 * np.sqrt(expected) + 0.05 * expected
    assert found == pytest.approx(expected, abs=tolerance)


def test_the_same_seed_gives_the_same_rows() -> None:
    for name in WORKLOADS:
        work = workload(name, WINDOW)
        for stream in STREAMS:
            first, second = (Source(work, stream, seed=7).take(100) for _ in range(2))
            assert first.equals(second)
            assert not first.equals(Source(work, stream, seed=8).take(100))


def test_splitjoin_has_the_papers_columns_and_condition() -> None:
    work = workload("splitjoin", 1 << 21)
    assert work.condition == "r.x BETWEEN s.a - 10 AND s.a + 10 AND r.y BETWEEN s.b - 10 AND s.b + 10"
    r, s = (Source(work, stream).take(10) for stream in STREAMS)
    assert [str(field.type) for field in r.schema] == ["int32", "float", "string"]
    assert [str(field.type) for field in s.schema] == ["int32", "float", "double", "bool"]
    assert {len(text) for text in r.column("z").to_pylist()} == {20}


def test_bands_of_any_selectivity_have_the_same_keys() -> None:
    narrow, wide = (Source(workload(f"band-{n}", WINDOW), "r").take(50) for n in (1, 1000))
    assert narrow.equals(wide)


def test_increasing_keys_increase() -> None:
    keys = np.asarray(Source(workload("increasing", WINDOW), "r").take(100_000).column("x"))
    assert keys[-1000:].min() > keys[:1000].max()


@pytest.mark.parametrize("batch", [1, 7, 700])
def test_the_feed_knows_what_the_windows_hold(batch: int) -> None:
    feed = Feed(workload("band-1", 500))
    handed: dict[str, list[pa.RecordBatch]] = {stream: [] for stream in STREAMS}
    for _ in range(2100 // batch):
        for stream, rows in feed.pushes(batch, 1)[0].items():
            handed[stream].append(rows)
    for stream in STREAMS:
        everything = pa.Table.from_batches(handed[stream])
        assert feed.pushed(stream) == everything.num_rows
        assert feed.held(stream).equals(everything.slice(everything.num_rows - 500))


def test_single_rows_alternate() -> None:
    pushes = Feed(workload("band-1", 10)).single_rows(5)
    assert [list(push) for push in pushes] == [["r"], ["s"]] * 3
    assert all(batch.num_rows == 1 for push in pushes for batch in push.values())


def test_unknown_workloads_and_empty_windows_are_refused() -> None:
    with pytest.raises(OptionError, match=r"band-1.*got 'bend-1'"):
        workload("bend-1", 10)
    with pytest.raises(OptionError, match="at least 1 row; got 0"):
        workload("band-1", 0)


def test_the_market_is_recounted_as_the_rule_says() -> None:
    source = market.Market(seed=3)
    for _ in range(4):
        source.take(0.03)
    pairs, late = market.recount(source.pushed)
    expected, expected_late = _market_a_row_at_a_time(source.pushed)
    assert late == expected_late
    assert pairs.tolist() == sorted(expected)
    assert len(expected) > 100


def _market_a_row_at_a_time(pushed: list[dict[str, pa.RecordBatch]]) -> tuple[list[int], int]:
    newest: dict[str, int] = {}
    kept: dict[str, list[dict]] = {"trades": [], "quotes": []}
    late = 0
    for push in pushed:
        for stream, batch in push.items():
            times = batch.column("ts").cast(pa.int64()).to_pylist()
            for row, ts in zip(batch.to_pylist(), times, strict=True):
                if len(newest) == 2 and ts < min(newest.values()) - market.LATENESS_MS * 1000:
                    late += 1
                    continue
                newest[stream] = max(newest.get(stream, ts), ts)
                kept[stream].append({**row, "ts": ts})
    found = []
    for i, trade in enumerate(kept["trades"]):
        low, high = trade["ts"] - market.QUOTE_WINDOW_MS * 1000, trade["ts"] + market.TRADE_WINDOW_MS * 1000
        for j, quote in enumerate(kept["quotes"]):
            near = quote["sym"] == trade["sym"] and low <= quote["ts"] <= high
            if near and quote["bid"] <= trade["price"] <= quote["ask"]:
                found.append(i << 32 | j)
    return found, late
