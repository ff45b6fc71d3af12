"""Pathway's windows by meter, in a process of its own: prints one line of JSON.

What stays true: as in ``pathway_peer``. The rate is the slope between a small and a large run, each the best of three; results go to the
null sink; a further run counts the windows, and the count must equal a recount.
"""

import json
import logging
import sys
import time
from typing import Any

import numpy as np

from watersmeet.bench.pathway_peer import REPEATS, count_rows, discard
from watersmeet.workloads.readings import SECOND, Readings


def main() -> None:
    """``python -m watersmeet.bench.queries_pathway KIND GROUPS ROWS BATCH``."""
    logging.disable(logging.INFO)
    kind, groups, rows, batch = sys.argv[1], *(int(number) for number in sys.argv[2:5])
    work, small = Readings(groups, 100_000, kind), min(batch, rows // 4)
    _seconds(work, 256, batch, discard)  # start-up
    best = [min(_seconds(work, count, batch, discard) for _ in range(REPEATS)) for count in (small, rows)]
    counts: list[int] = []
    _seconds(work, small, batch, lambda found: count_rows(found, counts))
    found = {
        "rows": rows - small,
        "seconds": best[1] - best[0],
        "results": counts[-1] if counts else 0,
        "expected": windows(work, small),
    }
    print(json.dumps(found))


def _seconds(work: Readings, rows: int, batch: int, sink: Any) -> float:
    import pathway as pw
    from pathway.internals.parse_graph import G

    G.clear()
    frame = work.batch(0, rows).to_pandas()
    frame["ts"] = work.values(0, rows)["ts"]
    frame["__time__"] = 2 + 2 * (np.arange(rows) // batch)
    table = pw.debug.table_from_pandas(frame)
    kinds = {
        "tumbling": lambda: pw.temporal.tumbling(duration=SECOND),
        "hopping": lambda: pw.temporal.sliding(hop=SECOND // 2, duration=SECOND),
        "session": lambda: pw.temporal.session(max_gap=work.gap),
    }
    reducers: Any = pw.reducers
    grouped = table.windowby(table.ts, window=kinds[work.kind](), instance=table.k)
    this: Any = pw.this
    sink(
        grouped.reduce(
            k=this._pw_instance, start=this._pw_window_start, n=reducers.count(), total=reducers.sum(this.v)
        )
    )
    start = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return time.perf_counter() - start


def windows(work: Readings, rows: int) -> int:
    """How many windows of meters there are among the first rows, open ones too."""
    values = work.values(0, rows)
    if work.kind == "session":
        order = np.argsort(values["k"], kind="stable")
        k, ts = values["k"][order], values["ts"][order]
        # Pathway's session goes on while two neighbours are less than the gap apart.
        return int(1 + ((k[1:] != k[:-1]) | (ts[1:] - ts[:-1] >= work.gap)).sum())
    slide = SECOND if work.kind == "tumbling" else SECOND // 2
    last = values["ts"] // slide
    starts = [last - back for back in range(SECOND // slide)]
    every = np.concatenate([start * work.groups + values["k"] for start in starts])
    return int(np.unique(every).size)


if __name__ == "__main__":
    main()
