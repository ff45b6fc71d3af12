"""Files and standard input as a schema and batches.

What stays true: rows come in file order, a batch at a time; no file is read whole (of a folder of texts, one file at a
time). What cannot be read is one OptionError that names the file, at the start or in the middle.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watersmeet.cli.formats import checked_format, format_of
from watersmeet.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

STDIN = "-"
BLOCK = 1 << 20  # bytes of text that are parsed at a time; types are read off the first block


@dataclass(frozen=True)
class Input:
    """A stream's source, opened: its columns are known, its rows are still to come."""

    schema: "pa.Schema"
    batches: "Iterator[pa.RecordBatch]"


def open_input(path: str, batch: int, given: str | None = None, types: "pa.Schema | None" = None) -> Input:
    """Open a file, a folder of files or standard input (``-``); batches have at most ``batch`` rows.

    ``given``: the format, where no name tells it. ``types``: types of columns of a text format.
    """
    if path == STDIN:
        kind = checked_format(given, "--format") or "arrow"
    else:
        kind = format_of("an input file", path, given, "--format")
    if types is not None and not kind.startswith(("csv", "ndjson")):
        raise OptionError(
            f"types can be given for csv and ndjson; got them for {path!r}, a {kind} file, which has its own"
        )
    with _readable(path, kind):
        reader = _reader(path, kind, batch, types)
        schema = reader.schema
        if not schema.names:
            raise OptionError(
                f"an input must have columns; got {path!r}, which has none: is it an empty folder?"
            )
        _check_types(path, schema, types)
    return Input(schema, _cut(path, kind, reader, batch))


def _reader(path: str, kind: str, batch: int, types: "pa.Schema | None") -> Any:
    """What has a schema and can be iterated."""
    if path == STDIN and kind == "parquet":
        raise OptionError(
            "standard input must be csv, ndjson or arrow; got parquet, which is read from its end; give a file"
        )
    if path != STDIN and not Path(path).exists() and "://" not in path:
        raise OptionError(f"an input must be a readable file; got {path!r}: there is no such file")
    if path != STDIN and (kind == "parquet" or Path(path).is_dir() or "://" in path):
        return _dataset(path, kind, batch, types)
    source = _source(path, kind)
    if kind.startswith("csv"):
        return _csv(source, types)
    if kind.startswith("ndjson"):
        return _ndjson(source, types)
    return _arrow(path, source)


def _source(path: str, kind: str) -> Any:
    import pyarrow as pa

    compression = "gzip" if kind.endswith(".gz") else None
    return pa.input_stream(sys.stdin.buffer if path == STDIN else path, compression=compression)


def _csv(source: Any, types: "pa.Schema | None") -> Any:
    from pyarrow import csv

    return csv.open_csv(source, csv.ReadOptions(block_size=BLOCK), convert_options=_csv_types(types))


def _csv_types(types: "pa.Schema | None") -> Any:
    from pyarrow import csv

    return csv.ConvertOptions(column_types=types)


def _ndjson(source: Any, types: "pa.Schema | None") -> Any:
    from pyarrow import json

    return json.open_json(source, json.ReadOptions(block_size=BLOCK), _ndjson_types(types))


def _ndjson_types(types: "pa.Schema | None") -> Any:
    from pyarrow import json

    return json.ParseOptions(explicit_schema=types, unexpected_field_behavior="infer")


def _arrow(path: str, source: Any) -> Any:
    """Arrow has a format for files and one for streams; both end in .arrow."""
    import pyarrow as pa

    if path != STDIN:
        with open(path, "rb") as file:
            if file.read(6) == b"ARROW1":
                held = pa.ipc.open_file(pa.memory_map(path))
                parts = (held.get_batch(i) for i in range(held.num_record_batches))
                return _Rows(held.schema, parts)
    return pa.ipc.open_stream(source)


def _dataset(path: str, kind: str, batch: int, types: "pa.Schema | None") -> Any:
    from pyarrow import dataset

    formats: dict[str, Callable[[], Any]] = {
        "parquet": dataset.ParquetFileFormat,
        "arrow": dataset.IpcFileFormat,
        "csv": lambda: dataset.CsvFileFormat(convert_options=_csv_types(types)),
        "ndjson": lambda: dataset.JsonFileFormat(parse_options=_ndjson_types(types)),
    }
    source = dataset.dataset(path, format=formats[kind.removesuffix(".gz")]())
    return _Rows(source.schema, _scanned(source, kind, batch))


def _scanned(source: Any, kind: str, batch: int) -> "Iterator[pa.RecordBatch]":
    """A row group of a Parquet file at a time: a scan of all of it reads ahead without end."""
    for fragment in source.get_fragments():
        for part in fragment.split_by_row_group() if kind == "parquet" else [fragment]:
            yield from part.scanner(schema=source.schema, batch_size=batch).to_reader()


class _Rows:
    """Batches with their schema, like Arrow's own readers."""

    def __init__(self, schema: "pa.Schema", batches: "Iterator[pa.RecordBatch]") -> None:
        self.schema, self._batches = schema, batches

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        return self._batches


def _check_types(path: str, schema: "pa.Schema", types: "pa.Schema | None") -> None:
    unknown = [name for name in (types.names if types else ()) if name not in schema.names]
    if unknown:
        raise OptionError(
            f"types must be of columns of {path!r}: {', '.join(schema.names)}; got {', '.join(unknown)}"
        )


def _cut(path: str, kind: str, reader: Any, batch: int) -> "Iterator[pa.RecordBatch]":
    with _readable(path, kind):
        for large in reader:
            for start in range(0, large.num_rows, batch):
                yield large.slice(start, batch)


@contextmanager
def _readable(path: str, kind: str) -> Iterator[None]:
    """What Arrow cannot read is the user's file, not a defect: say which, and what may help."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException, UnicodeError) as error:
        what = "standard input" if path == STDIN else repr(path)
        raise OptionError(
            f"an input must be readable as {kind}; got {what}: {error}{_hint(path, kind, str(error))}"
        ) from error


def _hint(path: str, kind: str, message: str) -> str:
    if path == STDIN and kind == "arrow":
        return "; if it is not an Arrow stream, give --format csv or --format ndjson"
    if any(sign in message for sign in ("conversion error", "changed from", "unexpected field")):
        return "; types are read off the first rows: give the column's by --types-r or --types-s"
    return ""
