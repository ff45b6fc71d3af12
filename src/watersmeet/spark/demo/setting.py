"""What the demo joins: two streams of points, near in both coordinates and in time, with some disorder and a few stragglers."""

from watersmeet.workloads.catalog import workload

CONDITION = workload("splitjoin", 1).condition
BAND = 10
NAME = "demo"
SELECT = "r.n AS r, s.n AS s, r.x, r.y, s.a, s.b"
RATE = 20_000  # rows a second of each stream
WINDOW_SECONDS, LATENESS_SECONDS = 5.0, 1.0
DISORDER_MS, STRAGGLERS, STRAGGLING_SECONDS = 300, 0.0005, 4.0
WARM_UP_ROWS = 20_000
