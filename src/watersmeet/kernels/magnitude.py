"""Whole numbers of any size, for the few steps that end an exact aggregate: sums to doubles and decimals, averages, variances.

A magnitude is a uint64 array with 32 bits a place, the lowest first. Everything is exact; what is rounded is rounded once, in
``to_double``, ``to_root`` or by ``decimals``.
"""

import numba
import numpy as np

from watersmeet.kernels.jit import kernel

LOW32 = np.int64(0xFFFFFFFF)
ULOW32 = np.uint64(0xFFFFFFFF)
ONE, U32 = np.uint64(1), np.uint64(32)
SPARE = 3  # places above those of a window of limbs that its sum may need
DEPTH = (
    8  # places below the point that quotients by two counts are taken to, so that they have at least 130 bits
)


@kernel
def magnitude_of(limbs, slot, out):
    """The magnitude of a slot's sum, in all places of ``out``: SPARE more than there are limbs. Returns whether it is negative."""
    over, width = np.int64(0), limbs.shape[1]
    for k in range(width):
        over += limbs[slot, k]
        out[k] = np.uint64(over & LOW32)
        over >>= 32
    negative = over < 0
    for k in range(width, out.size):
        out[k] = np.uint64(over & LOW32)
        over >>= 32
    if negative:
        rest = ONE
        for k in range(out.size):
            rest += out[k] ^ ULOW32
            out[k] = rest & ULOW32
            rest >>= U32
    return negative


@kernel
def bit_length(magnitude):
    """How many bits are in use."""
    size = magnitude.size
    while size > 0 and magnitude[size - 1] == 0:
        size -= 1
    if size == 0:
        return 0
    bits, top = 32 * (size - 1), magnitude[size - 1]
    while top != 0:
        bits += 1
        top >>= ONE
    return bits


@kernel
def bits_at(magnitude, place):
    """64 bits from ``place`` on; 0 beyond the end."""
    k, shift, result = place >> 5, np.uint64(place & 31), np.uint64(0)
    if k < magnitude.size:
        result = magnitude[k] >> shift
    if k + 1 < magnitude.size:
        result |= magnitude[k + 1] << (U32 - shift)
    if shift != 0 and k + 2 < magnitude.size:
        result |= (magnitude[k + 2] << U32) << (U32 - shift)
    return result


@kernel
def any_below(magnitude, place):
    """Whether a bit below ``place`` is set."""
    k = min(place >> 5, magnitude.size)
    for j in range(k):
        if magnitude[j] != 0:
            return True
    return k < magnitude.size and (magnitude[k] & ((ONE << np.uint64(place & 31)) - ONE)) != 0


@kernel
def to_double(magnitude, exponent, more):
    """The double nearest to magnitude * 2**exponent, of two equally near the even one.

    ``more``: the number is larger than that, by less than 2**exponent; then the magnitude has more than 53 bits.
    """
    bits = bit_length(magnitude)
    highest = exponent + bits - 1  # the exponent of the first bit
    if bits == 0:
        return 0.0
    if highest > 1023:
        return np.inf
    drop = bits - min(53, 1075 + highest)  # bits that a double has no room for; a subnormal one has fewer
    mantissa = np.int64(0)
    if drop <= 0:
        mantissa = np.int64(bits_at(magnitude, 0)) << -drop
    elif drop <= bits:
        mantissa = np.int64(bits_at(magnitude, drop))
        if bits_at(magnitude, drop - 1) & ONE:
            mantissa += np.int64(more or (mantissa & 1) != 0 or any_below(magnitude, drop - 1))
    if (
        highest >= -1022
    ):  # a mantissa that was rounded up to 2**53 carries into the exponent; beyond the largest that is infinity
        mantissa += (np.int64(highest) + 1022) << 52
    return np.int64(mantissa).view(np.float64)


@kernel
def to_root(magnitude, exponent, more):
    """The double nearest to the square root of magnitude * 2**exponent; ``more`` as above, with more than 109 bits."""
    bits = bit_length(magnitude)
    if bits == 0:
        return 0.0
    drop = max(bits - 109, 0)
    drop += (exponent + drop) & 1
    low, high = bits_at(magnitude, drop), bits_at(magnitude, drop + 64)
    inexact = more or any_below(magnitude, drop)
    root = np.uint64(np.sqrt(np.float64(high) * 2.0**64 + np.float64(low)))
    while larger_square(root, high, low):
        root -= ONE
    while not larger_square(root + ONE, high, low):
        root += ONE
    found = np.empty(2, np.uint64)
    found[0], found[1] = root & ULOW32, root >> U32
    squared_low = root * root
    return to_double(found, (exponent + drop) >> 1, inexact or squared_low != low)


@kernel
def larger_square(root, high, low):
    """Whether root**2 is larger than high * 2**64 + low; the root has less than 63 bits."""
    a, b = root >> U32, root & ULOW32
    middle = a * b
    upper = a * a + (middle >> np.uint64(31))
    first = middle << np.uint64(33)
    lower = b * b
    total = first + lower
    upper += np.uint64(total < first)
    return upper > high or (upper == high and total > low)


@kernel
def multiply(left, right, out):
    """out = left * right, with as many places as both have together."""
    out[:] = np.uint64(0)
    for i in range(left.size):
        rest = np.uint64(0)
        for j in range(right.size):
            rest += out[i + j] + left[i] * right[j]
            out[i + j] = rest & ULOW32
            rest >>= U32
        out[i + right.size] = rest


