"""Warm starts on a host: a query that starts warm gives what it would give had it been there since the first batch, through restarts,
second tries and other numbers of cores; or it begins with the rows that come, and says so."""

import tempfile
from collections.abc import Sequence
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
from spark.test_host_stages import Row, ordered, parts

EQUAL = "SELECT r.id, t.id AS other FROM r JOIN t ON r.k = t.k"
FEWER = "SELECT r.id, t.id AS other FROM r JOIN t ON r.k = t.k AND r.x <= t.x"
SHORT = "SELECT r.id, t.id AS other FROM r JOIN last_range(t, 2) t ON r.k = t.k"
WIDE = "SELECT r.id, t.id AS other FROM last_range(r, 20) r JOIN last_range(t, 20) t ON r.k = t.k"
EVER = "SELECT r.id, t.id AS other FROM unbounded(r) r JOIN unbounded(t) t ON r.k = t.k AND r.x < t.x - 1"
FULL = "SELECT r.id, t.id AS other FROM r FULL JOIN t ON r.k = t.k AND r.s = t.s"
SEMI = "SELECT r.id FROM r LEFT SEMI JOIN t ON r.k = t.k"
ANTI = "SELECT t.id FROM r RIGHT ANTI JOIN last_range(t, 1) t ON r.k = t.k AND r.x = t.x AND r.s = t.s"
BY_TEXT = "SELECT r.id, t.id AS other FROM r JOIN t ON r.s = t.s"
THREE = "SELECT r.id, t.id AS i, u.id AS j FROM r, t, u WHERE r.k = t.k AND t.k = u.k"
NEAR = "SELECT r.id, t.id AS other FROM r JOIN t ON r.x BETWEEN t.x - 1 AND t.x + 1"
ABOVE = "SELECT r.id, t.id AS other FROM r LEFT JOIN last_range(t, 1) t ON r.x > t.x"
TWICE = "SELECT a.id, b.id AS other FROM r a JOIN r b ON a.k = b.k AND a.id < b.id"
COUNTED = "SELECT r.id, t.id AS other FROM last_rows(r, 8) r JOIN last_rows(t, 8) t ON r.k = t.k"
FEWER_COUNTED = "SELECT r.id, t.id AS other FROM last_rows(r, 5) r JOIN last_rows(t, 3) t ON r.k = t.k"
MIXED = "SELECT r.id, t.id AS other FROM last_rows(r, 5) r JOIN t ON r.k = t.k"
ROWS = "SELECT id, x + 1 AS y FROM r WHERE k > 0"
BOTH = f"{FEWER} UNION ALL SELECT id, k FROM r"
INNER = [EQUAL, FEWER, SHORT, WIDE, EVER, BY_TEXT, THREE, NEAR, TWICE, COUNTED, FEWER_COUNTED, MIXED, ROWS]
TEXTS = [*INNER, FULL, SEMI, ANTI, ABOVE]


def batches(rows: dict[str, list[Row]]) -> dict[str, pa.RecordBatch]:
    timed = {stream: [row for row in some if row["ts"] is not None] for stream, some in rows.items()}
    return {
        stream: pa.RecordBatch.from_pylist(some, schema=COLUMNS) for stream, some in timed.items() if some
    }


