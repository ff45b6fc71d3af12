"""A host's tasks without Spark, against the processor in process with ``watermark="push"``: the same batches and statements, restarts,
cores."""

import json
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples
from spark.host_runner import HostRunner
from spark.test_host_control import COLUMNS, WINDOW, setting
from watersmeet.errors import StateError
from watersmeet.spark.host import work as working
from watersmeet.spark.host.manifests import core_folder, read_manifest
from watersmeet.spark.host.report import host_lines, host_report

DERIVED = [
    "WITH d AS (SELECT r.id, r.k, t.ts FROM r JOIN t ON r.k = t.k) "
    "SELECT d.id, u.id AS other FROM last_range(d, 3) d LEFT JOIN u ON d.k = u.k",
    "WITH d AS (SELECT id, k FROM r UNION ALL SELECT id, k FROM t) "
    "SELECT d.id, u.id AS other FROM last_rows(d, 4) d, last_rows(u, 2) u WHERE d.k = u.k",
    "WITH d AS (SELECT k, COUNT(*) AS n, window.end AS ts FROM r GROUP BY window(ts, 2), k) "
    "SELECT window.start, COUNT(*) AS n, SUM(d.n) AS m FROM last_range(d, 4) d JOIN t ON d.k = t.k GROUP BY window(d.ts, 4)",
]
TEXTS = [
    "SELECT id, x + 1 AS y FROM r WHERE k > 0",
    "SELECT id, s FROM t UNION ALL SELECT id, s FROM r WHERE x < 2",
    "SELECT r.id, t.id AS other FROM r JOIN t ON r.k = t.k",
    "SELECT r.id, t.id AS other, t.s FROM r JOIN t ON r.k = t.k AND r.x <= t.x",
    "SELECT r.id, t.id AS other FROM r FULL JOIN t ON r.k = t.k AND r.s = t.s",
    "SELECT r.id, t.id AS other FROM r LEFT JOIN last_range(t, 2) t ON r.s = t.s",
    "SELECT t.id FROM r RIGHT ANTI JOIN t ON r.k = t.k",
    "SELECT r.id FROM r LEFT SEMI JOIN t ON r.x < t.x",
    "SELECT r.id, t.id AS other FROM r JOIN t ON r.x BETWEEN t.x - 1 AND t.x + 1",
    "SELECT r.id, t.id AS other FROM r LEFT JOIN t ON r.x > t.x",
    "SELECT a.id, b.id AS other FROM r a JOIN r b ON a.k = b.k AND a.id < b.id",
    "SELECT r.id, t.id AS i, u.id AS j FROM r, t, u WHERE r.k = t.k AND t.k = u.k",
    "SELECT r.id, t.id AS i, u.id AS j FROM r, t, u WHERE r.k = t.k AND t.x < u.x",
    "SELECT r.id, t.id AS other FROM last_rows(r, 3) r JOIN t ON r.k = t.k",
    "SELECT r.id, t.id AS other FROM unbounded(r) r JOIN unbounded(t) t ON r.k = t.k",
    "SELECT k, COUNT(*) AS n, SUM(x) AS total FROM r GROUP BY k",
    "SELECT s, LAST(x, ts) AS newest, AVG(x) AS mean FROM t WHERE x > 0 GROUP BY s HAVING COUNT(*) > 1",
    "SELECT t.k, r.s, SUM(r.x) AS total FROM r JOIN t ON r.k = t.k AND r.x <= t.x GROUP BY r.s, t.k",
    "SELECT window.end, r.k, COUNT(*) AS n FROM r JOIN t ON r.k = t.k GROUP BY window(r.ts, 3), r.k",
    "SELECT DISTINCT t.k, t.s FROM r JOIN t ON r.k = t.k",
    "SELECT COUNT(*) AS n, MAX(r.x) AS top FROM r JOIN t ON r.k = t.k",
    "SELECT k, SUM(x) AS total FROM last_rows(t, 4) GROUP BY k ORDER BY total DESC, k LIMIT 2",
    "SELECT window.start, k, COUNT(*) AS n FROM r GROUP BY window(ts, 3), k",
    "SELECT DISTINCT k, s FROM t",
    "SELECT id FROM r ORDER BY ts, id",
    "SELECT r.id FROM r JOIN t ON r.k = t.k WHERE CAST(r.s AS INT) > 0",
    *DERIVED,
]
"""Of every spreading, and of every kind of thing that remembers."""

