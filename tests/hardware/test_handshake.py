"""Handshake join gives what the engine gives, loses nothing however slowly results leave, and takes a row every W / n cycles."""

from dataclasses import replace
from random import Random

import pytest

from hardware.harness import both, offers, same_multiset, stalls
from hardware.two_ports import found_out, mutant, random_run
from watersmeet.errors import OptionError
from watersmeet.hardware.joins import handshake
from watersmeet.hardware.joins.driving import drive_with, engine_pairs, pass_through, uniform
from watersmeet.hardware.joins.handshake import IN_FLIGHT, HandshakeJoin
from watersmeet.hardware.joins.handshake_figures import FIGURES, HANDSHAKE, quiet
from watersmeet.hardware.joins.intake import Intake
from watersmeet.hardware.ports import pack, unpack
from watersmeet.hardware.registry import Design, Figure, Run
from watersmeet.hardware.simulate import simulate

SMALL = {"key": 4, "number": 8, "queue": 16, "fan_in": 2}
SHAPES = {
    "one core": {"cores": 1, "left_window": 4, "right_window": 4},
    "two cores": {"cores": 2, "left_window": 4, "right_window": 7, "above": 1},
    "three, uneven": {"cores": 3, "left_window": 8, "right_window": 6, "below": 2, "above": 1},
    "four": {"cores": 4, "left_window": 9, "right_window": 10},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_random_streams_windows_and_stalls_give_what_the_engine_gives(shape: str, seed: int) -> None:
    assert random_run(HANDSHAKE, {**SMALL, **SHAPES[shape]}, seed).agrees


TIMED = {"cores": 2, "left_window": 12, "right_window": 16, "above": 1, "time": 8}


def timed_run(design: Design, seed: int, left_range: int = 4, right_range: int = 7) -> Run:
    """Rows of both streams at like times, in bursts; the ports accept them as they come."""
    rng = Random(seed)
    when = sorted((rng.randrange(40), rng.choice(("left", "right"))) for _ in range(50))
    times = {side: [time for time, of in when if of == side] for side in ("left", "right")}
    keys = {side: [rng.randrange(4) for _ in some] for side, some in times.items()}
    ranges = {"left_range": left_range, "right_range": right_range}
    return design.run(
        {**SMALL, **TIMED, **ranges}, keys, "python", times=times, stalls={"results": stalls(rng)}
    )


@pytest.mark.parametrize("seed", range(3))
def test_windows_of_time_give_what_the_engine_gives(seed: int) -> None:
    run = timed_run(HANDSHAKE, seed)
    assert run.agrees
    assert run.results


def test_the_ranges_of_both_windows_count() -> None:
    swapped = _changed(
        "in_band(one.time, other.time, right_range, left_range)",
        "in_band(one.time, other.time, left_range, right_range)",
    )
    assert any(not timed_run(swapped, seed).agrees for seed in range(3))


def test_a_window_of_time_without_places_for_its_rows_is_refused() -> None:
    with pytest.raises(OptionError, match=r"_window must have places for all rows within (left|right)_range"):
        timed_run(HANDSHAKE, 0, left_range=30, right_range=30)


@pytest.mark.slow
def test_sixteen_cores_and_thousands_of_rows() -> None:
    run = HANDSHAKE.run({"cores": 16, "left_window": 128, "right_window": 128}, rows=1000, values=100)
    assert run.agrees
    assert len(run.results) > 1000


def test_simulators_agree_in_every_cycle() -> None:
    rng = Random(5)
    design = HandshakeJoin(2, 4, 5, 4, 8, queue=16, fan_in=2)
    rows = {
        side: [pack(design.layout, {"number": k, "key": rng.randrange(3), "live": 1}) for k in range(25)]
        for side in ("left", "right")
    }
    both(
        lambda: HandshakeJoin(2, 4, 5, 4, 8, queue=16, fan_in=2),
        ("python", "compiled"),
        inputs=rows,
        offers={side: offers(rng, 25) for side in rows},
        stalls={"results": stalls(rng)},
    )


@pytest.mark.slow
def test_a_pair_is_found_when_the_streams_have_moved_on() -> None:
    parameters = HANDSHAKE.checked({**SMALL, **SHAPES["four"]})
    keys = uniform(20, 3)
    early = pass_through(HandshakeJoin(**parameters), keys, "python", quiet(parameters))
    late = pass_through(HandshakeJoin(**parameters), keys, "python", quiet(parameters), bubbles=9)
    pairs = [[(one["left"], one["right"]) for one in run.given["results"]] for run in (early, late)]
    same_multiset(pairs[1], engine_pairs(late, keys, parameters))
    assert set(pairs[0]) < set(pairs[1])  # the last rows have not met yet


def test_a_result_is_as_wide_as_the_papers() -> None:
    assert HandshakeJoin().result.size == 96
    assert unpack(HandshakeJoin(above=1).result, 0).keys() == {"left", "right", "key", "right_key"}


@pytest.mark.parametrize("figure", [one for one in FIGURES if not one.slow], ids=lambda one: one.name)
def test_figures_are_the_papers_or_say_why_not(figure: Figure) -> None:
    value = figure.measure()
    assert figure.met(value) or figure.note, f"{figure.name}: {value}, the paper has {figure.paper}"


def test_the_threshold_is_a_segment_and_what_is_in_flight() -> None:
    measured = {one.name: one for one in FIGURES}["throttle threshold"].measure()
    assert measured == 8 + IN_FLIGHT


@pytest.mark.slow
@pytest.mark.parametrize("figure", [one for one in FIGURES if one.slow], ids=lambda one: one.name)
def test_a_hundred_cores_and_block_rams_are_the_papers(figure: Figure) -> None:
    assert figure.met(figure.measure())


@pytest.mark.parametrize("seed", range(4))
def test_the_intake_keeps_the_order_of_acceptance(seed: int) -> None:
    rng = Random(seed)
    sent = {"left": list(range(20)), "right": list(range(100, 130))}
    trace = simulate(
        Intake(8),
        sent,
        offers={side: offers(rng, len(rows)) for side, rows in sent.items()},
        stalls={"o": stalls(rng)},
        simulator="python",
    )
    accepted = [
        (cycle, side, payload)
        for side, rows in sent.items()
        for cycle, payload in zip(trace.taken[side], rows, strict=True)
    ]
    left = [unpack(Intake(8).accepted, payload) for payload in trace.payloads("o")]
    assert [one["row"] for one in left] == [payload for _, _, payload in sorted(accepted)]
    assert [one["side"] for one in left] == [int(side == "right") for _, side, _ in sorted(accepted)]


def _changed(text: str, instead: str) -> Design:
    join = mutant(handshake, text, instead).HandshakeJoin
    return replace(HANDSHAKE, make=join, drive=drive_with("handshake", join, quiet, bubbles=True))


MUTANTS = {
    "a scan leaves a row out": ("left.eq(self.size - 1)", "left.eq(self.size - 2)"),
    "the oldest row is not fetched": ("with m.If(fetched):", "with m.If(0):"),
    "a ring is a place too long": (
        "Mux(index == self.size - 1, 0, index + 1)",
        "Mux(index == self.size, 0, index + 1)",
    ),
    "bubbles match": ("both & one.live & other.live", "both"),
    "the next row does not wait for the scan": ("self.after_left) - 1)", "self.after_left) - 2)"),
    "both streams move at once": ("self.shift_left.eq(admits & ~side)", "self.shift_left.eq(admits)"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_found_out(name: str) -> None:
    assert found_out(_changed(*MUTANTS[name]), {**SMALL, **SHAPES["two cores"]})


@pytest.mark.parametrize(
    "change",
    [
        ("self.stopped.eq(self.throttle.any())", "self.stopped.eq(0)"),
        ("IN_FLIGHT = 7", "IN_FLIGHT = 1"),  # the paper's threshold, in this pipeline
    ],
    ids=["no throttle", "a threshold that forgets the pipeline"],
)
def test_a_throttle_that_comes_too_late_loses_results(change: tuple[str, str]) -> None:
    parameters = {**SMALL, "cores": 1, "left_window": 6, "right_window": 6, "queue": 13}
    keys, slow = uniform(30, 1), {"results": [True] * 9 + [False]}
    assert HANDSHAKE.run(parameters, keys, "python", stalls=slow).agrees
    assert not _changed(*change).run(parameters, keys, "python", stalls=slow).agrees


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(
        OptionError, match="window must be at least 2 rows a core, 8; got 7; take fewer cores"
    ):
        HandshakeJoin(4, 7, 8)
    with pytest.raises(OptionError, match="queue must have at least 39 places, a segment and 7; got 16"):
        HandshakeJoin(2, 64, 64, queue=16)
    with pytest.raises(OptionError, match="fan_in must be at least 2; got 1"):
        HandshakeJoin(fan_in=1)
    with pytest.raises(OptionError, match="streams must be keys of left and right; got left"):
        HANDSHAKE.run({}, {"left": [1]})
    with pytest.raises(OptionError, match="a key must be from 0 to 15; got 16 in right"):
        HANDSHAKE.run({"key": 4}, {"left": [1], "right": [16]})