class Model:
    """What queries give that were there from the first batch on, that begin with the rows that come, and that start warm in process."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.always, self.others = (
            wm.Processor(
                windows=dict.fromkeys("rtu", WINDOW), schemas=dict.fromkeys("rtu", COLUMNS), watermark="push"
            )
            for _ in range(2)
        )
        for text in texts:
            self.always.create(text, text)

    def push(self, rows: dict[str, list[Row]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        given = batches(rows)
        if not given:
            return {}, {}
        results = [processor.push(given) for processor in (self.always, self.others)]
        always, others = (
            {name: ordered(result.to_arrow().to_pylist()) for name, result in some.items()}
            for some in results
        )
        return always, others


def rows_of(batch: int) -> dict[str, list[Row]]:
    """Late rows too; times of t run behind."""
    found: dict[str, list[Row]] = {}
    for place, stream in enumerate("rtu"):
        found[stream] = []
        for i in range(4):
            number = 100 * batch + 10 * place + i
            time = 2 * batch + (number * 7 + batch) % 4 - (2 if stream == "t" else 0) - 6 * (number % 13 == 5)
            row = {"id": number, "k": number * 5 % 3, "x": number * 3 % 4 / 1.0, "s": str(number % 2)}
            found[stream].append({**row, "ts": time})
    return found


GROUPED = "SELECT r.k, COUNT(*) AS n FROM r JOIN t ON r.k = t.k GROUP BY r.k"
CASES: dict[str, dict[str, bool]] = {
    EQUAL: {
        FEWER: True,
        SHORT: True,
        BOTH: True,
        WIDE: False,  # it needs more than is stored
        EVER: False,
        FULL: False,  # rows that are not decided yet need partners that others need no more
        BY_TEXT: False,  # another spreading
        THREE: False,
        FEWER_COUNTED: False,
    },
    SHORT: {EQUAL: False, SHORT: True},
    WIDE: {FULL: True, SEMI: True, ANTI: True, EQUAL: True},
    EVER: {WIDE: True, SEMI: True},
    THREE: {FEWER: True},
    NEAR: {NEAR.replace("- 1", "- 2"): True, ABOVE: False},
    TWICE: {TWICE.replace("<", ">"): True},
    COUNTED: {FEWER_COUNTED: True, FEWER_COUNTED.replace(".k", ".s"): True, ROWS: True, COUNTED: True},
    FEWER_COUNTED: {COUNTED: False},
    GROUPED: {FEWER: True},
}
"""What is there; and what starts warm beside it, and whether it can."""


@pytest.mark.parametrize("first", CASES)
def test_a_warm_query_is_exact_where_another_holds_what_it_needs(tmp_path: Path, first: str) -> None:
    runner, model = HostRunner(tmp_path, setting(3), seed=1), Model(list(CASES[first]))
    assert "number" in runner.say("create", "first", first)
    model.others.create("first", first)
    runner.batch({})
    found = dict.fromkeys(CASES[first], 0)
    for batch in range(9):
        if batch == 5:
            for second in CASES[first]:
                assert "number" in runner.say("create", second, second, start="warm")
        if batch % 3 == 0:
            runner.restart(tasks=batch % 2 + 1)
        rows = rows_of(batch)
        commit = runner.batch({stream: parts(some, 2) for stream, some in rows.items()}, again=batch == 7)
        assert commit is not None
        assert commit.stopped == {}
        always, others = model.push(rows)
        for second, warm in CASES[first].items():
            if batch == 5:
                model.others.create(second, second, start="warm" if warm else "now")
            if batch > 5:
                mine, key = ordered(runner.rows_of(commit)[second]), runner.judge.program.queries[second].key
                assert mine == others[second], f"batch {batch}: {second}"
                assert not warm or mine == always[second], f"batch {batch}: {second}"
                assert (commit.complete[key] == 7) == warm, second
                found[second] += len(mine)
        assert commit.complete["0.0"] == 1
    assert all(found.values())


def test_a_join_holds_rows_for_others_once_its_window_is_full(tmp_path: Path) -> None:
    """Of a spreading that comes later than the streams, also clocks from before count: rows that were late then are late now."""
    runner, model = HostRunner(tmp_path, setting(2), seed=2), Model([EQUAL, FEWER])
    verdicts = {}
    for batch in range(16):
        if batch == 2:
            runner.say("create", "cold", EQUAL)
        if batch in (3, 6, 11):
            assert "number" in runner.say("create", f"warm {batch}", FEWER, start="warm")
        if batch == 12:  # goes on without the one that has held its rows
            runner.say("drop", "cold")
        rows = rows_of(batch)
        if batch == 1:
            rows["r"][0]["ts"] = 9  # far ahead, for a while
        commit = runner.batch({stream: parts(some, 1) for stream, some in rows.items()})
        assert commit is not None
        always, _ = model.push(rows)
        queries, given = runner.judge.programs.of(commit.version).queries, runner.rows_of(commit)
        for name, query in queries.items():
            verdicts[name] = commit.complete[query.key]
            if verdicts[name] is not None:
                text = EQUAL if name == "cold" else FEWER
                assert ordered(given[name]) == always[text], f"{name} in batch {batch}"
    assert verdicts["cold"] is not None
    assert 5 < verdicts["cold"] <= 11
    assert verdicts["warm 11"] == 12
    assert verdicts["warm 3"] is not None
    assert verdicts["warm 3"] > 6


def test_alter_can_start_warm_with_the_rows_of_the_query_itself(tmp_path: Path) -> None:
    runner, model = HostRunner(tmp_path, setting(3), seed=3), Model([SHORT, FEWER])
    runner.say("create", "a", EQUAL)
    runner.batch({})
    for batch in range(9):
        if batch == 4:
            runner.say("alter", "a", FEWER, start="warm")
        if batch == 6:
            runner.say("alter", "a", SHORT)
        rows = rows_of(batch)
        commit = runner.batch({stream: parts(some, 2) for stream, some in rows.items()}, again=batch == 5)
        assert commit is not None
        always, _ = model.push(rows)
        if batch in (5, 6):
            assert ordered(runner.rows_of(commit)["a"]) == always[FEWER]
            assert commit.complete == {"0.1": 6}
    assert commit.complete == {"0.2": None}


@st.composite
def plays(draw: st.DrawFn) -> list[tuple[list[tuple[str, ...]], dict[str, list[Row]], str]]:
    """Batches: statements before each, rows by stream, and what befalls it."""
    found, clock, number = [], 0, 0
    for _ in range(draw(st.integers(4, 9))):
        statements = []
        for _ in range(draw(st.integers(0, 2))):
            verb = draw(st.sampled_from(["create", "create", "create", "drop"]))
            text, start = draw(st.sampled_from(TEXTS)), draw(st.sampled_from(["warm", "warm", "now"]))
            statements.append((verb, draw(st.sampled_from("abcd")), text, start))
        clock += draw(st.integers(0, 5))
        rows: dict[str, list[Row]] = {}
        for stream in "rtu":
            rows[stream] = []
            for _ in range(draw(st.integers(0, 4))):
                time = None if draw(st.integers(0, 19)) == 0 else clock + draw(st.integers(-4, 2))
                row = {
                    "id": number,
                    "k": draw(st.sampled_from([0, 1, 0, 1, None])),
                    "x": float(draw(st.integers(0, 3))),
                }
                rows[stream].append({**row, "s": draw(st.sampled_from("01")), "ts": time})
                number += 1
        found.append((statements, rows, draw(st.sampled_from(["", "", "restart", "again"]))))
    return found


@examples(25)
@given(play=plays(), cores=st.integers(1, 3), seed=st.integers(0, 9))
def test_a_query_gives_what_it_says(play: Any, cores: int, seed: int) -> None:
    """Complete from its first batch on: what it would give had it always been there. Else what it gives with the rows that come; until it
    is complete, and joins decide about no row from before."""
    note(f"{cores} cores, {play}")
    with tempfile.TemporaryDirectory() as folder:
        texts = sorted({statement[2] for statements, _, _ in play for statement in statements})
        runner, model = HostRunner(Path(folder), setting(cores), seed), Model(texts)
        begun: dict[str, int] = {}  # by key
        for number, (statements, rows, what) in enumerate(play):
            accepted = [one for one in statements if "number" in runner.say(*one[:3], start=one[3])]
            if what == "restart":
                runner.restart(tasks=runner.random.randint(1, cores))
            commit = runner.batch(
                {stream: parts(some, 2) for stream, some in rows.items() if some}, again=what == "again"
            )
            assert commit is not None
            always, others = model.push(rows)
            given = runner.rows_of(commit)
            for name, query in runner.judge.programs.of(commit.version).queries.items():
                begun.setdefault(query.key, number)
                complete, mine = commit.complete[query.key], ordered(given[name])
                if complete == begun[query.key] or (complete is not None and query.sql in INNER):
                    assert mine == always.get(query.sql, []), f"{name} in batch {number}"
                if complete != begun[query.key] or query.sql == ROWS:
                    assert mine == others.get(name, []), f"{name} in batch {number}"
            for verb, name, text, _ in accepted:
                if verb == "drop":
                    model.others.drop(name)
                else:
                    model.others.create(name, text)


def test_rows_that_were_late_for_one_are_not_held_for_another_that_waits_longer(tmp_path: Path) -> None:
    runner, model = HostRunner(tmp_path, setting(2), seed=4), Model([])
    patient = dict.fromkeys(
        "rt", wm.Range(1, time="ts", lateness=4)
    )  # EQUAL's window reaches further back, but waits for less
    hasty = dict.fromkeys("rt", wm.Range(1, time="ts", lateness=2))
    runner.say("create", "first", EQUAL)
    runner.batch({})
    for batch in range(9):
        for name, windows in (("patient", patient), ("hasty", hasty)) if batch == 4 else ():
            own = {one: window.to_json() for one, window in windows.items()}
            assert "number" in runner.say("create", name, EQUAL, windows=own, start="warm")
        rows = rows_of(batch)
        commit = runner.batch({stream: parts(some, 1) for stream, some in rows.items()})
        assert commit is not None
        _, others = model.push(rows)
        if batch == 4:
            model.others.create("patient", EQUAL, windows=patient)
            model.others.create("hasty", EQUAL, windows=hasty, start="warm")
        elif batch > 4:
            assert (commit.complete["1.0"], commit.complete["2.0"]) == (
                None if batch < 8 else commit.complete["1.0"],
                6,
            )
            given = runner.rows_of(commit)
            assert {name: ordered(given[name]) for name in ("patient", "hasty")} == {
                name: others[name] for name in ("patient", "hasty")
            }, f"batch {batch}"


def row(number: int, k: int, time: int) -> Row:
    return {"id": number, "k": k, "x": float(number % 4), "s": "0", "ts": time}


def agreed(
    runner: HostRunner,
    model: Model,
    batch: int,
    rows: dict[str, list[dict[str, Any]]],
    made: tuple[str, str, str] | None,
) -> Any:
    """A batch, and perhaps a statement that it reads: every query gives what the others' processor gives."""
    if made is not None:
        name, sql, start = made
        assert "number" in runner.say("create", name, sql, start=start)
    commit = runner.batch({stream: parts(some, 1) for stream, some in rows.items()})
    assert commit is not None
    _, others = model.push(rows)
    for name, mine in runner.rows_of(commit).items():
        assert ordered(mine) == others[name], f"{name} in batch {batch}"
    if made is not None:
        model.others.create(made[0], made[1])
    return commit


