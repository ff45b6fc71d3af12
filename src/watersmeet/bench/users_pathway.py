"""Pathway's interval_join on a users' workload, in a process of its own: prints one line of JSON.

What stays true: as in ``pathway_peer``. The rate is the slope between a small and a large run, each the best of three; results go to the
null sink; a further run counts them, and the count must equal a recount. The window is as large as the run: nothing has to be forgotten,
which is to Pathway's advantage. What an interval and equalities cannot say is a filter on what they found.
"""

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from watersmeet.bench.pathway_peer import REPEATS, count_rows, discard
from watersmeet.bench.users_cases import pathway_work
from watersmeet.workloads.users import UserWorkload
from watersmeet.workloads.users_feed import partners


def main() -> None:
    """``python -m watersmeet.bench.users_pathway WORKLOAD ROWS BATCH``."""
    logging.disable(logging.INFO)
    name, rows, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    work, small = pathway_work(name, rows), min(batch, rows // 4)

    def seconds(count: int, sink: Any = discard) -> float:
        return _seconds(work, JOINS[name], count, batch, sink)

    seconds(256)  # start-up
    best = [min(seconds(count) for _ in range(REPEATS)) for count in (small, rows)]
    counts: list[int] = []
    seconds(small, lambda found: count_rows(found, counts))
    found = {
        "rows": 2 * (rows - small),
        "seconds": best[1] - best[0],
        "results": counts[-1] if counts else 0,
        "expected": _expected(work, small),
    }
    print(json.dumps(found))


Join = Callable[[Any, UserWorkload, Any, Any], Any]


def _seconds(work: UserWorkload, join: Join, rows: int, batch: int, sink: Any) -> float:
    import pathway as pw
    from pathway.internals.parse_graph import G

    G.clear()
    left, right = (_table(pw, work, stream, rows, batch) for stream in work.streams)
    sink(join(pw, work, left, right))
    start = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return time.perf_counter() - start


def _table(pw: Any, work: UserWorkload, stream: str, rows: int, batch: int) -> Any:
    frame = work.rows(stream, 0, rows).to_pandas()
    frame["ts"] = frame["ts"].astype("int64")
    frame["__time__"] = 2 + 2 * (np.arange(rows) // batch)
    return pw.debug.table_from_pandas(
        frame.dropna()
    )  # a row with a NULL has no partner, but in Pathway NULL equals NULL


def _lasting(pw: Any, work: UserWorkload) -> Any:
    length = work.window * work.step
    return pw.temporal.interval(-length, length)


def _market(pw: Any, work: UserWorkload, t: Any, q: Any) -> Any:
    found = t.interval_join(q, t.ts, q.ts, _lasting(pw, work), t.sym == q.sym).select(
        sym=t.sym, price=t.price, size=t.size, bid=q.bid, ask=q.ask
    )
    return found.filter((found.price >= found.bid) & (found.price <= found.ask))


def _clicks(pw: Any, work: UserWorkload, i: Any, c: Any) -> Any:
    found = i.interval_join_left(c, i.ts, c.ts, _lasting(pw, work), i.impression == c.impression)
    return found.select(i.impression, i.campaign, c.position)


def _sensors(pw: Any, work: UserWorkload, a: Any, b: Any) -> Any:
    width = float(work.comparisons[0].rsplit(" ", 1)[1])
    wider = pw.temporal.interval(-1.01 * width, 1.01 * width)  # it rounds otherwise
    found = a.interval_join(b, a.x, b.x, wider).select(x=a.x, y=a.y, sensor=a.sensor, x2=b.x, y2=b.y)
    found = found.filter((found.x >= found.x2 - width) & (found.x <= found.x2 + width))
    return found.filter((found.y >= found.y2 - width) & (found.y <= found.y2 + width))


def _flights(pw: Any, work: UserWorkload, f: Any, w: Any) -> Any:
    found = f.interval_join(w, f.ts, w.ts, _lasting(pw, work), f.airport == w.airport).select(
        airport=f.airport, flight=f.flight, most_wind=f.most_wind, wind=w.wind
    )
    return found.filter(found.wind > found.most_wind)


JOINS: dict[str, Join] = {"market": _market, "clicks": _clicks, "sensors": _sensors, "flights": _flights}


def _expected(work: UserWorkload, rows: int) -> int:
    left, right = work.streams
    numbers = np.arange(rows)
    counts = partners(work, left, work.values(left, numbers), work.values(right, numbers))
    return int(counts.sum() + ((counts == 0).sum() if work.how == "left" else 0))


if __name__ == "__main__":
    main()
