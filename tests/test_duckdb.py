"""With unbounded windows a join is the plain SQL join: DuckDB, given the same text, finds the same pairs."""

from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from conditions import Condition, expressions, typed
from harness import drive, examples, same_pairs
from oracle import Pair
from strategies import Run, batch, events, runs

FOR_EVER = st.just(("unbounded",))


def by_duckdb(run: Run) -> list[Pair]:
    """The pairs of row numbers that DuckDB finds."""
    text = run.condition.duckdb or run.condition.text
    with duckdb.connect() as connection:
        for side in "rs":
            rows = [row for stream, row in run.events if stream == side]
            connection.register(f"rows_{side}", pa.Table.from_batches([batch(rows, run, side)]))
        return connection.execute(f"SELECT r.id, s.id FROM rows_r r JOIN rows_s s ON {text}").fetchall()


def equals_duckdb(run: Run) -> None:
    note(run.condition.text)
    found = [pair for pairs in drive(run)[0] for pair in pairs]
    same_pairs(found, by_duckdb(run), "against DuckDB", run)


@examples(60)
@given(runs(window=FOR_EVER, max_rows=60).filter(lambda run: run.condition.duckdb is not None))
def test_unbounded_windows_equal_the_sql_join(run: Run) -> None:
    equals_duckdb(run)


SINGLE = [condition for condition in (*typed(), *expressions()) if condition.duckdb is not None]


@pytest.mark.parametrize("condition", SINGLE, ids=repr)
def test_each_type_and_expression_equals_the_sql_join(condition: Condition) -> None:
    @examples(4)
    @given(events(condition, max_rows=80), st.sampled_from(("auto", "scan", *condition.indexes)))
    def holds(rows: list[tuple[str, dict[str, object]]], index: str) -> None:
        run = Run(condition, ("unbounded",), ("unbounded",), (tuple(rows),), index=index)
        equals_duckdb(replace(run, subwindow=8).split([20]))

    holds()
