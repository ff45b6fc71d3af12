"""How long the first push of each index takes in a fresh process: prints one line of JSON.

Run with an empty ``NUMBA_CACHE_DIR`` it measures compilation; run again with the same directory, start-up
from the cache.
"""

import json
import sys
import time

from watersmeet.bench.peers import Engine
from watersmeet.workloads.catalog import workload
from watersmeet.workloads.feed import Feed


def main() -> None:
    """``python -m watersmeet.bench.cold_start BEGIN INDEX...``; BEGIN is the Unix time of the launch."""
    imported = time.time() - float(sys.argv[1])
    first: dict[str, float] = {}
    for index in sys.argv[2:]:
        name = {"hash": "equality-1", "grid": "splitjoin"}.get(index, "band-1")
        feed = Feed(workload(name, 4096))
        pushes = feed.pushes(1024, 12)  # more than a window: expiry is compiled too
        start = time.perf_counter()
        engine = Engine(feed.work, index)
        for push in pushes:
            engine.push(push)
        first[index] = time.perf_counter() - start
    print(json.dumps({"import": imported, "first": first}))


if __name__ == "__main__":
    main()
