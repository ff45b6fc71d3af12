"""Three streams by two joins, as docs/recipes.md advises: the second join's lateness follows from the first join's windows."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm

# How many of the first join's longest windows its rows may be late, beside its lateness.
WINDOWS = {"inner": 1, "left": 2}


def disordered(random: np.random.Generator, lateness: int) -> dict[str, np.ndarray]:
    """Rows that are out of order by at most ``lateness``."""
    n = int(random.integers(30, 200))
    times = np.sort(random.integers(0, 500, n))
    times = times[np.argsort(times + random.integers(0, lateness + 1, n), kind="stable")]
    return {"k": random.integers(0, 4, n), "ts": times}


@pytest.mark.parametrize("how", WINDOWS)
@pytest.mark.parametrize("seed", range(12))
def test_nothing_of_a_chain_is_late_with_the_lateness_that_the_docs_give(how: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    late, *sizes = (int(size) for size in random.integers(0, 40, 5))
    rows = {stream: disordered(random, late) for stream in "ops"}
    time = "COALESCE(GREATEST(o.ts, p.ts), o.ts)"
    first = wm.StreamJoin(
        "o.k = p.k",
        o=wm.Range(sizes[0], time="ts", lateness=late),
        p=wm.Range(sizes[1], time="ts", lateness=late),
        how=how,
        select=f"o.k, {time} AS ts",
        schemas={stream: pa.table(rows[stream]).schema for stream in "op"},
    )
    second = wm.StreamJoin(
        "q.k = s.k",
        q=wm.Range(sizes[2], time="ts", lateness=late + WINDOWS[how] * max(sizes[:2])),
        s=wm.Range(sizes[3], time="ts", lateness=late),
    )

    def onward(result: wm.Result) -> int:
        assert not result.late
        if not result.count:
            return 0
        found = second.push(q=result.to_arrow().sort_by("ts"))
        assert not found.late
        return found.count

    second.push(s=rows["s"])  # s is far ahead, so that nothing but q itself holds the second watermark back
    count, at = 0, dict.fromkeys("op", 0)
    while left := [stream for stream in "op" if at[stream] < len(rows[stream]["k"])]:
        stream, size = random.choice(left), int(random.integers(1, 60))
        batch = {name: values[at[stream] : at[stream] + size] for name, values in rows[stream].items()}
        at[stream] += size
        count += onward(first.push({stream: batch}))
    count += onward(first.finish()) + second.finish().count

    o, p, s = (pa.table(rows[stream]) for stream in "ops")  # noqa: RUF059
    found = duckdb.sql(
        f"""SELECT count(*) FROM (
            SELECT o.k, {time} AS ts FROM o {how} JOIN p ON o.k = p.k AND p.ts BETWEEN o.ts - {sizes[1]} AND o.ts + {sizes[0]}
        ) q JOIN s ON q.k = s.k AND s.ts BETWEEN q.ts - {sizes[3]} AND q.ts + {sizes[2]}"""
    )
    assert count == found.fetchall()[0][0]
