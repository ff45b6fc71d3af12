"""Values as int64 words and back: what keys, extremes and counted values are kept as.

What every codec keeps true: equal values, and only they, have equal words, and the order of the words (the first one decides, then the
next) is the SQL order of the values, Spark's: NaN is the largest and equals itself, -0.0 equals 0.0 and comes back as 0.0. For texts a
word is a number in a dictionary, whose order is asked of the dictionary.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.codes import common_domain
from watersmeet.codes.text import is_bytes
from watersmeet.errors import SchemaError
from watersmeet.kernels.code import FLIP, INFINITY32, INFINITY64, INT_MIN

Texts = tuple[
    bool, np.ndarray, np.ndarray
]  # as the kernels take it: whether, a dictionary's entries and arena
NO_TEXTS: Texts = (False, np.zeros((1, 4), np.int64), np.zeros(1, np.uint8))
NULL = np.int64(INT_MIN)
DAY_MS = 86_400_000
NARROW = 18  # digits of a decimal that always fits int64


class Codec(ABC):
    """Values of one type."""

    words = 1
    spare = True  # no value has NULL as its first word

    def __init__(self, type: pa.DataType) -> None:
        self.type = type

    @abstractmethod
    def encode(self, column: pa.Array) -> np.ndarray:
        """A row of words each value; rows of nulls hold anything."""

    @abstractmethod
    def decode(self, words: np.ndarray) -> pa.Array:
        """The values of rows of words, without nulls."""

    def texts(self) -> Texts:
        """Whether words are numbers of texts, and if so what puts those in order."""
        return NO_TEXTS

    @property
    def key_words(self) -> int:
        """Words of a value or NULL."""
        return self.words + (not self.spare)

    def with_null(self, words: np.ndarray, valid: np.ndarray, out: np.ndarray) -> None:
        """Words and NULL, in ``key_words`` columns; an empty mask: there is no NULL."""
        out[:, : self.words] = words
        if not self.spare:
            out[:, self.words] = 0
        if valid.size:
            out[~valid] = 0
            out[~valid, 0 if self.spare else self.words] = NULL

    def is_null(self, words: np.ndarray) -> np.ndarray:
        """Which rows of such words are NULL."""
        return words[:, 0 if self.spare else self.words] == NULL

    def decode_or_null(self, words: np.ndarray, null: np.ndarray) -> pa.Array:
        """The values of rows of words, and NULL where there is none."""
        if not null.any():
            return self.decode(words[:, : self.words])
        there = self.decode(words[~null, : self.words])
        return there.take(pa.array(np.cumsum(~null) - 1, pa.int64(), mask=null))


class Coded(Codec):
    """Types whose codes say it all: whole numbers, booleans, moments, decimals of up to 18 digits."""

    def __init__(self, type: pa.DataType) -> None:
        super().__init__(type)
        domain = common_domain(type, type, ordered=True)
        assert domain is not None
        self._domain = domain
        self.spare = not (pt.is_integer(type) or pt.is_temporal(type)) or type.bit_width < 64

    def encode(self, column: pa.Array) -> np.ndarray:
        return self._domain.codes(column)[0].reshape(-1, 1)

    def decode(self, words: np.ndarray) -> pa.Array:
        codes = np.ascontiguousarray(words[:, 0])
        return plain(self._raw(codes), self.type)

    def _raw(self, codes: np.ndarray) -> np.ndarray:
        if pt.is_boolean(self.type):
            return codes != 0
        if pt.is_unsigned_integer(self.type) and self.type.bit_width == 64:
            return codes.view(np.uint64) ^ FLIP
        if pt.is_date64(self.type):
            return codes * DAY_MS
        if pt.is_decimal(self.type) and self.type.bit_width > 64:
            return sign_extended(codes, self.type.bit_width // 64)
        return codes.astype(f"i{self.type.bit_width // 8}")


class Real(Codec):
    """Floats."""

    def __init__(self, type: pa.DataType) -> None:
        super().__init__(type)
        domain = common_domain(type, type, ordered=True)
        assert domain is not None
        self._domain = domain

    def encode(self, column: pa.Array) -> np.ndarray:
        return self._domain.codes(column)[0].reshape(-1, 1)

    def decode(self, words: np.ndarray) -> pa.Array:
        codes = words[:, 0]
        magnitude = np.abs(codes)
        if self.type == pa.float32():
            # The code above that of infinity is NaN; as bits that is a NaN with a payload.
            real = (
                np.where(magnitude > INFINITY32, INFINITY32 + 2**22, magnitude)
                .astype(np.int32)
                .view(np.float32)
            )
        else:
            real = np.where(magnitude > INFINITY64, INFINITY64 + 2**51, magnitude).view(np.float64)
        return pa.array(np.where(codes < 0, -real, real), self.type)


class WideDecimal(Codec):
    """Decimals of more than 18 digits: the words of the number, the highest first, the others moved so that int64 order is theirs."""

    def __init__(self, type: pa.DataType) -> None:
        super().__init__(type)
        self.words = type.bit_width // 64

    def encode(self, column: pa.Array) -> np.ndarray:
        words = decimal_words(column)[:, ::-1].copy()
        words[:, 1:] ^= NULL
        return words

    def decode(self, words: np.ndarray) -> pa.Array:
        words = words.copy()
        words[:, 1:] ^= NULL
        return plain(words[:, ::-1], self.type)


class Nothing(Codec):
    """A column without type and values."""

    def encode(self, column: pa.Array) -> np.ndarray:
        return np.zeros((len(column), 1), np.int64)

    def decode(self, words: np.ndarray) -> pa.Array:
        return pa.nulls(len(words))


KEYS = "numbers, booleans, texts, binary, dates, times or timestamps"


def is_key(type: pa.DataType) -> bool:
    """Whether values of a type can be told apart, and put in order."""
    try:
        return is_bytes(type) or bool(codec(type, "", ""))
    except SchemaError:
        return False


def codec(type: pa.DataType, column: str, use: str) -> Codec:
    """The codec of a column's values, unless they are texts; ``use`` says what for, should the type be refused."""
    if pt.is_null(type):
        return Nothing(type)
    if pt.is_floating(type) and type != pa.float16():
        return Real(type)
    if pt.is_decimal(type) and type.precision > NARROW:
        return WideDecimal(type)
    if (
        pt.is_boolean(type)
        or pt.is_integer(type)
        or pt.is_decimal(type)
        or (pt.is_temporal(type) and not pt.is_interval(type))
    ):
        return Coded(type)
    raise SchemaError(f"{use} must be of {KEYS}; column {column!r} is {type}; cast it")


def plain(values: np.ndarray, type: pa.DataType) -> pa.Array:
    """An array of a type of fixed width without nulls, from its values as they lie in memory."""
    if pt.is_boolean(type):
        return pa.array(values)
    return pa.Array.from_buffers(type, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def decimal_words(column: pa.Array) -> np.ndarray:
    """The unscaled numbers of a decimal column: rows of int64 words, the lowest first, the last one signed."""
    size = column.type.bit_width // 8
    data, count = column.buffers()[1], max(1, size // 8)
    if data is None or not len(column):
        return np.zeros((len(column), count), np.int64)
    dtype: np.dtype[Any] = np.dtype(f"<i{min(size, 8)}")
    words = np.frombuffer(data, dtype, len(column) * count, column.offset * size)
    return words.astype(np.int64, copy=False).reshape(-1, count)


def sign_extended(words: np.ndarray, count: int) -> np.ndarray:
    """int64 numbers as rows of ``count`` words."""
    out = np.repeat((words >> 63)[:, None], count, axis=1)
    out[:, 0] = words
    return out
