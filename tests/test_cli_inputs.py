"""``watersmeet run`` takes files as strangers have them: missing keys and times, pipes, folders, zones, other delimiters."""

import gzip
import io
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from test_cli import command
from test_cli_files import refused
from watersmeet.cli.csv_options import Csv, csv_of
from watersmeet.cli.inputs import open_input
from watersmeet.cli.outputs import Output
from watersmeet.cli.texts import schema_of
from watersmeet.errors import OptionError

__all__ = ["refused"]
MISSING = b'k,x\n,1\n"",2\nNA,3\n'


def rows_of(path: Path, *arguments: Any) -> list[dict[str, Any]]:
    return pa.Table.from_batches(open_input(str(path), 100, *arguments).batches).to_pylist()


def test_csv_that_was_written_is_read_back_as_it_was(tmp_path: Path) -> None:
    table = pa.table(
        {
            "k": ["a", None, "", "NA", "null", 'say "a;b",\n'],
            "f": [0.5, None, float("-inf"), 0.0, 1.0, 2.0],
            "b": [True, None, False, True, True, True],
        }
    )
    for name in ("t.csv", "t.csv.gz"):
        with Output(str(tmp_path / name), None) as out:
            out.open(table.schema)
            out.write(table)
        assert rows_of(tmp_path / name) == table.to_pylist()
    (tmp_path / "nan.csv").write_text("f\n1.5\nnan\n")
    assert np.isnan([row["f"] for row in rows_of(tmp_path / "nan.csv")]).tolist() == [False, True]


@pytest.mark.parametrize("way", ["file", "packed", "stdin", "folder"])
def test_missing_keys_do_not_join_each_other(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.csv").write_bytes(MISSING)
    path = tmp_path / {"file": "r.csv", "packed": "r.csv.gz", "stdin": "-", "folder": "r/a.csv"}[way]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(MISSING) if way == "packed" else MISSING)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MISSING)))
    given = {"stdin": ["-", "--format", "csv"], "folder": [path.parent]}.get(way, [path])
    run = ["run", "r.k = s.k", "--r", *given, "--s", tmp_path / "s.csv", "--select", "r.x", "-o"]
    command(*run, tmp_path / "out.parquet")
    assert sorted(pyarrow.parquet.read_table(tmp_path / "out.parquet")["x"].to_pylist()) == [2, 3]


@pytest.mark.parametrize("name", ["r.csv", "r.ndjson", "folder/r.csv"])
def test_ids_that_a_double_would_change_do_not_join_others(tmp_path: Path, refused: Any, name: str) -> None:
    end = name.rpartition(".")[2]

    def written(name: str, column: str, *numbers: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        rows = [f'{{"{column}": {number}}}' for number in numbers] if end == "ndjson" else [column, *numbers]
        path.write_text("\n".join([*rows, ""]))
        return path if path.parent == tmp_path else path.parent

    r, s = written(name, "x", "12345678901234567890"), written(f"s.{end}", "a", "12345678901234567891")
    shown = refused("--r", r, "--s", s)
    assert "got about 1.2345678901234567e+19 in column 'x'" in shown
    assert "give the column's by --types-r or --types-s, or, for queries, by --types: x:uint64" in shown
    typed = ["--types-r", "x:uint64", "--types-s", "a:uint64"]
    command("run", "r.x = s.a", "--r", r, "--s", s, *typed, "-o", tmp_path / "out.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").num_rows == 0
    mixed = written(f"mixed.{end}", "x", "9007199254740993", "1.5")
    assert "in column 'x'" in refused("--r", mixed, "--s", s, *typed[2:])
    assert [row["x"] for row in rows_of(mixed, None, schema_of("x:double"))] == [2.0**53, 1.5]
    fine = written(f"fine.{end}", "x", "9007199254740991", "1.5", "1e300")
    assert [row["x"] for row in rows_of(fine)] == [2.0**53 - 1, 1.5, 1e300]


def test_packed_text_on_standard_input_is_told_so(
    tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.csv").write_bytes(MISSING)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(MISSING))))
    assert "give --format csv.gz" in refused("--r", "-", "--format", "csv", "--s", tmp_path / "s.csv")


def test_other_texts_for_null_can_be_named(tmp_path: Path, refused: Any) -> None:
    (tmp_path / "r.csv").write_text('x\n1\nNA\n-\n"NA"\n')
    assert [row["x"] for row in rows_of(tmp_path / "r.csv")] == ["1", "NA", "-", "NA"]
    shown = rows_of(tmp_path / "r.csv", None, None, csv_of(",", ["NA", "-"]))
    assert [row["x"] for row in shown] == ["1", None, None, "NA"]
    (tmp_path / "s.csv").write_text("a\n1\nNA\n")
    streams = ["--r", tmp_path / "s.csv", "--s", tmp_path / "s.csv", "--null", "NA"]
    command("run", "r.a + 0 = s.a", *streams, "-o", tmp_path / "out.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").num_rows == 1
    shown = refused(*streams[:4], "--types-r", "a:int64")
    assert "invalid value 'NA'" in shown
    assert "if this text means NULL, give it by --null" in shown


@pytest.mark.parametrize("order", [None, "ts"])
def test_rows_without_a_time_are_late_and_do_not_end_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], order: str | None
) -> None:
    (tmp_path / "r.csv").write_text("ts,x\n1,1\n,2\n3,1\n,1\n,1\n")
    (tmp_path / "s.csv").write_text("ts,a\n1,1\n2.5,1\nnan,1\n")
    streams = ["--r", tmp_path / "r.csv", "--s", tmp_path / "s.csv", "--window-r", "range:1:ts", "--batch", 2]
    files = ["--late", tmp_path / "late.csv", "-o", tmp_path / "out.csv"]
    extra = ["--order", order] if order else []
    command("run", "r.x = s.a", *streams, "--window-s", "range:1:ts", *extra, *files)
    assert pyarrow.csv.read_csv(tmp_path / "late.r.csv")["x"].to_pylist() == [2, 1, 1]
    assert (tmp_path / "late.s.csv").read_text() == '"ts","a"\nnan,1\n'
    shown = capsys.readouterr().err
    assert "4 rows joined, 2 results, 4 late (4 without a time)" in shown
    assert "3 late rows of r" in shown


