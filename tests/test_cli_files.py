"""``watersmeet run`` reads and writes files of every format, a batch at a time, and says in one message what it cannot."""

import gzip
import io
import json
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from test_cli import command, files, merged_count
from watersmeet.cli import inputs, terminal
from watersmeet.cli.formats import format_of
from watersmeet.cli.inputs import open_input
from watersmeet.cli.outputs import Output, beside

__all__ = ["files"]
ALL = 10**9


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command, which must end with one message; returns it."""

    def run(*arguments: Any) -> str:
        with pytest.raises(SystemExit) as end:
            command("run", "r.x = s.a", *arguments)
        assert end.value.code == 2
        shown = capsys.readouterr().err
        assert "Traceback" not in shown
        return shown

    return run


def as_ndjson(table: pa.Table) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()


def as_csv(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pyarrow.csv.write_csv(table, sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.csv.gz", lambda table: gzip.compress(as_csv(table))),
        ("r.ndjson", as_ndjson),
        ("r.JSONL", as_ndjson),
        ("r.ndjson.gz", lambda table: gzip.compress(as_ndjson(table))),
    ],
)
@pytest.mark.parametrize("batch", [7, 1000])
def test_texts_are_read_packed_or_not(
    files: tuple[Path, Path], tmp_path: Path, name: str, content: Any, batch: int
) -> None:
    path, out = tmp_path / name, tmp_path / "out.parquet"
    path.write_bytes(content(pyarrow.parquet.read_table(files[0])))
    command("run", "r.x = s.a", "--r", path, "--s", files[1], "--batch", batch, "-o", out)
    assert pyarrow.parquet.read_table(out).num_rows == merged_count(files, ALL)


@pytest.mark.parametrize(("given", "content"), [("csv", as_csv), ("ndjson", as_ndjson)])
def test_standard_input_is_a_stream(
    files: tuple[Path, Path], tmp_path: Path, given: str, content: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.parquet"
    rows = content(pyarrow.parquet.read_table(files[0]))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(rows)))
    command("run", "r.x = s.a", "--r", "-", "--format", given, "--s", files[1], "-o", out)
    assert pyarrow.parquet.read_table(out).num_rows == merged_count(files, ALL)


@pytest.mark.parametrize("kind", ["stream", "folder"])
def test_arrow_streams_and_folders_are_read(files: tuple[Path, Path], tmp_path: Path, kind: str) -> None:
    table, out = pyarrow.parquet.read_table(files[0]), tmp_path / "out.parquet"
    path = tmp_path / ("r.arrow" if kind == "stream" else "parts.parquet")
    if kind == "stream":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        path.mkdir()
        pyarrow.parquet.write_table(table.slice(0, 40), path / "a.parquet")
        pyarrow.parquet.write_table(table.slice(40), path / "b.parquet")
    assert pa.Table.from_batches(open_input(str(path), 30).batches).equals(table)
    command("run", "r.x = s.a", "--r", path, "--s", files[1], "-o", out)
    assert pyarrow.parquet.read_table(out).num_rows == merged_count(files, ALL)


@pytest.mark.parametrize("end", [".csv.gz", ".ndjson", ".ndjson.gz", ".jsonl", ".ipc"])
def test_results_are_written_and_can_be_read_again(
    files: tuple[Path, Path], tmp_path: Path, end: str
) -> None:
    out, again = tmp_path / f"out{end}", tmp_path / "again.parquet"
    command("run", "r.x = s.a", "--r", files[0], "--s", files[1], "--select", "r.x, s.ts AS t", "-o", out)
    command("run", "r.x = s.a AND r.t = s.ts", "--r", out, "--s", files[1], "--how", "semi", "-o", again)
    assert pyarrow.parquet.read_table(again).num_rows == merged_count(files, ALL)
    assert sorted(path.name for path in tmp_path.glob("out*")) == [f"out{end}"]  # no .partial is left


def test_standard_output_can_be_ndjson(files: tuple[Path, Path], capfdbinary: Any) -> None:
    command("run", "r.x = s.a", "--r", files[0], "--s", files[1], "--output-format", "ndjson")
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert len(lines) == merged_count(files, ALL)
    assert json.loads(lines[0]).keys() == {"r_ts", "x", "s_ts", "a"}


def test_ndjson_loses_no_digit(tmp_path: Path) -> None:
    table = pa.table(
        {
            "i": pa.array([2**63 - 1, None, -5]),
            "f": [0.1, float("nan"), float("inf")],
            "b": [True, None, False],
            "d": pa.array([Decimal("12345678901234567890.10"), None, Decimal("-0.01")], pa.decimal128(30, 2)),
            "t": pa.array([1, None, 3], pa.timestamp("ns")),
            "z": pa.array([datetime(2024, 5, 1, 12), None, None], pa.timestamp("us", "UTC")),
            "day": pa.array([date(2024, 5, 1), None, None]),
            "s": ['a "b" \n[us]', None, "ü"],
            "bytes": [b"\x00\xff", None, b""],
            "l": pa.array([[1.5, float("nan"), None], None, []], pa.list_(pa.float64())),
            "st": pa.array([{"a": Decimal("1.5"), "b": date(2024, 1, 1)}, None, None]),
            "cat": pa.array(["u", None, "v"]).dictionary_encode(),
            "n": pa.nulls(3),
            '"q"': [1, 2, 3],
        }
    )
    path = tmp_path / "t.ndjson"
    with Output(str(path), None) as out:
        out.open(table.schema)
        out.write(table)
    first, nothing, last = (json.loads(line) for line in path.read_text().splitlines())
    assert first == {
        "i": 2**63 - 1, "f": 0.1, "b": True, "d": "12345678901234567890.10", "t": "1970-01-01 00:00:00.000000001",
        "z": "2024-05-01 12:00:00.000000Z", "day": "2024-05-01", "s": 'a "b" \n[us]', "bytes": "AP8=",
        "l": [1.5, None, None], "st": {"a": "1.5", "b": "2024-01-01"}, "cat": "u", "n": None, '"q"': 1,
    }  # fmt: skip
    assert {name for name, value in nothing.items() if value is not None} == {'"q"'}
    assert (last["i"], last["f"], last["b"], last["d"], last["s"], last["l"]) == (
        -5,
        None,
        False,
        "-0.01",
        "ü",
        [],
    )


def test_late_rows_are_written_whole_for_each_stream_that_can_have_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pyarrow.csv.write_csv(
        pa.table({"ts": [1, 9, 2, 9], "x": [1, 1, 1, 2], "why": ["a", "b", "c", "d"]}), tmp_path / "r.csv"
    )
    pyarrow.csv.write_csv(pa.table({"ts": [9, 9, 9, 9], "a": [1, 1, 1, 1]}), tmp_path / "s.csv")
    streams = ["--r", tmp_path / "r.csv", "--s", tmp_path / "s.csv", "--batch", 2, "--select", "r.x"]
    windows = ["--window-r", "range:1:ts", "--window-s", "range:1:ts"]
    command(
        "run", "r.x = s.a", *streams, *windows, "--late", tmp_path / "late.csv", "-o", tmp_path / "out.csv"
    )
    assert pyarrow.csv.read_csv(tmp_path / "late.r.csv").to_pylist() == [{"ts": 2, "x": 1, "why": "c"}]
    assert (tmp_path / "late.s.csv").read_text() == '"ts","a"\n'
    shown = capsys.readouterr().err
    assert "7 rows joined, 4 results, 1 late" in shown
    assert f"1 late row of r: {tmp_path / 'late.r.csv'}" in shown
    windows[3] = "unbounded"
    command(
        "run", "r.x = s.a", *streams, *windows, "--late", tmp_path / "one.csv.gz", "-o", tmp_path / "out.csv"
    )
    assert [path.name for path in tmp_path.glob("one*")] == ["one.r.csv.gz"]


@pytest.mark.parametrize(
    ("windows", "order", "warned"),
    [
        (("rows:5", "rows:5"), None, True),
        (("rows:5", "unbounded"), None, True),
        (("range:5:ts", "unbounded"), None, True),
        (("rows:5", "rows:5"), "ts", False),
        (("range:5:ts", "range:5:ts"), None, True),
        (("range:5:ts", "range:5:ts"), "ts", False),
        (("unbounded", "unbounded"), None, False),
    ],
)
def test_windows_that_depend_on_arrival_warn_without_an_order(
    files: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    windows: tuple[str, str],
    order: str | None,
    warned: bool,
) -> None:
    extra = ["--order", order] if order else []
    streams = ["--r", files[0], "--s", files[1], "--window-r", windows[0], "--window-s", windows[1]]
    command("run", "r.x = s.a", *streams, *extra, "-o", tmp_path / "out.csv")
    assert ("give --order COLUMN" in capsys.readouterr().err) == warned


def test_outputs_that_cannot_be_are_refused_before_the_work(
    files: tuple[Path, Path], tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = ["--r", files[0], "--s", files[1]]
    timed = ["--window-r", "range:1:ts", "--window-s", "range:1:ts"]
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(inputs, "_cut", lambda *_: (1 // 0 for _ in "x"))  # whoever reads a row fails
    assert "no folder" in refused(*streams, "-o", tmp_path / "nowhere" / "out.csv")
    assert "a folder; give a file's name" in refused(*streams, "-o", tmp_path)
    assert "must end in .parquet, .csv" in refused(*streams, "-o", tmp_path / "out.xml")
    assert "another file than the inputs" in refused(*streams, "-o", files[1])
    same = ["-o", tmp_path / "late.s.csv", "--late", tmp_path / "late.csv"]
    assert "another file than the inputs and other outputs" in refused(*streams, *timed, *same)
    assert "no folder" in refused(*streams, *timed, "--late", tmp_path / "nowhere" / "late.csv")
    assert "range: window" in refused(*streams, "--late", tmp_path / "late.csv")
    assert "--late must be a file; got -" in refused(*streams, *timed, "--late", "-")
    assert "column of both files; got 'x', not in s" in refused(*streams, "--order", "x")
    assert sorted(tmp_path.iterdir()) == before


def test_columns_that_a_format_cannot_hold_are_refused_before_the_work(
    files: tuple[Path, Path], tmp_path: Path, refused: Any
) -> None:
    lists = tmp_path / "lists.parquet"
    pyarrow.parquet.write_table(pa.table({"a": [1], "l[us]": [[1]]}), lists)
    (tmp_path / "old.csv").write_text("older results")
    shown = refused("--r", files[0], "--s", lists, "-o", tmp_path / "old.csv")
    assert "rows must be writable as csv" in shown
    assert "l[us] list<item: int64>" in shown  # the join's type: it names what is in lists itself
    assert (tmp_path / "old.csv").read_text() == "older results"
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.csv", b"", "readable as csv; got '{}': Empty CSV file"),
        ("r.csv", b"x\n1\n2,3\n", "Expected 1 columns, got 2"),
        ("r.csv.gz", b"x\n1\n", "readable as csv.gz"),
        ("r.ndjson", b"hello\n", "JSON parse error"),
        ("r.parquet", b"hello\n", "Is this a 'parquet' file"),
        ("r.arrow", b"hello\n", "readable as arrow"),
        ("r.csv", b"x\n" + b"1\n" * 600_000 + b"oops\n", "give the column's by --types-r"),
        ("r.ndjson", b'{"x": 1}\n' * 150_000 + b'{"x": "oops"}\n', "give the column's by --types-r"),
        ("r.ndjson", b'{"x": 1}\n' * 150_000 + b'{"x": 2.5}\n', "give the column's by --types-r"),
    ],
    ids=[
        "empty",
        "ragged",
        "not packed",
        "no json",
        "no parquet",
        "no arrow",
        "csv type",
        "json type",
        "json fraction",
    ],
)
def test_bad_files_are_one_message(
    files: tuple[Path, Path], tmp_path: Path, refused: Any, name: str, content: bytes, message: str
) -> None:
    path, out = tmp_path / f"bad[us]{name}", tmp_path / "out.csv"
    path.write_bytes(content)
    shown = refused("--r", path, "--s", files[1], "-o", out)
    assert message.format(path) in shown
    assert str(path) in shown
    assert not out.exists()
    begun = content.endswith((b"oops\n", b'"oops"}\n', b"2.5}\n"))
    assert ("what was written until then" in shown) == begun
    assert Path(f"{out}.partial").exists() == begun


def test_an_empty_folder_and_a_full_disk_are_one_message(
    files: tuple[Path, Path], tmp_path: Path, refused: Any
) -> None:
    (tmp_path / "none.parquet").mkdir()
    assert "is it an empty folder?" in refused("--r", tmp_path / "none.parquet", "--s", files[1])
    if Path("/dev/full").exists():
        shown = refused("--r", files[0], "--s", files[1], "-o", "/dev/full", "--output-format", "csv")
        assert "No space left on device at '/dev/full'; choose another place" in shown


def test_types_can_be_given_where_the_first_rows_mislead(
    files: tuple[Path, Path], tmp_path: Path, refused: Any
) -> None:
    path, out = tmp_path / "r.csv", tmp_path / "out.parquet"
    path.write_text("x,p\n1,1\n2,2.5\n")
    command("run", "r.x = s.a", "--r", path, "--s", files[1], "--types-r", "p:decimal(10,2)", "-o", out)
    assert pyarrow.parquet.read_schema(out).field("p").type == pa.decimal128(10, 2)
    path = tmp_path / "r.ndjson"
    path.write_text('{"x": 1, "t": "2024-05-01T12:00:00.5Z"}\n')
    command("run", "r.x = s.a", "--r", path, "--s", files[1], "--types-r", "t:timestamp[us, UTC]", "-o", out)
    assert pyarrow.parquet.read_table(out).column("t")[0].as_py().microsecond == 500_000
    shown = refused("--r", tmp_path / "r.csv", "--s", files[1], "--types-r", "y:string")
    assert "x, p; got y" in shown
    assert "parquet file, which has its own" in refused(
        "--r", files[0], "--s", files[1], "--types-r", "x:string"
    )


@pytest.mark.parametrize("end", ["csv", "ndjson", "parquet", "arrow"])
def test_files_are_read_a_piece_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(inputs, "BLOCK", 1 << 16)
    table, path = pa.table({"x": range(1_000_000)}), str(tmp_path / f"r.{end}")
    if end == "ndjson":
        Path(path).write_bytes(b"".join(b'{"x": %d}\n' % i for i in range(1_000_000)))
    elif end == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=20_000)
    else:
        with Output(path, None) as out:
            out.open(table.schema)
            out.write(table)
    nbytes = table.nbytes
    del table
    before = pa.total_allocated_bytes()
    most = rows = 0
    for batch in open_input(path, 1000).batches:
        assert batch.num_rows <= 1000
        most, rows = max(most, pa.total_allocated_bytes() - before), rows + batch.num_rows
    assert rows == 1_000_000
    assert most < nbytes / 2


def test_names_tell_formats() -> None:
    assert format_of("a file", "a.B.CSV.GZ", None, "--format") == "csv.gz"
    assert format_of("a file", "a.txt", "csv", "--format") == "csv"
    assert beside("a/late.csv.gz", "r") == "a/late.r.csv.gz"
    assert beside("a.b/late", "s") == "a.b/late.s"


def test_progress_is_shown_only_where_nothing_else_is_printed(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal on standard error sees how far it is, unless results go to a terminal too."""
    from rich.console import Console

    from watersmeet.cli import run

    def shown(*arguments: Any, terminal_out: bool = False) -> str:
        screen = io.StringIO()
        console = Console(file=screen, force_terminal=True, width=200)
        for module in (run, terminal):
            monkeypatch.setattr(module, "errors", console)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal_out)
        command("run", "r.x = s.a", "--r", files[0], "--s", files[1], *arguments)
        return screen.getvalue()

    spinner = "\N{BRAILLE PATTERN DOTS-124} 200 rows joined"
    assert spinner in shown("-o", tmp_path / "out.csv").replace("\x1b[0m", "")
    assert spinner in shown().replace("\x1b[0m", "")
    assert "\x1b" not in shown(terminal_out=True)
