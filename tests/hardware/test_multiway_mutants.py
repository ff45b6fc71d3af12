"""Take a piece of a multiway join away, and its results are no longer the engine's."""

from random import Random
from typing import Any

import pytest

from hardware.test_multiway import SMALL, check, stimulus
from watersmeet.errors import WatersmeetError
from watersmeet.hardware.multiway import CircularMJ, LinearMJ, StashedMJ, first, ring, stage, stash
from watersmeet.hardware.simulate import simulate


def is_found_out(make: Any, simulator: str, tries: int, rows: int = 70) -> bool:
    for seed in range(tries):
        design = make()
        given, how = stimulus(design, Random(seed), rows)
        how["cycles"] = 4_000  # a mutant may block
        try:
            check(design, given, simulate(design, simulator=simulator, **how))
        except (AssertionError, WatersmeetError):
            return True
    return False


def _circular() -> Any:
    return CircularMJ(3, 3, 8, 16, **SMALL)


def _stashed() -> Any:
    return StashedMJ(6, 4, **SMALL)


class NoRefine(stage.OrderControl):
    """Partial results look through the window as it is now."""

    def elaborate(self, platform: Any) -> Any:
        m = super().elaborate(platform)
        for k in range(self.ways):
            m.d.comb += [self.seen_top[k].eq(self.top), self.seen_fill[k].eq(self.fill)]
        return m


class NoWaiting(stage.OrderControl):
    """Partial results do not wait for their row."""

    def elaborate(self, platform: Any) -> Any:
        m = super().elaborate(platform)
        for k in range(self.ways):
            m.d.comb += self.known[k].eq(1)
        return m


class NoSpare(ring.Ring):
    """What has left the window is gone: no EBuf, no lock's worth of slots."""

    def __init__(self, m: Any, name: str, layout: Any, rows: int, spare: int = 0, reads: int = 1) -> None:
        super().__init__(m, name, layout, rows, 0, reads)


class LateExpiry(ring.Ring):
    """A window of one row too many."""

    def __init__(self, m: Any, name: str, layout: Any, rows: int, spare: int = 0, reads: int = 1) -> None:
        super().__init__(m, name, layout, rows + 1, max(0, spare - 1), reads)


def test_the_unchanged_designs_pass() -> None:
    assert not is_found_out(_stashed, "python", 2)
    assert not is_found_out(_circular, "python", 1)


@pytest.mark.parametrize(
    ("place", "mutant"),
    [("OrderControl", NoRefine), ("OrderControl", NoWaiting), ("Ring", NoSpare), ("Ring", LateExpiry)],
)
def test_order_control_and_expiry_of_the_ring(
    monkeypatch: pytest.MonkeyPatch, place: str, mutant: Any
) -> None:
    monkeypatch.setattr(stage, place, mutant)
    assert is_found_out(_circular, "python", 6)


def test_a_stash_that_forgets_what_it_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stash.Stash, "_lose", lambda self, m, age: None)
    assert is_found_out(_stashed, "python", 6)


def test_a_stash_that_keeps_pairs_of_rows_that_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    class Keeps(stash.Stash):
        def __init__(self, widths: Any, size: int, a: int, b: int) -> None:
            super().__init__(widths, size, a, b)
            self.b = b + 1

    monkeypatch.setattr(first, "Stash", Keeps)
    assert is_found_out(_stashed, "python", 6)


def test_a_row_of_c_that_does_not_wait_for_the_stash(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hurries(first.FirstStage):
        def _keep(self, m: Any, stored: Any, room: Any) -> None:
            super()._keep(m, stored, room)
            m.d.comb += self.settled.eq(1)

    monkeypatch.setattr("watersmeet.hardware.multiway.core.FirstStage", Hurries)
    assert is_found_out(_stashed, "python", 6)


def test_a_window_that_is_written_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unlocked(first.FirstStage):
        def _may(self, m: Any, row: Any, locks_it: Any, stores_b: Any) -> Any:
            may = super()._may(m, row, locks_it, stores_b)
            m.d.comb += may.eq(self.settled & (~self.active | self.last))
            return may

    monkeypatch.setattr("watersmeet.hardware.multiway.core.FirstStage", Unlocked)
    assert is_found_out(lambda: StashedMJ(4, 0, spare=0, **SMALL), "python", 8, 120)


def test_a_crossbar_that_lets_two_stages_read_one_window() -> None:
    class Crowded(LinearMJ):
        def _store(self, m: Any, stages: Any, last: Any) -> Any:
            stored = super()._store(m, stages, last)
            for one in stages:
                m.d.comb += one.granted.eq(1)
            return stored

    assert is_found_out(lambda: Crowded(3, 6, 8, **SMALL), "python", 6)


def test_a_line_with_more_rows_than_its_buffers_hold() -> None:
    class Unbounded(LinearMJ):
        def elaborate(self, platform: Any) -> Any:
            m = super().elaborate(platform)
            m.d.comb += m.submodules.stage_0.may_begin.eq(1)
            return m

    assert is_found_out(lambda: Unbounded(3, 6, 2, **SMALL), "python", 8)
