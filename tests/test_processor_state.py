"""What a processor saves, ``load`` restores whole, or refuses by name: from then on it gives what it would have given."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples, window
from interruptions import every_step
from oracle import Event, Window
from test_processor_interruptions import SQL, started
from test_processor_interruptions import listed as all_rows
from test_processor_interruptions import push as push_all
from test_processor_properties import Asked, companies, push
from test_processor_warm import WATERMARK, late, numbers, passing
from test_shared_streams import SCHEMAS, STREAMS, UNIT, windows


def again(qp: wm.Processor) -> wm.Processor:
    """The processor as it comes back from its files."""
    with TemporaryDirectory() as folder:
        qp.save(folder)
        return wm.Processor.load(folder)


def given_by(results: dict[str, wm.Result]) -> Any:
    return {name: (numbers(one), late(one), one.to_arrow().num_rows) for name, one in results.items()}


@st.composite
def saved_runs(draw: st.DrawFn) -> tuple[dict[str, Window], list[Asked], list[tuple[Event, ...]], list[bool]]:
    company, pushes = draw(companies())
    speed, place, moved = draw(st.integers(0, 3)), 0, []
    for events in pushes:
        moved.append(tuple(passing(events, speed, place)))
        place += len(events)
    warm = [draw(st.booleans()) for _ in company]
    return {name: draw(windows) for name in STREAMS}, company, moved, warm


@examples(15)
@given(saved_runs(), st.sets(st.integers(0, 12), min_size=1), WATERMARK)
def test_a_loaded_processor_goes_on_exactly(drawn: Any, saved: set[int], watermark: str) -> None:
    own, company, pushes, warm = drawn
    note("\n".join(query.sql for query in company))
    named = {name: window(spec, UNIT) for name, spec in own.items()}
    one, other = (wm.Processor(windows=named, schemas=SCHEMAS, watermark=watermark) for _ in range(2))
    for number, events in enumerate(pushes):
        for i, query in enumerate(company):
            if query.reader.joins == number:
                for qp in (one, other):
                    try:
                        qp.create(f"q{i}", query.sql, windows=query.own, start="warm" if warm[i] else "now")
                    except wm.OptionError:  # times that are not known of all rows
                        qp.create(f"q{i}", query.sql, windows=query.own)
        assert given_by(push(one, events)) == given_by(push(other, events)), f"push {number}"
        if number in saved:
            before = other.explain()
            other = again(other)
            assert other.explain() == before
            assert [query.complete_from for query in other.queries().values()] == [
                query.complete_from for query in one.queries().values()
            ]
    assert given_by(one.finish()) == given_by(other.finish())


def kinds_of_queries() -> wm.Processor:
    """Queries that run, wait and have been stopped; a column without a type, a self-join, generations, another's windows."""
    qp = started()
    qp.queries()["inner"].alter(SQL["outer"])
    qp.queries()["inner"].alter(SQL["inner"])
    qp.create("bad", SQL["outer"], windows=dict.fromkeys("ab", wm.Range(9, time="x")))
    rows = {"k": [1], "x": [None], "at": [50], "note": ["x"]}
    assert "bad" in qp.push(b=rows).stopped
    qp.create("warm", SQL["three"], start="warm")
    return qp


def test_queries_of_all_kinds_survive(tmp_path: Path) -> None:
    qp = kinds_of_queries()
    qp.save(tmp_path)
    loaded = wm.Processor.load(tmp_path)
    assert loaded.explain() == qp.explain()
    assert {name: query.state for name, query in loaded.queries().items()}["bad"] == "stopped"
    assert [query.generation for query in loaded.queries().values()] == [
        query.generation for query in qp.queries().values()
    ]
    for number in (5, 6):
        assert all_rows(push_all(loaded, number)) == all_rows(push_all(qp, number))
    for one in (loaded, qp):
        one.create("late", SQL["self"], start="warm")
        one.queries()["union"].alter(SQL["few"])
    assert all_rows(push_all(loaded, 7)) == all_rows(push_all(qp, 7))
    assert all_rows(loaded.finish()) == all_rows(qp.finish())
    assert loaded.explain() == qp.explain()


