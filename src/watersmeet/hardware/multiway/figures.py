"""The thesis's figures of chapter 6, measured in cycles.

Windows of 2^14 rows are scaled down. A search reads a slot a cycle, and how many searches a row starts depends on the match rate
alone (window times match probability). So with ``window`` rows and the same match rate a row costs ``window`` / 2^14 of the cycles,
but for the few that do not depend on the window (at most two a search), which count more in a small one: a scaled figure is never
too good. Rows are measured after all windows are full.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from watersmeet.hardware.multiway.circular import CircularMJ
from watersmeet.hardware.multiway.drive import Row, answer, found, packed, random_rows
from watersmeet.hardware.multiway.parallel import ParallelMJ
from watersmeet.hardware.multiway.stashed import StashedMJ
from watersmeet.hardware.registry import Figure
from watersmeet.hardware.simulate import simulate

WINDOW = 1 << 14  # the thesis's
CLOCK = 100e6
NARROW = {"key": 20, "number": 20}
COMPILED = "cycles, compiled simulation"


def cycles_a_row(design: Any, rows: list[Row], skip: int, simulator: str = "compiled") -> float:
    """Cycles between two rows that are taken, on average after the first ``skip``; rows come as fast as they are taken."""
    payloads = packed(design.widths, rows)
    trace = simulate(design, {"rows": payloads}, cycles=1 << 34, idle=1, simulator=simulator)
    taken = trace.taken["rows"]
    return (taken[-1] - taken[skip]) / (len(taken) - 1 - skip)


def steady(
    design: Any, match_rate: float, rows: int, weights: list[float] | None = None, seed: int = 1
) -> float:
    """Cycles a row of random rows, evenly from all streams, once the windows are full."""
    window, streams = design.window, design.widths.streams
    skip = int(streams * window * 1.3)
    values = round(window / match_rate)
    return cycles_a_row(design, random_rows(Random(seed), design.widths, skip + rows, values, weights), skip)


def rate(make: Callable[[], Any], probability: float, rows: int) -> float:
    """Rows a second at the thesis's clock and window."""
    design = make()
    return CLOCK / (steady(design, WINDOW * probability, rows) * WINDOW / design.window)


def circular(probability: float, order: int, rows: int, window: int = 256) -> float:
    return rate(partial(CircularMJ, 6, window, order, **NARROW), probability, rows)


def stashed(probability: float, rows: int) -> float:
    return rate(partial(StashedMJ, 256, stash=0, **NARROW), probability, rows)


def parallel(cores: int, exact: int, rows: int, share: int = 32) -> float:
    return rate(partial(ParallelMJ, cores, share * cores, exact, **NARROW), 1e-5, rows)


def share_found(cores: int) -> float:
    """Of the engine's results, how many the printed design gives."""
    design = ParallelMJ(cores, 16 * cores, exact=0, **NARROW)
    rows = random_rows(Random(2), design.widths, 1500, 8 * cores)
    trace = simulate(design, {"rows": packed(design.widths, rows)}, cycles=1 << 24, simulator="compiled")
    return len(found(design.widths, trace)) / len(answer(design.widths, rows, design.window))


def against_equation(match_rate: float) -> float:
    """Measured cycles a row without a stash, over those of equation 6.2.3."""
    design = StashedMJ(128, stash=0, **NARROW)
    return steady(design, match_rate, 1500) / (design.window * max(1.0, match_rate))


def hot_row(pairs: int, simulator: str = "compiled") -> float:
    """Cycles of a row of stream 2 when the stash is valid and has ``pairs`` pairs (equations 6.2.4 and 6.2.5)."""
    design = StashedMJ(64, stash=64, **NARROW)
    rows: list[Row] = [(stream, (key,)) for key in range(pairs) for stream in (0, 1)]
    rows += [(2, (1 << 10,))] * 200
    return cycles_a_row(design, rows, len(rows) - 100, simulator)


def pairs_kept() -> float:
    """Pairs in the stash on average, once it has filled (figure 6.5.9: windows of 2^10, a stash of 2^5, match probability 1e-5)."""
    design = StashedMJ(1 << 10, stash=32, **NARROW)
    rows = random_rows(Random(3), design.widths, 9000, 100_000)
    trace = simulate(
        design,
        {"rows": packed(design.widths, rows)},
        cycles=1 << 34,
        idle=1,
        simulator="compiled",
        watch=True,
    )
    pairs = trace.watched["pairs"][trace.taken["rows"][4000] :]
    return sum(pairs) / len(pairs)


