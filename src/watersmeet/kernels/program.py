"""A machine for residuals: instructions over registers, each of which has a value for every pair of a lot.

An instruction is a loop over the lot, so that what it costs to tell instructions apart is shared by hundreds of pairs, and no condition has
to be compiled while somebody waits. A register holds doubles, or integers, or truth values (0 and 1) as integers; and beside each value
whether it is NULL, which is then all that counts.
"""

import math

import numba
import numpy as np

from watersmeet.kernels.code import INT_MAX, INT_MIN
from watersmeet.kernels.jit import inlined, kernel

LOT = 512  # pairs at a time: some tens of registers of it fit the L2 cache

(
    LOAD_FLOAT, LOAD_INTEGER, LOAD_STORED_FLOAT, LOAD_STORED_INTEGER, CONSTANT_FLOAT, CONSTANT_INTEGER, TO_FLOAT,
    ADD_FLOAT, SUBTRACT_FLOAT, MULTIPLY_FLOAT, DIVIDE_FLOAT, NEGATE_FLOAT, ABSOLUTE_FLOAT, ROOT_FLOAT,
    ADD_INTEGER, SUBTRACT_INTEGER, MULTIPLY_INTEGER, NEGATE_INTEGER, ABSOLUTE_INTEGER,
    EQUAL_FLOAT, LESS_FLOAT, AT_MOST_FLOAT, EQUAL_INTEGER, LESS_INTEGER, AT_MOST_INTEGER,
    AND, OR, NOT, IS_NULL,
) = range(29)  # fmt: skip

_SAFE, _BEYOND = (
    9.2233720368547e18,
    9.2233720368548e18,
)  # products of doubles below and above 2**63, whatever was rounded


@inlined
def _sum(a, b):
    """a + b that stops at the ends of int64."""
    total = a + b
    if (a ^ total) & (b ^ total) < 0:
        return INT_MAX if a >= 0 else INT_MIN
    return total


@inlined
def _difference(a, b):
    """a - b that stops at the ends of int64."""
    total = a - b
    if (a ^ b) & (a ^ total) < 0:
        return INT_MAX if a >= 0 else INT_MIN
    return total


@inlined
def _product(a, b):
    """a * b that stops at the ends of int64."""
    about = float(a) * float(b)
    if abs(about) < _SAFE:
        return a * b
    end = INT_MAX if about > 0 else INT_MIN
    if abs(about) > _BEYOND or (b == -1 and a == INT_MIN) or (a == -1 and b == INT_MIN):
        return end
    product = a * b
    return product if product // b == a else end


