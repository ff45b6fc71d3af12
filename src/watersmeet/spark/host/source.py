"""The log of statements as a Spark source: its offset is the number of the newest statement, so Spark's own offset log fixes which batch
sees which.

The source runs in a Python process beside the driver, and that is where statements are judged. It moves once more after each move: what a
batch reads acts in the next one, which there must be.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from watersmeet.errors import StateError
from watersmeet.spark.host.files import ControlFiles
from watersmeet.spark.host.judge import Judge
from watersmeet.spark.host.setting import read_setting

FORMAT = "watersmeet_statements"
SCHEMA = "first long, last long"


class StatementSource(DataSource):
    """``spark.readStream.format("watersmeet_statements").option("control", folder)``, for ``QueryHost``."""

    def __init__(self, options: dict[str, str]) -> None:
        self.control = options["control"]

    @classmethod
    def name(cls) -> str:
        """What goes into ``format(...)``."""
        return FORMAT

    def schema(self) -> str:
        """From which statement to which."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, Spark's name
        """For ``spark.readStream``."""
        return StatementReader(self.control)


class StatementReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets: ``number``, the newest statement; ``acted``, the newest that has acted, once this batch is over."""

    def __init__(self, control: str) -> None:
        self._control = control
        self._judge: Judge | None = None
        self._until: int | None = None  # of what is available now

    def _newest(self) -> int:
        if self._until is not None:
            return self._until
        if self._judge is None:
            files = ControlFiles(self._control)
            self._judge = Judge(files, read_setting(files))
        return self._judge.take_in()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Before the first statement."""
        return {"number": 0, "acted": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """How far the next micro-batch goes."""
        newest = self._newest()
        if newest < start["number"]:
            raise StateError(
                f"the log of statements must be whole; got {newest} statements in {self._control}, and the checkpoint has seen "
                f"{start['number']}; do: "
                "restore the log from a copy, or start with a new control folder, checkpoint and output"
            )
        return {"number": newest, "acted": start["number"]}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What lies in the inbox now is the last that is taken in."""
        self._until = self._newest()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One, also if there is no statement."""
        return [InputPartition((start["number"], end["number"]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """From which statement to which."""
        yield partition.value
