"""The oracle of N streams is right: it is the oracle of two on two, the rule as SQL on all, and agrees with examples by hand."""

import math
from collections import Counter
from collections.abc import Iterator

from hypothesis import given, note
from hypothesis import strategies as st

import oracle
import strategies
from harness import examples
from harness import expected as expected_of_two
from multiway import Run, bounded, by_duckdb, expected, ranges, runs, same, script, unbounded
from oracle import Arrival, MultiwayOracle


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


# ---- what an engine might get wrong -----------------------------------------------------------------------------


class SeenByTheLast(MultiwayOracle):
    """Every row is checked against the row that arrives, and nobody else."""

    def combinations(self, members: dict[str, Arrival]) -> Iterator[dict[str, Arrival]]:
        last = next(iter(members.values()))
        found: list[dict[str, Arrival]] = [members]
        for name in self.windows:
            if name != last.stream:
                seen = [one for one in self.stored[name] if self.valid(one, last)]
                found = [{**part, name: one} for part in found for one in seen if self.fits(one, part)]
        yield from found

    def fits(self, one: Arrival, part: dict[str, Arrival]) -> bool:
        return True


class WithBandsOfTime(SeenByTheLast):
    """Bands of time between the others too, but an untimed row forgets the clocks that it saw."""

    def fits(self, one: Arrival, part: dict[str, Arrival]) -> bool:
        timed = [other for other in part.values() if self.timed(other.stream)]
        return not self.timed(one.stream) or all(self.valid(one, other) for other in timed)


class NobodyIsLate(MultiwayOracle):
    """Late rows are joined."""

    def watermark(self) -> float:
        return -math.inf


class OwnWatermark(MultiwayOracle):
    """The fastest stream moves the watermark instead of the slowest."""

    def watermark(self) -> float:
        timed = [name for name in self.windows if self.timed(name)]
        return max((self.clocks[name] - self.windows[name][3] for name in timed), default=-math.inf)


class OneRowMore(MultiwayOracle):
    """A count window holds a row too many."""

    def valid(self, one: Arrival, other: Arrival) -> bool:
        earlier, later = (one, other) if one.place < other.place else (other, one)
        window = self.windows[earlier.stream]
        if window[0] != "rows":
            return super().valid(one, other)
        return earlier.number >= later.counts[earlier.stream] - window[1] - 1


WRONG = (SeenByTheLast, WithBandsOfTime, NobodyIsLate, OwnWatermark, OneRowMore)


def test_the_runs_tell_a_wrong_rule_from_the_right_one() -> None:
    found: Counter[type[MultiwayOracle]] = Counter()

    @examples(60)
    @given(runs(st.integers(3, 4), window=st.one_of(ranges, bounded, unbounded)))
    def count(run: Run) -> None:
        right = expected(run)
        for rule in WRONG:
            wrong = oracle.run_multiway(run.pushes, run.condition.predicate, run.windows, rule)
            found[rule] += wrong != right

    count()
    assert min(found[rule] for rule in WRONG) >= 2, found
