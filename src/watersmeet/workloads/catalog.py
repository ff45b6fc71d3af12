"""One registry of workloads: two seeded streams, a condition, a window, and how many matches to expect.

What stays true: the same name, window and seed give the same rows however they are cut into batches of the
same sizes; ``selectivity`` is the mean number of matches of a probing row against a full opposite window;
and ``count_matches`` recounts a batch against a window with NumPy alone, sharing no code with the engine.

Bands keep the keys and change the width with the selectivity, as PanJoin V does, so that rates at two
selectivities differ by the matches only. The two-dimensional band is SplitJoin's benchmark (section 7.1).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError

KEY_RANGE = 1 << 31  # keys are int64, values below 2^31: with a position they still pack into one int64
ZIPF_EXPONENT = 0.8  # half of all rows lie in the lowest 3% of the key range
STEP = 1024  # mean distance of neighbouring increasing keys
JITTER = 4096  # increasing keys are out of order by up to so many rows, or by a quarter of a small window
SPLITJOIN_RANGE = 10_000
SPLITJOIN_WINDOW = 1 << 21

Columns = dict[str, pa.Array]
Generator = Callable[[np.random.Generator, int, int], Columns]  # (random, first arrival number, rows)


@dataclass(frozen=True)
class Band:
    """``left`` lies within ``width`` of ``right``; width 0 is equality."""

    left: str
    right: str
    width: int

    @property
    def text(self) -> str:
        """The band as a SQL condition over the aliases r and s."""
        if self.width == 0:
            return f"r.{self.left} = s.{self.right}"
        return f"r.{self.left} BETWEEN s.{self.right} - {self.width} AND s.{self.right} + {self.width}"


@dataclass(frozen=True)
class Workload:
    """Two streams, r and s, and the join of them."""

    name: str
    title: str
    window: int
    selectivity: float
    bands: tuple[Band, ...]
    generators: Mapping[str, Generator]

    @property
    def condition(self) -> str:
        """The join condition as SQL text over the aliases r and s."""
        return " AND ".join(band.text for band in self.bands)

    @property
    def equality(self) -> bool:
        """Whether the condition is one equality: the hash index can drive it."""
        return len(self.bands) == 1 and self.bands[0].width == 0

    def keys(self, stream: str) -> list[str]:
        """Names of the columns that the condition reads."""
        return [band.left if stream == "r" else band.right for band in self.bands]


class Source:
    """One endless stream of a workload, taken batch by batch."""

    def __init__(self, workload: Workload, stream: str, seed: int = 1) -> None:
        self._generate = workload.generators[stream]
        self._random = np.random.default_rng([seed, "rs".index(stream)])
        self.arrived = 0

    def take(self, rows: int) -> pa.RecordBatch:
        """The next ``rows`` rows."""
        columns = self._generate(self._random, self.arrived, rows)
        self.arrived += rows
        return pa.RecordBatch.from_pydict(columns)


def _keyed(name: str, draw: Callable[[np.random.Generator, int, int], np.ndarray]) -> Generator:
    def generate(random: np.random.Generator, first: int, rows: int) -> Columns:
        value = np.arange(first, first + rows, dtype=np.int64).astype(np.int32)
        return {name: pa.array(draw(random, first, rows)), "v": pa.array(value)}

    return generate


def _uniform(values: int) -> Callable[[np.random.Generator, int, int], np.ndarray]:
    return lambda random, first, rows: random.integers(0, values, rows, dtype=np.int64)


def _increasing(jitter: int) -> Callable[[np.random.Generator, int, int], np.ndarray]:
    def draw(random: np.random.Generator, first: int, rows: int) -> np.ndarray:
        start = np.arange(first, first + rows, dtype=np.int64) * STEP
        return start + random.integers(0, jitter * STEP, rows, dtype=np.int64)

    return draw


def _zipf(random: np.random.Generator, first: int, rows: int) -> np.ndarray:
    return _zipf_quantile(random.random(rows)).astype(np.int64)


def _zipf_quantile(share: np.ndarray) -> np.ndarray:
    power = 1.0 - ZIPF_EXPONENT
    return (share * (KEY_RANGE**power - 1.0) + 1.0) ** (1.0 / power)


def _zipf_selectivity(window: int, width: int) -> float:
    """The window times the mean share of keys near a key, over stratified quantiles of that key."""
    power = 1.0 - ZIPF_EXPONENT

    def below(key: np.ndarray) -> np.ndarray:
        return (np.maximum(key, 1.0) ** power - 1.0) / (KEY_RANGE**power - 1.0)

    key = np.floor(_zipf_quantile((np.arange(1 << 17) + 0.5) / (1 << 17)))
    return float(window * np.mean(below(key + width + 1) - below(key - width)))


def _keyed_streams(draw: Callable[[np.random.Generator, int, int], np.ndarray]) -> dict[str, Generator]:
    return {"r": _keyed("x", draw), "s": _keyed("a", draw)}


def _band(selectivity: int, window: int) -> Workload:
    # Of all K^2 pairs of keys, (2w + 1)K - w(w + 1) lie within w: bands at the ends of the range are cut.
    share = min(selectivity / window, 1.0)
    width = max(1, round(KEY_RANGE * (1 - math.sqrt(1 - share)) - 0.5))
    expected = window * ((2 * width + 1) * KEY_RANGE - width * (width + 1)) / KEY_RANGE**2
    streams = _keyed_streams(_uniform(KEY_RANGE))
    name, title = f"band-{selectivity}", f"band, selectivity {selectivity}"
    return Workload(name, title, window, expected, (Band("x", "a", width),), streams)


def _equality(selectivity: int, window: int) -> Workload:
    values = max(1, window // selectivity)
    streams = _keyed_streams(_uniform(values))
    name, title = f"equality-{selectivity}", f"equality, selectivity {selectivity}"
    return Workload(name, title, window, window / values, (Band("x", "a", 0),), streams)


def _skewed(name: str, width: int, window: int) -> Workload:
    expected = _zipf_selectivity(window, width)
    title = f"Zipf-skewed {'band' if width else 'equality'}"
    return Workload(name, title, window, expected, (Band("x", "a", width),), _keyed_streams(_zipf))


def _rising(window: int) -> Workload:
    # A pair is found by the later of its two rows: half of the keys within the width are still to come.
    expected = (2 * STEP + 1) / (2 * STEP)
    streams = _keyed_streams(_increasing(max(1, min(JITTER, window // 4))))
    bands = (Band("x", "a", STEP),)
    return Workload("increasing", "increasing keys, band", window, expected, bands, streams)


def _text(random: np.random.Generator, rows: int, length: int) -> pa.Array:
    data = random.integers(97, 123, rows * length, dtype=np.uint8)
    offsets = np.arange(rows + 1, dtype=np.int32) * length
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(data))


def _splitjoin_r(random: np.random.Generator, first: int, rows: int) -> Columns:
    return {
        "x": pa.array(random.integers(1, SPLITJOIN_RANGE + 1, rows, dtype=np.int32)),
        "y": pa.array(random.uniform(1, SPLITJOIN_RANGE, rows).astype(np.float32)),
        "z": _text(random, rows, 20),
    }


def _splitjoin_s(random: np.random.Generator, first: int, rows: int) -> Columns:
    return {
        "a": pa.array(random.integers(1, SPLITJOIN_RANGE + 1, rows, dtype=np.int32)),
        "b": pa.array(random.uniform(1, SPLITJOIN_RANGE, rows).astype(np.float32)),
        "c": pa.array(random.random(rows)),
        "d": pa.array(random.random(rows) < 0.5),
    }


def _splitjoin(window: int) -> Workload:
    expected = window * (21 / SPLITJOIN_RANGE) * (20 / (SPLITJOIN_RANGE - 1))
    bands = (Band("x", "a", 10), Band("y", "b", 10))
    streams = {"r": _splitjoin_r, "s": _splitjoin_s}
    return Workload("splitjoin", "SplitJoin's two-dimensional band", window, expected, bands, streams)


WORKLOADS: dict[str, Callable[[int], Workload]] = {
    "band-1": lambda window: _band(1, window),
    "band-4": lambda window: _band(4, window),
    "band-10": lambda window: _band(10, window),
    "band-64": lambda window: _band(64, window),
    "band-100": lambda window: _band(100, window),
    "band-1000": lambda window: _band(1000, window),
    "equality-1": lambda window: _equality(1, window),
    "equality-64": lambda window: _equality(64, window),
    "zipf-band": lambda window: _skewed("zipf-band", 1, window),
    "zipf-equality": lambda window: _skewed("zipf-equality", 0, window),
    "increasing": _rising,
    "splitjoin": _splitjoin,
}


def workload(name: str, window: int) -> Workload:
    """The workload of that name, with a window of ``window`` rows on either side."""
    if name not in WORKLOADS:
        raise OptionError(
            f"workload must be one of {', '.join(WORKLOADS)}; got {name!r}; choose one of these"
        )
    if window < 1:
        raise OptionError(f"window must be at least 1 row; got {window}; give the rows a side")
    return WORKLOADS[name](window)


def count_matches(work: Workload, stream: str, probes: pa.RecordBatch, stored: pa.Table) -> int:
    """How many pairs the rows ``probes`` of ``stream`` make with ``stored``, recounted with NumPy alone."""
    other = "s" if stream == "r" else "r"
    ours, theirs = work.keys(stream), work.keys(other)
    key, probe, width = _values(stored, theirs[0]), _values(probes, ours[0]), work.bands[0].width
    order = np.argsort(key, kind="stable") if len(work.bands) > 1 else None
    key = np.sort(key) if order is None else key[order]
    low = np.searchsorted(key, probe - width, side="left")
    high = np.searchsorted(key, probe + width, side="right")
    if order is None:
        return int((high - low).sum())
    return _count_second(
        work.bands[1], stream, _values(probes, ours[1]), _values(stored, theirs[1])[order], low, high
    )


def _count_second(
    band: Band, stream: str, probe: np.ndarray, stored: np.ndarray, low: np.ndarray, high: np.ndarray
) -> int:
    """Pairs among the candidates ``stored[low:high]`` of each probe that the second band holds for too.

    The sum is always taken on the s side, in the column's own type, as the text ``s.b - 10`` says.
    """
    width = stored.dtype.type(band.width)
    total = 0
    for value, start, end in zip(probe, low, high, strict=True):
        near = stored[start:end]
        r, s = (value, near) if stream == "r" else (near, value)
        total += int(np.count_nonzero((r >= s - width) & (r <= s + width)))
    return total


def _values(rows: pa.RecordBatch | pa.Table, name: str) -> np.ndarray:
    column = rows.column(name)
    values = np.asarray(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    return values if values.dtype.kind == "f" else values.astype(np.int64)
