"""Files, pipes and standard input as a schema and batches.

What stays true: rows come in file order, a batch at a time; no file is read whole (of a folder of texts, one file at a
time). What cannot be read is one OptionError that names the file, at the start or in the middle. Texts are UTF-8.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watersmeet.cli.csv_options import Csv, typed, typed_schema
from watersmeet.cli.formats import checked_format, format_of, format_of_folder
from watersmeet.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

STDIN = "-"
BLOCK = 1 << 20  # bytes of text that are parsed at a time; types are read off the first block
UTF8 = "; if it is Latin-1, do: iconv -f latin1 -t utf-8"
GIVE = "give the column's by --types-r or --types-s, or, for queries, by --types"
# Whole numbers that int64 cannot hold, or that stand among fractions, are read as doubles, which hold all of them below 2**53. Beyond 1e38
# no type would, so they are taken for doubles.
EXACT, LONGEST = 2.0**53, 1e38


@dataclass(frozen=True)
class Input:
    """A stream's source, opened: its columns are known, its rows are still to come."""

    schema: "pa.Schema"
    batches: "Iterator[pa.RecordBatch]"


def open_input(
    path: str,
    batch: int,
    given: str | None = None,
    types: "pa.Schema | None" = None,
    csv: Csv = Csv(),  # noqa: B008 (a frozen value)
) -> Input:
    """Open a file, a folder of files, a pipe or standard input (``-``); batches have at most ``batch`` rows.

    ``given``: the format, where no name tells it. ``types``: types of columns of a text format.
    """
    kind = _kind(path, given)
    if types is not None and not kind.startswith(("csv", "ndjson")):
        raise OptionError(
            f"types can be given for csv and ndjson; got them for {path!r}, a {kind} file, which has its own"
        )
    with _readable(path, kind):
        reader = _reader(path, kind, batch, types, csv)
        schema = typed_schema(reader.schema, types) if kind.startswith("csv") else reader.schema
        if not schema.names:
            raise OptionError(
                f"an input must have columns; got {path!r}, which has none: is it an empty folder?"
            )
        _check_types(path, schema, types)
        if kind.startswith("csv"):
            _check_texts(path, schema, types)
    return Input(schema, _cut(path, kind, reader, batch, types))


def _kind(path: str, given: str | None) -> str:
    if path == STDIN:
        return checked_format(given, "--format") or "arrow"
    if Path(path).is_dir() and given is None:
        return format_of_folder(path)
    return format_of("an input file", path, given, "--format")


def _reader(path: str, kind: str, batch: int, types: "pa.Schema | None", csv: Csv) -> Any:
    """What has a schema and can be iterated."""
    if _is_stream(path) and kind == "parquet":
        raise OptionError(
            f"{_called(path)} must be csv, ndjson or arrow; got parquet, which is read from its end; give a file"
        )
    if path != STDIN and not Path(path).exists() and "://" not in path:
        raise OptionError(f"an input must be a readable file; got {path!r}: there is no such file")
    if path != STDIN and (kind == "parquet" or Path(path).is_dir() or "://" in path):
        return _dataset(path, kind, batch, types, csv)
    source = _source(path, kind)
    if kind.startswith("csv"):
        return _csv(source, types, csv)
    if kind.startswith("ndjson"):
        return _ndjson(source, types)
    return _arrow(path, source)


def _source(path: str, kind: str) -> Any:
    import pyarrow as pa

    compression = "gzip" if kind.endswith(".gz") else None
    opened: Any = path
    if _is_stream(path):  # opened by Arrow, a path is asked for its size
        opened = sys.stdin.buffer if path == STDIN else open(path, "rb")  # noqa: SIM115 (read until the end)
    return pa.input_stream(opened, compression=compression)


def _is_stream(path: str) -> bool:
    """Standard input, a named pipe or a process's output (``<(zcat ...)``): can be read once, from its start."""
    return path == STDIN or (Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir())


def _called(path: str) -> str:
    return "standard input" if path == STDIN else f"the pipe {path!r}" if _is_stream(path) else repr(path)


def _csv(source: Any, types: "pa.Schema | None", options: Csv) -> Any:
    from pyarrow import csv

    return csv.open_csv(source, csv.ReadOptions(block_size=BLOCK), options.parsed(), options.converted(types))


