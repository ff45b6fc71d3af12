"""Kernels of key codes: floats to codes, bounds for keys, hashes and prefixes of bytes.

A float's code is its magnitude's bits, negated for a negative number: int64 order is SQL order, -0.0 and 0.0
share code 0, neighbours in code are neighbours in value, and NaN is the code just above infinity's.
Everything about floats below relies on that.

Single precision is computed in double and rounded once more: for one addition that gives the same bits as
float32 arithmetic.
"""

import numba
import numpy as np

from watersmeet.kernels.jit import kernel, uncounted
from watersmeet.kernels.words import last_word, turned, word_at

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1
INFINITY64 = 0x7FF0000000000000  # code of +inf; -inf is its negation, NaN is one above
INFINITY32 = 0x7F800000
FAR = 2.0**62  # where proportional codes end
LEAP = 2**60  # the longest stride of a gallop, so that the last bracket's width fits int64 with room

PRIME1 = np.uint64(0x9E3779B97F4A7C15)
PRIME2 = np.uint64(0xBF58476D1CE4E5B9)
PRIME3 = np.uint64(0x94D049BB133111EB)
S8, S27, S30, S31 = np.uint64(8), np.uint64(27), np.uint64(30), np.uint64(31)
ONE = np.uint64(1)
FLIP = np.uint64(2**63)


@kernel
def float64_codes(bits, out):
    """Codes of doubles given as int64 bit patterns."""
    for i in range(bits.size):
        magnitude = bits[i] & INT_MAX
        if magnitude > INFINITY64:
            out[i] = INFINITY64 + 1
        elif bits[i] < 0:
            out[i] = -magnitude
        else:
            out[i] = magnitude


@kernel
def float32_codes(bits, out):
    """Codes of single-precision floats given as int32 bit patterns."""
    for i in range(bits.size):
        magnitude = np.int64(bits[i]) & 0x7FFFFFFF
        if magnitude > INFINITY32:
            out[i] = INFINITY32 + 1
        elif bits[i] < 0:
            out[i] = -magnitude
        else:
            out[i] = magnitude


@kernel
def encode(x, single):
    """The code of one float."""
    if x != x:
        return np.int64(INFINITY32 + 1) if single else np.int64(INFINITY64 + 1)
    if single:
        magnitude = np.int64(np.float32(abs(x)).view(np.int32))
    else:
        magnitude = np.float64(abs(x)).view(np.int64)
    return -magnitude if x < 0 else magnitude


@kernel
def decode(code, single):
    """The float of one code, as a double."""
    magnitude = -code if code < 0 else code
    if single:
        x = np.float64(np.int32(magnitude).view(np.float32))
    else:
        x = np.int64(magnitude).view(np.float64)
    return -x if code < 0 else x


@kernel
def proportional_codes(codes, factor, single, out):
    """The floats of codes times ``factor``, rounded down: in the order of the codes. Codes of no float are at the ends."""
    infinity = np.int64(INFINITY32) if single else np.int64(INFINITY64)
    for i in range(codes.size):
        code = codes[i]
        x = -np.inf if code <= -infinity else np.inf
        if -infinity < code < infinity:
            x = decode(code, single) * factor
        out[i] = np.int64(np.floor(min(max(x, -FAR), FAR)))


@kernel
def plus(x, y, single):
    """x + y, rounded as the column's own type rounds it."""
    z = x + y
    return np.float64(np.float32(z)) if single else z


@kernel
def first_code(target, offset, single):
    """The smallest code c with code(value(c) + offset) >= target; one above NaN's code if there is none.

    Rounding is monotone, so such a c exists and splits the codes in two. The guess is the real number where
    the rounded sum crosses from target - 1 to target, half a gap below target; mostly it is the answer or
    next to it. From there: gallop, then bisect.
    """
    infinity = np.int64(INFINITY32) if single else np.int64(INFINITY64)
    if target <= -infinity:
        return -infinity
    if target > infinity:  # only NaN + offset is NaN
        return min(target, infinity + 2)
    above = decode(target, single)
    gap = above - decode(target - 1, single)
    code = min(max(encode((above - offset) - 0.5 * gap, single), -infinity), infinity + 1)
    step = np.int64(1)
    if encode(plus(decode(code, single), offset, single), single) >= target:
        right = code  # holds here; look for a place below where it does not. At -inf it never does
        left = right - step
        while left > -infinity and encode(plus(decode(left, single), offset, single), single) >= target:
            right = left
            step = min(step * 2, LEAP)
            left = right - step if right > step - infinity else -infinity
    else:
        left = code  # fails here; look for a place above where it holds. At NaN it always does
        right = left + step
        while right <= infinity and encode(plus(decode(right, single), offset, single), single) < target:
            left = right
            step = min(step * 2, LEAP)
            right = left + step if left <= infinity - step else infinity + 1
    while right - left > 1:
        middle = left + (right - left) // 2
        if encode(plus(decode(middle, single), offset, single), single) >= target:
            right = middle
        else:
            left = middle
    return right


@kernel
def computed_key_bounds(keys, lower, above, upper, below, single, lo, hi):
    """Opposite codes between key + lower and key + upper, where the text itself adds to the key; O(1) a key.

    above and below are 1 for a strict end, else 0. A NaN offset stands for an open end.
    """
    infinity = np.int64(INFINITY32) if single else np.int64(INFINITY64)
    for i in range(keys.size):
        x = decode(keys[i], single)
        low = -infinity
        if lower == lower:
            low = encode(plus(x, lower, single), single) + above
        high = infinity + 1
        if upper == upper:
            high = encode(plus(x, upper, single), single) - below
        lo[i] = low
        hi[i] = high if high >= low else low - 1


