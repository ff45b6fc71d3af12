"""Values that look random and are functions of a row number: no generator, no state, the same in any batch.

What stays true: ``scattered`` is a bijection of 64-bit words for each salt (splitmix64), so different numbers have different UUIDs.
"""

import numpy as np
import pyarrow as pa

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_DIGITS = np.array(
    [k for k in range(36) if k not in (8, 13, 18, 23)]
)  # the other places of a UUID are dashes


def scattered(numbers: np.ndarray, salt: int) -> np.ndarray:
    """A 64-bit word for each number; other words for another salt."""
    word = numbers.astype(np.uint64) + np.uint64((salt * 0x9E3779B97F4A7C15) % 2**64)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(word ^ (word >> np.uint64(31)))


def below(numbers: np.ndarray, salt: int, values: int) -> np.ndarray:
    """Whole numbers from 0 to ``values`` - 1, each as likely as the others."""
    return (scattered(numbers, salt) % np.uint64(values)).astype(np.int64)


def share(numbers: np.ndarray, salt: int) -> np.ndarray:
    """Numbers from 0 to 1, without 1."""
    return (scattered(numbers, salt) >> np.uint64(11)) * 2.0**-53


def uuids(numbers: np.ndarray) -> pa.Array:
    """A UUID for each number, as text."""
    words = np.stack([scattered(numbers, salt) for salt in (1, 2)], axis=1)
    octets = words.astype(">u8").view(np.uint8).reshape(numbers.size, 16)
    text = np.full((numbers.size, 36), ord("-"), np.uint8)
    text[:, _DIGITS[0::2]] = _HEX[octets >> 4]
    text[:, _DIGITS[1::2]] = _HEX[octets & 15]
    ends = np.arange(numbers.size + 1, dtype=np.int32) * 36
    return pa.StringArray.from_buffers(numbers.size, pa.py_buffer(ends), pa.py_buffer(text))