Row = dict[str, Any]


@st.composite
def plays(draw: st.DrawFn) -> list[tuple[list[tuple[Any, ...]], dict[str, list[Row]], str]]:
    """Batches: statements before each, rows by stream, and what befalls it."""
    found, clock, number = [], 0, 0
    for _ in range(draw(st.integers(2, 6))):
        statements = []
        for _ in range(draw(st.integers(0, 3))):
            name, verb = (
                draw(st.sampled_from("abc")),
                draw(st.sampled_from(["create", "create", "alter", "drop"])),
            )
            emit = draw(st.sampled_from([None, None, "changelog", "complete"]))
            statements.append((verb, name, draw(st.sampled_from(TEXTS)), emit))
        clock += draw(st.integers(0, 4))
        rows: dict[str, list[Row]] = {}
        for stream in "rtu":
            rows[stream] = []
            for _ in range(draw(st.integers(0, 4))):
                time = clock + draw(st.sampled_from([0, 1, -1, 2, -5]))
                text = draw(st.sampled_from(["1", "0", "1", "no"] if number > 6 else ["1", "0"]))
                row = {
                    "id": number,
                    "k": draw(st.sampled_from([0, 1, 2, None])),
                    "x": float(draw(st.integers(0, 3))),
                }
                late = draw(st.integers(0, 19)) == 0
                rows[stream].append({**row, "s": text, "ts": None if late else time})
                number += 1
        found.append((statements, rows, draw(st.sampled_from(["", "", "restart", "again"]))))
    return found


class Reference:
    """The processor in process, told what the host does: an alter that is spread otherwise is a drop and a create."""

    def __init__(self) -> None:
        windows = dict.fromkeys("rtu", WINDOW)
        self.processor = wm.Processor(
            windows=windows, schemas=dict.fromkeys("rtu", COLUMNS), watermark="push"
        )
        self.stopped: set[str] = set()

    def do(self, verb: str, name: str, sql: str, emit: str | None, anew: bool) -> None:
        queries = self.processor.queries()
        if verb == "drop" or (verb == "alter" and (anew or name in self.stopped)):
            queries[name].drop()
        if verb == "alter" and not anew and name not in self.stopped:
            queries[name].alter(sql, emit=emit)
        elif verb != "drop":
            self.processor.create(name, sql, emit=emit)
        self.stopped.discard(name)

    def push(self, rows: dict[str, list[Row]]) -> dict[str, list[Row]]:
        timed = {stream: [row for row in some if row["ts"] is not None] for stream, some in rows.items()}
        if not any(timed.values()):
            return {}
        batches = {
            stream: pa.RecordBatch.from_pylist(some, schema=COLUMNS) for stream, some in timed.items() if some
        }
        results = self.processor.push(batches)
        found = {}
        self.stopped |= set(results.stopped)
        for name, result in results.items():
            if name in self.stopped:
                continue
            try:
                found[name] = result.to_arrow().to_pylist()
            except wm.WatersmeetError:
                self.stopped.add(name)
        return found


