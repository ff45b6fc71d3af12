"""Eight bytes at a time: words at any place of an array of bytes.

LLVM does not put eight loads of a byte together, so a loop over the bytes of a text takes twice as long as one over its words. Words are
little-endian, as the machines are. Nothing is read outside of a text.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from watersmeet.kernels.jit import inlined

S8 = np.uint64(8)

if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # made as numba is imported

    def word_at(data: np.ndarray, place: int) -> np.uint64:
        """The word of the bytes data[place:place + 8]."""
        return np.uint64(int.from_bytes(data[place : place + 8].tobytes(), "little"))

    def turned(word: np.uint64) -> np.uint64:
        """The word with its bytes in the other order."""
        return np.uint64(int.from_bytes(int(word).to_bytes(8, "little"), "big"))

else:

    def _address(context: Any, builder: Any, kind: Any, array: Any, place: Any) -> Any:
        return builder.gep(context.make_array(kind)(context, builder, array).data, [place])

    @intrinsic
    def word_at(typing: Any, data: Any, place: Any) -> Any:
        """The word of the bytes data[place:place + 8]."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            start = _address(context, builder, signature.args[0], *args)
            return builder.load(builder.bitcast(start, ir.IntType(64).as_pointer()), align=1)

        return types.uint64(data, types.int64), generate

    @intrinsic
    def turned(typing: Any, word: Any) -> Any:
        """The word with its bytes in the other order."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bswap(args[0])

        return types.uint64(types.uint64), generate


@inlined
def last_word(data, start, size):
    """The last eight bytes of a text; those that there are, if it is shorter."""
    if size >= 8:
        return word_at(data, start + size - 8)
    word = np.uint64(0)
    for j in range(start, start + size):
        word = (word << S8) | np.uint64(data[j])
    return word
