"""The command does what it says, and a mistake ends in one message and exit code 2."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from watersmeet import Range, Rows, Unbounded, cli, demo_queries, extras
from watersmeet.cli.texts import schema_of, window_of
from watersmeet.errors import OptionError

TYPES = ["--r", "ts:int64,x:int64", "--s", "ts:int64,a:int64"]


def command(*arguments: str) -> None:
    """Run the command in this process; leaves by SystemExit unless all went well."""
    before, sys.argv = sys.argv, ["watersmeet", *map(str, arguments)]
    try:
        cli.main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = before


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Two files in time order, with equal times in and across them."""
    random = np.random.default_rng(1)
    tables = []
    for name in ("x", "a"):
        times = np.sort(random.integers(0, 60, 100))
        tables.append(pa.table({"ts": times, name: random.integers(0, 10, 100)}))
    pyarrow.parquet.write_table(tables[0], tmp_path / "r.parquet")
    pyarrow.csv.write_csv(tables[1], tmp_path / "s.csv")
    return tmp_path / "r.parquet", tmp_path / "s.csv"


def merged_count(files: tuple[Path, Path], window: int) -> int:
    """Pairs of equal keys within count windows, a row at a time, r first among equal times."""
    r = pyarrow.parquet.read_table(files[0])
    s = pyarrow.csv.read_csv(files[1])
    arrivals = [(ts, "r", key) for ts, key in zip(*r.to_pydict().values(), strict=True)]
    arrivals += [(ts, "s", key) for ts, key in zip(*s.to_pydict().values(), strict=True)]
    held: dict[str, list[int]] = {"r": [], "s": []}
    found = 0
    for _, stream, key in sorted(arrivals, key=lambda row: row[:2]):
        found += held["s" if stream == "r" else "r"][-window:].count(key)
        held[stream].append(key)
    return found


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    command("--version")
    assert capsys.readouterr().out.startswith("watersmeet ")


def test_explain_shows_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    command(
        "explain", "r.x BETWEEN s.a - 10 AND s.a + 10", *TYPES, "--index", "bi_sort", "--window-r", "rows:500"
    )
    out = capsys.readouterr().out
    assert "bi_sort" in out
    assert "500" in out


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_run_merged_by_time_does_not_depend_on_the_batch(
    files: tuple[Path, Path], tmp_path: Path, batch: int
) -> None:
    out = tmp_path / "out.parquet"
    windows = ["--window-r", "rows:20", "--window-s", "rows:20"]
    streams = ["--r", files[0], "--s", files[1], "--order", "ts", "--batch", batch]
    command("run", "r.x = s.a", *streams, *windows, "--output", out)
    assert pyarrow.parquet.read_table(out).num_rows == merged_count(files, 20)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow", ".feather"])
def test_run_writes_and_reads_every_format(files: tuple[Path, Path], tmp_path: Path, suffix: str) -> None:
    out, again = tmp_path / f"out{suffix}", tmp_path / "again.parquet"
    command("run", "r.x = s.a", "--r", files[0], "--s", files[1], "--select", "r.x, s.ts AS t", "-o", out)
    command("run", "r.x = s.a AND r.t = s.ts", "--r", out, "--s", files[1], "--how", "semi", "-o", again)
    first, second = merged_count(files, 10**9), pyarrow.parquet.read_table(again)
    assert second.schema.names == ["x", "t"]
    assert second.num_rows == first


def test_run_prints_csv_and_reads_a_stream_from_stdin(files: tuple[Path, Path]) -> None:
    table = pyarrow.parquet.read_table(files[0])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    done = subprocess.run(
        [sys.executable, "-m", "watersmeet", "run", "r.x = s.a", "--r", "-", "--s", files[1]],
        input=sink.getvalue().to_pybytes(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert lines[0] == '"r_ts","x","s_ts","a"'
    assert len(lines) - 1 == merged_count(files, 10**9)
    assert b"200 rows joined" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "r.x = s.nope", *TYPES], "nope"),
        (["explain", "r.x =", *TYPES], "r.x ="),
        (["explain", "r.x = s.a", "--r", "x:int65", "--s", "a:int64"], "Arrow type; got 'int65'"),
        (["explain", "r.x = s.a", "--r", "x", "--s", "a:int64"], "NAME:TYPE; got 'x'"),
        (["explain", "r.x = s.a", *TYPES, "--window-r", "1000"], "rows:N"),
        (["explain", "r.x = s.a", *TYPES, "--window-r", "rows:0"], "at least 1"),
        (["explain", "r.x = s.a", *TYPES, "--how", "sideways"], "sideways"),
        (["explain", "r.x = s.a", *TYPES, "--index", "magic"], "magic"),
        (
            ["run", "r.x = s.a", "--r", "nowhere.csv", "--s", "nowhere.csv"],
            "readable file; got 'nowhere.csv'",
        ),
        (["run", "r.x = s.a", "--r", "nowhere.txt", "--s", "nowhere.csv"], "must end in .parquet"),
        (["explain", "r.x = s.a", "--r", "nowhere.csv", "--s", "a:int64"], "there is no such file"),
        (["run", "r.x = s.a", "--r", "-", "--s", "-"], "standard input can be one stream"),
        (
            ["run", "r.x = s.a", "--r", "-", "--s", "a.csv", "--format", "[us]"],
            "csv.gz, ndjson, ndjson.gz, arrow; got '[us]'",
        ),
        (
            ["run", "r.x = s.a", "--r", "-", "--s", "a.csv", "--format", "parquet"],
            "read from its end; give a file",
        ),
        (
            ["explain", "r.x = s.a", "--r", "x:timestamp[uz]", "--s", "a:int64"],
            "got 'timestamp[uz]'; for instance int64",
        ),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        command(*arguments)
    assert end.value.code == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown


def test_windows_from_text() -> None:
    assert window_of("rows:1000") == Rows(1000)
    assert window_of("unbounded") == Unbounded()
    assert window_of("range:15 min:ts:5 s") == Range("15 min", time="ts", lateness="5 s")
    assert window_of("range:2.5:t") == Range(2.5, time="t", lateness=0)
    for bad in ("rows", "rows:x", "range:5", "unbounded:1", ""):
        with pytest.raises(OptionError, match="a window must be"):
            window_of(bad)


def test_schemas_from_text() -> None:
    text = "x:int64, p:decimal(10,2),t:timestamp[us, UTC],d:date32,z:string"
    types = [pa.int64(), pa.decimal128(10, 2), pa.timestamp("us", "UTC"), pa.date32(), pa.string()]
    assert schema_of(text).types == types
    assert schema_of(text).names == ["x", "p", "t", "d", "z"]


def test_the_engine_demo_agrees_with_its_recount_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "demo.png"
    command("demo", "--engine", "--seconds", "0.5", "--picture", picture)
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("with NumPy: agrees") == 2
    assert out.count("live join") == 1  # no terminal: the table once, and what follows on a line of its own
    assert "┘ Some results of the last push ┏" in out
    assert picture.stat().st_size > 10_000


def test_the_demo_of_queries_agrees_with_plain_python(capsys: pytest.CaptureFixture[str]) -> None:
    command("demo", "--queries", "--seconds", "1")
    out = " ".join(capsys.readouterr().out.split())
    assert out.count(": agrees") == 3
    assert "top: all 12 answers" in out
    assert out.count("Turnover, last 2 s") == 1  # no terminal: the last state, once
    assert out.count(" ms, next push ") == 6
    for title in ("CREATE top", "CREATE large", "CREATE hits", "CREATE candles", "ALTER top", "DROP large"):
        assert out.count(title) == 1


def test_the_demo_of_queries_notices_a_wrong_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tuples = demo_queries._tuples
    monkeypatch.setattr(demo_queries, "_tuples", lambda table: tuples(table)[:9])
    monkeypatch.setattr(demo_queries, "REHEARSED", 6)
    with pytest.raises(SystemExit) as end:
        command("demo", "--queries", "--seconds", "0.5")
    assert end.value.code == 1
    assert capsys.readouterr().out.count("DIFFERS") == 1


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (["--engine"], "a demo must be one of --engine and --queries; got both"),
        (["--picture", "a.png"], "got --picture a.png with --queries, which draws none"),
    ],
)
def test_the_demo_of_queries_takes_no_option_that_it_would_ignore(
    option: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        command("demo", "--queries", *option)
    assert end.value.code == 2
    shown = capsys.readouterr()
    assert told in " ".join(shown.err.split())
    assert shown.out == ""


def test_help_texts_keep_their_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    command("explain", "--help")
    assert "ts:timestamp[us]" in " ".join(capsys.readouterr().out.replace("│", "").split())


def test_plans_of_columns_with_brackets_are_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    command("explain", "r.`x[us]` = s.a", "--r", "x[us]:timestamp[us]", "--s", "a:timestamp[ms]")
    assert "driver     r.`x[us]` = s.a" in capsys.readouterr().out


def test_explain_takes_the_columns_of_files(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    command("explain", "r.x = s.a", "--r", files[0], "--s", files[1])
    assert "driver     r.x = s.a" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["demo"], "spark"),
        (["state", "somewhere"], "spark"),
        (["bench", "spark"], "spark"),
        (["bench", "tpch"], "bench"),
        (["demo", "--engine", "--picture", "a.png"], "plot"),
        (["bench", "engine", "--plots", "figures"], "plot"),
        (["bench", "convergence", "--plot", "a.png"], "plot"),
    ],
)
def test_a_missing_extra_is_told_before_the_work(
    arguments: list[str], extra: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as end:
        command(*arguments)
    assert end.value.code == 2
    shown = capsys.readouterr()
    assert f"do: pip install 'watersmeet[{extra}]', or in a checkout: pip install '.[{extra}]'" in shown.err
    assert shown.out == ""


def test_the_demo_runs_without_a_picture_where_none_can_be_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    command("demo", "--engine", "--seconds", "0.5")
    shown = capsys.readouterr()
    assert "no picture will be drawn" in shown.err
    assert shown.out.count("agrees") == 2
    assert list(tmp_path.iterdir()) == []


def test_places_of_a_long_run_are_made_sure_of_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "file" / "figures.json"):
        with pytest.raises(SystemExit) as end:
            command("bench", "engine", "--json", str(place))
        assert end.value.code == 2
        shown = capsys.readouterr()
        assert "must be" in shown.err
        assert shown.out == ""
