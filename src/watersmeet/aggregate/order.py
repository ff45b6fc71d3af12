"""What puts rows in order, for MIN, MAX, FIRST and LAST: a column's values, or a column's values and then arrival."""

from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.rows import Rows
from watersmeet.aggregate.values import NO_TEXTS, Codec, Texts


class Order(Protocol):
    """Rows as words; rows that are not valid have no place in the order. ``texts``: what kernels need, should the words be texts."""

    width: int

    def read(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]: ...
    def texts(self) -> Texts: ...


class ByValue:
    """The values of a column."""

    def __init__(self, column: str, codec: Codec) -> None:
        self._column, self._codec = column, codec
        self.width = codec.words

    def read(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Words, and which rows are valid."""
        return rows.words(self._column, self._codec), rows.valid(self._column)

    def texts(self) -> Texts:
        return self._codec.texts()


class ByTime:
    """The values of a column, of equal ones the arrival: every row has a place of its own."""

    def __init__(self, column: str, codec: Codec) -> None:
        self._column, self._codec = column, codec
        self.width = codec.words + 1

    def read(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Words, and which rows are valid."""
        words = np.empty((len(rows), self.width), np.int64)
        words[:, :-1] = rows.words(self._column, self._codec)
        words[:, -1] = rows.numbers
        return words, rows.valid(self._column)

    def texts(self) -> Texts:
        return NO_TEXTS


class Payload:
    """What else is kept of a row: columns, with NULL."""

    def __init__(self, columns: dict[str, Codec]) -> None:
        self._columns, self.width, self._at = columns, 0, dict[str, int]()
        for name, codec in columns.items():
            self._at[name] = self.width
            self.width += codec.key_words

    def read(self, rows: Rows) -> np.ndarray:
        return rows.keys(tuple(self._columns), list(self._columns.values()))

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def values(self, name: str, words: np.ndarray, none: np.ndarray) -> pa.Array:
        """A column of kept rows; NULL also where there is no row."""
        codec, at = self._columns[name], self._at[name]
        own = words[:, at : at + codec.key_words]
        return codec.decode_or_null(own, none | codec.is_null(own))

    def place(self, name: str) -> int:
        """Where the first word of a column is."""
        return self._at[name]
