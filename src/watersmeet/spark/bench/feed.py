"""Messages for the Kafka benchmark: rows as a function of their number, offered at a steady rate by a process of its own.

What stays true: row n of a topic is the same whoever asks, so what was joined can be counted again without having seen a message.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

TOPICS = ("trades", "quotes")
COLUMNS = "n LONG, ts LONG, x LONG"
BASE = 1_767_603_600_000_000  # event time of row 0, in microseconds
WITHIN = 1_000_000  # a pair is at most a second apart
WIDTH = 1
LOT = 500  # messages between two looks at the clock


@dataclass(frozen=True)
class Load:
    """How many rows of both topics a second, and for how many seconds; the first ``warm`` of them are not counted."""

    rate: int
    seconds: float
    warm: float
    cores: int

    @property
    def rows(self) -> int:
        """Of a topic."""
        return int(self.rate * self.seconds / 2)

    @property
    def keys(self) -> int:
        """So many that a row finds about one partner."""
        return 3 * self.rate


def rows_of(load: Load, topic: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(times, keys) of rows of a topic."""
    times = BASE + numbers * 2_000_000 // load.rate
    mixed = (numbers.astype(np.uint64) + np.uint64(TOPICS.index(topic) << 40)) * np.uint64(0x9E3779B97F4A7C15)
    return times, ((mixed >> np.uint64(33)) % np.uint64(load.keys)).astype(np.int64)


def expected(load: Load) -> int:
    """How many pairs there are: keys at most ``WIDTH`` and times at most ``WITHIN`` apart, counted by two searches a key."""
    (t_time, t_key), (q_time, q_key) = (rows_of(load, topic, np.arange(load.rows)) for topic in TOPICS)
    span = int(q_time.max() - BASE) + 2 * WITHIN + 1 if load.rows else 1
    stored = np.sort(q_key * span + (q_time - BASE))
    found = 0
    for apart in range(-WIDTH, WIDTH + 1):
        key, time = t_key + apart, t_time - BASE
        low = np.searchsorted(stored, key * span + np.maximum(time - WITHIN, 0), "left")
        high = np.searchsorted(stored, key * span + np.minimum(time + WITHIN, span - 1), "right")
        found += int(np.where((key >= 0) & (key < load.keys), high - low, 0).sum())
    return found


def offer(load: Load, producer: Any) -> float:
    """All rows, at the load's rate or as fast as it goes; the seconds it took until the broker had them all."""
    numbers = np.arange(load.rows)
    columns = [rows_of(load, topic, numbers) for topic in TOPICS]
    begin = time.monotonic()
    for first in range(0, load.rows, LOT):
        for topic, (times, keys) in zip(TOPICS, columns, strict=True):
            lot = slice(first, first + LOT)
            for n, ts, x in zip(numbers[lot].tolist(), times[lot].tolist(), keys[lot].tolist(), strict=True):
                _produce(producer, topic, f'{{"n":{n},"ts":{ts},"x":{x}}}')
        producer.poll(0)
        ahead = begin + 2 * (first + LOT) / load.rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
    producer.flush()
    return time.monotonic() - begin


def _produce(producer: Any, topic: str, message: str) -> None:
    while True:
        try:
            producer.produce(topic, message)
            return
        except BufferError:  # the broker is behind
            producer.poll(0.01)


def main() -> None:
    """``python -m watersmeet.spark.bench.feed SERVERS '{"rate": ...}'``; waits for a line, then begins."""
    from confluent_kafka import Producer

    load = Load(**json.loads(sys.argv[2]))
    settings = {"bootstrap.servers": sys.argv[1], "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
    producer = Producer(settings)
    sys.stdin.readline()
    print(json.dumps({**asdict(load), "took": offer(load, producer)}))


if __name__ == "__main__":
    main()
