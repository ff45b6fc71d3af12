"""The broker dies, the query dies, partitions are added, a message is no JSON, a topic goes: nothing is lost or doubled.

Expected pairs are counted in plain Python from what was sent.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark.test_kafka import QUICK
from watersmeet.spark.bench.broker import Broker

HERE = Path(__file__).parent
PATIENCE = 900  # seconds
APART = timedelta(milliseconds=10)
pytestmark = pytest.mark.slow
Pairs = list[tuple[int, int]]


class Feed:
    """Messages of two topics, a hundredth of a second apart, and what they must give."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.rng = broker, random.Random(3)
        self.sent: dict[str, list[int]] = {"trades": [], "quotes": []}

    def send(self, count: int, **where: int) -> None:
        """So many more rows a topic; ``partition=`` says where to."""
        producer = self.broker.producer()
        for name, values in self.sent.items():
            for _ in range(count):
                moment = datetime(2026, 1, 5, tzinfo=UTC) + APART * len(values)
                row = {"id": len(values), "ts": moment.isoformat(), "x": self.rng.randrange(100)}
                values.append(row["x"])
                producer.produce(name, json.dumps(row), **where)
        assert producer.flush(60) == 0

    def expected(self) -> Pairs:
        return [
            (t, q)
            for t, x in enumerate(self.sent["trades"])
            for q, y in enumerate(self.sent["quotes"])
            if abs(t - q) <= 200 and abs(x - y) <= 1
        ]


class Job:
    """The query in a process of its own, and its table."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker, self.folder = broker, folder
        folder.mkdir()
        self.process: subprocess.Popen[str] | None = None

    def start(self, mode: str = "PERMISSIVE") -> None:
        command = [sys.executable, str(HERE / "kafka_job.py"), self.broker.servers, str(self.folder), mode]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "JAVA_TOOL_OPTIONS": QUICK},
            stdout=subprocess.PIPE,
            stderr=(self.folder / "log").open("a"),
            text=True,
            start_new_session=True,
        )

    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def kill(self) -> None:
        """Driver, Java and workers."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            self.process = None

    def said(self) -> dict[str, Any]:
        """Waits for the end."""
        assert self.process is not None
        out, _ = self.process.communicate(timeout=PATIENCE)
        assert out, (self.folder / "log").read_text()[-2000:]
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found

    def stop(self) -> dict[str, Any]:
        (self.folder / "stop").touch()
        return self.said()

    def table(self) -> Pairs:
        """What the sink has committed."""
        lines = [
            line
            for part in (self.folder / "out" / "_spark_metadata").glob("*")
            if not part.name.startswith(".")
            for line in part.read_text().splitlines()[1:]
        ]
        files = {json.loads(line)["path"].removeprefix("file://") for line in lines}
        tables = [pq.read_table(file, partitioning=None).to_pylist() for file in files]
        return sorted((row["t"], row["q"]) for rows in tables for row in rows)

    def wait_for(self, expected: Pairs, again: bool = False) -> None:
        """Until the table has so many rows; a query that has ended is started again, if that is allowed."""
        end = time.monotonic() + PATIENCE
        while len(self.table()) < len(expected):
            assert time.monotonic() < end, f"{len(self.table())} of {len(expected)} pairs"
            if self.ended():
                assert again, self.said()
                self.start()
            time.sleep(0.5)


@pytest.fixture
def feed(broker: Broker) -> Feed:
    broker.create("trades", "quotes")
    return Feed(broker)


@pytest.fixture
def job(broker: Broker, tmp_path: Path) -> Iterator[Job]:
    made = Job(broker, tmp_path / "job")
    yield made
    made.kill()


def test_broker_and_query_are_killed_and_started_again(feed: Feed, job: Job) -> None:
    feed.send(200)
    job.start()
    job.wait_for(feed.expected())
    feed.broker.kill()
    time.sleep(5)
    feed.broker.start()
    feed.send(200)
    job.wait_for(feed.expected(), again=True)
    job.kill()
    feed.send(200)
    job.start()
    job.wait_for(feed.expected())
    assert job.stop() == {"late": 0, "failed": None}
    assert job.table() == feed.expected()


def test_a_partition_that_is_added_is_read_from_its_beginning(feed: Feed, job: Job) -> None:
    from confluent_kafka.admin import NewPartitions

    feed.send(200)
    job.start()
    job.wait_for(feed.expected())
    admin = feed.broker.admin()
    for future in admin.create_partitions([NewPartitions("trades", 3), NewPartitions("quotes", 3)]).values():
        future.result(60)
    feed.send(200, partition=2)
    job.wait_for(feed.expected())
    assert job.stop() == {"late": 0, "failed": None}
    assert job.table() == feed.expected()


def test_a_message_that_is_no_json_is_late_or_stops_the_query(feed: Feed, job: Job) -> None:
    feed.send(200)
    job.start("FAILFAST")
    job.wait_for(feed.expected())
    before = job.table()
    producer = feed.broker.producer()
    producer.produce("trades", "{no json")
    assert producer.flush(60) == 0
    failed = job.said()["failed"]
    assert "MALFORMED_RECORD_IN_PARSING" in failed, failed
    assert job.table() == before
    job.start()  # the same checkpoint, and a row of NULLs instead
    feed.send(200)
    job.wait_for(feed.expected())
    assert job.stop() == {"late": 1, "failed": None}
    assert job.table() == feed.expected()


def test_a_topic_that_is_gone_stops_the_query(feed: Feed, job: Job) -> None:
    feed.send(200)
    job.start()
    job.wait_for(feed.expected())
    admin = feed.broker.admin()
    for future in admin.delete_topics(["quotes"]).values():
        future.result(60)
    failed = job.said()["failed"]
    assert "KAFKA_DATA_LOSS" in failed or "UnknownTopicOrPartition" in failed, failed
    assert "quotes" in failed
    assert job.table() == feed.expected()
