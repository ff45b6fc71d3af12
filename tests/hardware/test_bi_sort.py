"""BI-Sort gives what the engine gives, as pairs and as ranges; its parts keep what they say they keep."""

from dataclasses import replace
from random import Random

import pytest
from amaranth.lib import wiring

from hardware.harness import both, offers, stalls
from hardware.two_ports import found_out, mutant, random_run
from watersmeet.errors import OptionError
from watersmeet.hardware.joins.bi_sort import (
    BI_SORT,
    FIGURES,
    BiSortJoin,
    batch,
    collector,
    join,
    lister,
    merger,
    sub_window,
)
from watersmeet.hardware.joins.bi_sort import prober as probers
from watersmeet.hardware.joins.bi_sort.figures import pace, quiet
from watersmeet.hardware.joins.bi_sort.mirror import Mirror, mirrored_pairs
from watersmeet.hardware.joins.driving import drive_with, pass_through, uniform
from watersmeet.hardware.ports import pack
from watersmeet.hardware.registry import Design, Figure
from watersmeet.hardware.simulate import Session

SMALL = {"key": 4, "number": 8, "wait": 20}
SHAPES = {
    "two sub-windows": {"left_window": 4, "right_window": 3, "sub_window": 4, "batch": 3, "partition": 2},
    "a band": {
        "left_window": 9,
        "right_window": 5,
        "sub_window": 4,
        "batch": 4,
        "partition": 1,
        "below": 2,
        "above": 1,
    },
    "batches that do not fit": {
        "left_window": 5,
        "right_window": 7,
        "sub_window": 5,
        "batch": 3,
        "partition": 4,
    },
    "ranges": {
        "left_window": 7,
        "right_window": 4,
        "sub_window": 4,
        "batch": 2,
        "partition": 2,
        "ranges": 1,
        "above": 1,
    },
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_random_streams_windows_and_stalls_give_what_the_engine_gives(shape: str, seed: int) -> None:
    assert random_run(BI_SORT, {**SMALL, **SHAPES[shape]}, seed, rows=40, values=9).agrees


@pytest.mark.slow
@pytest.mark.parametrize("ranges", [0, 1])
def test_thousands_of_rows(ranges: int) -> None:
    parameters = {
        "left_window": 200,
        "right_window": 96,
        "sub_window": 64,
        "batch": 16,
        "ranges": ranges,
        "above": 3,
    }
    run = BI_SORT.run(parameters, rows=1500, values=500)
    assert run.agrees
    assert len(run.results) > 1500


def test_simulators_agree_in_every_cycle() -> None:
    rng = Random(7)
    rows = {
        side: [
            pack(BiSortJoin(key=4, number=8).layout, {"number": k, "key": rng.randrange(9)})
            for k in range(25)
        ]
        for side in ("left", "right")
    }
    both(
        lambda: BiSortJoin(4, 3, 4, 3, 2, 4, 8, wait=20),
        ("python", "compiled"),
        inputs=rows,
        offers={side: offers(rng, 25) for side in rows},
        stalls={"results": stalls(rng), "closed": stalls(rng)},
    )


@pytest.mark.slow
def test_ranges_are_fewer_than_pairs_and_say_the_same() -> None:
    parameters = BI_SORT.checked({**SMALL, **SHAPES["ranges"]})
    keys = uniform(40, 3)
    pairs = pass_through(BiSortJoin(**{**parameters, "ranges": 0}), keys, "python", quiet(parameters))
    ranges = pass_through(BiSortJoin(**parameters), keys, "python", quiet(parameters))
    assert len(ranges.given["results"]) < len(pairs.given["results"])
    assert sum(one["count"] for one in ranges.given["closed"]) == 80  # every row is in one batch


def test_the_mirror_drops_a_sub_window_when_it_is_needed_again() -> None:
    mirror = Mirror((2, 2), 2, (2, 2))
    for rows in ([(5, 0, 0), (3, 1, 0)], [(4, 2, 0)], [(4, 3, 0)], [(1, 4, 0)]):
        mirror.merge(0, rows)
    assert mirror.units[0] == [[(1, 4, 0)], [(4, 2, 0), (4, 3, 0)]]


def test_a_batch_is_in_order_while_it_is_collected() -> None:
    rng = Random(1)
    layout = BiSortJoin(key=4, number=8).sizes.row
    keys = [rng.randrange(6) for _ in range(5)]
    block = batch.SortedBatch(layout, 6)
    block.watch = {f"key_{k}": block.rows[k].key for k in range(6)} | {
        f"number_{k}": block.rows[k].number for k in range(6)
    }
    session = Session(block, "python", watch=True)
    session.offer("i", [pack(layout, {"key": key, "number": k}) for k, key in enumerate(keys)])
    session.step(8)
    seen = session.watched()
    found = [(seen[f"key_{k}"], seen[f"number_{k}"]) for k in range(5)]
    assert found == sorted(((key, k) for k, key in enumerate(keys)), reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES, ids=lambda one: one.name)
def test_figures_are_the_papers_or_say_why_not(figure: Figure) -> None:
    value = figure.measure()
    assert figure.met(value) or figure.note, f"{figure.name}: {value}, the paper has {figure.paper}"


# module, name that the change is in, where that name is used, text, instead
MUTANTS = {
    "equal keys stop a merge too early": (
        merger,
        "Merger",
        sub_window,
        "to.eq(self.size + self.count)",
        "to.eq(self.size)",
    ),
    "the merger takes the smaller head": (
        merger,
        "Merger",
        sub_window,
        "self.read_row.key > head.key",
        "self.read_row.key < head.key",
    ),
    "the index has another key of the partition": (
        merger,
        "Indexer",
        sub_window,
        "self.writes & (within == 0)",
        "self.writes & (within == 1)",
    ),
    "an upper bound takes equal keys for larger": (
        probers,
        "Prober",
        sub_window,
        "key > bound if self.upper",
        "key >= bound if self.upper",
    ),
    "a partition too many is skipped": (
        probers,
        "Prober",
        sub_window,
        "m.d.comb += after.eq(partition)",
        "m.d.comb += after.eq(Mux(partition == 0, 0, partition - 1))",
    ),
    "the oldest sub-window is not filtered": (
        lister,
        "PairLister",
        sub_window,
        "out.i.valid.eq(have & may_meet(left, right, *self.windows))",
        "out.i.valid.eq(have)",
    ),
    "a batch is not in order": (batch, "SortedBatch", collector, "held[k] & (row.key > new.key)", "held[k]"),
    "a sub-window is dropped before the other batch has gone by": (
        collector,
        "Collector",
        join,
        "(closes[k] | full.any() | (idle == self.wait))",
        "(closes[k] | (idle == self.wait))",
    ),
    "dropped sub-windows keep their rows": (
        collector,
        "Collector",
        join,
        "m.d.comb += self.clear[low : low + units].eq(oldest)",
        "m.d.comb += self.clear[low : low + units].eq(0)",
    ),
}


# The faster half; all of them with the slow tests.
QUICK = tuple(MUTANTS)[::2]


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MUTANTS]
)
def test_mutants_are_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, part, user, text, instead = MUTANTS[name]
    monkeypatch.setattr(user, part, getattr(mutant(module, text, instead), part))
    shape = SHAPES["batches that do not fit"] if "dropped" in name else SHAPES["two sub-windows"]
    assert found_out(BI_SORT, {**SMALL, **shape}, rows=40, values=9)


