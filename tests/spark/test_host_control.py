"""Statements without Spark: inbox, judging, numbers, digests, answers; and how queries are spread."""

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from spark.host_runner import HostRunner
from watersmeet.errors import ConditionError, OptionError, StateError
from watersmeet.spark.host.control import Control
from watersmeet.spark.host.files import ControlFiles
from watersmeet.spark.host.judge import Judge
from watersmeet.spark.host.program import Programs
from watersmeet.spark.host.setting import Setting, read_setting
from watersmeet.streams.window import Window

WINDOW = wm.Range(5, time="ts", lateness=2)
COLUMNS = pa.schema(
    [("id", pa.int64()), ("k", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("ts", pa.int64())]
)


def setting(cores: int = 3, **windows: Window) -> Setting:
    held = windows or {"r": WINDOW, "t": WINDOW, "u": WINDOW}
    return Setting(held, dict.fromkeys(held, COLUMNS), cores)


@pytest.fixture
def files(tmp_path: Path) -> ControlFiles:
    found = ControlFiles(str(tmp_path / "control"))
    setting().agree(found)
    return found


def said(files: ControlFiles, judge: Judge, verb: str, name: Any, sql: Any = "", **options: Any) -> Any:
    told = files.ask({"verb": verb, "name": name, "sql": sql, "windows": None, "emit": None, **options})
    judge.take_in()
    return files.answered(told)


def test_statements_get_numbers_in_order_and_make_a_program(files: ControlFiles) -> None:
    judge = Judge(files, setting())
    assert said(files, judge, "create", "a", "SELECT * FROM r") == {"number": 1}
    assert said(files, judge, "create", "b", "SELECT id FROM t", emit="append") == {"number": 2}
    assert said(files, judge, "alter", "a", "SELECT k FROM r") == {"number": 3}
    assert said(files, judge, "drop", "b") == {"number": 4}
    assert said(files, judge, "create", "b", "SELECT s FROM t") == {"number": 5}
    program = Programs(files).of(5)
    assert [(q.name, q.number, q.generation, q.statement, q.sql) for q in program.queries.values()] == [
        ("a", 0, 1, 3, "SELECT k FROM r"),
        ("b", 2, 0, 5, "SELECT s FROM t"),
    ]
    assert files.asked() == []
    assert Judge(files, setting()).program == judge.program


def test_a_refused_statement_gets_no_number_and_its_error(files: ControlFiles) -> None:
    judge = Judge(files, setting())
    said(files, judge, "create", "a", "SELECT * FROM r")
    refused = [
        said(files, judge, "create", "a", "SELECT * FROM r"),
        said(files, judge, "alter", "z", "SELECT * FROM r"),
        said(files, judge, "drop", "z"),
        said(files, judge, "create", "z", "SELECT nothing FROM r"),
        said(files, judge, "create", "z", "SELECT * FROM nobody"),
        said(files, judge, "create", "z", "SELECT"),
        said(files, judge, "create", "", "SELECT * FROM r"),
        said(files, judge, "create", "z", 5),
        said(files, judge, "explode", "z"),
        said(files, judge, "create", "z", "SELECT NULL AS nothing FROM r"),
        said(files, judge, "create", "z", "SELECT * FROM r", emit="loudly"),
    ]
    assert all("error" in answer for answer in refused)
    assert (
        refused[0]["said"]
        == "the name of a new query must be free; got 'a', which is there; alter it, or drop it first"
    )
    assert refused[1]["said"] == "alter must name a query that is there: 'a'; got 'z'"
    assert refused[3]["error"] == "ConditionError"
    assert refused[8]["said"].startswith(
        "a statement must be JSON with a verb, one of create, alter, drop; got "
    )
    assert refused[9]["said"] == (
        "the columns of a hosted query must have types that Parquet and Spark know; got null for 'nothing' of 'z'; cast it"
    )
    assert files.last() == 1
    files.place.write(files.place.path("inbox", "00-broken.json"), [b"{not json"])
    judge.take_in()
    assert files.answered("00-broken")["said"].startswith("a statement must be JSON")
    assert files.asked() == []


def test_warm_starts_of_what_is_not_stored_are_refused_by_name(files: ControlFiles) -> None:
    judge = Judge(files, setting())
    for sql in (
        "SELECT COUNT(*) AS n FROM r",
        "SELECT r.k, SUM(t.x) AS total FROM r JOIN t ON r.k = t.k GROUP BY r.k",
        "SELECT DISTINCT k FROM r",
        "SELECT id FROM r ORDER BY ts LIMIT 3",
        "WITH d AS (SELECT DISTINCT k FROM r) SELECT d.k FROM last_rows(d, 3) d, last_rows(t, 3) t WHERE d.k = t.k",
    ):
        refused = said(files, judge, "create", "q", sql, start="warm")["said"]
        assert refused.startswith(
            "start='warm' on a host must be of a query that selects or joins rows; got 'q', which also"
        )
        assert refused.endswith("do: start='now', and it knows rows from then on")
    by_id = {name: wm.Range(5, time="id").to_json() for name in "rt"}
    join = "SELECT r.ts FROM r JOIN t ON r.k = t.k"
    refused = said(files, judge, "create", "q", join, start="warm", windows=by_id)["said"]
    assert "must be in windows by the streams' own times; got column 'id' of stream 'r' in 'q'" in refused
    assert (
        said(files, judge, "create", "q", join, start="hot")["said"]
        == "start= must be 'now' or 'warm'; got 'hot'"
    )
    assert said(files, judge, "create", "q", join, start="warm") == {"number": 1}
    assert judge.program.queries["q"].warm


def test_a_warm_query_lies_where_its_streams_are(files: ControlFiles) -> None:
    judge, counted = (
        Judge(files, setting()),
        "SELECT r.id FROM last_rows(r, {}) r JOIN last_rows(t, {}) t ON r.k = t.k",
    )
    spreads = []
    for name, start, rows in [("a", "now", 9), ("b", "now", 9), ("c", "warm", 5), ("d", "warm", 3)]:
        said(files, judge, "create", name, counted.format(rows, rows), start=start)
        spreads.append(judge.program.queries[name].spread.core)
    assert spreads == [0, 1, 0, 0]
    said(files, judge, "alter", "d", counted.format(2, 2))  # it stays there
    assert judge.program.queries["d"].spread.core == 0


def test_a_judge_that_dies_between_two_steps_counts_nothing_twice(files: ControlFiles) -> None:
    for step in ("enter", "answer", "taken"):
        judge = Judge(files, setting())
        before = files.last()
        told = files.ask(
            {"verb": "create", "name": step, "sql": "SELECT * FROM r", "windows": None, "emit": None}
        )
        do = getattr(judge.control, step)

        def dies(*args: Any, do: Any = do) -> None:
            do(*args)
            raise KeyboardInterrupt

        setattr(judge.control, step, dies)
        with pytest.raises(KeyboardInterrupt):
            judge.take_in()
        delattr(judge.control, step)
        Judge(files, setting()).take_in()
        assert files.answered(told) == {"number": before + 1}
        assert (files.last(), files.asked()) == (before + 1, [])


def test_a_log_that_was_cut_short_or_changed_is_refused(files: ControlFiles) -> None:
    judge = Judge(files, setting())
    for name in "abc":
        said(files, judge, "create", name, "SELECT * FROM r")
    entry = files.entry(2)
    files.place.delete(files.place.path("log", "000000000002.json"))
    with pytest.raises(StateError, match=r"must be whole: statement 2 is missing"):
        Judge(files, setting())
    files.write({**entry, "sql": "SELECT k FROM r"}, "log", "000000000002.json")
    with pytest.raises(StateError, match=r"statement 2 does not follow on statement 1"):
        Judge(files, setting())
    files.write(entry, "log", "000000000002.json")
    assert Judge(files, setting()).program == judge.program


def test_two_hosts_in_one_control_folder_are_refused(files: ControlFiles) -> None:
    one, other = Judge(files, setting()), Judge(files, setting())
    said(files, one, "create", "a", "SELECT * FROM r")
    with pytest.raises(StateError, match="a control folder must have one host"):
        said(files, other, "create", "b", "SELECT * FROM r")


def test_a_host_stays_as_it_was(files: ControlFiles) -> None:
    assert read_setting(files) == setting()
    setting().agree(files)
    with pytest.raises(StateError, match=r"most_cores= was 3 and is now 2"):
        setting(2).agree(files)
    with pytest.raises(StateError, match=r"the streams were r, t, u and are now r"):
        setting(3, r=WINDOW).agree(files)
    with pytest.raises(StateError, match=r"the window of t was "):
        setting(3, r=WINDOW, t=wm.Rows(3), u=WINDOW).agree(files)
    other = Setting({"r": WINDOW, "t": WINDOW, "u": WINDOW}, dict.fromkeys("rtu", COLUMNS.remove(0)), 3)
    with pytest.raises(
        StateError, match=r"the columns of r were id int64, k int64, .* and are now k int64, "
    ):
        other.agree(files)


def test_control_waits_for_the_answer(files: ControlFiles, tmp_path: Path) -> None:
    judge, stop = Judge(files, setting()), threading.Event()

    def host() -> None:
        while not stop.wait(0.01):
            judge.take_in()

    control, thread = Control(files.location), threading.Thread(target=host)
    with pytest.raises(StateError, match=r"must be answered within 0.1 s; got no answer: no host runs on"):
        control.create("a", "SELECT * FROM r", timeout=0.1)
    thread.start()
    try:
        assert control.create("b", "SELECT k FROM t", windows={"t": wm.Rows(5)}) == 2
        assert control.alter("b", "SELECT k, x FROM t") == 3
        with pytest.raises(OptionError, match="the name of a new query must be free"):
            control.create("b", "SELECT * FROM r")
        with pytest.raises(ConditionError, match="got 'nothing'"):
            control.alter("b", "SELECT nothing FROM r")
        waits = control.drop("a", timeout=None)
        assert control.answer(str(waits)) == 4
    finally:
        stop.set()
        thread.join()
    assert files.place.names(files.place.path("answers")) == [
        "".join(files.place.names(files.place.path("answers")))
    ]
    found = control.queries()
    assert [(q.name, q.generation, q.state) for q in found.values()] == [("b", 1, "accepted")]
    files.write({"batch": 3, "version": 3, "stopped": {}}, "status.json")
    assert control.queries()["b"].state == "running"
    assert (control.queries()["b"].start, control.queries()["b"].complete_from) == ("now", None)
    files.write({"batch": 3, "version": 3, "stopped": {}, "complete": {"1.1": 2}}, "status.json")
    assert control.queries()["b"].complete_from == 2
    files.write({"batch": 4, "version": 3, "stopped": {"1.1": "it divided"}}, "status.json")
    assert (control.queries()["b"].state, control.queries()["b"].reason) == ("stopped", "it divided")


def test_what_a_client_gives_is_checked_before_it_is_sent(files: ControlFiles) -> None:
    control = Control(files.location)
    for refused, words in [
        (
            lambda: control.create("a", "SELECT * FROM r", start="hot"),
            "start= must be 'now' or 'warm'; got 'hot'",
        ),
        (lambda: control.create("", "SELECT * FROM r"), "the name of a query must be a text; got ''"),
        (lambda: control.alter("a", None), "a query must be SQL text; got None"),  # type: ignore[arg-type]
        (lambda: control.create("a", "SELECT * FROM r", emit="x"), "emit= must be one of"),
        (lambda: control.create("a", "SELECT * FROM r", windows={"r": 5}), "windows= must be a dict"),  # type: ignore[dict-item]
        (lambda: Control(""), "the control folder must be named by a text"),
    ]:
        with pytest.raises(OptionError, match=words):
            refused()
    assert files.asked() == []


def test_a_client_that_dies_while_it_writes_leaves_nothing_that_counts(files: ControlFiles) -> None:
    half = json.dumps({"verb": "create", "name": "a"})[:10]
    files.place.write(files.place.path("inbox", "0001-a.json.0123.tmp"), [half.encode()])
    assert Judge(files, setting()).take_in() == 0


SPREADS = [
    ("SELECT id FROM r WHERE x > 1", "rows"),
    ("SELECT id FROM r UNION ALL SELECT id FROM t", "rows"),
    ("SELECT r.id FROM r JOIN t ON r.k = t.k AND r.x < t.x", "hash of r(k) = t(k)"),
    ("SELECT r.id FROM r FULL JOIN t ON r.s = t.s", "hash of r(s) = t(s)"),
    ("SELECT r.id FROM r, t, u WHERE r.k = t.k AND t.k = u.id", "hash of r(k) = t(k) = u(id)"),
    ("SELECT a.id FROM r a JOIN r b ON a.k = b.k", "hash of r(k)"),
    ("SELECT a.id FROM r a JOIN r b ON a.k = b.id", "one core"),
    ("SELECT r.id FROM r, t, u WHERE r.k = t.k AND t.s = u.s", "broadcast: r"),
    ("SELECT r.id FROM r JOIN t ON r.x < t.x", "broadcast: r"),
    ("SELECT t.id FROM r RIGHT JOIN t ON r.x < t.x", "broadcast: t"),
    ("SELECT r.id FROM r LEFT SEMI JOIN t ON r.x < t.x", "broadcast: r"),
    ("SELECT r.id, t.id AS i FROM r FULL JOIN t ON r.x < t.x", "one core"),
    ("SELECT r.id FROM r JOIN t ON r.k + 1 = t.k", "broadcast: r"),
    ("SELECT r.id FROM last_rows(r, 5) r JOIN t ON r.k = t.k", "one core"),
    ("SELECT r.id FROM unbounded(r) r JOIN t ON r.k = t.k", "one core"),
    ("SELECT r.id FROM unbounded(r) r JOIN unbounded(t) t ON r.k = t.k", "hash of r(k) = t(k)"),
    ("SELECT k, COUNT(*) AS n FROM r GROUP BY k", "hash of r(k)"),
    ("SELECT k, s, COUNT(*) AS n FROM r WHERE x > 1 GROUP BY s, k HAVING COUNT(*) > 2", "hash of r(k, s)"),
    ("SELECT k + 1 AS k, COUNT(*) AS n FROM r GROUP BY k + 1", "one core"),
    ("SELECT COUNT(*) AS n FROM r", "one core"),
    ("SELECT k, COUNT(*) AS n FROM r GROUP BY k ORDER BY n LIMIT 2", "one core"),
    ("SELECT DISTINCT COUNT(*) AS n FROM r GROUP BY k", "one core"),
    ("SELECT k, COUNT(*) AS n FROM last_range(r, 3) GROUP BY k", "one core"),
    ("SELECT window.start, k, COUNT(*) AS n FROM r GROUP BY window(ts, 3), k", "hash of r(k)"),
    ("SELECT window.start, COUNT(*) AS n FROM r GROUP BY window(ts, 3)", "one core"),
    ("SELECT t.k, r.s, COUNT(*) AS n FROM r JOIN t ON r.k = t.k GROUP BY t.k, r.s", "hash of r(k) = t(k)"),
    ("SELECT t.x, COUNT(*) AS n FROM r JOIN t ON r.k = t.k GROUP BY t.x", "one core"),
    ("SELECT t.k, COUNT(*) AS n FROM r RIGHT JOIN t ON r.k = t.k GROUP BY t.k", "one core"),
    ("SELECT t.k, COUNT(*) AS n FROM r JOIN t ON r.x < t.x GROUP BY t.k", "one core"),
    ("SELECT k, COUNT(*) AS n FROM (SELECT k FROM r UNION ALL SELECT k FROM t) u GROUP BY k", "one core"),
    ("SELECT DISTINCT k FROM r", "hash of r(k)"),
    ("SELECT DISTINCT r.k, r.s FROM r JOIN t ON r.k = t.k AND r.id = t.id", "hash of r(k) = t(k)"),
    ("SELECT id FROM r ORDER BY ts", "one core"),
    ("SELECT id FROM r LIMIT 3", "one core"),
]


@pytest.mark.parametrize(("sql", "spread"), SPREADS)
def test_a_query_is_spread_as_its_plan_allows(files: ControlFiles, sql: str, spread: str) -> None:
    judge = Judge(files, setting())
    assert said(files, judge, "create", "q", sql) == {"number": 1}
    assert str(judge.program.queries["q"].spread).startswith(spread)


def test_queries_share_a_spreading_where_they_can_and_keep_theirs(files: ControlFiles) -> None:
    judge = Judge(files, setting())

    def spread(verb: str, name: str, condition: str) -> str:
        assert "number" in said(files, judge, verb, name, f"SELECT r.id FROM r JOIN t ON {condition}")
        return str(judge.program.queries[name].spread).partition(":")[0]

    assert spread("create", "a", "r.k = t.k AND r.s = t.s") == "hash of r(k, s) = t(k, s)"
    assert spread("create", "b", "r.s = t.s") == "hash of r(s) = t(s)"
    assert spread("create", "c", "r.s = t.s AND r.id = t.id") == "hash of r(s) = t(s)"
    assert spread("alter", "a", "r.k = t.k AND r.s = t.s AND r.x < t.x") == "hash of r(k, s) = t(k, s)"
    assert spread("alter", "a", "r.s = t.s AND r.x < t.x") == "hash of r(s) = t(s)"
    alone = Judge(ControlFiles(f"{files.location}-1"), setting(1))
    assert said(alone.control, alone, "create", "a", "SELECT r.id FROM r JOIN t ON r.k = t.k") == {
        "number": 1
    }
    assert str(alone.program.queries["a"].spread) == "one core: all rows are on core 0"


def test_state_that_does_not_fit_the_log_is_refused(tmp_path: Path) -> None:
    runner = HostRunner(tmp_path, setting(2))
    runner.say("create", "a", "SELECT * FROM r")
    rows = {"r": [pa.RecordBatch.from_pylist([{"id": 1, "ts": 1}], schema=COLUMNS)]}
    runner.batch(rows)
    entry = runner.files.entry(1)
    runner.files.place.delete(runner.files.place.path("log", "000000000001.json"))
    runner.restart()
    with pytest.raises(StateError, match=r"must be whole: statement 1 is missing"):
        runner.batch(rows, until=1)
    other = {**entry, "sql": "SELECT k FROM r"}
    from watersmeet.spark.host.program import digest_of

    runner.files.write({**other, "digest": digest_of("", other)}, "log", "000000000001.json")
    runner.restart()
    with pytest.raises(
        StateError,
        match=r"the log of statements must be that which the host has followed so far: statement 1 is",
    ):
        runner.batch(rows, until=1)
    runner.files.write(entry, "log", "000000000001.json")
    runner.restart()
    runner.read = 0
    with pytest.raises(
        StateError, match=r"statements must come without a gap; got those after 0 where .* up to 1"
    ):
        runner.batch(rows, until=1)