@kernel
def divide(magnitude, divisor):
    """Divide in place by a number of at most 63 bits. Returns the rest."""
    rest = np.uint64(0)
    if divisor <= ULOW32:
        for k in range(magnitude.size - 1, -1, -1):
            rest = (rest << U32) | magnitude[k]
            magnitude[k] = rest // divisor
            rest -= magnitude[k] * divisor
        return rest
    for k in range(magnitude.size - 1, -1, -1):
        place = np.uint64(0)
        for j in range(31, -1, -1):
            rest = (rest << ONE) | ((magnitude[k] >> np.uint64(j)) & ONE)
            place <<= ONE
            if rest >= divisor:
                rest -= divisor
                place |= ONE
        magnitude[k] = place
    return rest


@kernel
def less(left, right):
    """Whether left < right; the right one may have fewer places."""
    for k in range(left.size - 1, -1, -1):
        other = right[k] if k < right.size else np.uint64(0)
        if left[k] != other:
            return left[k] < other
    return False


@kernel
def doubles(limbs, slots, exponent, out):
    """The nearest double of each slot's sum; ``exponent`` is that of bit 0 of the window."""
    magnitude = np.empty(limbs.shape[1] + SPARE, np.uint64)
    for i in range(slots.size):
        negative = magnitude_of(limbs, slots[i], magnitude)
        value = to_double(magnitude, exponent, False)
        out[i] = -value if negative else value


@kernel
def averages(limbs, slots, counts, exponent, out):
    """The double nearest to each slot's sum divided by its count, where that is not 0."""
    size = limbs.shape[1] + SPARE
    magnitude = np.empty(size + DEPTH, np.uint64)
    for i in range(slots.size):
        out[i] = 0.0
        if counts[slots[i]] > 0:
            magnitude[:DEPTH] = np.uint64(0)
            negative = magnitude_of(limbs, slots[i], magnitude[DEPTH:])
            rest = divide(magnitude, np.uint64(counts[slots[i]]))
            value = to_double(magnitude, exponent - 32 * DEPTH, rest != 0)
            out[i] = -value if negative else value


@kernel
def decimals(limbs, slots, counts, factor, most, least, words, fits):
    """Each slot's sum times ``factor``, divided by its count (no counts: not divided) and rounded half away from zero, as words.

    The lowest word comes first. ``fits`` says whether the magnitude is below ``most``, that of a negative number below ``least``.
    """
    size = limbs.shape[1] + SPARE
    magnitude, scaled, scale = (
        np.empty(size, np.uint64),
        np.empty(size + 1, np.uint64),
        np.empty(1, np.uint64),
    )
    scale[0] = np.uint64(factor)
    for i in range(slots.size):
        negative = magnitude_of(limbs, slots[i], magnitude)
        multiply(magnitude, scale, scaled)
        if counts.size and counts[slots[i]] > 0:
            count = np.uint64(counts[slots[i]])
            rest = divide(scaled, count)
            over = np.uint64(rest >= count - rest)
            for k in range(size + 1):
                over += scaled[k]
                scaled[k] = over & ULOW32
                over >>= U32
        fits[i] = less(scaled, least if negative else most)
        rest, flip = np.uint64(negative), ULOW32 if negative else np.uint64(0)
        for k in range(2 * words.shape[1]):
            rest += (scaled[k] if k <= size else np.uint64(0)) ^ flip
            if k & 1:
                words[i, k >> 1] |= np.int64((rest & ULOW32) << U32)
            else:
                words[i, k >> 1] = np.int64(rest & ULOW32)
            rest >>= U32


@kernel
def variances(sums, squares, slots, counts, sum_base, square_base, exponent, sample, divisors, root, out):
    """The double nearest to (n Q - S**2) / (n (n - sample)), divided by all divisors; ``root``: to the square root of that.

    S and Q are the exact sums of a slot's numbers and of their squares, whose bit 0 of limb 0 is 2**``exponent``.
    """
    base = min(2 * sum_base, square_base)
    depth = DEPTH + divisors.size
    total, other = np.empty(sums.shape[1] + SPARE, np.uint64), np.empty(squares.shape[1] + SPARE, np.uint64)
    squared, scaled = np.empty(2 * total.size, np.uint64), np.empty(other.size + 2, np.uint64)
    size = max(squared.size + 2 * sum_base, scaled.size + square_base) - base
    number, count = np.empty(depth + size, np.uint64), np.empty(2, np.uint64)
    for i in range(slots.size):
        out[i] = 0.0
        n = counts[slots[i]]
        if n <= sample:
            continue
        count[0], count[1] = np.uint64(n & LOW32), np.uint64(n >> 32)
        magnitude_of(sums, slots[i], total)
        magnitude_of(squares, slots[i], other)
        multiply(total, total, squared)
        multiply(other, count, scaled)
        number[:] = np.uint64(0)
        start = depth + square_base - base
        number[start : start + scaled.size] = scaled
        start, borrow = depth + 2 * sum_base - base, np.uint64(0)
        for k in range(start, number.size):
            taken = borrow + (squared[k - start] if k - start < squared.size else np.uint64(0))
            borrow = np.uint64(number[k] < taken)
            number[k] = (number[k] + (borrow << U32)) - taken
        rest = divide(number, np.uint64(n)) | divide(number, np.uint64(n - sample))
        for divisor in divisors:
            rest |= divide(number, divisor)
        unit = exponent + 32 * (base - depth)
        out[i] = to_root(number, unit, rest != 0) if root else to_double(number, unit, rest != 0)


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    _quiet = np.errstate(over="ignore")
    to_root, larger_square, bits_at = _quiet(to_root), _quiet(larger_square), _quiet(bits_at)
