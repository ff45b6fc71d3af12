"""Joins of three and four streams large enough for many sub-windows, full buffers and all threads, against DuckDB.

Each row carries its place in the one sequence of arrival and, of every other stream, how many rows had come and what its clock
said: with those the rule for N streams is a plain SQL condition between every two rows.
"""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from harness import window
from oracle import Window

ROWS = 4000
JITTER, LATENESS = 50, 200  # nobody is late


def streams(names: Sequence[str], seed: int) -> tuple[dict[str, pa.Table], np.ndarray]:
    """The streams and their interleaving."""
    random = np.random.default_rng(seed)
    order = random.permutation(np.repeat(list(names), ROWS))
    times = np.arange(order.size) + random.integers(-JITTER, JITTER, order.size)
    tables = {}
    for name in names:
        place = np.flatnonzero(order == name)
        columns = {
            "id": np.arange(ROWS),
            "place": place,
            "ts": times[place],
            "k": random.integers(0, 900, ROWS),
            "x": random.integers(0, 5000, ROWS),
            "y": random.normal(0, 1000, ROWS).astype(np.int64),
        }
        for other in names:
            if other != name:
                mine = order == other
                clock = np.maximum.accumulate(np.where(mine, times, -(10**6)))
                columns[f"seen_{other}"], columns[f"clock_{other}"] = np.cumsum(mine)[place], clock[place]
        tables[name] = pa.table(columns)
    return tables, order


def rule(windows: Mapping[str, Window]) -> str:
    """Every two rows are valid at the moment the later of them arrives."""
    texts = []
    for later, earlier in permutations(windows, 2):
        spec = windows[earlier]
        if spec[0] == "rows":
            seen = f"{earlier}.id >= {later}.seen_{earlier} - {spec[1]}"
            texts.append(f"({later}.place < {earlier}.place OR {seen})")
        elif spec[0] == "range" and windows[later][0] == "range":
            texts.append(f"{later}.ts <= {earlier}.ts + {spec[1]}")
        elif spec[0] == "range":
            seen = f"{earlier}.ts >= {later}.clock_{earlier} - {spec[1]}"
            texts.append(f"({later}.place < {earlier}.place OR {seen})")
    return " AND ".join(texts or ["TRUE"])


def by_duckdb(tables: Mapping[str, pa.Table], condition: str) -> np.ndarray:
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(f"rows_{name}", table)
        numbers = ", ".join(f"{name}.id AS {name}" for name in tables)
        rows = ", ".join(f"rows_{name} {name}" for name in tables)
        found = connection.execute(f"SELECT {numbers} FROM {rows} WHERE {condition}").fetchnumpy()
    return in_order([found[name] for name in tables])


def in_order(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Combinations as rows, sorted."""
    table = np.stack([np.asarray(column, np.int64) for column in columns], axis=1)
    return table[np.lexsort(table.T[::-1])]


def pushed(join: wm.StreamJoin, tables: Mapping[str, pa.Table], order: np.ndarray, size: int) -> list[Any]:
    """Results of pushing everything, ``size`` rows of all streams together at a time."""
    results, taken = [], dict.fromkeys(tables, 0)
    for start in range(0, order.size, size):
        turn, batches = order[start : start + size], {}
        for name, table in tables.items():
            rows = int((turn == name).sum())
            batches[name] = table.slice(taken[name], rows)
            taken[name] += rows
        results.append(join.push(**batches, order=turn.tolist()))
    assert not any(rows.num_rows for result in results for rows in result.late.values())
    return results


def same(got: np.ndarray, wanted: np.ndarray) -> None:
    if np.array_equal(got, wanted):
        return
    ours, theirs = ({tuple(one) for one in found.tolist()} for found in (got, wanted))
    missing, extra = sorted(theirs - ours)[:5], sorted(ours - theirs)[:5]
    raise AssertionError(f"{len(got)} results for {len(wanted)}: missing {missing}; extra {extra}")


COUNTED: dict[str, Window] = {
    "a": ("rows", 1500),
    "b": ("rows", 900),
    "c": ("rows", 1200),
    "d": ("rows", 700),
}
TIMED: dict[str, Window] = {name: ("range", 900 * n, "ts", LATENESS) for n, name in enumerate("abcd", 1)}
MIXED: dict[str, Window] = {"a": TIMED["a"], "b": COUNTED["b"], "c": TIMED["c"], "d": ("unbounded",)}
TRIANGLE = "a.k = b.k AND b.x BETWEEN c.x - 20 AND c.x + 20 AND c.y < a.y"
CASES = {
    "one key": "a.k = b.k AND b.k = c.k",
    "chain": "a.k = b.k AND c.x BETWEEN b.x - 5 AND b.x + 5",
    "star": "b.x BETWEEN a.x - 9 AND a.x + 9 AND a.k = c.k",
    "cycle": TRIANGLE,
    "three": "a.k = b.k AND b.k = c.k AND a.y + b.y > c.y",
    "four": "a.k = b.k AND b.x BETWEEN c.x - 4 AND c.x + 4 AND c.k = d.k",
}


@pytest.mark.parametrize("windows", [COUNTED, TIMED, MIXED], ids=["rows", "range", "mixed"])
@pytest.mark.parametrize("case", CASES)
def test_thousands_of_rows_give_what_the_rule_as_sql_gives(case: str, windows: dict[str, Window]) -> None:
    names = "abcd" if case == "four" else "abc"
    mine = {name: windows[name] for name in names}
    tables, order = streams(names, seed=len(case))
    given = {name: window(spec, "") for name, spec in mine.items()}
    wanted = by_duckdb(tables, f"{CASES[case]} AND {rule(mine)}")
    assert len(wanted) > 100
    join = wm.StreamJoin(CASES[case], windows=given, cores=2)
    results = pushed(join, tables, order, size=2500)
    same(in_order([np.concatenate([r.numbers()[name] for r in results]) for name in names]), wanted)
    results = pushed(wm.StreamJoin(CASES[case], windows=given), tables, order, size=200)  # the short way
    same(in_order([np.concatenate([r.numbers()[name] for r in results]) for name in names]), wanted)
    counting = wm.StreamJoin(CASES[case], windows=given, result="count")
    assert sum(result.count for result in pushed(counting, tables, order, size=5000)) == len(wanted)


def test_a_row_with_more_results_than_a_buffer_holds_finds_them_all() -> None:
    rows = pa.table({"k": np.zeros(90, np.int64)})
    join = wm.StreamJoin("a.k = b.k AND b.k = c.k", a=wm.Rows(100), b=wm.Rows(100), c=wm.Rows(100))
    assert join.push(a=rows, b=rows).count == 0
    assert join.push(c=rows).count == 90**3


def test_there_are_up_to_32_streams() -> None:
    names = [f"s{n}" for n in range(33)]
    condition = " AND ".join(f"s{n}.k = s{n + 1}.k" for n in range(31))
    join = wm.StreamJoin(condition, windows={name: wm.Rows(2) for name in names[:32]})
    assert join.push(**{name: {"k": [7]} for name in names[:32]}).count == 1
    assert join.push(s5={"k": [7, 8]}).count == 1
    with pytest.raises(wm.OptionError, match="32"):
        wm.StreamJoin(condition, windows={name: wm.Rows(2) for name in names})
