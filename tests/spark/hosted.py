"""What the host of ``test_host_faults`` hosts: its streams, the texts that its queries have, and the process that writes statements."""

import random
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import watersmeet as wm
from watersmeet.spark.host.control import Control

STREAMS = "rs"
COLUMNS = pa.schema([(name, pa.int64()) for name in ("id", "ts", "x", "k", "turn")])
SPARK_COLUMNS = ", ".join(f"{name} long" for name in COLUMNS.names)
WINDOWS = dict.fromkeys(STREAMS, wm.Range(6, time="ts", lateness=8))
NAMES = [f"q{number}" for number in range(10)]
TURNS = dict.fromkeys(STREAMS, wm.Range(2, time="turn"))
"""A window that some queries choose. The column is NULL now and then, which stops them in the middle of their rows."""

TEXTS: list[tuple[str, Any]] = [
    ("SELECT id, x + 1 AS y FROM r WHERE x > 15", None),
    ("SELECT id, k FROM s WHERE x < 5 UNION ALL SELECT id, k FROM r WHERE x < 5", None),
    ("SELECT r.id, s.id AS other FROM r JOIN s ON r.k = s.k AND r.x < s.x - 15", None),
    ("SELECT r.id, s.id AS other FROM r JOIN s ON r.x BETWEEN s.x - 1 AND s.x + 1", None),
    ("SELECT r.id, s.id AS other FROM r FULL JOIN s ON r.k = s.k AND r.x = s.x", None),
    ("SELECT s.id FROM r RIGHT ANTI JOIN s ON r.x = s.x", None),
    ("SELECT r.id, s.id AS other FROM r LEFT JOIN last_range(s, 3) s ON r.x > s.x + 20", None),
    ("SELECT k, COUNT(*) AS n, SUM(x) AS total FROM r GROUP BY k", None),
    ("SELECT COUNT(*) AS n, MAX(r.x) AS top FROM r JOIN s ON r.k = s.k AND r.x = s.x", None),
    ("SELECT s.k, SUM(r.x) AS total FROM r JOIN s ON r.k = s.k GROUP BY s.k", None),
    ("SELECT window.start, k, COUNT(*) AS n FROM s GROUP BY window(ts, 10), k", None),
    ("SELECT k, SUM(x) AS total FROM s GROUP BY k ORDER BY total DESC, k LIMIT 2", None),
    ("SELECT DISTINCT k, x FROM s", None),
    ("SELECT r.id, s.id AS other FROM r JOIN s ON r.k = s.k AND r.x = s.x", TURNS),
]
"""Of every spreading, and of every kind of thing that remembers. None depends on the order of rows within a batch."""

WRONG = "SELECT nothing FROM r"


def write_statements(folder: str, seed: int) -> None:
    """One after the other, until this process is killed; what is refused is refused."""
    rng, control = random.Random(seed), Control(f"{folder}/control")
    while True:
        name, verb = rng.choice(NAMES), rng.choice(["create", "create", "alter", "drop"])
        sql, windows = (WRONG, None) if rng.random() < 0.05 else rng.choice(TEXTS)
        if verb == "drop":
            control.drop(name, timeout=None)
        elif verb == "alter":
            control.alter(name, sql, windows=windows or {}, timeout=None)
        else:
            control.create(name, sql, windows=windows, timeout=None)
        while len(list(Path(folder, "control", "inbox").iterdir())) > 9:  # the host takes its time
            time.sleep(0.2)
        with Path(folder, "written").open("a") as log:
            log.write(".")
        time.sleep(rng.uniform(0, 0.6))


if __name__ == "__main__":
    write_statements(sys.argv[1], int(sys.argv[2]))
