"""From a real Kafka broker to a table: the pipeline of docs/spark.md as it stands there. Faults: test_kafka_faults.py.

Jars can be given to a process's first session only, so every pipeline is a process of its own.
"""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from test_docs import ROOT, blocks
from watersmeet.spark.bench.broker import Broker

PATIENCE = 1500  # seconds
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # Java starts in half the time


def test_a_broker_whose_id_begins_like_an_option_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=b"\xf8" * 16))
    with Broker(tmp_path / "broker") as started:
        assert started.servers


def test_the_pipeline_of_the_docs_gives_what_counting_by_hand_gives(broker: Broker, tmp_path: Path) -> None:
    broker.create("trades", "quotes")
    found = blocks(ROOT / "docs" / "spark.md", "python kafka")
    assert len(found) == 3
    script = tmp_path / "pipeline.py"
    script.write_text("\n".join(code for code, _ in found))
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "KAFKA": broker.servers, "TMPDIR": str(tmp_path), "JAVA_TOOL_OPTIONS": QUICK},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(output for _, output in found if output)
