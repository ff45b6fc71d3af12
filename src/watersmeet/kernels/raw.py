"""What Numba has no words for: values at addresses, copies of bytes, and memory that is fetched before it is needed.

A kernel takes no list of arrays, but an array of addresses, where it reads from many buffers at once. Who calls holds the buffers. Nothing
is checked here.
"""

import ctypes
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # made as numba is imported

    def load(address: int, like: np.ndarray) -> Any:
        """The value at an address, of the type of an array's."""
        size = like.dtype.itemsize
        return np.frombuffer(ctypes.string_at(int(address), size), like.dtype)[0]

    def copy_bytes(address: int, count: int, out: np.ndarray, at: int) -> None:
        """``count`` bytes from an address into ``out[at:]``."""
        if count:
            out[at : at + count] = np.frombuffer(ctypes.string_at(int(address), int(count)), np.uint8)

    def prefetch(array: np.ndarray, place: int) -> None:
        """Let the processor fetch the cache line of ``array[place]``, which need not be there."""

    def on_stack(count: int) -> np.ndarray:
        """Room for so many int64, a constant, until the kernel returns."""
        return np.empty(count, np.int64)

else:
    _FETCH = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), *[ir.IntType(32)] * 3])

    @intrinsic
    def prefetch(typing: Any, array: Any, place: Any) -> Any:
        """Let the processor fetch the cache line of ``array[place]``, which need not be there."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            byte = ir.IntType(8).as_pointer()
            fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], _FETCH)
            to_read, keep, data_cache = (ir.Constant(ir.IntType(32), flag) for flag in (0, 3, 1))
            builder.call(
                fetch, [builder.bitcast(builder.gep(data, [args[1]]), byte), to_read, keep, data_cache]
            )
            return context.get_dummy_value()

        return types.void(array, types.int64), generate

    @intrinsic
    def load(typing: Any, address: Any, like: Any) -> Any:
        """The value at an address, of the type of an array's."""
        kind = like.dtype

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], context.get_data_type(kind).as_pointer())
            return builder.load(pointer, align=1)  # a foreign buffer may begin anywhere

        return kind(types.int64, like), generate

    @intrinsic
    def copy_bytes(typing: Any, address: Any, count: Any, out: Any, at: Any) -> Any:
        """``count`` bytes from an address into ``out[at:]``."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            start, size, array, place = args
            target = context.make_array(signature.args[2])(context, builder, array).data
            byte = ir.IntType(8).as_pointer()
            cgutils.raw_memcpy(
                builder,
                builder.gep(builder.bitcast(target, byte), [place]),
                builder.inttoptr(start, byte),
                size,
                1,
            )
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, out, types.int64), generate

    @intrinsic(prefer_literal=True)
    def on_stack(typing: Any, count: Any) -> Any:
        """Room for so many int64, a constant, until the kernel returns."""
        kind = types.Array(types.int64, 1, "C")

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            size, word = ir.Constant(ir.IntType(64), count.literal_value), ir.Constant(ir.IntType(64), 8)
            array = context.make_array(kind)(context, builder)
            data = cgutils.alloca_once(builder, ir.IntType(64), size=size)
            arrayobj.populate_array(array, data, [size], [word], word, None)
            return array._getvalue()

        return kind(count), generate
