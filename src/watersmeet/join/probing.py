"""Probing one sub-window with (a part of) a block: candidates in, results out, in the form that was asked for."""

from collections.abc import Mapping, Sequence

import numpy as np

from watersmeet.index.base import PairBuffer
from watersmeet.join.chain import Probe, SubWindow
from watersmeet.join.matches import Matches, RangeRecords
from watersmeet.kernels.probe import count_ranges
from watersmeet.kernels.ranges import keep_filled
from watersmeet.sql.condition import Residual
from watersmeet.streams.payload import Payload


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


def find_ranges(
    sub: SubWindow, probe: Probe, side: int, count_only: bool, buffer: PairBuffer, out: Matches
) -> None:
    """The same as ranges over the sorted run, or as their total length: the cost does not grow with the number of matches.

    Only where a key range is the result (``Plan.ranges_suffice``). Where single rows of the sub-window lie outside validity
    ranges, pairs are found and written down as ranges over themselves.
    """
    run = sub.sorted_run(probe.by)
    if run is None or not sub.inside(probe.validity):
        found = Matches()
        find_pairs(sub, probe, side, None, buffer, found)
        for pair in found.pairs:
            _pairs_as_ranges(side, pair[side], pair[1 - side], count_only, out)
        return
    for bounds in probe.bounds:
        start, end = run.ranges(bounds)
        if count_only:
            out.counts.append(int(count_ranges(start, end)))
        else:
            probes = np.empty(start.size, np.int64)
            kept = keep_filled(bounds.rows, probe.first, start, end, probes)
            if kept:
                out.ranges.append(
                    RangeRecords(
                        side, probes[:kept], start[:kept], end[:kept], run.rows, sub.base, sub.scattered
                    )
                )
        for n in run.buffered_pairs(bounds, buffer):
            _pairs_as_ranges(side, *sub.numbers(probe, buffer, n), count_only, out)


def _pairs_as_ranges(
    side: int, probes: np.ndarray, stored: np.ndarray, count_only: bool, out: Matches
) -> None:
    if count_only:
        out.counts.append(probes.size)
        return
    if not probes.size:
        return
    edges = np.flatnonzero(np.diff(probes)) + 1
    start = np.concatenate(([0], edges)).astype(np.int32)
    end = np.concatenate((edges, [probes.size])).astype(np.int32)
    out.ranges.append(RangeRecords(side, probes[start], start, end, stored, 0))
