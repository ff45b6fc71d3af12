"""The oracle of N streams is right: it is the oracle of two on two, the rule as SQL on all, and agrees with examples by hand."""

from hypothesis import given, note
from hypothesis import strategies as st

import oracle
import strategies
from harness import examples
from harness import expected as expected_of_two
from multiway import Run, by_duckdb, expected, runs, same, script, unbounded


@examples(100)
@given(strategies.runs())
def test_on_two_streams_it_is_the_oracle_of_two(run: strategies.Run) -> None:
    predicate = run.condition.predicate
    found = oracle.run_multiway(
        run.pushes, lambda rows: predicate(rows["r"], rows["s"]), {"r": run.r, "s": run.s}
    )
    wanted = expected_of_two(run)
    assert [*found.combinations, []] == wanted.pairs
    assert found.late == wanted.late


def agrees_with_sql(run: Run) -> None:
    note(script(run))
    outcome = expected(run)
    same([one for found in outcome.combinations for one in found], by_duckdb(run), "against SQL", run)


@examples(40)
@given(runs(st.integers(2, 4), most=24))
def test_it_is_the_rule_as_sql_over_all_rows_at_once(run: Run) -> None:
    agrees_with_sql(run)


@examples(30)
@given(runs(window=unbounded))
def test_unbounded_windows_are_the_sql_join(run: Run) -> None:
    agrees_with_sql(run)
