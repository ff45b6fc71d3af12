"""Rows through a multiway join, and the engine's answer to compare with.

A row is (stream, keys): the number of its stream and its one or two keys. Its number counts the rows of its stream from 0. Rows go
into the design one after the other, so the order of arrival is the order of the list.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from watersmeet.errors import OptionError
from watersmeet.hardware.expected import expected, same
from watersmeet.hardware.multiway.layout import Widths
from watersmeet.hardware.ports import pack, unpack
from watersmeet.hardware.registry import Run
from watersmeet.hardware.simulate import Trace, simulate
from watersmeet.streams.window import Rows

Row = tuple[int, tuple[int, ...]]


def random_rows(
    rng: Random, widths: Widths, rows: int, values: int, weights: Sequence[float] | None = None
) -> list[Row]:
    """Streams by ``weights`` (evenly by default), keys evenly from ``values``: two keys are equal with probability 1 / values."""
    streams = rng.choices(range(widths.streams), weights, k=rows)
    return [(k, tuple(rng.randrange(values) for _ in range(widths.keys))) for k in streams]


def check(rows: Any, streams: int, keys: int) -> None:
    """Refuses what are no rows of so many streams and keys."""
    if not isinstance(rows, Sequence):
        raise OptionError(
            f"rows must be a list of (stream, keys) in the order of arrival; got {type(rows).__name__}"
        )
    for row in rows:
        match row:
            case (int(stream), [*some]) if 0 <= stream < streams and len(some) == keys:
                continue
        raise OptionError(
            f"a row must be (stream, keys) with a stream from 0 to {streams - 1} and {keys} key(s); got {row!r}"
        )


def packed(widths: Widths, rows: Sequence[Row]) -> list[int]:
    """Payloads, with numbers."""
    seen, payloads = [0] * widths.streams, []
    for stream, keys in rows:
        fields = {"stream": stream, "keys": list(keys), "number": seen[stream]}
        payloads.append(pack(widths.row, fields))
        seen[stream] += 1
    return payloads


def answer(widths: Widths, rows: Sequence[Row], window: int) -> list[tuple[int, ...]]:
    """What the engine gives."""
    windows = {f"s{k}": Rows(window) for k in range(widths.streams)}
    named = [(f"s{k}", {f"k{i}": key for i, key in enumerate(keys)}) for k, keys in rows]
    return expected(named, widths.condition(), windows)


def found(widths: Widths, trace: Trace) -> list[tuple[int, ...]]:
    """Arrival numbers of the results that left."""
    return [tuple(unpack(widths.result, payload)) for payload in trace.payloads("results")]


def drive(
    design: Any, name: str, parameters: Mapping[str, int], rows: Sequence[Row], simulator: str, **options: Any
) -> Run:
    """Rows through ``design``. ``options``: those of ``simulate``."""
    widths, window = design.widths, design.window
    options = {"cycles": 1 << 34, "idle": 4 * window + 1000, **options}
    trace = simulate(design, {"rows": packed(widths, rows)}, simulator=simulator, **options)
    results, wanted = found(widths, trace), answer(widths, rows, window)
    extra = Counter(results) - Counter(wanted)
    return Run(
        design=name,
        parameters=dict(parameters),
        rows=len(rows),
        results=tuple(results),
        cycles=trace.cycles,
        simulator=trace.simulator,
        agrees=same(results, wanted),
        notes={"results of the engine": len(wanted)},
        loses="" if extra or same(results, wanted) else getattr(design, "loses", ""),
    )
