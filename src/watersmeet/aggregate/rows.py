"""A batch as the accumulators read it: each column's words and nulls worked out once, however many ask."""

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.values import Codec
from watersmeet.codes.column import validity

ALL = np.empty(0, np.bool_)  # a mask that leaves nobody out


class Rows:
    """The rows of a batch, and the arrival number of each."""

    def __init__(self, batch: pa.RecordBatch, numbers: np.ndarray) -> None:
        self._batch = batch
        self._valid: dict[str, np.ndarray] = {}
        self._words: dict[str, np.ndarray] = {}
        self._tally: np.ndarray | None = None
        self.numbers = numbers

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def column(self, name: str) -> pa.Array:
        return self._batch.column(name)

    def valid(self, name: str) -> np.ndarray:
        """True where a column has a value; ALL: everywhere."""
        if name not in self._valid:
            mask = validity(self.column(name))
            self._valid[name] = ALL if mask is None else mask
        return self._valid[name]

    def words(self, name: str, codec: Codec) -> np.ndarray:
        """A column's words; those of nulls are anything."""
        if name not in self._words:
            self._words[name] = codec.encode(self.column(name))
        return self._words[name]

    def tally(self, slots: np.ndarray, groups: int) -> np.ndarray:
        """How many rows each of the first slots has; ``slots``: of all rows, always the same."""
        if self._tally is None:
            self._tally = np.bincount(slots, minlength=groups)
        return self._tally

    def keys(self, names: tuple[str, ...], codecs: list[Codec]) -> np.ndarray:
        """The words of some columns beside each other, NULL among them."""
        out = np.empty((len(self), sum(codec.key_words for codec in codecs)), np.int64)
        at = 0
        for name, codec in zip(names, codecs, strict=True):
            codec.with_null(self.words(name, codec), self.valid(name), out[:, at : at + codec.key_words])
            at += codec.key_words
        return out
