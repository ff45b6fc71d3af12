"""One Spark session for all tests that need one, and a folder a test."""

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
