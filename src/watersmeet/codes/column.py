"""Arrow columns seen as NumPy arrays: the values as they lie in memory, and which of them are valid."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SIZES = {pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.int64(): np.int64}
_SIZES |= {pa.uint8(): np.uint8, pa.uint16(): np.uint16, pa.uint32(): np.uint32, pa.uint64(): np.uint64}
_SIZES |= {pa.float16(): np.float16, pa.float32(): np.float32, pa.float64(): np.float64}


class _Borrowed:
    """Hands NumPy the memory of an Arrow buffer, and keeps the buffer alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, buffer: pa.Buffer, start: int, length: int, dtype: np.dtype[Any]) -> None:
        self.owner = buffer
        self.__array_interface__ = {
            "shape": (length,),
            "typestr": dtype.str,
            "data": (buffer.address + start, False),
            "version": 3,
        }


def number_type(type: pa.DataType) -> np.dtype[Any]:
    """The NumPy type of a plain Arrow number type."""
    return np.dtype(_SIZES[type])


def raw(column: pa.Array, dtype: np.dtype[Any]) -> np.ndarray:
    """The column's values without a copy; slots of nulls hold anything. For reading only.

    Also a read-only buffer comes back as an array that NumPy calls writable: to Numba the two are different
    types, and every kernel would be compiled twice.
    """
    return borrowed(column.buffers()[1], column.offset * dtype.itemsize, len(column), dtype)


def borrowed(buffer: pa.Buffer | None, start: int, length: int, dtype: np.dtype[Any]) -> np.ndarray:
    """The same of a buffer, from byte ``start`` on."""
    if buffer is None or not length:
        return np.zeros(length, dtype)
    values: np.ndarray = np.ndarray(length, dtype, buffer, start)
    if values.flags.writeable:
        return values
    return np.asarray(_Borrowed(buffer, start, length, dtype))


def validity(column: pa.Array) -> np.ndarray | None:
    """True where the column has a value; None if it has one everywhere."""
    if column.null_count == 0:
        return None
    mask: np.ndarray = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def plain_type(type: pa.DataType) -> pa.DataType:
    """The type of the values themselves: what a dictionary, runs or an extension type hold."""
    while True:
        if pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type):
            type = type.value_type
        elif isinstance(type, pa.BaseExtensionType):
            type = type.storage_type
        else:
            return type


def plain_column(column: pa.Array) -> pa.Array:
    """The column without extension type and run-end encoding. Dictionaries stay: they spare coding twice."""
    while True:
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        elif pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        else:
            return column