@kernel
def keep_satisfying(
    code,
    nullable,
    floats,
    integers,
    result,
    probe,
    row,
    n,
    mine,
    mine_floats,
    mine_nulls,
    stored,
    stored_floats,
    stored_nulls,
    f,
    i,
    null,
):
    """Keep the pairs for which a program gives true. Returns how many remain.

    ``code``: by instruction (operation, register, two operands): registers, or of a load the column, or of a constant its place in
    ``floats`` or ``integers``. ``nullable``: whether anything can be NULL. Columns are rows of ``mine`` and ``stored``, with the same
    memory as doubles beside them; bit c of ``mine_nulls`` and ``stored_nulls`` says that column c is NULL. ``f``, ``i``, ``null``:
    registers, LOT wide; the answer is in register ``result``.
    """
    null[:] = 0
    kept = 0
    for first in range(0, n, LOT):
        size = min(LOT, n - first)
        for step in range(code.shape[0]):
            op, r, a, b = code[step, 0], code[step, 1], code[step, 2], code[step, 3]
            if op <= LOAD_STORED_INTEGER:
                rows = probe[first : first + size] if op <= LOAD_INTEGER else row[first : first + size]
                if nullable:
                    nulls = mine_nulls if op <= LOAD_INTEGER else stored_nulls
                    for j in range(size):
                        null[r, j] = (nulls[rows[j]] >> a) & 1
                if op == LOAD_FLOAT or op == LOAD_STORED_FLOAT:  # noqa: SIM109
                    floating = mine_floats[a] if op == LOAD_FLOAT else stored_floats[a]
                    for j in range(size):
                        f[r, j] = floating[rows[j]]
                else:
                    whole = mine[a] if op == LOAD_INTEGER else stored[a]
                    for j in range(size):
                        i[r, j] = whole[rows[j]]
                continue
            if op == CONSTANT_FLOAT:
                for j in range(size):
                    f[r, j] = floats[a]
                continue
            if op == CONSTANT_INTEGER:
                for j in range(size):
                    i[r, j] = integers[a]
                continue
            if op == AND:  # Kleene's: false, whatever the other is
                for j in range(size):
                    no = (i[a, j] == 0) & (null[a, j] == 0) | (i[b, j] == 0) & (null[b, j] == 0)
                    null[r, j] = (null[a, j] | null[b, j]) & (not no)
                    i[r, j] = not no
                continue
            if op == OR:
                for j in range(size):
                    yes = (i[a, j] == 1) & (null[a, j] == 0) | (i[b, j] == 1) & (null[b, j] == 0)
                    null[r, j] = (null[a, j] | null[b, j]) & (not yes)
                    i[r, j] = yes
                continue
            if op == IS_NULL:
                for j in range(size):
                    i[r, j] = null[a, j]
                continue
            if nullable:
                for j in range(size):
                    null[r, j] = null[a, j] | null[b, j]
            if op == TO_FLOAT:
                for j in range(size):
                    f[r, j] = i[a, j]
            elif op == ADD_FLOAT:
                for j in range(size):
                    f[r, j] = f[a, j] + f[b, j]
            elif op == SUBTRACT_FLOAT:
                for j in range(size):
                    f[r, j] = f[a, j] - f[b, j]
            elif op == MULTIPLY_FLOAT:
                for j in range(size):
                    f[r, j] = f[a, j] * f[b, j]
            elif op == DIVIDE_FLOAT:
                for j in range(size):
                    null[r, j] |= f[b, j] == 0.0
                    f[r, j] = f[a, j] / (1.0 if f[b, j] == 0.0 else f[b, j])
            elif op == NEGATE_FLOAT:
                for j in range(size):
                    f[r, j] = -f[a, j]
            elif op == ABSOLUTE_FLOAT:
                for j in range(size):
                    f[r, j] = abs(f[a, j])
            elif op == ROOT_FLOAT:
                for j in range(size):
                    f[r, j] = np.nan if f[a, j] < 0.0 else math.sqrt(f[a, j])
            elif op == ADD_INTEGER:
                for j in range(size):
                    i[r, j] = _sum(i[a, j], i[b, j])
            elif op == SUBTRACT_INTEGER:
                for j in range(size):
                    i[r, j] = _difference(i[a, j], i[b, j])
            elif op == MULTIPLY_INTEGER:
                for j in range(size):
                    i[r, j] = _product(i[a, j], i[b, j])
            elif op == NEGATE_INTEGER:
                for j in range(size):
                    i[r, j] = _difference(np.int64(0), i[a, j])
            elif op == ABSOLUTE_INTEGER:
                for j in range(size):
                    # Not "x if x >= 0 else 0 - x": that is compiled to an absolute value, whose least number stays what it is.
                    i[r, j] = max(i[a, j], _difference(np.int64(0), i[a, j]))
            elif op == EQUAL_FLOAT:  # NaN equals NaN, and is above all others
                for j in range(size):
                    i[r, j] = (f[a, j] == f[b, j]) | ((f[a, j] != f[a, j]) & (f[b, j] != f[b, j]))
            elif op == LESS_FLOAT:
                for j in range(size):
                    i[r, j] = (f[a, j] < f[b, j]) | ((f[b, j] != f[b, j]) & (f[a, j] == f[a, j]))
            elif op == AT_MOST_FLOAT:
                for j in range(size):
                    i[r, j] = (f[a, j] <= f[b, j]) | (f[b, j] != f[b, j])
            elif op == EQUAL_INTEGER:
                for j in range(size):
                    i[r, j] = i[a, j] == i[b, j]
            elif op == LESS_INTEGER:
                for j in range(size):
                    i[r, j] = i[a, j] < i[b, j]
            elif op == AT_MOST_INTEGER:
                for j in range(size):
                    i[r, j] = i[a, j] <= i[b, j]
            elif op == NOT:
                for j in range(size):
                    i[r, j] = 1 - i[a, j]
        for j in range(size):
            probe[kept], row[kept] = probe[first + j], row[first + j]
            kept += (i[result, j] == 1) & (null[result, j] == 0)
    return kept


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    keep_satisfying = np.errstate(all="ignore")(keep_satisfying)
