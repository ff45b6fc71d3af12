"""The operator against the oracle, without a Spark session: windows, join types, ways of spreading, restarts, other cores."""

import tempfile
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from harness import examples, script, window
from spark.batch_oracle import BatchOracle, arranged
from spark.runner import Runner
from strategies import HOWS, Run, batch, runs
from watersmeet.condition import Condition
from watersmeet.errors import OptionError
from watersmeet.outer import join_type
from watersmeet.spark.spec import JoinSpec
from watersmeet.spark.spread import choose_spread


def spec_of(
    run: Run, spread: str, cores: int, order: str | None, state: str, select: str, **options: Any
) -> JoinSpec:
    schemas = {side: run.schema(side) for side in "rs"}
    windows = (window(run.r, run.unit), window(run.s, run.unit))
    bound = Condition(run.condition.text).bind(schemas)
    try:
        chosen = choose_spread(spread, bound, windows, order, join_type(run.how).name)
    except OptionError:
        chosen = choose_spread("auto", bound, windows, order, join_type(run.how).name)
    return JoinSpec(
        run.condition.text,
        ("r", "s"),
        windows,
        (schemas["r"], schemas["s"]),
        how=run.how,
        select=select,
        order=order,
        spread=chosen,
        cores=cores,
        state=state,
        **{"instance": "one", "late": "late", "retain": 3, **options},
    )


def parts(rows: list[Any], run: Run, side: str, count: int) -> list[pa.RecordBatch]:
    """A stream's rows of a batch in ``count`` map partitions."""
    size = len(rows)
    return [batch(rows[size * i // count : size * (i + 1) // count], run, side) for i in range(count)]


def select_of(how: str) -> str:
    if how in ("semi", "anti", "left_semi", "left_anti"):
        return "r.id AS rid, NULL AS sid"
    if how in ("right_semi", "right_anti"):
        return "NULL AS rid, s.id AS sid"
    return "r.id AS rid, s.id AS sid"


def check(
    run: Run, spread: str, cores: int, order: str | None, partitions: int, restarts: list[dict[str, Any]]
) -> None:
    oracle = BatchOracle(run.condition.predicate, run.r, run.s, run.how)
    with tempfile.TemporaryDirectory() as state:
        runner = Runner(spec_of(run, spread, cores, order, state, select_of(run.how)))
        runner.spec = replace(runner.spec, instance=state)
        note(
            f"{script(run)}\nspread {runner.spec.spread}, {cores} cores, order {order}, {partitions} partitions, {restarts}"
        )
        for number, push in enumerate(run.pushes):
            rows = {side: [row for stream, row in push if stream == side] for side in "rs"}
            pairs, late = oracle.batch(arranged(push, order is not None))
            found = runner.batch(number, [parts(rows[side], run, side, partitions) for side in "rs"])
            got = sorted(((row["rid"], row["sid"]) for row in found if row["late"] is None), key=repr)
            assert got == oracle.ids(pairs), f"batch {number}"
            refused = sorted(row["late"] for row in found if row["late"] is not None)
            assert refused == sorted(stream for stream, _ in late), f"late rows of batch {number}"
            if restarts:
                change = restarts[number % len(restarts)]
                if change is not None:
                    runner.restart(**change)


@st.composite
def cases(draw: st.DrawFn, how: str) -> tuple[Run, str, int, str | None, int]:
    run = draw(runs(how=how))
    return (
        run,
        draw(st.sampled_from(["auto", "hash", "range", "broadcast"])),
        draw(st.integers(1, 4)),
        draw(st.sampled_from([None, None, "ts"])),
        draw(st.integers(1, 3)),
    )


@pytest.mark.parametrize("how", sorted(set(HOWS) - {"semi", "anti"}))
@examples(30)
@given(data=st.data())
def test_every_batch_gives_what_the_oracle_says(how: str, data: st.DataObject) -> None:
    check(*data.draw(cases(how)), restarts=[])


@pytest.mark.parametrize("how", ["inner", "full", "left_semi", "right_anti"])
@examples(20)
@given(data=st.data())
def test_a_restart_or_other_cores_change_nothing(how: str, data: st.DataObject) -> None:
    change = st.one_of(st.none(), st.just({}), st.builds(lambda n: {"cores": n}, st.integers(1, 4)))
    check(*data.draw(cases(how)), restarts=data.draw(st.lists(change, min_size=1, max_size=3)))
