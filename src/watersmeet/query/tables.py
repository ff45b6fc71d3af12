"""Static tables: rows that queries may join with streams, all there before the first row of a stream, for ever."""

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.streams.batch import Reader

MOST = 100


def read_tables(tables: Any, streams: Collection[str]) -> dict[str, pa.RecordBatch]:
    """The option ``tables=``: data by name, each as one batch."""
    if tables is None:
        return {}
    if not isinstance(tables, Mapping):
        raise OptionError(
            f"tables= must be a dict from a name to data, such as {{'symbols': table}}; got {type(tables).__name__}"
        )
    if len(tables) > MOST:
        raise OptionError(f"a Processor must have at most {MOST} tables; got {len(tables)}; leave some out")
    found = {}
    for name, data in tables.items():
        if not isinstance(name, str) or not name:
            raise OptionError(f"the name of a table must be a text; got {name!r}")
        if name in streams:
            raise OptionError(
                f"the name of a table must be free; got {name!r}, which is a stream; choose another"
            )
        batch = Reader(name, None).read(data)
        if batch is None:
            raise OptionError(
                f"the table {name!r} must have columns; got {data!r}; give Arrow data, whose schema is known"
            )
        found[name] = batch
    return found