def parts(rows: list[Row], count: int) -> list[pa.RecordBatch]:
    cuts = [len(rows) * i // count for i in range(count + 1)]
    return [pa.RecordBatch.from_pylist(rows[low:high], schema=COLUMNS) for low, high in pairwise(cuts)]


def ordered(rows: list[Row]) -> list[str]:
    return sorted(map(repr, rows))


def check(play: Any, cores: int, partitions: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        runner, reference = HostRunner(Path(folder), setting(cores), seed), Reference()
        for number, (statements, rows, what) in enumerate(play):
            accepted = []
            for verb, name, sql, emit in statements:
                before = runner.judge.program.queries.get(name)
                if "number" in runner.say(verb, name, sql, emit=emit):
                    after = runner.judge.program.queries.get(name)
                    anew = before is None or after is None or before.spread != after.spread
                    accepted.append((verb, name, sql, after and after.emit, anew))
            if what == "restart":  # with another number of cores
                runner.restart(tasks=runner.random.randint(1, cores))
            some = {stream: parts(rows[stream], partitions) for stream in rows if rows[stream]}
            commit = runner.batch(some, again=what == "again")
            wanted, found = reference.push(rows), {} if commit is None else runner.rows_of(commit)
            stopped = reference.stopped
            assert {name: ordered(rows) for name, rows in found.items() if rows} == {
                name: ordered(rows) for name, rows in wanted.items() if rows and name not in stopped
            }, f"batch {number}"
            if commit is not None:
                program = runner.judge.programs.of(commit.version)
                assert {
                    query.name for query in program.queries.values() if query.key in commit.stopped
                } == stopped
            for statement in accepted:
                reference.do(*statement)


@examples(40)
@given(play=plays(), cores=st.integers(1, 3), partitions=st.integers(1, 2), seed=st.integers(0, 9))
def test_a_host_gives_what_the_processor_gives(play: Any, cores: int, partitions: int, seed: int) -> None:
    note(f"{cores} cores, {partitions} partitions, {play}")
    check(play, cores, partitions, seed)


@pytest.mark.parametrize("sql", TEXTS)
def test_every_kind_of_query_goes_on_exactly(sql: str) -> None:
    """All spreadings, with a restart or a second try at every batch; nothing is drawn, so that each text is met in every run."""
    number, play = 0, []
    for batch in range(7):
        rows: dict[str, list[Row]] = {stream: [] for stream in "rtu"}
        for stream in "rtu":
            for _ in range(4):
                number += 1
                time = 3 * batch + number * 7 % 5 - 1 - 4 * (number % 11 == 0)
                text = "no" if number == 67 else str(number % 3)
                rows[stream].append(
                    {"id": number, "k": number * 5 % 3, "x": number * 3 % 4 / 1.0, "s": text, "ts": time}
                )
        statements = [("create", "a", sql, None)] if batch == 0 else []
        play.append((statements, rows, ("restart", "again", "")[batch % 3]))
    check(play, 3, 2, 1)


def test_joins_of_derived_streams_lie_whole_on_one_core(tmp_path: Path) -> None:
    runner = HostRunner(tmp_path, setting(3))
    for number, sql in enumerate(DERIVED):
        runner.say("create", f"q{number}", sql)
    assert [query.spread.kind for query in runner.judge.program.queries.values()] == ["one"] * len(DERIVED)


def rows_at(*times: int, text: str = "1") -> dict[str, list[pa.RecordBatch]]:
    made = [{"id": time, "k": time % 2, "x": 1.0, "s": text, "ts": time} for time in times]
    batch = pa.RecordBatch.from_pylist(made, schema=COLUMNS)
    return {"r": [batch], "t": [batch]}


def test_statements_act_in_the_next_batch_also_without_rows(tmp_path: Path) -> None:
    runner = HostRunner(tmp_path, setting(2))
    runner.say("create", "a", "SELECT id FROM r")
    first = runner.batch({})
    assert first is not None
    assert (first.version, first.files) == (0, {})
    runner.say("create", "b", "SELECT id FROM t")
    second = runner.batch(rows_at(1))
    assert second is not None
    assert runner.rows_of(second) == {"a": [{"id": 1}]}
    third = runner.batch(rows_at(2))
    assert third is not None
    assert runner.rows_of(third) == {"a": [{"id": 2}], "b": [{"id": 2}]}


@pytest.mark.slow
def test_hundreds_of_queries(tmp_path: Path) -> None:
    """All in two batches' time, with a restart; then half of them go, and what they have stored."""
    runner, reference = HostRunner(tmp_path, setting(3)), Reference()
    texts = [TEXTS[number % len(TEXTS)] for number in range(300)]
    for number, sql in enumerate(texts):
        assert "number" in runner.say("create", f"q{number}", sql)
        reference.do("create", f"q{number}", sql, None, True)
    runner.batch({})

    def batch_of(rows: dict[str, list[Row]]) -> None:
        commit = runner.batch({stream: parts(some, 2) for stream, some in rows.items()})
        assert commit is not None
        found, wanted = runner.rows_of(commit), reference.push(rows)
        assert {name: ordered(some) for name, some in found.items() if some} == {
            name: ordered(some) for name, some in wanted.items() if some
        }

    for batch in range(4):
        if batch == 2:
            runner.restart(tasks=2)
        batch_of({stream: [row(8 * batch + i, 3 * batch + i % 3) for i in range(6)] for stream in "rtu"})
        dropped = range(batch % 2, 300, 4) if batch > 1 else ()
        for number in dropped:
            assert "number" in runner.say("drop", f"q{number}")
        batch_of({})  # reads the statements, which act at the next one
        for number in dropped:
            reference.do("drop", f"q{number}", "", None, True)
    assert len(runner.judge.program.queries) == 150


def row(number: int, time: int) -> Row:
    return {"id": number, "k": number % 3, "x": float(number % 4), "s": str(number % 2), "ts": time}


def test_an_aggregate_of_no_rows_is_told_once(tmp_path: Path) -> None:
    runner = HostRunner(tmp_path, setting(3))
    for name in "abc":
        runner.say("create", name, "SELECT COUNT(*) AS n FROM r")
    runner.batch({})
    found = runner.batch({"u": rows_at(1)["r"]})
    assert found is not None
    assert runner.rows_of(found) == {name: [{"n": 0}] for name in "abc"}


def test_a_dropped_query_frees_its_state_and_its_files_go(tmp_path: Path) -> None:
    runner = HostRunner(tmp_path, setting(2), retain=3)
    runner.say(
        "create",
        "j",
        "SELECT r.id FROM r JOIN unbounded(t) t ON r.k = t.k",
        windows={"r": wm.Unbounded().to_json()},
    )
    runner.say("create", "g", "SELECT k, COUNT(*) AS n FROM r GROUP BY k")
    for batch in range(12):
        commit = runner.batch(rows_at(2 * batch, 2 * batch + 1))
    assert commit is not None
    assert commit.figures["stored t"] == 22
    runner.say("drop", "j")
    runner.say("drop", "g")
    for batch in range(12, 30):
        commit = runner.batch(rows_at(2 * batch))
    assert commit is not None
    assert "stored t" not in commit.figures
    for core in range(2):
        task = runner.task(core, 29)
        manifest = read_manifest(runner.spec, task, 29, core)
        assert manifest is not None
        assert (manifest.rows, len(manifest.files)) == (0, 1)
        left = list(Path(core_folder(runner.spec, task, core)).iterdir())
        assert len(left) <= 2 * (runner.spec.retain + 9), left


def test_rows_are_written_a_few_times_and_not_with_every_batch(tmp_path: Path) -> None:
    runner = HostRunner(tmp_path, setting(1))
    runner.say(
        "create", "j", "SELECT r.id FROM unbounded(r) r JOIN unbounded(t) t ON r.k = t.k AND r.id = t.id"
    )
    for batch in range(10):
        runner.batch(rows_at(2 * batch, 2 * batch + 1))
    manifest = read_manifest(runner.spec, runner.task(0, 9), 9, 0)
    assert manifest is not None
    assert (manifest.rows, len(manifest.files)) == (36, 9)


def test_an_error_inside_a_query_stops_that_query_alone(tmp_path: Path) -> None:
    runner = HostRunner(tmp_path, setting(3))
    runner.say("create", "ok", "SELECT r.id FROM r JOIN t ON r.k = t.k AND r.id = t.id")
    by_id = {name: wm.Range(5, time="id").to_json() for name in "rt"}
    runner.say("create", "bad", "SELECT r.ts FROM r JOIN t ON r.k = t.k", windows=by_id)
    runner.batch({})
    before = runner.batch(rows_at(1, 2))
    assert before is not None
    assert sorted(before.files) == ["0.0", "1.0"]
    wrong = rows_at(3, 4)
    wrong["t"].append(pa.RecordBatch.from_pylist([{"id": None, "k": 1, "ts": 4}], schema=COLUMNS))
    failed = runner.batch(wrong, again=True)
    assert failed is not None
    assert (sorted(failed.files), sorted(failed.stopped)) == (["0.0"], ["1.0"])
    assert failed.stopped["1.0"].startswith(
        "the time column 'id' of stream 't' must hold a time in every row; got null"
    )
    runner.say("alter", "bad", "SELECT r.id FROM r JOIN t ON r.k = t.k", windows={})
    after = runner.batch(rows_at(5))
    assert after is not None
    assert (sorted(after.files), sorted(after.stopped)) == (["0.0"], ["1.0"])
    runner.restart()
    again = runner.batch(rows_at(6))
    assert again is not None
    assert runner.rows_of(again) == {"ok": [{"id": 6}], "bad": [{"id": 6}]}  # anew, with rows from then on
    assert again.stopped == {}


def test_a_query_that_has_stopped_on_one_core_is_altered_on_all_alike(tmp_path: Path) -> None:
    """With the same spreading, in the batch in which it stops: no core may go on with what it has."""
    runner = HostRunner(tmp_path, setting(2))
    runner.say("create", "a", "SELECT r.id FROM r JOIN t ON r.k = t.k AND r.id = t.id WHERE r.id >= 0")
    runner.batch({})
    runner.batch(rows_at(1, 2))
    live = [core[3] for folder, core in working._waiting.items() if folder.startswith(str(tmp_path))]
    broken = next(iter(live[0].running.values()))
    push = broken.push

    def stops(*args: Any) -> Any:
        found = push(*args)
        found.stopped = {"a": "it broke here"}
        return found

    broken.push = stops  # type: ignore[method-assign]
    runner.say("alter", "a", "SELECT r.id, r.ts FROM r JOIN t ON r.k = t.k AND r.id = t.id WHERE r.id >= 0")
    failed = runner.batch(rows_at(3, 4))
    assert failed is not None
    assert (failed.files, failed.stopped) == ({}, {"0.0": "it broke here"})
    after = runner.batch(rows_at(5, 6))
    assert after is not None
    assert after.stopped == {}
    assert ordered(runner.rows_of(after)["a"]) == ordered([{"id": 5, "ts": 5}, {"id": 6, "ts": 6}])


def test_what_cannot_be_caught_is_skipped_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from watersmeet.query.running import Running

    runner = HostRunner(tmp_path, setting(2))
    runner.say("create", "ok", "SELECT id FROM r WHERE k >= 0")
    runner.say("create", "huge", "SELECT r.id FROM r JOIN t ON r.k = t.k")
    runner.batch({})
    runner.batch(rows_at(1))
    push = Running.push

    def out_of_memory(self: Running, *args: Any) -> Any:
        if "huge" in self.entries:
            raise MemoryError
        return push(self, *args)

    monkeypatch.setattr(Running, "push", out_of_memory)
    with pytest.raises(
        MemoryError, match=r"ran out on core . at the queries 'huge' \(statement 2\).* do: .* start\(skip="
    ):
        runner.batch(rows_at(2))
    runner.restart(skip=(2,))
    found = runner.batch(rows_at(2))
    assert found is not None
    assert runner.rows_of(found) == {"ok": [{"id": 2}], "huge": []}
    assert found.stopped == {"1.0": "start(skip=[2])"}
    monkeypatch.undo()
    runner.restart(skip=())  # it stays stopped
    after = runner.batch(rows_at(3))
    assert after is not None
    assert after.stopped == {"1.0": "start(skip=[2])"}


def test_a_query_that_gives_too_many_rows_is_stopped(tmp_path: Path) -> None:
    runner = HostRunner(tmp_path, setting(2), most_results=3)
    runner.say("create", "few", "SELECT id FROM r WHERE id > 8")
    runner.say("create", "all", "SELECT r.id FROM r JOIN t ON r.ts <= t.ts")
    runner.batch({})
    before = runner.batch(rows_at(1))
    assert before is not None
    assert runner.rows_of(before) == {"few": [], "all": [{"id": 1}]}
    found = runner.batch(rows_at(7, 8, 9, 10), again=True)
    assert found is not None
    assert runner.rows_of(found) == {"few": [{"id": 9}, {"id": 10}], "all": []}
    assert found.stopped["1.0"].startswith(
        "a query must give at most 3 rows in a batch on a core (most_results=); got "
    )


def test_a_query_that_needs_more_memory_than_there_is_can_be_skipped(tmp_path: Path) -> None:
    """In a process of its own, whose memory is bounded as Spark bounds that of its workers."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("host_memory.py")), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert "ran out on core 0 at the queries 'ok' (statement 1) and 'huge' (statement 2)" in said["error"]
    assert said["before"] == said["after"] == {"ok": 20, "huge": 0}
    assert said["stopped"] == {"1.0": "start(skip=[2])"}


def test_the_state_of_a_host_is_listed_and_verified(tmp_path: Path) -> None:
    runner = HostRunner(tmp_path, setting(2))
    runner.say("create", "j", "SELECT r.id FROM r JOIN t ON r.k = t.k AND r.id = t.id")
    runner.say("create", "g", "SELECT k, COUNT(*) AS n FROM r GROUP BY k")
    for batch in range(4):
        runner.batch(rows_at(2 * batch, 2 * batch + 1))
    cores = host_report(runner.spec.state)
    assert [(core.query, core.name, core.batches, core.problems) for core in cores] == [
        ("query", "host", [0, 1, 2, 3], [])
    ] * 2
    assert sum(core.manifest.rows for core in cores if core.manifest is not None) == 12
    shown = list(host_lines(cores))
    assert shown[0] == f"query query, host host in {runner.spec.state}"
    assert shown[-1].startswith("2 cores of hosts, 12 rows, ")
    assert shown[-1].endswith("no problems")
    assert cli("state", runner.spec.state) == (0, "\n".join([*shown, ""]))
    newest = max(Path(cores[0].folder).glob("*.run"))
    data = bytearray(newest.read_bytes())
    data[10] ^= 1
    newest.write_bytes(data)
    Path(cores[1].folder, "000000000003.json").unlink()
    (damaged,), (absent,) = (core.problems for core in host_report(runner.spec.state))
    assert f"{newest} is damaged: bytes 0 to " in damaged
    assert "000000000003.json is missing, and other cores have evaluated batch 3" in absent
    code, said = cli("state", runner.spec.state)
    assert (code, said.count("PROBLEM")) == (1, 2)


def cli(*arguments: str) -> tuple[int, str]:
    from typer.testing import CliRunner

    from watersmeet.cli.app import app

    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout


def test_cores_that_stand_elsewhere_are_refused(tmp_path: Path) -> None:
    runner = HostRunner(tmp_path, setting(2))
    runner.say("create", "a", "SELECT id FROM r")
    runner.batch(rows_at(1))
    path = Path(core_folder(runner.spec, runner.task(0, 0), 1)) / "000000000000.json"
    whole = path.read_text()
    path.write_text(whole.replace('"version": 1', '"version": 0'))
    runner.restart()
    with pytest.raises(StateError, match="is damaged: its checksum does not fit its text"):
        runner.batch(rows_at(2))
    path.unlink()
    with pytest.raises(
        StateError, match=r"core 1 must find its state of batch 0 to go on with batch 1; got none in"
    ):
        runner.batch(rows_at(2))
    path.write_text(whole)
    assert runner.batch(rows_at(2)) is not None


def test_an_output_of_another_query_is_refused(tmp_path: Path) -> None:
    runner = HostRunner(tmp_path, setting(1))
    runner.say("create", "a", "SELECT id FROM r")
    runner.batch(rows_at(1))
    other = HostRunner(tmp_path, setting(1))
    other.query = "another"
    with pytest.raises(StateError, match=r"output= must be new, or of the same checkpoint"):
        other.batch(rows_at(1))
