"""What a push's rows look like to joins that share streams: each column is coded once, and each order of keys is sorted once.

Identities decide: bands with an equal one give a stream's rows equal codes, indexes with an equal one hold equal keys. A batch is known by
being the same object. Codes and keys are never written to. Two threads may make the same at once: either will do.
"""

from collections.abc import Callable, Hashable

import numpy as np
import pyarrow as pa

from watersmeet.index.base import Keys
from watersmeet.join.drivers import Read
from watersmeet.sql.condition import Band


class Coding:
    """For one push: it keeps all that it was asked for."""

    def __init__(self) -> None:
        self._slices: dict[tuple[int, int, int], pa.RecordBatch] = {}
        self._batches: dict[int, pa.RecordBatch] = {}  # as long as they are here, no other has their number
        self._codes: dict[tuple[int, Hashable], tuple[np.ndarray, np.ndarray | None]] = {}
        self._keys: dict[tuple[int, Hashable], Keys] = {}

    def slice(self, batch: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
        """Rows of a batch, the same object for the same rows."""
        if stop - start == batch.num_rows:
            return batch
        place = self._number(batch), start, stop
        return self._slices.setdefault(place, batch.slice(start, stop - start))

    def reading(self, stream: str, batch: pa.RecordBatch) -> Read:
        """A way to read a band's codes of a batch."""
        made, number = self._codes, self._number(batch)

        def read(band: Band) -> tuple[np.ndarray, np.ndarray | None]:
            place = number, band.identity_of(stream)
            found = made.get(place)
            if found is None:
                found = made.setdefault(place, band.keys(stream, batch))
            return found

        return read

    def keys(self, batch: pa.RecordBatch, identity: Hashable, make: Callable[[], Keys]) -> Keys:
        """The keys that an index of this identity has of a batch, sorted."""
        place = self._number(batch), identity
        found = self._keys.get(place)
        return self._keys.setdefault(place, make()) if found is None else found

    def _number(self, batch: pa.RecordBatch) -> int:
        return id(self._batches.setdefault(id(batch), batch))