def test_cores_that_have_got_nothing_so_far_decide_as_those_that_have(tmp_path: Path) -> None:
    """They lack nothing themselves; a query that starts warm there, and not elsewhere, would give a part of what it should."""
    runner, model = HostRunner(tmp_path, setting(3), seed=5), Model([])
    brief = "SELECT r.id FROM last_range(r, 1) r JOIN last_range(t, 1) t ON r.k = t.k"
    made = {-1: ("brief", brief, "now"), 2: ("cold", EQUAL, "now"), 3: ("warm", FEWER, "warm")}
    found = 0
    for batch in range(-1, 6):
        keys = [0] if batch < 3 else [0, 1, 2, 3, 4]  # of several cores
        rows = (
            {stream: [row(100 * batch + k, k, batch) for k in keys] for stream in "rt"} if batch >= 0 else {}
        )
        commit = agreed(runner, model, batch, rows, made.get(batch))
        found += len(runner.rows_of(commit).get("warm", ()))
    assert found > 0
    assert commit.complete == {"0.0": 1, "1.0": None, "2.0": None}


def test_times_of_streams_that_nobody_has_read_count(tmp_path: Path) -> None:
    """A row of t far ahead, before any query reads t: later joins lack it until it is over, and nobody starts warm from them."""
    runner, model = HostRunner(tmp_path, setting(1), seed=6), Model([])
    made = {-1: ("rows", ROWS, "now"), 1: ("cold", EQUAL, "now"), 7: ("warm", FEWER, "warm")}
    for batch in range(-1, 10):
        rows = (
            {stream: [row(100 * batch + k, k, 2 * batch) for k in range(2)] for stream in "rt"}
            if batch >= 0
            else {}
        )
        if batch == 1:
            rows["t"].append(row(150, 0, 30))
        commit = agreed(runner, model, batch, rows, made.get(batch))
    assert commit.complete == {"0.0": 1, "1.0": None, "2.0": None}
