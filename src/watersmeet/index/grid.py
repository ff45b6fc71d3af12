"""The grid: an index for two bands at once, such as the two-dimensional band of the handshake and SplitJoin papers.

Our own. The plane of the two keys is cut into cells as wide and as high as the bands; rows are kept sorted by cell (column first), with
both codes beside them. A probe looks at two columns, and in each at one contiguous stretch: about four times its matches, in
sequence, instead of everything that one band alone lets through.
"""

from collections.abc import Iterator
from typing import ClassVar, Protocol

import numpy as np

from watersmeet.index.base import Bounds, Ends, Index, Keys, PairBuffer
from watersmeet.kernels.grid import EDGE, cell_codes, grid_pairs, list_cell_pairs, merge_cells
from watersmeet.kernels.probe import STRIDE
from watersmeet.kernels.sort import sort_keys

BUFFERED = 256  # rows; larger batches go to the recent run
LARGE = 16  # recent rows are merged into the main run once they are a sixteenth of it
CURSORS = 4  # columns with a cursor of their own; a probe that spans more searches the others from the start


class Values(Protocol):
    def values(self, codes: np.ndarray) -> np.ndarray: ...


class CellBand(Protocol):
    """What the grid needs of a band: bounds for keys, and the values behind codes, so that cells can be as wide as the band."""

    width: float | None

    @property
    def domain(self) -> Values: ...

    def bounds(self, stream: str, keys: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]: ...


class CellPlane:
    """Where a pair of codes lies. Every step is monotone, so clipping and rounding can only enlarge what a probe looks at."""

    def __init__(self, bands: tuple[CellBand, CellBand]) -> None:
        self.bands = bands
        self._scale = tuple(1.0 / max(band.width or 1.0, 1e-300) for band in bands)  # an equality: cells of 1

    def _place(self, axis: int, codes: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            places = np.floor(self.bands[axis].domain.values(codes) * self._scale[axis])
        return np.clip(places, -EDGE, EDGE).astype(np.int64)

    def locate(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The cell code of each pair of codes."""
        cells = np.empty(x.size, np.int64)
        cell_codes(self._place(0, x), self._place(1, y), cells)
        return cells

    def ends(self, stream: str, x: np.ndarray, y: np.ndarray) -> Ends:
        """By row: the ends of both bands."""
        ((lo_x, hi_x),) = self.bands[0].bounds(stream, x)
        ((lo_y, hi_y),) = self.bands[1].bounds(stream, y)
        return lo_x, hi_x, lo_y, hi_y

    def bounds(self, ends: Ends, rows: np.ndarray) -> Bounds:
        """What ``Grid.pairs`` takes: cells of the first column, how many columns, and the exact ends, in the order of the first cell."""
        lo_x, hi_x, lo_y, hi_y = ends
        some = (lo_x <= hi_x) & (lo_y <= hi_y)
        if not some.all():
            lo_x, hi_x, lo_y, hi_y, rows = lo_x[some], hi_x[some], lo_y[some], hi_y[some], rows[some]
        first, last = self._place(0, lo_x), self._place(0, hi_x)
        from_cell, to_cell = np.empty(rows.size, np.int64), np.empty(rows.size, np.int64)
        cell_codes(first, self._place(1, lo_y), from_cell)
        cell_codes(first, self._place(1, hi_y), to_cell)
        from_cell, order = sort_keys(from_cell)
        beside = (last - first + 1, lo_x, hi_x, lo_y, hi_y)
        return Bounds(from_cell, to_cell[order], rows[order], tuple(array[order] for array in beside))


Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _columns(size: int) -> Columns:
    """Room for cell codes, row offsets, and both codes."""
    return (
        np.empty(size, np.int64),
        np.empty(size, np.int32),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )


class Run:
    """Rows sorted by cell, never changed: merging makes a new run."""

    __slots__ = ("columns", "index")

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.index = columns[0][::STRIDE].copy()

    @property
    def size(self) -> int:
        return self.columns[0].size

    def merged(self, other: "Run") -> "Run":
        if not self.size or not other.size:
            return other if other.size else self
        columns = _columns(self.size + other.size)
        merge_cells(*self.columns, *other.columns, *columns)
        return Run(columns)

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + sum(column.nbytes for column in self.columns)


class Grid(Index):
    """One sub-window: a main run sorted by cell, a smaller one of recent rows, and an unsorted insertion buffer as in BI-Sort.

    Rows carry both codes, so a merge moves 28 bytes a row, and a batch is often a thousandth of the sub-window. The recent run takes such
    batches until it is worth merging into the main run; without it batches of 1K were four times slower.
    """

    name: ClassVar[str] = "grid"

    def __init__(self, capacity: int) -> None:
        self.main = self.recent = Run(_columns(0))
        self._buffer = _columns(min(capacity, BUFFERED))
        self.buffered = 0

    def insert(self, keys: Keys, offset: int) -> None:
        x, y = keys.beside
        columns = keys.key, keys.rows_from(offset), x, y
        end = self.buffered + keys.size
        if end <= self._buffer[0].size:
            for column, values in zip(self._buffer, columns, strict=True):
                column[self.buffered : end] = values
            self.buffered = end
        else:
            self._flush()
            self._add(Run(columns))

    def _flush(self) -> None:
        if self.buffered:
            keys, row, x, y = (column[: self.buffered] for column in self._buffer)
            keys, order = sort_keys(keys)
            self._add(Run((keys.copy(), row[order], x[order], y[order])))
            # A new buffer, not the old one overwritten: another thread may still be reading it.
            self._buffer, self.buffered = _columns(self._buffer[0].size), 0

    def _add(self, run: Run) -> None:
        recent = self.recent.merged(run)
        if recent.size * LARGE < self.main.size:
            self.recent = recent
        else:
            self.main, self.recent = self.main.merged(recent), Run(_columns(0))

    def pairs(self, bounds: Bounds, buffer: PairBuffer) -> Iterator[int]:
        """Yield n each time ``buffer[:n]`` holds pairs that satisfy both bands."""
        rows = bounds.rows.size
        columns, *exact = bounds.beside
        cells = bounds.lo, bounds.hi, columns
        for run in (self.main, self.recent):
            if run.size:
                state = np.zeros(3 + CURSORS, np.int64)
                state[2] = -1
                while state[0] < rows:
                    yield grid_pairs(
                        *run.columns, run.index, *cells, *exact, bounds.rows, state, buffer.probe, buffer.row
                    )
        if self.buffered:
            _, row, x, y = self._buffer
            used = self.buffered
            state = np.zeros(2, np.int64)
            while state[0] < rows:
                yield list_cell_pairs(row, x, y, used, *exact, bounds.rows, state, buffer.probe, buffer.row)

    def seal(self) -> None:
        self._flush()
        self.main, self.recent = self.main.merged(self.recent), Run(_columns(0))
        self._buffer = _columns(0)

    @property
    def nbytes(self) -> int:
        return self.main.nbytes + self.recent.nbytes + sum(column.nbytes for column in self._buffer)
