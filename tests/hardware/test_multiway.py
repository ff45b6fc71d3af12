"""Multiway joins in hardware give what the engine gives, for any streams and any pace at both ends; mutants do not."""

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from hardware.harness import both, offers, same_multiset, stalls
from watersmeet.errors import OptionError
from watersmeet.hardware.multiway import FIGURES, CircularMJ, LinearMJ, ParallelMJ, StashedMJ
from watersmeet.hardware.multiway.drive import Row, answer, found, packed, random_rows
from watersmeet.hardware.multiway.figures import cycles_a_row
from watersmeet.hardware.simulate import simulate

SMALL = {"key": 6, "number": 10}

# One build each, many streams.
DESIGNS = {
    "stash that overflows": lambda: StashedMJ(7, 4, spare=1, band=1, **SMALL),
    "stash that is ignored when it lacks pairs": lambda: StashedMJ(8, 8, 0, spare=0, **SMALL),
    "stash of a triangle": lambda: StashedMJ(12, 64, keys=2, **SMALL),
    "no stash": lambda: StashedMJ(5, 0, spare=1, **SMALL),
    "line of four": lambda: LinearMJ(4, 5, 4, **SMALL),
}
LARGER = {
    "line of three, a band": lambda: LinearMJ(3, 3, 2, keys=2, band=1, **SMALL),
    "windows of one row": lambda: StashedMJ(1, 2, **SMALL),
    "ring of three": lambda: CircularMJ(3, 7, 4, 16, **SMALL),
    "ring of five": lambda: CircularMJ(5, 4, 8, 16, band=1, **SMALL),
    "ring of a triangle": lambda: CircularMJ(3, 12, 8, 16, keys=2, **SMALL),
    "two cores with a stash": lambda: ParallelMJ(2, 8, stash=4, **SMALL),
    "four cores": lambda: ParallelMJ(4, 8, band=1, **SMALL),
}


def stimulus(design: Any, rng: Random, rows: int) -> tuple[list[Row], dict[str, Any]]:
    """Random rows, and handshakes that hurry and dawdle."""
    n = design.widths.streams
    weights = [rng.choice([1, 1, 4]) for _ in range(n)]
    given = random_rows(rng, design.widths, rows, rng.choice([3, 6, 12]) if n < 5 else 8, weights)
    return given, {
        "inputs": {"rows": packed(design.widths, given)},
        "offers": {"rows": offers(rng, rows)},
        "stalls": {"results": stalls(rng)},
        "cycles": 200_000,
        "idle": 400,
    }


def check(design: Any, rows: list[Row], trace: Any) -> int:
    wanted = answer(design.widths, rows, design.window)
    same_multiset(found(design.widths, trace), wanted)
    return len(wanted)


@pytest.mark.parametrize("name", DESIGNS)
def test_results_are_the_engines_under_any_stalls(name: str) -> None:
    total = 0
    for seed in range(2):
        design = DESIGNS[name]()
        rows, given = stimulus(design, Random(seed), 400)
        total += check(design, rows, simulate(design, simulator="compiled", **given))
    assert total > 20


@pytest.mark.parametrize(
    "name", ["ring of three", "two cores with a stash", "four cores", "line of three, a band"]
)
def test_rings_and_cores_give_what_the_engine_gives(name: str) -> None:
    design, rng = LARGER[name](), Random(name)
    rows, given = stimulus(design, rng, 45)
    assert check(design, rows, simulate(design, simulator="python", **given)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGER)
def test_rings_and_cores_give_what_the_engine_gives_often(name: str) -> None:
    total = 0
    for seed in range(8):
        design = LARGER[name]()
        rows, given = stimulus(design, Random(seed), 400)
        total += check(design, rows, simulate(design, simulator="compiled", **given))
    assert total > 50


def test_two_simulators_agree_in_every_cycle() -> None:
    make = DESIGNS["stash that overflows"]
    rows, given = stimulus(make(), Random(5), 60)
    trace = both(make, ["python", "compiled"], watch=True, **given)
    check(make(), rows, trace)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGER)
def test_two_simulators_agree_in_every_cycle_of_rings_and_cores(name: str) -> None:
    rows, given = stimulus(LARGER[name](), Random(6), 60)
    check(LARGER[name](), rows, both(LARGER[name], ["python", "compiled"], watch=True, **given))


