"""Stored rows dealt out anew: every change of spreading and cores, piece by piece, against the oracle."""

import json
import random
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from spark.batch_oracle import BatchOracle, arranged
from spark.runner import Runner
from spark.test_matrix import CONDITIONS, HOWS, SCHEMA, SELECTS, null_safe, table
from watersmeet.errors import OptionError
from watersmeet.join.outer import join_type
from watersmeet.spark.shuffle.layout import Router
from watersmeet.spark.shuffle.spread import choose_spread
from watersmeet.spark.spec import JoinSpec
from watersmeet.spark.state import rebucket, saving
from watersmeet.sql.condition import Condition

RANGE, UNBOUNDED, ROWS = (
    (wm.Range(9, time="ts", lateness=3), ("range", 9, "ts", 3)),
    (wm.Unbounded(), ("unbounded",)),
    (wm.Rows(9), ("rows", 9)),
)
WAYS: dict[str, tuple[str, str | None]] = {  # spread= and order= that a user gives
    "hash": ("hash", None),
    "range": ("range", None),
    "broadcast": ("broadcast", None),
    "counted": ("broadcast", "ts"),
}
PAIRS = list(combinations(WAYS, 2))


class Case:
    """A join and its oracle, fed with the same random rows on few keys."""

    def __init__(self, folder: Path, condition: str, windows: Any, how: str, cores: int, way: str) -> None:
        text, predicate = CONDITIONS[condition]
        self.random = random.Random(f"{condition}{how}{cores}{way}")
        self.bound = Condition(text).bind({"r": SCHEMA, "s": SCHEMA})
        self.windows, self.how = tuple(window for window, _ in windows), how
        self.oracle = BatchOracle(null_safe(predicate), windows[0][1], windows[1][1], how)
        self.number, self.ids = 0, {"r": 0, "s": 0}
        self.runner = Runner(
            JoinSpec(
                text, ("r", "s"), self.windows, (SCHEMA, SCHEMA), how=how, cores=cores, late="late", state=str(folder),
                select=SELECTS.get(how, "r.id AS rid, s.id AS sid"), instance=str(folder), **self.options(way),
            )
        )  # fmt: skip

    def options(self, way: str) -> dict[str, Any]:
        """Refused with OptionError where condition and windows do not allow it."""
        asked, order = WAYS[way]
        spread = choose_spread(asked, self.bound, self.windows, order, join_type(self.how).name)
        return {"spread": spread, "order": order}

    def batches(self, count: int) -> None:
        for _ in range(count):
            rows: dict[str, list[dict[str, Any]]] = {"r": [], "s": []}
            for _ in range(24):
                side = self.random.choice("rs")
                x = None if self.random.random() < 0.06 else self.random.randrange(12)
                late = self.random.randrange(12) if self.random.random() < 0.2 else 0
                ts = max(0, 3 * self.number + self.random.randrange(3) - late)
                rows[side].append({"id": self.ids[side], "ts": ts, "x": x})
                self.ids[side] += 1
            self.batch(rows)

    def batch(self, rows: dict[str, list[dict[str, Any]]]) -> None:
        order = self.runner.spec.order is not None
        pairs, late = self.oracle.batch(arranged([(side, row) for side in "rs" for row in rows[side]], order))
        halves = [
            [table(rows[side][: len(rows[side]) // 2]), table(rows[side][len(rows[side]) // 2 :])]
            for side in "rs"
        ]
        found = self.runner.batch(self.number, halves)
        where = f"{self.how}, {self.runner.spec.spread}, {self.runner.spec.cores} cores, batch {self.number}"
        got = sorted(((row["rid"], row["sid"]) for row in found if row["late"] is None), key=repr)
        assert got == self.oracle.ids(pairs), where
        refused = sorted(row["late"] for row in found if row["late"] is not None)
        assert refused == sorted(stream for stream, _ in late), where
        self.number += 1


@pytest.mark.parametrize("cores", [3, 2], ids=["same-cores", "fewer-cores"])
@pytest.mark.parametrize(("old", "new"), PAIRS, ids=[f"{old}-{new}" for old, new in PAIRS])
def test_another_spread_and_back_again_changes_nothing(
    tmp_path: Path, old: str, new: str, cores: int
) -> None:
    tried = 0
    for condition in ("hash", "range"):
        for how in HOWS:
            windows = (RANGE, UNBOUNDED) if "counted" in (old, new) else (RANGE, RANGE)
            try:
                case = Case(tmp_path / condition / how, condition, windows, how, 3, old)
                change = case.options(new)
            except OptionError:
                continue
            case.batches(3)
            case.runner.restart(cores=cores, **change)
            case.batches(2)
            case.runner.restart(cores=3, **case.options(old))
            case.batches(2)
            tried += 1
    assert tried >= 8


def test_copies_do_not_become_rows_of_their_own(tmp_path: Path) -> None:
    case = Case(tmp_path, "hash", (UNBOUNDED, UNBOUNDED), "left", 3, "broadcast")
    case.batches(2)
    rows = sum(case.ids.values())
    assert case.runner.figures[-1]["state_rows"] > rows
    case.runner.restart(**case.options("hash"))
    case.batches(1)
    assert case.runner.figures[-1]["state_rows"] == sum(case.ids.values())


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """As if few rows were many; gives the most rows that were routed or written at once."""
    monkeypatch.setattr(rebucket, "PIECE", 5)
    monkeypatch.setattr(rebucket, "SUBWINDOW", 4)
    monkeypatch.setattr(saving, "MOST", 100)
    sizes = []

    class Noted(Router):
        def shares(self, k: int, batch: pa.RecordBatch) -> Iterator[Any]:
            sizes.append(batch.num_rows)
            return super().shares(k, batch)

    monkeypatch.setattr(rebucket, "Router", Noted)
    return lambda: max(sizes, default=0)


@pytest.mark.parametrize("windows", [(RANGE, RANGE), (ROWS, RANGE), (ROWS, ROWS)], ids=["range", "mixed", "rows"])  # fmt: skip
@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_are_dealt_out_in_pieces(
    tmp_path: Path, small_pieces: Callable[[], int], condition: str, windows: Any
) -> None:
    for how in ("inner", "left", "full", "right_semi"):
        case = Case(tmp_path / how, condition, windows, how, 3, "broadcast")
        case.batches(3)
        for cores in (2, 1, 4):
            case.runner.restart(cores=cores)
            case.batches(2)
    routed = windows == (RANGE, RANGE)
    assert (0 < small_pieces() <= 5) if routed else small_pieces() == 0


def test_a_share_is_cut_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebucket, "BYTES", 1000)
    numbers = [[0, 3, 4, 9], [], [1, 2, 5, 8], [6, 7]]
    shares = [
        pa.table({"note": [f"{n}" * 400 for n in part], rebucket.NUMBER: pa.array(part, pa.int64())},
                 schema=pa.schema([("note", pa.string()), (rebucket.NUMBER, pa.int64())]))
        for part in numbers
    ]  # fmt: skip
    table = rebucket._in_order(shares)
    assert table.column("note").to_pylist() == [f"{n}" * 400 for n in range(10)]
    assert table.column("note").num_chunks >= 5
    assert rebucket._borders(table) == [[0, 2], [2, 4], [4, 6], [6, 8], [8, 10]]


def test_runs_of_few_large_rows_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "MOST", 16 * 300)
    case = Case(tmp_path, "hash", (UNBOUNDED, UNBOUNDED), "inner", 1, "hash")
    case.batches(20)
    runs = list(tmp_path.rglob("*.run"))
    case.batches(1)
    assert len(list(tmp_path.rglob("*.run"))) == len(runs) + 1
    (last,) = tmp_path.rglob(f"{case.number - 1:012d}.json")
    streams = json.loads(last.read_text().partition("\n")[2])["streams"]
    assert [len(stream["runs"]) for stream in streams] == [21, 21]
    case.runner.restart(cores=2)
    case.batches(2)
