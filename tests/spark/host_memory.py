"""For ``test_host_stages``: a host in a process of bounded memory, with a query that needs more. The last line of output is JSON."""

import json
import resource
import sys
from pathlib import Path

import pyarrow as pa

from spark.host_runner import HostRunner
from spark.test_host_control import COLUMNS, setting

ROOM = 600 << 20  # bytes beyond what the process has when it starts


def rows(first: int, count: int) -> list[pa.RecordBatch]:
    made = {"id": range(first, first + count), "k": [1] * count, "x": [1.0] * count, "s": ["1"] * count}
    return [pa.RecordBatch.from_pydict({**made, "ts": [first // 1000] * count}, schema=COLUMNS)]


def main(folder: str) -> None:
    runner = HostRunner(Path(folder), setting(1))
    runner.say("create", "ok", "SELECT id FROM r WHERE id % 1000 = 0")
    runner.say("create", "huge", "SELECT r.id, t.id AS other FROM r JOIN t ON r.k = t.k")
    runner.batch({})
    runner.batch({"r": rows(0, 20)})  # kernels are compiled
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, hard))
    wide = {"r": rows(1000, 20_000), "t": rows(1000, 20_000)}  # 400 million pairs
    said = {}
    try:
        runner.batch(wide)
    except MemoryError as error:
        said["error"] = str(error)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))  # as in another process
    runner.restart(skip=(2,))
    for name, batch in (("before", wide), ("after", {"r": rows(30_000, 20_000)})):
        commit = runner.batch(batch)
        assert commit is not None
        said[name] = {query: len(found) for query, found in runner.rows_of(commit).items()}
        said["stopped"] = commit.stopped
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1])
