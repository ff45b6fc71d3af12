"""Probing one sub-window with (a part of) a block: candidates in, results out, in the form that was asked for."""

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from watersmeet.index.base import Bounds, PairBuffer, SortedRun
from watersmeet.join.chain import Probe, SubWindow
from watersmeet.join.matches import Matches, RangeRecords
from watersmeet.kernels.probe import count_ranges
from watersmeet.kernels.ranges import keep_filled
from watersmeet.sql.condition import Residual
from watersmeet.streams.payload import Payload

DEAR = 8  # a pair that is listed and aggregated costs more than parting so many rows of a run


def satisfying(
    residual: Residual,
    streams: Sequence[str],
    payload: Sequence[Payload | None],
    numbers: Mapping[int, np.ndarray],
) -> np.ndarray:
    """Which combinations of rows satisfy what the bands leave open; given by arrival numbers, by stream."""
    rows = {}
    for name in residual.streams:
        k = streams.index(name)
        stored = payload[k]
        assert stored is not None
        rows[name] = stored.take(numbers[k], residual.columns[name])
    return residual.holds(rows)


class PairResidual:
    """What the bands between two streams leave open."""

    def __init__(self, residual: Residual, streams: Sequence[str], payload: Sequence[Payload | None]) -> None:
        self._residual, self._streams, self._payload = residual, streams, payload

    def holds(self, side: int, probes: np.ndarray, stored: np.ndarray) -> np.ndarray:
        """Which pairs satisfy it; given by arrival numbers of the probing rows, of stream ``side``, and of the stored ones."""
        return satisfying(self._residual, self._streams, self._payload, {side: probes, 1 - side: stored})


def find_pairs(
    sub: SubWindow, probe: Probe, side: int, residual: PairResidual | None, buffer: PairBuffer, out: Matches
) -> None:
    """All results of the probe in this sub-window, as pairs of arrival numbers."""
    for n in sub.candidates(probe, buffer):
        keep_pairs(*sub.numbers(probe, buffer, n), side, residual, out)


def keep_pairs(
    probes: np.ndarray, stored: np.ndarray, side: int, residual: PairResidual | None, out: Matches
) -> None:
    """Pairs of arrival numbers that satisfy the bands: those that satisfy the residual too are results."""
    if residual is not None:
        holds = residual.holds(side, probes, stored)
        probes, stored = probes[holds], stored[holds]
    if probes.size:
        out.add(side, probes, stored)


def find_ranges(sub: SubWindow, probe: Probe, side: int, mode: str, buffer: PairBuffer, out: Matches) -> None:
    """The same as ranges over the sorted run, or as their total length: the cost does not grow with the number of matches.

    Only where a key range is the result (``Plan.ranges_suffice``). Where rows of the sub-window lie outside of validity ranges, and there
    are many pairs, the run is parted in one pass: rows that all probes may see are a run of their own, and only those that some may see are
    listed, as ranges over themselves. Where there are few pairs, all are listed.
    """
    run = sub.sorted_run(probe.by)
    if run is not None and sub.inside(probe.validity):
        for bounds in probe.bounds:
            _ranges_of(run, bounds, sub, probe, side, mode, out)
            for n in run.buffered_pairs(bounds, buffer):
                _note_pairs(side, *sub.numbers(probe, buffer, n), mode, out)
        return
    dear = DEAR if mode == "mixed" else 1
    if run is None or sub.scattered is not None or dear * _pairs_in(run, probe) <= run.rows.size:
        for n in sub.candidates(probe, buffer):
            _note_pairs(side, *sub.numbers(probe, buffer, n), mode, out)
        return
    everyone, someone = sub.sights(probe.validity)
    whole, rest = run.only(everyone), run.only(someone) if someone.any() else None
    for bounds in probe.bounds:
        _ranges_of(whole, bounds, sub, probe, side, mode, out)
        found = run.buffered_pairs(bounds, buffer)
        for n in sub.thinned(
            found if rest is None else chain(rest.pairs(bounds, buffer), found), probe, buffer
        ):
            _note_pairs(side, *sub.numbers(probe, buffer, n), mode, out)


def _pairs_in(run: SortedRun, probe: Probe) -> int:
    """How many pairs the ranges have, whether valid or not."""
    return sum(int(count_ranges(*run.ranges(bounds))) for bounds in probe.bounds)


def _ranges_of(
    run: SortedRun, bounds: Bounds, sub: SubWindow, probe: Probe, side: int, mode: str, out: Matches
) -> None:
    start, end = run.ranges(bounds)
    if mode == "count":
        out.counts.append(int(count_ranges(start, end)))
        return
    probes = np.empty(start.size, np.int64)
    kept = keep_filled(bounds.rows, probe.first, start, end, probes)
    if kept:
        out.ranges.append(
            RangeRecords(side, probes[:kept], start[:kept], end[:kept], run.rows, sub.base, sub.scattered)
        )


def _note_pairs(side: int, probes: np.ndarray, stored: np.ndarray, mode: str, out: Matches) -> None:
    """Pairs of a place where they had to be listed."""
    if mode == "count":
        out.counts.append(probes.size)
        return
    if not probes.size:
        return
    if mode == "mixed":
        out.add(side, probes, stored)
        return
    edges = np.flatnonzero(np.diff(probes)) + 1
    start = np.concatenate(([0], edges)).astype(np.int32)
    end = np.concatenate((edges, [probes.size])).astype(np.int32)
    out.ranges.append(RangeRecords(side, probes[start], start, end, stored, 0))
