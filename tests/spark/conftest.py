"""One Spark session for all tests that need one, a Kafka broker, and a folder a test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A small local session."""
    from watersmeet.spark import session

    made = session("watersmeet tests", 2, **{"spark.sql.execution.arrow.maxRecordsPerBatch": 50_000})
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Any]:
    """A Kafka broker, where Maven can fetch it and Spark's connector."""
    from watersmeet.errors import DataError, OptionError
    from watersmeet.spark import kafka_jars
    from watersmeet.spark.bench.broker import Broker

    try:
        kafka_jars()
        made = Broker(tmp_path / "broker")
    except (OptionError, DataError) as missing:
        pytest.skip(str(missing))
    with made:
        yield made
