"""Deciding, row by row in arrival order, which rows are late and what each row may see of the other stream."""

from watersmeet.kernels.jit import kernel


@kernel
def judge(
    order, times_0, ahead_0, times_1, ahead_1, clock, counts, late_0, late_1, seen_0, seen_1, clock_0, clock_1
):
    """One pass over the rows of two streams in arrival order.

    ``order``: stream (0 or 1) of each row. ``times_k``: codes of the rows' times; ``ahead_k``: codes of (time - lateness), so that the
    watermark is min over k of clock[2 + k] = max of ahead_k. A stream without a time window has empty arrays, and clock[2 + k] is
    the top, so that it holds nobody back. Changes ``clock`` = [largest time 0, 1, largest (time - lateness) 0, 1] and ``counts``
    (rows accepted); fills, per row of each stream, late, the opposite count seen, and the opposite clock seen.
    """
    i = 0
    j = 0
    for k in range(order.size):
        watermark = min(clock[2], clock[3])
        if order[k] == 0:
            late = times_0.size > 0 and times_0[i] < watermark
            late_0[i] = late
            seen_0[i] = counts[1]
            clock_0[i] = clock[1]
            if not late:
                counts[0] += 1
                if times_0.size > 0:
                    clock[0] = max(clock[0], times_0[i])
                    clock[2] = max(clock[2], ahead_0[i])
            i += 1
        else:
            late = times_1.size > 0 and times_1[j] < watermark
            late_1[j] = late
            seen_1[j] = counts[0]
            clock_1[j] = clock[0]
            if not late:
                counts[1] += 1
                if times_1.size > 0:
                    clock[1] = max(clock[1], times_1[j])
                    clock[3] = max(clock[3], ahead_1[j])
            j += 1


@kernel
def merge_by_time(times_0, times_1, order):
    """Interleaving of two streams by time; each keeps its own order, ties go to stream 0."""
    i = 0
    j = 0
    for k in range(order.size):
        first = j == times_1.size or (i < times_0.size and times_0[i] <= times_1[j])
        order[k] = 0 if first else 1
        if first:
            i += 1
        else:
            j += 1


@kernel
def count_seen(order, start_0, start_1, seen_0, seen_1):
    """How many rows of the other stream have arrived before each row; ``start_k``: rows of stream k that arrived earlier."""
    i = 0
    j = 0
    for k in range(order.size):
        if order[k] == 0:
            seen_0[i] = start_1 + j
            i += 1
        else:
            seen_1[j] = start_0 + i
            j += 1
