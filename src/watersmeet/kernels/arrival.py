"""Deciding, row by row in arrival order, which rows are late and what each row may see of the other streams.

Rows of all streams lie one stream after the other in flat arrays; ``starts[k]`` is the place of stream k's first row. What a row has
seen of stream j stands at ``j * rows + place``.
"""

from watersmeet.kernels.jit import kernel


@kernel
def judge(order, starts, timed, times, ahead, clock, counts, late, seen, clocks, number_late, by_push):
    """One pass over the rows of all streams in arrival order.

    ``order``: stream of each row. ``times``: codes of the rows' times; ``ahead``: codes of (time - lateness); both are read only where
    ``timed`` is set. ``clock`` = [largest time by stream, largest (time - lateness) by stream]; the watermark is the smallest of the second
    half, where a stream without a time window has the top, so that it holds nobody back. Changes ``clock`` and ``counts`` (rows
    accepted, or with ``number_late`` all); fills late, the counts seen and, if there is room for them, the clocks seen. The watermark
    moves with every row, or, with ``by_push``, not before all have come.
    """
    streams, rows = starts.size, late.size
    places = starts.copy()
    watermark = clock[streams:].min()
    for i in range(order.size):
        k = order[i]
        place = places[k]
        places[k] += 1
        for j in range(streams):
            seen[j * rows + place] = counts[j]
        if clocks.size:
            for j in range(streams):
                clocks[j * rows + place] = clock[j]
        late[place] = timed[k] and times[place] < watermark
        if number_late or not late[place]:
            counts[k] += 1
        if timed[k] and not late[place]:
            clock[k] = max(clock[k], times[place])
            if ahead[place] > clock[streams + k]:
                clock[streams + k] = ahead[place]
                if not by_push:
                    watermark = clock[streams:].min()


@kernel
def judge_again(order, rows, stored, moves, starts, timed, times, ahead, clock, counts, late, seen, clocks):
    """``judge`` of rows that have come before, of which some are stored no more. All rows have numbers.

    ``order``, ``rows``, ``stored``, ``times``, ``ahead``: of each step, in arrival order: the stream, how many rows it is, whether they
    are stored (then it is one), their largest time; ``moves``: whether the watermark moves after it. Results are of the stored rows, which
    lie one stream after the other.
    """
    streams, total = starts.size, late.size
    places = starts.copy()
    watermark = clock[streams:].min()
    for i in range(order.size):
        k = order[i]
        if stored[i]:
            place = places[k]
            places[k] += 1
            for j in range(streams):
                seen[j * total + place] = counts[j]
            if clocks.size:
                for j in range(streams):
                    clocks[j * total + place] = clock[j]
            late[place] = timed[k] and times[i] < watermark
        counts[k] += rows[i]
        # A late row is older than its own stream's clock: it moves nothing.
        if timed[k]:
            clock[k] = max(clock[k], times[i])
            clock[streams + k] = max(clock[streams + k], ahead[i])
        if moves[i]:
            watermark = clock[streams:].min()


@kernel
def merge_by_time(starts, ends, times, order):
    """Interleaving of streams by time; each keeps its own order, ties go to the stream that comes first."""
    places = starts.copy()
    for i in range(order.size):
        best = -1
        for k in range(starts.size):
            if places[k] < ends[k] and (best < 0 or times[places[k]] < times[places[best]]):
                best = k
        order[i] = best
        places[best] += 1


@kernel
def count_seen(order, starts, counts, seen):
    """How many rows of each stream have arrived before each row; ``counts``: by stream, rows that arrived earlier; changed."""
    streams, rows = starts.size, order.size
    places = starts.copy()
    for i in range(rows):
        k = order[i]
        for j in range(streams):
            seen[j * rows + places[k]] = counts[j]
        places[k] += 1
        counts[k] += 1
