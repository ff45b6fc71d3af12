"""Pathway's interval_join on a bounded band workload, in a process of its own: prints one line of JSON.

What stays true: the rate is the slope between a small and a large run in the same process, each the best of
three, so start-up cancels out and disturbed runs drop out; results go to Pathway's null sink, so no Python
callback is paid for; and a further run counts the results, which must equal a recount. Pathway has no count
windows: here everything is kept, and the windows are only as large as the run, which is to its advantage.
Both streams come in steps of ``batch`` rows.
"""

import json
import logging
import sys
import time
from typing import Any

import numpy as np

from watersmeet.workloads.catalog import Source, Workload, count_matches, workload

REPEATS = 3


def main() -> None:
    """``python -m watersmeet.bench.pathway_peer ROWS BATCH``."""
    logging.disable(logging.INFO)
    rows, batch = int(sys.argv[1]), int(sys.argv[2])
    work, small = workload("band-1", rows), min(batch, rows // 4)
    _seconds(work, 256, 128, discard)  # start-up
    spent = _slope(work, small, rows, batch, discard)
    ingest = _slope(work, small, rows, batch, None)
    counts: list[int] = []
    _seconds(work, small, batch, lambda pairs: count_rows(pairs, counts))
    print(
        json.dumps(
            {
                "rows": 2 * (rows - small),
                "seconds": spent,
                "ingest_seconds": ingest,
                "results": counts[-1] if counts else 0,
                "expected": _expected(work, small),
            }
        )
    )


def _slope(work: Workload, small: int, rows: int, batch: int, sink: Any) -> float:
    """Seconds from ``small`` to ``rows`` rows a side; the best of several runs of each: the least disturbed."""
    best = [min(_seconds(work, count, batch, sink) for _ in range(REPEATS)) for count in (small, rows)]
    return best[1] - best[0]


def _seconds(work: Workload, rows: int, batch: int, sink: Any) -> float:
    import pathway as pw
    from pathway.internals.parse_graph import G

    G.clear()
    r, s = (_table(pw, work, stream, rows, batch) for stream in ("r", "s"))
    if sink is None:
        pw.io.null.write(r)
        pw.io.null.write(s)
    else:
        width = work.bands[0].width
        sink(r.interval_join(s, r.x, s.a, pw.temporal.interval(-width, width)).select(x=r.x, a=s.a))
    start = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return time.perf_counter() - start


def _table(pw: Any, work: Workload, stream: str, rows: int, batch: int) -> Any:
    frame = Source(work, stream).take(rows).select(work.keys(stream)).to_pandas()
    frame["__time__"] = 2 + 2 * (np.arange(rows) // batch)
    return pw.debug.table_from_pandas(frame)


def discard(pairs: Any) -> None:
    """To the null sink."""
    import pathway as pw

    pw.io.null.write(pairs)


def count_rows(pairs: Any, counts: list[int]) -> None:
    """The number of rows, each time it changes."""
    import pathway as pw

    def on_change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            counts.append(int(row["n"]))

    counter: Any = pw.reducers
    pw.io.subscribe(pairs.reduce(n=counter.count()), on_change=on_change)


def _expected(work: Workload, rows: int) -> int:
    import pyarrow as pa

    r, s = (Source(work, stream).take(rows) for stream in ("r", "s"))
    return count_matches(work, "r", r, pa.Table.from_batches([s]))


if __name__ == "__main__":
    main()
