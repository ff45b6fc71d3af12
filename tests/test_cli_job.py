"""``watersmeet run job.sql --stream ...``: the queries of a file over files; ``watersmeet tell``: further ones while it runs."""

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import watersmeet as wm
from test_cli import command
from watersmeet.cli.telling import Listener
from watersmeet.cli.telling import tell as send

JOB = """
CREATE QUERY near AS SELECT t.ts, q.ts AS quoted FROM trades t JOIN quotes q ON t.k = q.k;
CREATE QUERY named AS SELECT t.ts, n.name FROM trades t LEFT JOIN names n ON t.k = n.k;
CREATE QUERY `odd/name` AS SELECT k FROM quotes WHERE k > 2
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    tables = {
        "trades": pa.table({"ts": [1, 2, 4, 8, 9], "k": [1, 2, 1, 3, 1]}),
        "quotes": pa.table({"ts": [1, 3, 5, 9], "k": [1, 1, 3, 4]}),
        "names": pa.table({"k": [1, 2], "name": ["one", "two"]}),
    }
    paths = {name: tmp_path / f"{name}.csv" for name in tables}
    for name, table in tables.items():
        pyarrow.csv.write_csv(table, paths[name])
    paths["job"] = tmp_path / "job.sql"
    paths["job"].write_text(JOB)
    return paths


def streams(files: dict[str, Path]) -> list[str]:
    return [
        "--stream", f"trades={files['trades']}", "--stream", f"quotes={files['quotes']}",
        "--table", f"names={files['names']}",
    ]  # fmt: skip


def rows(path: Path) -> list[tuple[Any, ...]]:
    table = pyarrow.parquet.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_a_job_gives_a_file_a_query(files: dict[str, Path], tmp_path: Path, batch: int) -> None:
    out = tmp_path / "out"
    options = ["--window", "trades=rows:2", "--window", "quotes=rows:2", "--order", "ts", "--batch", batch]
    command("run", files["job"], *streams(files), *options, "-o", out, "--output-format", "parquet")
    assert sorted(path.name for path in out.iterdir()) == [
        "named.parquet",
        "near.parquet",
        "odd%2Fname.parquet",
    ]
    assert rows(out / "near.parquet") == [(1, 1), (1, 3), (4, 1), (4, 3), (8, 5), (9, 3)]
    assert rows(out / "named.parquet") == [(1, "one"), (2, "two"), (4, "one"), (8, None), (9, "one")]
    assert rows(out / "odd%2Fname.parquet") == [(3,), (4,)]


def test_a_job_reads_standard_input_and_statements_from_the_command_line(
    files: dict[str, Path], tmp_path: Path
) -> None:
    text = "CREATE QUERY few AS SELECT k + 1 AS k FROM s WHERE k > 1"
    done = subprocess.run(
        [sys.executable, "-m", "watersmeet", "run", text, "--stream", "s=-", "--format", "csv",
         "--types", "s=k:int8", "-o", str(tmp_path / "out")],
        input=files["trades"].read_bytes(), capture_output=True, check=True,
    )  # fmt: skip
    assert rows(tmp_path / "out" / "few.csv") == [(3,), (4,)]
    assert b"5 rows, 1 queries, 2 results" in done.stderr


def test_rows_without_a_time_are_left_out_and_late_ones_counted(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files["trades"].write_text("ts,k\n1,1\n,1\n9,1\n2,1\n")
    window = [part for name in ("trades", "quotes") for part in ("--window", f"{name}=range:2:ts")]
    command("run", files["job"], *streams(files), *window, "--batch", 2, "-o", tmp_path / "out")
    said = capsys.readouterr().err
    assert "1 row of trades without a time, left out" in said
    assert "1 late" in said


def test_a_query_that_fails_is_told_of_and_the_others_go_on(
    files: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    to_arrow = wm.Result.to_arrow

    def failing(result: wm.Result) -> Any:
        table = to_arrow(result)
        if table.column_names == ["ts", "name"]:
            raise wm.DataError("no such name")
        return table

    monkeypatch.setattr(wm.Result, "to_arrow", failing)
    command("run", files["job"], *streams(files), "-o", tmp_path / "out")
    assert "query named was dropped: no such name" in capsys.readouterr().err
    assert len(rows(tmp_path / "out" / "near.csv")) == 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{job}"], "run must have the files of both streams, --r and --s, or a job's, --stream NAME=FILE; got no --r"),
        (["r.x = s.x", "--r", "{trades}"], "got no --s"),
        (["{job}", "--stream", "trades"], "--stream must be NAME=...; got 'trades'; for instance --stream trades=trades.parquet"),
        (["{job}", "--stream", "t={trades}", "--stream", "t={quotes}"], "--stream must be given once a name; got 't' twice"),
        (["{job}", "--stream", "t={trades}", "--window", "q=rows:1"], "--window must be of one of t; got 'q'"),
        (["{job}", "--stream", "t={trades}", "--how", "left"], "--how must go with two files, --r and --s; got it with --stream"),
        (["r.x = s.x", "--r", "{trades}", "--s", "{quotes}", "--socket", "x"], "--socket must go with a job of queries; got it with no"),
        (["{job}", "--stream", "t={trades}"], "with --stream -o must be a folder, in which each query has a file"),
        (["nowhere.sql", "--stream", "t={trades}", "-o", "{out}"], "got 'nowhere.sql', and there is no such file"),
        (["{job}", "--stream", "t=-", "--stream", "u=-", "-o", "{out}"], "standard input can be one stream; got - for several"),
        (["SELECT 1", "--stream", "t={trades}", "-o", "{out}"], "a job must be a file of statements, or statements"),
        (["{job}", "--stream", "t={trades}", "-o", "{out}"], "a stream must be one of t; got 'trades'; correct the name"),
        (["{job}", "--stream", "trades={trades}", "--stream", "quotes={quotes}", "--stream", "names={names}", "--order", "ts",
          "-o", "{out}"], "--order must name a column of all files; got 'ts', not in names"),
    ],
)  # fmt: skip
def test_mistakes_are_one_message(
    files: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    named = {**files, "out": tmp_path / "out"}
    with pytest.raises(SystemExit) as end:
        command("run", *(argument.format(**named) for argument in arguments))
    assert end.value.code == 2
    assert said in capsys.readouterr().err


# ---- telling ----------------------------------------------------------------------------------------------------


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a short name: a socket's has at most about 100 characters."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("s"))
    yield Path("socket")
    os.chdir(before)


def eventually(holds: Any) -> None:
    for _ in range(1200):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


def test_a_running_job_takes_further_statements(
    short: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, pipe = tmp_path / "out", tmp_path / "pipe.arrow"
    os.mkfifo(pipe)
    job = [
        "CREATE QUERY all AS SELECT k FROM t", "--stream", f"t={pipe}", "--window", "t=rows:10", "--socket", "socket",
        "-o", str(out),
    ]  # fmt: skip
    running = subprocess.Popen([sys.executable, "-m", "watersmeet", "run", *job], stderr=subprocess.PIPE)
    try:
        schema = pa.schema({"k": pa.int64()})
        with open(pipe, "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:

            def feed(*keys: int) -> None:
                writer.write_batch(pa.record_batch([pa.array(keys)], schema=schema))
                sink.flush()

            feed(1, 2)
            eventually(lambda: short.exists() and "2 rows arrived" in send("socket", "SHOW QUERIES"))
            assert stat.S_IMODE(short.stat().st_mode) == 0o600
            command(
                "tell", "socket", "CREATE QUERY big START WARM BACKFILL AS SELECT k AS big FROM t WHERE k > 1"
            )
            assert capsys.readouterr().out == "big: running\n"
            feed(3, 0)
            eventually(lambda: "4 rows arrived" in send("socket", "show queries;"))
            assert (
                send("socket", "DROP QUERY all; ALTER QUERY big AS SELECT -k AS k FROM t") == "big: running"
            )
            assert rows(out / "all.csv") == [(0,), (1,), (2,), (3,)]  # complete, as the query is gone
            with pytest.raises(wm.StateError, match="drop must name a query that is there: 'big'; got 'all'"):
                send("socket", "DROP QUERY all")
            with pytest.raises(SystemExit):
                command("tell", "socket", "CREATE QUERY bad AS SELECT nothing FROM t")
            assert "nothing" in capsys.readouterr().err
            feed(5)
        assert running.wait(60) == 0
    finally:
        running.kill()
        running.communicate()
    assert rows(out / "big.csv") == [(2,), (3,)]
    assert rows(out / "big.2.csv") == [(-5,)]
    assert not short.exists()


def test_a_socket_must_be_free_and_goes_with_the_job(short: Path) -> None:
    with Listener("socket", str.upper):
        assert send("socket", "text") == "TEXT"
        with pytest.raises(
            wm.OptionError, match=r"--socket must be a free place; got 'socket', which is there"
        ):
            Listener("socket", str.upper)
    assert not short.exists()
    with pytest.raises(wm.OptionError, match="a socket must be one that a job listens at; got 'socket'"):
        send("socket", "text")
    short.write_text("a file")
    with pytest.raises(wm.OptionError, match="--socket must be a free place"):
        Listener("socket", str.upper)
    with pytest.raises(wm.OptionError, match="--socket must be a place for a socket; got 'no/such/place'"):
        Listener("no/such/place", str.upper)


def test_a_socket_that_is_left_over_is_replaced(short: Path) -> None:
    program = "import socket, os; s = socket.socket(socket.AF_UNIX); s.bind('socket'); os._exit(0)"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert short.is_socket()
    with Listener("socket", str.upper):
        assert send("socket", "text") == "TEXT"


def test_only_our_own_errors_are_answers(short: Path) -> None:
    def refusing(text: str) -> str:
        raise wm.OptionError(f"not {text}")

    with Listener("socket", refusing):
        with pytest.raises(wm.StateError, match="not this"):
            send("socket", "this")
        answers: list[str] = []

        def ask() -> None:
            with pytest.raises(wm.StateError) as caught:
                send("socket", "x")
            answers.append(str(caught.value))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == ["not x"] * 4
