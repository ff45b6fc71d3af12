"""A Kafka broker of one's own on this machine, for tests and for the benchmark: KRaft, one node, in a folder of its own.

What stays true: the broker does not outlive the process that started it, however that ends. A shell stands between the two: it kills the
broker as soon as the pipe to it is closed. The broker is always killed, never asked to stop: all that it has acknowledged is with the
operating system, and ``start`` after ``kill`` goes on with it on the same port.
"""

import base64
import os
import shlex
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from watersmeet.errors import DataError
from watersmeet.extras import need
from watersmeet.spark.session.java import find_java
from watersmeet.spark.session.maven import BROKER, fetch

PATIENCE = 180  # seconds until it must answer
GUARD = """exec 3<&0
"$@" </dev/null & broker=$!
(cat <&3 >/dev/null; kill -9 $broker) & watch=$!
wait $broker; kill $watch 2>/dev/null
"""
SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
auto.create.topics.enable=false
num.partitions=2
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class Broker:
    """``with Broker(folder) as broker:`` it runs, and ``broker.servers`` is what clients are told."""

    def __init__(self, folder: Path, memory: str = "512m") -> None:
        need("a Kafka broker", "confluent_kafka", "bench")
        self.folder, self.memory = folder, memory
        self._jars = ":".join(map(str, fetch(BROKER)))
        self._java = str(find_java() / "bin" / "java")
        port, control = _free_ports()
        self.servers = f"127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._settings = folder / "server.properties"
        self._settings.write_text(SETTINGS.format(port=port, control=control, folder=folder))

    def __enter__(self) -> "Broker":
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # In one word: the id may begin with "-".
        format = ["kafka.tools.StorageTool", "format", "--standalone", f"--cluster-id={cluster}", "-c"]
        done = subprocess.run(self._command(*format), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DataError(f"a Kafka broker must format its folder; it said: {done.stderr.strip()[-400:]}")
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", GUARD, "sh", *self._command("kafka.Kafka")],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for whoever reads the results
            )
        end = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                said = (self.folder / "log").read_text()[-600:]
                raise DataError(f"a Kafka broker must answer on {self.servers}; it did not, and said: {said}")
            time.sleep(0.2)

    def kill(self) -> None:
        """As ``kill -9``; returns when it is gone."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process = None

    def admin(self) -> Any:
        """confluent_kafka's AdminClient."""
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._client())

    def producer(self, **settings: Any) -> Any:
        """confluent_kafka's Producer; a message counts once the broker has it."""
        from confluent_kafka import Producer

        return Producer({**self._client(), "acks": "all", "linger.ms": 5, **settings})

    def create(self, *topics: str, partitions: int = 2, config: Mapping[str, str] | None = None) -> None:
        """Topics of so many partitions, with settings of Kafka's; returns when they are there."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        admin = self.admin()  # kept until they are there: without it nobody waits
        wanted = [NewTopic(name, partitions, 1, config=dict(config or {})) for name in topics]
        for future in admin.create_topics(wanted).values():
            future.result(60)

    def _client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.servers, "log_level": 0}

    def _command(self, *words: str) -> list[str]:
        level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        options = shlex.split(f"-Xmx{self.memory} -Xms128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC {level}")
        return [self._java, *options, "-cp", self._jars, *words, str(self._settings)]

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException

        try:
            return bool(self.admin().list_topics(timeout=2).brokers)
        except KafkaException:
            return False


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1]), int(other.getsockname()[1])
