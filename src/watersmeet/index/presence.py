"""Which keys of an index may be there: asked before the index is, where most probes find nothing.

It never says of a key that is there that it is not. Of keys that lie evenly, as numbers and hashes do, one that is not there is taken for
one that is once in 16 times, or less. Of keys that crowd together many more are: then it is of no use, and says so.
"""

import numpy as np

from watersmeet.index.base import Bounds
from watersmeet.kernels.presence import bits_set, note_keys, present

BITS = 16  # a key, at least
CROWDED = 4  # keys on a bit from which on it is of no use


class Presence:
    """A bit for each of many stretches of keys. Several threads may ask at once; nobody asks while keys are added."""

    def __init__(self, keys: np.ndarray) -> None:
        """``keys``: ascending, some."""
        self._low, self._high, self._count = keys[0], keys[-1], 0
        self._fits = 1 << int(keys.size).bit_length()
        span = int(self._high) - int(self._low)
        self._shift = np.uint64(max(0, span.bit_length() - (self._fits * BITS).bit_length() + 1))
        self._words = np.zeros((span >> int(self._shift)) // 64 + 1, np.uint64)
        self.add(keys)
        self.useful = bool(keys.size <= CROWDED * bits_set(self._words)) or not self._shift

    def add(self, keys: np.ndarray) -> bool:
        """Keys, ascending, that are there from now on; False, and nothing is done, where they are too many, or lie beyond the others."""
        if not keys.size:
            return True
        if self._count + keys.size > self._fits or keys[0] < self._low or keys[-1] > self._high:
            return False
        note_keys(keys, self._low, self._shift, self._words)
        self._count += keys.size
        return True

    def only(self, bounds: Bounds) -> Bounds | None:
        """Of bounds in which there may be keys; None: there are none."""
        size = bounds.lo.size
        lo, hi, rows = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int32)
        stretches = (self._low, self._high, self._shift, self._words)
        n = present(bounds.lo, bounds.hi, bounds.rows, *stretches, lo, hi, rows)
        return Bounds(lo[:n], hi[:n], rows[:n]) if n else None

    @property
    def nbytes(self) -> int:
        return self._words.nbytes