def test_a_ring_with_many_more_partial_results_than_places_does_not_stall() -> None:
    design = CircularMJ(3, 12, 4, 16, **SMALL)
    rows = [(k % 3, (0,)) for k in range(42)]  # all match: a row has up to 12 partial results and 144 results
    trace = simulate(
        design, {"rows": packed(design.widths, rows)}, stalls={"results": [True, False]}, cycles=40_000
    )
    assert check(design, rows, trace) > 1000


# ---- what the designs say of themselves ------------------------------------------------------------------------------


def test_a_stash_loses_pairs_recomputes_them_and_recovers() -> None:
    design = StashedMJ(6, 4, **SMALL)
    dense, sparse = [(k % 3, (1,)) for k in range(18)], [(k % 3, (2 + k % 40,)) for k in range(60)]
    rows = [*dense, *sparse, *dense]
    trace = simulate(
        design, {"rows": packed(design.widths, rows)}, simulator="compiled", cycles=20_000, watch=True
    )
    check(design, rows, trace)
    invalid = trace.watched["invalid"]
    changes = [now for before, now in pairwise(invalid) if now != before]
    assert changes[:3] == [1, 0, 1]  # overwritten, recovered, overwritten again
    assert max(trace.watched["pairs"]) == 4


def test_a_row_alone_takes_as_long_as_equation_6_2_1_says() -> None:
    """Its m pairs are the last that the first stage reads, and the result is the last that the second reads: (1 + m) windows."""
    window, pairs = 16, 3
    design = StashedMJ(window, 0, **SMALL)
    rows: list[Row] = [(1, (1 if k < pairs else 9,)) for k in range(window)]
    rows += [(2, (1 if k == 0 else 8,)) for k in range(window)]
    alone = len(rows)
    rows.append((0, (1,)))
    late = [0] * alone + [2000]
    trace = simulate(
        design,
        {"rows": packed(design.widths, rows)},
        offers={"rows": late},
        simulator="compiled",
        cycles=5000,
    )
    assert check(design, rows, trace) == pairs
    last, taken = trace.given["results"][-1][0], trace.taken["rows"][-1]
    assert 0 <= last - taken - window * (1 + pairs) <= 20  # the depth of two pipelines and five queues


def test_a_row_costs_its_share_of_the_window() -> None:
    design = ParallelMJ(2, 32, exact=0, **SMALL)
    rows = [(k % 3, (k % 64,)) for k in range(200)]
    assert cycles_a_row(design, rows, 120, "python") == 16


def test_parallel_as_printed_finds_only_results_that_exist_and_not_all() -> None:
    design = ParallelMJ(2, 16, exact=0, **SMALL)
    rows = random_rows(Random(3), design.widths, 90, 5)
    trace = simulate(design, {"rows": packed(design.widths, rows)}, cycles=20_000)
    have, want = Counter(found(design.widths, trace)), Counter(answer(design.widths, rows, 16))
    assert not have - want
    assert 0.3 < have.total() / want.total() < 0.7


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: CircularMJ(streams=2), "streams of a multiway join must be at least 3; got 2"),
        (lambda: CircularMJ(buffer=4).elaborate(None), "buffer must be at least 16 partial results; got 4"),
        (lambda: LinearMJ(flight=3), "flight must be a power of two from 2 on; got 3"),
        (
            lambda: ParallelMJ(4, 10),
            "cores must be a power of two and divide the window; got 4 cores for 10 rows",
        ),
        (lambda: ParallelMJ(2, 8, 0, 4).elaborate(None), "stash must be 0 if all windows are split"),
        (lambda: StashedMJ(keys=3), "keys of a row must be 1 or 2; got 3"),
        (lambda: StashedMJ(key=4, band=16), "band must be from 0 to 15; got 16"),
    ],
)
def test_parameters_that_cannot_be_are_refused(make: Any, text: str) -> None:
    with pytest.raises(OptionError, match=text.replace("(", r"\(")):
        make()


# ---- figures ---------------------------------------------------------------------------------------------------------

DEVIATES = {"pairs in the stash, windows of 2^10, match probability 1e-5"}


@pytest.mark.parametrize(
    "figure", [pytest.param(f, id=f.name, marks=[pytest.mark.slow] if f.slow else []) for f in FIGURES]
)
def test_figures_are_the_papers_or_better(figure: Any) -> None:
    assert figure.met(figure.measure()) == (figure.name not in DEVIATES)