def test_a_null_to_merge_by_is_refused_by_its_row_of_the_file(tmp_path: Path, refused: Any) -> None:
    (tmp_path / "r.csv").write_text("ts,x\n1,1\n2,2\n3,1\n,1\n5,1\n")
    (tmp_path / "s.csv").write_text("ts,a\n1,1\n2,1\n")
    streams = ["--r", tmp_path / "r.csv", "--s", tmp_path / "s.csv"]
    shown = refused(*streams, "--order", "ts", "--batch", 2, "-o", tmp_path / "out.csv")
    assert "got null in 'ts' in row 3 of r, counted from 0" in shown


def test_with_an_order_the_batch_does_not_decide_which_rows_are_late(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And without one it does, as the warning says."""
    random = np.random.default_rng(2)
    for name, key in (("r", "x"), ("s", "a")):
        times = np.sort(random.integers(0, 1000, 300)) - random.integers(0, 30, 300)
        table = pa.table({"ts": times, key: random.integers(0, 5, 300)})
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
    streams = ["--r", tmp_path / "r.parquet", "--s", tmp_path / "s.parquet"]
    windows = ["--window-r", "range:10:ts:9", "--window-s", "range:10:ts:9"]

    def closing(*extra: Any) -> str:
        command("run", "r.x = s.a", *streams, *windows, *extra, "-o", tmp_path / "out.csv")
        err = capsys.readouterr().err
        assert ("which rows are late depends on the order" in err) == ("--order" not in extra)
        return err.splitlines()[-1].partition(" late")[0]

    assert len({closing("--order", "ts", "--batch", batch) for batch in (3, 50, 1000)}) == 1
    assert len({closing("--batch", batch) for batch in (3, 50, 1000)}) > 1


@pytest.mark.parametrize(
    ("kind", "content"),
    [("csv", b"x\n1\n2\n"), ("csv.gz", gzip.compress(b"x\n1\n2\n")), ("ndjson", b'{"x": 1}\n{"x": 2}\n'), ("arrow", None)],
    ids=["csv", "csv.gz", "ndjson", "arrow"],  # packed bytes hold the time, and workers must agree on names
)  # fmt: skip
def test_pipes_are_streams(tmp_path: Path, refused: Any, kind: str, content: bytes | None) -> None:
    if content is None:
        table, sink = pa.table({"x": [1, 2]}), io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        content = sink.getvalue()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "s.csv").write_text("a\n2\n")
    writing = threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True)
    writing.start()
    out = tmp_path / "out.parquet"
    command("run", "r.x = s.a", "--r", pipe, "--format", kind, "--s", tmp_path / "s.csv", "-o", out)
    writing.join(10)
    assert pyarrow.parquet.read_table(out).num_rows == 1
    shown = refused("--r", pipe, "--format", "parquet", "--s", tmp_path / "s.csv")
    assert f"the pipe '{pipe}' must be csv, ndjson or arrow; got parquet, which is read from its end" in shown


def test_a_folder_has_the_format_of_its_files(tmp_path: Path, refused: Any) -> None:
    folder = tmp_path / "parts"
    (folder / "day=1").mkdir(parents=True)
    (folder / "a.csv.gz").write_bytes(gzip.compress(b"x,k\n1,\n2,a\n"))
    (folder / "day=1" / "b.csv.gz").write_bytes(gzip.compress(b'x,k\n3,""\n'))
    (folder / "_SUCCESS").write_text("")
    (folder / ".hidden").write_text("")
    assert rows_of(folder) == [{"x": 1, "k": None}, {"x": 2, "k": "a"}, {"x": 3, "k": ""}]
    command("explain", "r.x = s.a", "--r", folder, "--s", "a:int64")
    (folder / "c.ndjson").write_text('{"x": 3}\n')
    shown = refused("--r", folder, "--s", folder)
    assert "a folder must have one format, told by the ends of their names: .parquet, .csv" in shown
    assert "'c.ndjson'" in shown
    assert "got no file in" in refused("--r", _made(tmp_path / "empty"), "--s", folder)
    (tmp_path / "empty" / "a.txt").write_text("x")
    assert "got 'a.txt' in" in refused("--r", tmp_path / "empty", "--s", folder)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("end", ["csv", "ndjson"])
def test_times_with_and_without_a_zone_can_be_given_one_type(tmp_path: Path, end: str) -> None:
    texts = ["2024-05-01T12:00:00Z", "2024-05-01 12:00:00", "2024-05-01T12:00:00.5+02:00", "2024-05-01"]
    path = tmp_path / f"t.{end}"
    lines = ["t", *texts] if end == "csv" else [f'{{"t": "{text}"}}' for text in texts]
    path.write_text("\n".join(lines) + "\n")
    expected = [datetime(2024, 5, 1, 12), datetime(2024, 5, 1, 12), datetime(2024, 5, 1, 10, 0, 0, 500_000)]
    expected.append(datetime(2024, 5, 1))
    assert [row["t"] for row in rows_of(path, None, schema_of("t:timestamp[us]"))] == expected
    zoned = [row["t"] for row in rows_of(path, None, schema_of("t:timestamp[us, UTC]"))]
    assert zoned == [time.replace(tzinfo=UTC) for time in expected]


def test_a_zone_on_one_side_has_a_way_out(tmp_path: Path, refused: Any) -> None:
    (tmp_path / "r.csv").write_text("ts,x\n2024-05-01T12:00:00Z,1\n,1\n")
    (tmp_path / "s.csv").write_text("ts,a\n2024-05-01T12:00:00,1\n")
    streams = ["--r", tmp_path / "r.csv", "--s", tmp_path / "s.csv"]
    windows = ["--window-r", "range:1 s:ts", "--window-s", "range:1 s:ts"]
    shown = refused(*streams, *windows)
    assert "got ts timestamp[s, tz=UTC] and ts timestamp[s]" in shown
    assert "--types-r or --types-s: 'ts:timestamp[us]' reads times with a zone as UTC" in shown
    for types in (["--types-r", "ts:timestamp[us]"], ["--types-s", "ts:timestamp[us, UTC]"]):
        command("run", "r.x = s.a", *streams, *windows, *types, "-o", tmp_path / "out.parquet")
        assert pyarrow.parquet.read_table(tmp_path / "out.parquet").num_rows == 1
    (tmp_path / "r.csv").write_text("ts,x\nnoon,1\n")
    shown = refused(*streams, *windows, "--types-r", "ts:timestamp[us]", "-o", tmp_path / "new.csv")
    assert "in column 'ts': Failed to parse string: 'noon'" in shown


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "r.csv",
            "x,k\n1,küche\n".encode("latin-1"),
            "texts must be UTF-8; got other bytes in column 'k' of",
        ),
        ("r.csv", "x,kü\n1,a\n".encode("latin-1"), "can't decode"),
        ("r.csv", b"x,k\n" + b"1,a\n" * 300_000 + "1,ü\n".encode("latin-1"), "invalid UTF8"),
        ("r.ndjson", '{"x": 1, "k": "küche"}\n'.encode("latin-1"), "Invalid UTF8"),
    ],
    ids=["csv", "header", "later", "ndjson"],
)
def test_other_texts_than_utf8_are_refused_when_read(
    tmp_path: Path, refused: Any, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "s.csv").write_text("a\n2\n")
    shown = refused("--r", tmp_path / name, "--s", tmp_path / "s.csv", "-o", tmp_path / "out.csv")
    assert message in shown
    assert "if it is Latin-1, do: iconv -f latin1 -t utf-8" in shown
    assert not (tmp_path / "out.csv").exists()


def test_bytes_that_were_asked_for_are_bytes(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(b"k\n\xfc\n")
    assert rows_of(tmp_path / "r.csv", None, schema_of("k:binary")) == [{"k": b"\xfc"}]


def test_other_delimiters(tmp_path: Path, refused: Any) -> None:
    (tmp_path / "r.csv").write_text("x;k\n1;a,b\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "s.csv").write_text("a;z\n1;2\n")
    streams = ["--r", tmp_path / "r.csv", "--s", tmp_path / "parts"]
    command("run", "r.x = s.a", *streams, "--delimiter", ";", "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == '"x","k","a","z"\n1,"a,b",1,2\n'
    assert csv_of(r"\t", []) == Csv("\t")
    for bad in (";;", "", '"', "ü", "\n"):
        with pytest.raises(OptionError, match="--delimiter must be one ASCII character"):
            Csv(bad)
    assert "got ';;'; for instance ';' or '\\t'" in refused(*streams, "--delimiter", ";;")


def test_a_json_array_is_told_from_ndjson(tmp_path: Path, refused: Any) -> None:
    (tmp_path / "r.ndjson").write_text('[\n{"x": 1},\n{"x": 2}\n]\n')
    (tmp_path / "s.csv").write_text("a\n2\n")
    shown = refused("--r", tmp_path / "r.ndjson", "--s", tmp_path / "s.csv")
    assert "NDJSON is one object a line, and this is one array: do: jq -c '.[]'" in shown


def test_one_result_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.csv").write_text("x\n1\n")
    (tmp_path / "s.csv").write_text("a\n1\n")
    command(
        "run", "r.x = s.a", "--r", tmp_path / "r.csv", "--s", tmp_path / "s.csv", "-o", tmp_path / "o.csv"
    )
    assert "2 rows joined, 1 result, " in capsys.readouterr().err


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us", "UTC"), pa.timestamp("s"), pa.duration("s"), pa.float64()], ids=str
)
def test_rows_are_merged_by_any_column_that_can_be_compared(kind: pa.DataType, tmp_path: Path) -> None:
    real = pa.types.is_floating(kind)
    last: float = float("nan") if real else 9  # NaN is the largest, and ends the file all the same
    for name, times in (("r", [1, 3, last]), ("s", [2, 2, last])):
        column = pa.array(times, pa.float64() if real else pa.int64()).cast(kind)
        table = pa.table({"k": [1, 1, 1], "ts": column})
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet", row_group_size=1)
    windows = ("--window-r", "rows:1", "--window-s", "rows:1", "--order", "ts")
    files = ("--r", tmp_path / "r.parquet", "--s", tmp_path / "s.parquet")
    command("run", "r.k = s.k", *files, *windows, "-o", tmp_path / "out.parquet", "--select", "r.k")
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").num_rows == 5  # r s s r r s


def test_a_time_column_without_any_value_is_refused_with_the_option_that_helps(
    refused: Any, tmp_path: Path
) -> None:
    (tmp_path / "empty.csv").write_text("x,ts\n")
    (tmp_path / "full.csv").write_text("a,ts\n1,2\n")
    windows = ("--window-r", "range:5:ts", "--window-s", "range:5:ts")
    shown = refused("--r", tmp_path / "empty.csv", "--s", tmp_path / "full.csv", *windows)
    assert "give it by --types-r 'ts:timestamp[us]'" in shown
    assert "a window must be" in refused(
        "--r", tmp_path / "full.csv", "--s", tmp_path / "full.csv", "--window-r", "rows:_"
    )