@kernel
def computed_opposite_bounds(keys, lower, above, upper, below, single, lo, hi):
    """Opposite codes with key <= opposite + lower and opposite + upper <= key: the text adds to the opposite.

    above and below are 1 for a strict end, else 0. A NaN offset stands for an open end.
    """
    infinity = np.int64(INFINITY32) if single else np.int64(INFINITY64)
    for i in range(keys.size):
        low = -infinity
        if lower == lower:
            low = keys[i] + above
            if lower != 0.0 or not -infinity < low <= infinity:  # nothing is added to most columns
                low = first_code(low, lower, single)
        high = infinity + 1
        if upper == upper:
            high = keys[i] + 1 - below
            if upper != 0.0 or not -infinity < high <= infinity:
                high = first_code(high, upper, single)
            high -= 1
        lo[i] = low
        hi[i] = high if high >= low else low - 1


@kernel
def difference_bounds(keys, lower, above, upper, below, single, lo, hi):
    """Opposite codes with lower <= opposite - key <= upper: the text subtracts. At least one end is given.

    Subtracting equal infinities gives NaN; the caller only asks where a NaN matches nothing.
    """
    infinity = np.int64(INFINITY32) if single else np.int64(INFINITY64)
    has_lower = lower == lower
    has_upper = upper == upper
    first = encode(lower, single) + above if has_lower else -infinity
    last = encode(upper, single) - below if has_upper else infinity
    for i in range(keys.size):
        key = keys[i]
        low = -infinity
        high = infinity
        if key > infinity:  # NaN
            low = key + 1
            high = key
        elif key == infinity:  # every difference is -inf, or NaN
            if has_lower:
                low = infinity + 1
            else:
                high = infinity - 1
        elif key == -infinity:  # every difference is +inf, or NaN
            if has_upper:
                high = -infinity - 1
            else:
                low = -infinity + 1
        else:
            minus = -decode(key, single)
            if has_lower:
                low = first_code(first, minus, single)
            if has_upper:
                high = first_code(last + 1, minus, single) - 1
        lo[i] = low
        hi[i] = high if high >= low else low - 1


@kernel
def integer_bounds(keys, has_lower, lower, has_upper, upper, safe_from, safe_to, lo, hi):
    """key + lower and key + upper for keys in the safe range; returns how many are left to the caller."""
    outside = 0
    for i in range(keys.size):
        outside += (keys[i] < safe_from) | (keys[i] > safe_to)
    if (
        outside == 0 and has_lower and has_upper and lower <= upper
    ):  # the common case, without a branch inside
        for i in range(keys.size):
            lo[i] = keys[i] + lower
            hi[i] = keys[i] + upper
        return outside
    for i in range(keys.size):
        key = keys[i]
        if key < safe_from or key > safe_to:
            continue
        low = key + lower if has_lower else INT_MIN
        high = key + upper if has_upper else INT_MAX
        lo[i] = low
        hi[i] = high if high >= low else low - 1
    return outside


@kernel
def scramble(x):
    """A bijection of 64-bit words in which every bit depends on every bit (the finaliser of SplitMix64)."""
    x = (x ^ (x >> S30)) * PRIME2
    x = (x ^ (x >> S27)) * PRIME3
    return x ^ (x >> S31)


@kernel
def mix_into(hashes, codes):
    """Fold one more column of codes into the hashes, all as uint64."""
    for i in range(hashes.size):
        hashes[i] = scramble(hashes[i] * PRIME1 + codes[i])


@uncounted
def hash_bytes(data, offsets, out):
    """A 64-bit hash of each value data[offsets[i]:offsets[i+1]]; eight bytes a step, the first of them on top.

    36 bytes take 12 ns; 24 with bytes put together one by one. Two values of one length at a time: no faster. A hash with one
    multiplication a word takes 5, but these values deal rows out on Spark, where stored rows must stay where they are.
    """
    for i in range(out.size):
        start = offsets[i]
        size = offsets[i + 1] - start
        result = scramble(np.uint64(size) + PRIME1)
        rest = size & 7
        for k in range(size >> 3):
            result = scramble(result * PRIME1 + turned(word_at(data, start + 8 * k)))
        if rest:
            word = last_word(data, start, size)
            if size > 8:
                word = turned(word) & ((ONE << np.uint64(8 * rest)) - ONE)
            result = scramble(result * PRIME1 + word)
        out[i] = result


@kernel
def prefix_bytes(data, offsets, out):
    """The first eight bytes of each value, padded with zeros, as a word whose int64 order is byte order."""
    for i in range(out.size):
        start = offsets[i]
        size = offsets[i + 1] - start
        word = np.uint64(0)
        for k in range(8):
            word = word << S8
            if k < size:
                word = word | np.uint64(data[start + k])
        out[i] = word ^ FLIP


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    # Plain NumPy scalars warn where compiled code wraps or reaches infinity silently; both are meant here.
    _quiet = np.errstate(over="ignore", invalid="ignore")
    scramble, mix_into, hash_bytes = _quiet(scramble), _quiet(mix_into), _quiet(hash_bytes)
    plus, first_code = _quiet(plus), _quiet(first_code)
