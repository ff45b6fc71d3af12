"""A stash never changes a result: joins with one, of any size, against the same join without; overwritten, recovered, struck."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import watersmeet as wm
from watersmeet.join import steps
from watersmeet.join.access import StepAccess
from watersmeet.join.learning import Trial
from watersmeet.join.stash import Stash

CONDITIONS = {
    "one key": "a.k = b.k AND b.k = c.k",
    "chain": "a.k = b.k AND b.x BETWEEN c.x - 1 AND c.x + 1",
    "star": "a.k = b.k AND a.x = c.x",
    "cycle": "a.k = b.k AND b.x = c.x AND a.y BETWEEN c.y - 2 AND c.y + 2",
    "of three": "a.k = b.k AND a.x + b.x > c.x AND c.k <= a.k",
    "four": "a.k = b.k AND b.k = c.k AND d.x BETWEEN a.x - 1 AND a.x + 1",
}
WINDOWS: dict[str, Callable[[], wm.Rows | wm.Range | wm.Unbounded]] = {
    "rows": lambda: wm.Rows(12),
    "few": lambda: wm.Rows(3),
    "time": lambda: wm.Range(9, time="ts", lateness=3),
    "all": wm.Unbounded,
}


def stash_of(join: wm.StreamJoin) -> Stash:
    access = join._engine.planning.access
    assert isinstance(access, StepAccess)
    assert access.stash is not None
    return access.stash


def batches(random: np.random.Generator, names: str, at: int, hot: str) -> dict[str, dict[str, np.ndarray]]:
    """A few rows of each stream, many of the hot one; times about in order."""
    found = {}
    for name in random.permutation(list(names)):
        rows = int(random.integers(0, 12 if name == hot else 4))
        found[str(name)] = {
            "k": random.integers(0, 4, rows), "x": random.integers(0, 5, rows), "y": random.integers(0, 6, rows),
            "ts": at + random.integers(-2, 4, rows),
        }  # fmt: skip
    return found


def listed(result: wm.Result) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.tolist() for column in result.numbers().values()), strict=True))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_stash_counts_what_it_would_list(condition: str) -> None:
    """Counting multiplies steps that nothing links; the pairs that go into the stash must be found all the same."""
    text = CONDITIONS[condition]
    names, random = "abcd" if "d." in text else "abc", np.random.default_rng(3)
    windows = {name: wm.Rows(20) for name in names}
    listing, counting = (
        wm.StreamJoin(text, windows=windows, stash=50, result=mode) for mode in ("pairs", "count")
    )
    for at in range(30):
        rows = batches(random, names, at, "c")
        assert counting.push(rows).count == listing.push(rows).count


@pytest.mark.parametrize("size", [1, 2, 7, 40, 10_000, "auto"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_stash_of_any_size_changes_a_result(condition: str, size: Any) -> None:
    text, used = CONDITIONS[condition], 0
    names = "abcd" if "d." in text else "abc"
    for seed in range(4):
        random = np.random.default_rng(seed)
        windows = {name: WINDOWS[str(random.choice(list(WINDOWS)))]() for name in names}
        hot = str(random.choice(list(names)))
        options = {"windows": windows, "cores": 1 + seed % 2, "subwindow": [None, 2][seed % 2]}
        plain, with_stash = wm.StreamJoin(text, **options), wm.StreamJoin(text, stash=size, **options)
        for at in range(0, 60, 2):
            rows = batches(random, names, at, hot)
            order: Any = None
            if seed == 2:
                order = random.permutation([name for name, batch in rows.items() for _ in batch["k"]])
            assert listed(with_stash.push(rows, order=order)) == listed(plain.push(rows, order=order)), seed
            access = (
                with_stash._engine.planning.access
            )  # no stash where no two streams are linked with each other and the hot one
            used += access.stash.held if isinstance(access, StepAccess) and access.stash is not None else 0
    assert used or size == "auto"


def test_how_many_partial_results_go_on_together_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one at a time, steps walk on while the stash and the segments before them are still being read."""
    random, windows = np.random.default_rng(5), {name: wm.Rows(20) for name in "abcd"}
    pushes = [batches(random, "abcd", at, "c") for at in range(30)]
    found = []
    for together in (1 << 18, 1):
        monkeypatch.setattr(steps, "TOGETHER", together)
        join = wm.StreamJoin(CONDITIONS["four"], windows=windows, stash=50, subwindow=3)
        found.append([listed(join.push(rows)) for rows in pushes])
        assert stash_of(join).held
    assert found[0] == found[1]
    assert any(found[0])