@pytest.mark.slow
def test_a_window_a_sub_window_short_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = mutant(sub_window, "-(-window // self.sub_window) + 1", "-(-window // self.sub_window)")

    def build(**parameters: int) -> wiring.Component:
        monkeypatch.setattr(join, "Sizes", wrong.Sizes)
        return BiSortJoin(**parameters)

    changed: Design = replace(
        BI_SORT, make=build, drive=drive_with("bi_sort", build, quiet, bubbles=False, pairs=mirrored_pairs)
    )
    assert found_out(
        changed,
        {**SMALL, "left_window": 8, "right_window": 8, "sub_window": 4, "batch": 4, "partition": 2},
        rows=40,
    )


@pytest.mark.slow
def test_a_row_costs_less_than_a_nested_loop_with_as_many_cores_as_sub_windows() -> None:
    parameters = {
        "left_window": 64,
        "right_window": 64,
        "sub_window": 32,
        "batch": 16,
        "partition": 8,
        "key": 16,
        "number": 12,
    }
    assert pace(parameters) < 32 / 4


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(
        OptionError, match="partition must be a power of two and at most the sub-window, 8; got 3"
    ):
        BiSortJoin(sub_window=8, batch=4, partition=3)
    with pytest.raises(OptionError, match="batch must be from 1 to the sub-window, 8; got 9"):
        BiSortJoin(sub_window=8, batch=9, partition=4)
    with pytest.raises(OptionError, match="sub_window must be at least 2 rows; got 1"):
        BiSortJoin(sub_window=1, batch=1, partition=1)
    with pytest.raises(OptionError, match=r"below and above must be less than 2 \*\* key; got 0 and 16"):
        BiSortJoin(key=4, above=16)