def test_a_processor_that_waits_and_one_that_has_finished(tmp_path: Path) -> None:
    qp = wm.Processor(a=wm.Range(5, time="at"), b=wm.Rows(5), cores=2, keep="queries")
    waiting = qp.create("q", "SELECT a.at, b.k FROM a JOIN b ON a.k = b.k")
    qp.push(b={"k": [1, 2], "note": [None, None]})
    assert waiting.state == "waiting"
    loaded = again(qp)
    assert repr(loaded) == repr(qp)
    found = loaded.push(a={"k": [2, 1], "at": [1, 2]}, b={"k": [1], "note": ["text"]})
    assert (
        found["q"].count == qp.push(a={"k": [2, 1], "at": [1, 2]}, b={"k": [1], "note": ["text"]})["q"].count
    )
    loaded.finish()
    loaded.save(tmp_path)
    with pytest.raises(wm.StateError, match=r"got a push after finish\(\)"):
        wm.Processor.load(tmp_path).push()


def test_rows_are_kept_as_they_were(tmp_path: Path) -> None:
    types = {
        "d": pa.decimal128(20, 3),
        "l": pa.list_(pa.string()),
        "t": pa.timestamp("ns", "UTC"),
        "s": pa.string(),
    }
    batch = pa.record_batch(
        [pa.array([None, 1], pa.decimal128(20, 3)), pa.array([["a", None], None]), pa.array([1, None], pa.timestamp("ns", "UTC")),
         pa.array(["", None])], schema=pa.schema(types)
    )  # fmt: skip
    qp = wm.Processor(windows={"odd name/": wm.Rows(5)})
    qp.push({"odd name/": batch})
    qp.save(tmp_path)
    query = wm.Processor.load(tmp_path).create(
        "all", "SELECT * FROM `odd name/`", start="warm", backfill=True
    )
    assert query.backfill is not None
    assert query.backfill.to_arrow().to_pylist() == batch.to_pylist()


def files(folder: Path, start: str) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(start)]


def test_a_damaged_or_missing_file_is_refused(tmp_path: Path) -> None:
    qp = kinds_of_queries()
    qp.save(tmp_path / "whole")
    for path in (tmp_path / "whole").iterdir():
        folder = tmp_path / "copy"
        shutil.copytree(tmp_path / "whole", folder)
        broken = folder / path.name
        data = bytearray(broken.read_bytes())
        data[len(data) // 2] ^= 255
        broken.write_bytes(bytes(data))
        with pytest.raises(wm.StateError, match="is damaged"):
            wm.Processor.load(folder)
        broken.unlink()
        with pytest.raises(wm.StateError, match="is missing: no complete state was saved there"):
            wm.Processor.load(folder)
        shutil.rmtree(folder)


def test_states_of_joins_and_of_processors_are_told_apart(tmp_path: Path) -> None:
    wm.Processor(a=wm.Rows(1)).save(tmp_path / "processor")
    wm.StreamJoin("a.x = b.x", a=wm.Rows(1), b=wm.Rows(1)).save(tmp_path / "join")
    with pytest.raises(
        wm.StateError,
        match=r"must hold the state of a StreamJoin; it holds that of a Processor; load it with Processor",
    ):
        wm.StreamJoin.load(tmp_path / "processor")
    with pytest.raises(
        wm.StateError, match=r"must hold the state of a Processor; it holds that of a StreamJoin"
    ):
        wm.Processor.load(tmp_path / "join")


def test_an_interrupted_save_leaves_the_older_state(tmp_path: Path) -> None:
    wanted = all_rows(push_all(started(), 4))

    def operation(qp: wm.Processor) -> None:
        qp.save(tmp_path)

    def check(qp: wm.Processor, saved: Any) -> None:
        assert all_rows(push_all(wm.Processor.load(tmp_path), 4)) == wanted
        assert all_rows(push_all(qp, 4)) == wanted

    every_step(started, operation, check, at_most=10, standing=lambda qp: qp.explain())


def test_saving_from_within_a_call_is_refused(tmp_path: Path) -> None:
    qp = wm.Processor(a=wm.Rows(1))
    qp._inside = True
    with pytest.raises(wm.StateError, match=r"got save\(\) from within a call"):
        qp.save(tmp_path)