def test_what_the_steps_behind_a_stash_have_seen_does_not_pile_up() -> None:
    random, windows = np.random.default_rng(5), {name: wm.Rows(20) for name in "abcd"}
    join = wm.StreamJoin(CONDITIONS["four"], windows=windows, stash=50)
    notes = []
    for at in range(60):
        join.push(batches(random, "abcd", at, "c"))
        access = join._engine.planning.access
        assert isinstance(access, StepAccess)
        assert access.by_stash is not None
        notes.append(len(access.by_stash.seen))
    assert not any(notes[30:])  # before, it may be the samples that decide whether to plan again


def test_auto_tries_both_ways_and_keeps_the_cheaper() -> None:
    trial = Trial()
    for seconds, expected in ((3.0, True), (1.0, True), (5.0, False), (5.0, False)):
        while not trial.due:
            trial.learn(1, seconds)
        trial.decide(True)
        assert trial.on == expected
    trial.decide(False)
    assert not trial.on


def test_a_full_stash_is_overwritten_and_recovers() -> None:
    join = wm.StreamJoin("a.k = b.k AND b.k = c.k", a=wm.Rows(50), b=wm.Rows(50), c=wm.Rows(50), stash=20)
    plain = wm.StreamJoin("a.k = b.k AND b.k = c.k", a=wm.Rows(50), b=wm.Rows(50), c=wm.Rows(50))
    random = np.random.default_rng(1)

    def push(keys: int) -> None:
        rows = {name: {"k": random.integers(0, keys, 10)} for name in "abc"}
        rows["c"] = {"k": random.integers(0, keys, 40)}
        assert listed(join.push(rows)) == listed(plain.push(rows))

    for _ in range(10):
        push(1000)
    stash = stash_of(join)
    assert stash.overwritten == 0
    for _ in range(3):
        push(3)  # a burst: hundreds of pairs
    assert stash_of(join).overwritten > 0
    first = stash_of(join).plan.pair[0]
    assert stash_of(join).complete_from > join._engine.ledger.chains[first].first
    for _ in range(12):
        push(1000)
    assert stash_of(join).complete_from <= join._engine.ledger.chains[first].first
    assert stash_of(join).held <= 20


def test_a_stash_goes_on_after_a_push_that_failed_and_after_loading(tmp_path: Path) -> None:
    options: Any = {"windows": {name: wm.Rows(30) for name in "abc"}}
    join, plain = (wm.StreamJoin(CONDITIONS["star"], stash=stash, **options) for stash in (50, None))
    random = np.random.default_rng(2)
    for at in range(20):
        rows = batches(random, "abc", at, "c")
        assert listed(join.push(rows)) == listed(plain.push(rows))
        if at == 8:
            with pytest.raises(RuntimeError):
                _failing(join, batches(random, "abc", at, "c"))
        if at == 14:
            join.save(tmp_path / "state")
            join = wm.StreamJoin.load(tmp_path / "state")
            assert join.options.stash == 50


def _failing(join: wm.StreamJoin, rows: dict[str, Any]) -> None:
    core = join._engine
    replan = core._replan

    def fail() -> None:
        raise RuntimeError("struck")

    core._replan = fail  # type: ignore[method-assign]
    try:
        join.push(rows)
    finally:
        core._replan = replan  # type: ignore[method-assign]


@pytest.mark.parametrize("stash", [0, -1, True, 1.5, "on"])
def test_a_stash_is_a_number_of_entries_or_auto(stash: Any) -> None:
    with pytest.raises(
        wm.OptionError, match="stash= must be 'auto', a whole number of entries of at least 1, or None; got"
    ):
        wm.StreamJoin("a.k = b.k AND b.k = c.k", a=wm.Rows(1), b=wm.Rows(1), c=wm.Rows(1), stash=stash)


def test_a_stash_needs_three_streams() -> None:
    with pytest.raises(wm.OptionError, match="stash= must have three streams or more; got 'r' and 's'"):
        wm.StreamJoin("r.k = s.k", r=wm.Rows(1), s=wm.Rows(1), stash=5)
