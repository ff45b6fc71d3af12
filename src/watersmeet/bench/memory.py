"""Memory over many window lengths, in a process of its own: prints one line of JSON.

What stays true: the process does nothing but push, so growth of its resident memory is the engine's.
Sampled once a window length, after the windows were filled and everything was compiled.
"""

import json
import os
import resource
import sys
from pathlib import Path

from watersmeet.bench.peers import Engine
from watersmeet.workloads.catalog import workload
from watersmeet.workloads.feed import Feed


def main() -> None:
    """``python -m watersmeet.bench.memory INDEX WINDOW LENGTHS``."""
    index, window, lengths = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    work = workload("band-1", window)
    feed, engine = Feed(work), Engine(work, index)
    batch = max(1, window // 8)
    resident, state = [], []
    for _ in range(lengths):
        for push in feed.pushes(batch, window // batch):
            engine.push(push)
        resident.append(resident_bytes())
        state.append(sum(stream["bytes"] for stream in engine.join.stats()["streams"].values()))
    print(json.dumps({"index": index, "window": window, "resident": resident, "state": state}))


def resident_bytes() -> int:
    """Resident memory of this process: now where the system tells, else the most it ever was."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def growth(samples: list[int]) -> float:
    """Growth from the second tenth of the samples to the last, as a share: 0.01 is one per cent."""
    tenth = max(1, len(samples) // 10)
    early, late = samples[tenth : 2 * tenth], samples[-tenth:]
    return (sum(late) / len(late)) / (sum(early) / len(early)) - 1.0


if __name__ == "__main__":
    main()