def _ndjson(source: Any, types: "pa.Schema | None") -> Any:
    from pyarrow import json

    return json.open_json(source, json.ReadOptions(block_size=BLOCK), _ndjson_types(types))


def _ndjson_types(types: "pa.Schema | None") -> Any:
    from pyarrow import json

    return json.ParseOptions(explicit_schema=types, unexpected_field_behavior="infer")


def _arrow(path: str, source: Any) -> Any:
    """Arrow has a format for files and one for streams; both end in .arrow."""
    import pyarrow as pa

    if not _is_stream(path):
        with open(path, "rb") as file:
            if file.read(6) == b"ARROW1":
                held = pa.ipc.open_file(pa.memory_map(path))
                parts = (held.get_batch(i) for i in range(held.num_record_batches))
                return _Rows(held.schema, parts)
    return pa.ipc.open_stream(source)


def _dataset(path: str, kind: str, batch: int, types: "pa.Schema | None", csv: Csv) -> Any:
    from pyarrow import dataset

    formats: dict[str, Callable[[], Any]] = {
        "parquet": dataset.ParquetFileFormat,
        "arrow": dataset.IpcFileFormat,
        "csv": lambda: dataset.CsvFileFormat(csv.parsed(), convert_options=csv.converted(types)),
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


def _check_texts(path: str, schema: "pa.Schema", types: "pa.Schema | None") -> None:
    """Arrow takes a column of other bytes for binary, which no text of the other stream can be compared with."""
    import pyarrow as pa

    asked = types.names if types else ()
    other = [field.name for field in schema if pa.types.is_binary(field.type) and field.name not in asked]
    if other:
        raise OptionError(
            f"texts must be UTF-8; got other bytes in column {other[0]!r} of {_called(path)}{UTF8}"
        )


def _check_whole_numbers(path: str, batch: "pa.RecordBatch", types: "pa.Schema | None") -> None:
    """Two ids that are one double would join each other. Whether a double was written as a whole number cannot be told any more."""
    import numpy as np
    import pyarrow as pa

    asked = types.names if types else ()
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not pa.types.is_float64(field.type) or field.name in asked:
            continue
        numbers = column.to_numpy(zero_copy_only=False)
        large = numbers[(np.abs(numbers) >= EXACT) & (np.abs(numbers) < LONGEST)]  # each is a whole number
        if large.size:
            name = field.name
            raise OptionError(
                f"numbers must be read as they are written; got about {large[0]:.17g} in column {name!r} of {_called(path)}, which would "
                f"be a double: whole numbers of so many digits may lose the last ones; {GIVE}: {name}:uint64, {name}:decimal(38,0), or "
                f"{name}:double, if that is what it is"
            )


def _cut(
    path: str, kind: str, reader: Any, batch: int, types: "pa.Schema | None"
) -> "Iterator[pa.RecordBatch]":
    with _readable(path, kind):
        for large in reader:
            if kind.startswith("csv"):
                large = typed(large, types)
            elif kind.startswith("ndjson"):
                large.validate(full=True)  # Arrow's reader of NDJSON takes any bytes for UTF-8
            if kind.startswith(("csv", "ndjson")):
                _check_whole_numbers(path, large, types)
            for start in range(0, large.num_rows, batch):
                yield large.slice(start, batch)


@contextmanager
def _readable(path: str, kind: str) -> Iterator[None]:
    """What Arrow cannot read is the user's file, not a defect: say which, and what may help."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException, UnicodeError) as error:
        raise OptionError(
            f"an input must be readable as {kind}; got {_called(path)}: {error}{_hint(path, kind, str(error))}"
        ) from error


def _hint(path: str, kind: str, message: str) -> str:
    if _is_stream(path) and kind == "arrow":
        return "; if it is not an Arrow stream, give --format csv or --format ndjson"
    if _is_stream(path) and "Empty CSV" in message:
        return "; if it is packed, give --format csv.gz"
    if "Column() changed from object" in message:
        return "; NDJSON is one object a line, and this is one array: do: jq -c '.[]'"
    if "UTF8" in message or "utf-8" in message:
        return UTF8
    if any(
        sign in message for sign in ("conversion error", "convert JSON", "changed from", "unexpected field")
    ):
        null = "; if this text means NULL, give it by --null" if kind.startswith("csv") else ""
        return f"; types are read off the first rows: {GIVE}{null}"
    return ""
