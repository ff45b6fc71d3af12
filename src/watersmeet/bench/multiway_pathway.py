"""Pathway's joins one after the other on the three streams of a workload, in a process of its own: prints one line of JSON.

What stays true: as in ``pathway_peer``. The rate is the slope between a small and a large run, each the best of three; results go to the
null sink; a further run counts them, and the count must equal a recount. Pathway has no count windows: everything is kept, and
the window is as large as the run, with the same matches a row as the workload that it stands beside.
"""

import json
import logging
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.bench.pathway_peer import REPEATS, count_rows, discard
from watersmeet.workloads.multiway import MultiwayFeed, MultiwayWorkload, count_results, one_key

STREAMS = 3


def main() -> None:
    """``python -m watersmeet.bench.multiway_pathway ROWS BATCH FAN_OUT``."""
    logging.disable(logging.INFO)
    rows, batch, fan_out = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    work, small = one_key(STREAMS, fan_out / rows, rows), min(batch, rows // 4)
    _seconds(work, 256, 128, discard)  # start-up
    spent, ingest = (_slope(work, small, rows, batch, sink) for sink in (discard, None))
    counts: list[int] = []
    _seconds(work, small, batch, lambda found: count_rows(found, counts))
    found = {
        "rows": STREAMS * (rows - small),
        "seconds": spent,
        "ingest_seconds": ingest,
        "results": counts[-1] if counts else 0,
        "expected": _expected(work, small),
    }
    print(json.dumps(found))


def _slope(work: MultiwayWorkload, small: int, rows: int, batch: int, sink: Any) -> float:
    """Seconds from ``small`` to ``rows`` rows a stream; the best of several runs of each: the least disturbed."""
    best = [min(_seconds(work, count, batch, sink) for _ in range(REPEATS)) for count in (small, rows)]
    return best[1] - best[0]


def _seconds(work: MultiwayWorkload, rows: int, batch: int, sink: Any) -> float:
    import pathway as pw
    from pathway.internals.parse_graph import G

    G.clear()
    a, b, c = (_table(pw, rows_of, batch) for rows_of in MultiwayFeed(work).pushes(rows, 1)[0].values())
    if sink is None:
        for table in (a, b, c):
            pw.io.null.write(table)
    else:
        two = a.join(b, a.k == b.k).select(k=a.k, v1=a.v, v2=b.v)
        sink(two.join(c, two.k == c.k).select(v1=two.v1, v2=two.v2, v3=c.v))
    start = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return time.perf_counter() - start


def _table(pw: Any, rows: pa.RecordBatch, batch: int) -> Any:
    frame = rows.select(["k", "v"]).to_pandas()
    frame["__time__"] = 2 + 2 * (np.arange(len(frame)) // batch)
    return pw.debug.table_from_pandas(frame)


def _expected(work: MultiwayWorkload, rows: int) -> int:
    push = MultiwayFeed(work).pushes(rows, 1)[0]
    first = work.streams[0]
    return count_results(work, first, push[first], {name: push[name] for name in work.streams[1:]})


if __name__ == "__main__":
    main()