_SCALED = "windows of {} rows at the same match rate, for 2^14"
_FEWER = (
    "fewer cycles: rows are stored while the core looks through its window, so the chain does not wait for a search; "
    + _SCALED.format(256)
)
_MORE = (
    "windows of 128 rows at the same match rate, for 2^14; about, since a few rows have most of the partial results: 0.9K to 1.2K by the"
    " rows that are drawn, and 0.66K to 0.82K with 8 entries in the order buffers, as a row with many partial results holds up those"
    " behind it. Nothing is dropped; the thesis drops partial results. The stages are busy for 1 / 2.1K s a row, so there is room"
)


def _circular() -> list[Figure]:
    paper = {1e-6: 10_000.0, 1e-5: 7_000.0, 1e-4: 1_000.0}
    order, window = {1e-6: 8, 1e-5: 8, 1e-4: 128}, {1e-6: 256, 1e-5: 256, 1e-4: 128}
    rows = {1e-6: 1500, 1e-5: 1500, 1e-4: 3000}
    return [
        Figure(
            f"6-way Circular-MJ, match probability {probability:g}",
            "circular_mj",
            {"streams": 6, "window": window[probability], "order": order[probability]},
            value,
            "tuples/s at 100 MHz",
            "6.5.1",
            COMPILED,
            partial(circular, probability, order[probability], rows[probability], window[probability]),
            "about" if probability == 1e-4 else "at least",
            tolerance=0.3,
            slow=True,
            note=_MORE if probability == 1e-4 else _FEWER,
        )
        for probability, value in paper.items()
    ]


def _parallel() -> list[Figure]:
    paper = {8: 47e3, 16: 97e3, 32: 194e3, 64: 386e3, 128: 763e3}
    figures = []
    for exact in (0, 1):
        for cores, value in paper.items():
            if exact and cores > 32:  # takes minutes: its windows are whole on every core
                continue
            figures.append(
                Figure(
                    f"3-way Parallel-MJ, {cores} cores, {'exact' if exact else 'as printed'}",
                    "parallel_mj",
                    {"cores": cores, "window": 32 * cores, "exact": exact},
                    value,
                    "tuples/s at 100 MHz",
                    "6.5.3",
                    COMPILED,
                    partial(parallel, cores, exact, 1500),
                    "at least",
                    slow=True,
                    note="the next row is taken in the cycle of the last read, so a row costs W / P cycles; "
                    + _SCALED.format(32 * cores)
                    + ("; all results, for which two windows are whole on each core" if exact else ""),
                )
            )
    return figures


def _stashed() -> list[Figure]:
    design, parameters = "stashed_mj", {"window": 128, "stash": 0}
    equations = [
        Figure(
            f"Stashed-MJ without stash, match rate {match_rate:g}: cycles over equation 6.2.3",
            design,
            parameters,
            1.0,
            "measured / predicted",
            "6.2.3",
            COMPILED,
            partial(against_equation, match_rate),
            "about",
            slow=match_rate != 4,
            note="near a match rate of 1 the two stages take turns to wait for one another, which the equation leaves out",
        )
        for match_rate in (0.1, 0.5, 2, 4)
    ]
    hot = [
        Figure(
            f"a row of the third stream, {pairs} pairs in a valid stash",
            design,
            {"window": 64, "stash": 64},
            float(pairs),
            "cycles",
            "6.2.3 (equations 6.2.4, 6.2.5)",
            COMPILED,
            partial(hot_row, pairs),
            "equal",
            slow=pairs != 24,
        )
        for pairs in (1, 24, 64)
    ]
    return [
        Figure(
            "Stashed-MJ without stash, match probability 1e-5",
            design,
            {"window": 256, "stash": 0},
            5_970.0,
            "tuples/s at 100 MHz",
            "6.5.3",
            COMPILED,
            partial(stashed, 1e-5, 1500),
            "at least",
            slow=True,
            note="a row is taken in the cycle of the last read, and spare slots replace the lock on the second window; "
            + _SCALED.format(256),
        ),
        *equations,
        *hot,
        Figure(
            "pairs in the stash, windows of 2^10, match probability 1e-5",
            design,
            {"window": 1 << 10, "stash": 32},
            19.0,
            "pairs",
            "6.5.2, figure 6.5.9",
            COMPILED,
            pairs_kept,
            "about",
            slow=True,
            note="W^2 times the match probability is 10.5, which is what we see; the thesis's 19 would be a match probability of 1.8e-5",
        ),
    ]


def _shares() -> list[Figure]:
    return [
        Figure(
            f"share of the results that Parallel-MJ as printed finds, {cores} cores",
            "parallel_mj",
            {"cores": cores, "window": 16 * cores, "exact": 0},
            1 / cores,
            "share",
            "6.2.4 (not in the thesis: 1 / P^(N-2))",
            COMPILED,
            partial(share_found, cores),
            "about",
            slow=True,
            note="results whose stored rows lie on different cores are found by nobody; exact=1 finds all",
            tolerance=0.15,
        )
        for cores in (4, 8)
    ]


FIGURES = (*_circular(), *_stashed(), *_parallel(), *_shares())
