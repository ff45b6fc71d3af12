"""Results and late rows on their way to a file or to standard output.

What stays true: a place that cannot be written to, or a column that the format cannot hold, is refused before the work
starts; what fails later (a full disk) is one message too. A file gets its name when it is complete: until then it is
``NAME.partial``, so that a run that fails leaves no file that looks whole, and an older one as it was.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watersmeet.api.show import counted
from watersmeet.cli.formats import checked_format, end_of, format_of
from watersmeet.cli.terminal import say
from watersmeet.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

STDOUT = "-"


class Output:
    """Rows to a file, or to standard output (``-``), in the format that its name or ``given`` tells.

    ``others``: files that it must not be, since they are read or written at the same time.
    """

    def __init__(self, path: str, given: str | None, others: Sequence[str] = ()) -> None:
        self._path, self.rows, self.to_stdout = path, 0, path == STDOUT
        self._writer: Any = None
        if self.to_stdout:
            self._kind = checked_format(given, "--output-format") or "csv"
        else:
            _check_place(Path(path), others)
            self._kind = format_of("an output file", path, given, "--output-format")
        self._place = path if self.to_stdout or _special(Path(path)) else f"{path}.partial"

    def open(self, schema: "pa.Schema") -> None:
        """Create the file; refuse columns that the format cannot hold."""
        self._schema = schema
        with self._writable():
            self._writer = _writer(self._place, self._kind, schema)
            self._writer.write_table(schema.empty_table())

    def write(self, rows: "pa.Table | pa.RecordBatch") -> None:
        """Add these rows."""
        import pyarrow as pa

        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        with self._writable():
            self._writer.write_table(table if table.schema.equals(self._schema) else table.cast(self._schema))
        self.rows += table.num_rows

    @contextmanager
    def _writable(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except BrokenPipeError:  # whoever read our output has had enough: no mistake
            raise
        except OSError as error:
            raise OptionError(
                f"rows must be written; got {error} at {self._name()}; choose another place"
            ) from error
        except (pa.ArrowException, ValueError) as error:
            held = ", ".join(f"{field.name} {field.type}" for field in self._schema)
            raise OptionError(
                f"rows must be writable as {self._kind}; got columns {held} for {self._name()}: {error}; "
                "choose another format, or other columns by --select"
            ) from error

    def _name(self) -> str:
        return "standard output" if self.to_stdout else repr(self._path)

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._writer is not None:
            with self._writable():
                self._writer.close()
        if self._place == self._path:
            return
        if kind is None:
            Path(self._place).replace(self._path)
        elif self.rows:
            say(f"what was written until then, {counted(self.rows, 'row')}: {self._place}")
        else:
            Path(self._place).unlink(missing_ok=True)


def beside(path: str, stream: str) -> str:
    """The file for one stream's rows: ``late.csv`` becomes ``late.r.csv``."""
    end = end_of(path) or Path(path).suffix
    return f"{path[: len(path) - len(end)]}.{stream}{end}"


def _check_place(path: Path, others: Sequence[str]) -> None:
    if path.is_dir():
        raise OptionError(f"an output must be a file; got {str(path)!r}, a folder; give a file's name in it")
    if not path.parent.is_dir():
        raise OptionError(
            f"an output's folder must exist; got {str(path)!r}, and there is no folder {str(path.parent)!r}; "
            f"do: mkdir -p {path.parent}"
        )
    if not os.access(path if _special(path) else path.parent, os.W_OK):
        raise OptionError(
            f"an output must be in a place that you may write to; got {str(path)!r}; choose another"
        )
    if path.resolve() in [Path(other).resolve() for other in others]:
        raise OptionError(
            f"an output must be another file than the inputs and other outputs; got {str(path)!r}; choose another"
        )


def _special(path: Path) -> bool:
    """A pipe or a device: written as it is, as it cannot be replaced by a file."""
    return path.exists() and not path.is_file()


def _writer(path: str, kind: str, schema: "pa.Schema") -> Any:
    import pyarrow as pa
    from pyarrow import csv, ipc, parquet

    if path == STDOUT:
        sink: Any = sys.stdout.buffer
        new_arrow = ipc.new_stream
    else:
        sink, new_arrow = open(path, "wb"), ipc.new_file  # noqa: SIM115
    if kind.endswith(".gz"):
        sink = pa.CompressedOutputStream(sink, "gzip")
    if kind == "parquet":
        return _Closing(parquet.ParquetWriter(sink, schema), sink)
    if kind == "arrow":
        return _Closing(new_arrow(sink, schema), sink)
    if kind.startswith("csv"):
        return _Closing(csv.CSVWriter(sink, schema), sink)
    from watersmeet.cli.ndjson import NdjsonWriter

    return _Closing(NdjsonWriter(sink, schema), sink)


class _Closing:
    """A writer that leaves nothing in a buffer: closes its file, or flushes standard output."""

    def __init__(self, writer: Any, sink: Any) -> None:
        self._writer, self._sink = writer, sink
        self.write_table = writer.write_table

    def close(self) -> None:
        try:
            self._writer.close()
        finally:
            if self._sink is sys.stdout.buffer:
                self._sink.flush()
            else:
                self._sink.close()
