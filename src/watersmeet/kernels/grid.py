"""Kernels of the grid: cells of two-dimensional bands, merged and probed in the order of cell codes.

A cell code is (column << 32) + row. A band as wide as a cell touches at most two columns, and in each of them one contiguous range of rows.
"""

from watersmeet.kernels.jit import kernel
from watersmeet.kernels.probe import partition_of, place_in

EDGE = 2**30  # columns and rows are clipped to +-EDGE; what lies beyond shares the outermost cells


@kernel
def cell_codes(columns, rows, out):
    """Cell codes from clipped columns and rows."""
    for i in range(columns.size):
        out[i] = (columns[i] << 32) + (rows[i] + EDGE)


@kernel
def merge_cells(a_cell, a_row, a_x, a_y, b_cell, b_row, b_x, b_y, cell, row, x, y):
    """Merge two runs by cell; the selection is arithmetic, not a branch (see merge.py)."""
    i = 0
    j = 0
    for k in range(cell.size):
        first = j == b_cell.size or (i < a_cell.size and a_cell[i] <= b_cell[j])
        if first:
            cell[k] = a_cell[i]
            row[k] = a_row[i]
            x[k] = a_x[i]
            y[k] = a_y[i]
        else:
            cell[k] = b_cell[j]
            row[k] = b_row[j]
            x[k] = b_x[j]
            y[k] = b_y[j]
        i += first
        j += not first


@kernel
def grid_pairs(
    cell,
    row,
    x,
    y,
    index,
    from_cell,
    to_cell,
    columns,
    lo_x,
    hi_x,
    lo_y,
    hi_y,
    probes,
    state,
    out_probe,
    out_row,
):
    """All pairs with x and y within the probe's bounds, as many as fit; O(columns * log(gap) + candidates) a probe.

    Per probe: cells [from_cell, to_cell] of its first column, and the same rows of the next ``columns`` - 1. Probes are in the order of
    from_cell, so each of the first columns has a partition that only moves forward: state[3:]. state[:3] is where to go on: probe, column,
    position or -1.
    """
    column = state[1]
    position = state[2]
    room = out_probe.size
    size = cell.size
    cursors = state.size - 3
    n = 0
    for i in range(state[0], from_cell.size):
        while column < columns[i]:
            shift = column << 32
            if position < 0:
                slot = 3 + min(column, cursors - 1)
                begin = state[slot] if column < cursors else 0
                begin = partition_of(index, begin, from_cell[i] + shift)
                position = place_in(cell, begin, from_cell[i] + shift)
                if column < cursors:
                    state[slot] = begin
            last = to_cell[i] + shift
            while position < size and cell[position] <= last:
                if n == room:
                    state[0] = i
                    state[1] = column
                    state[2] = position
                    return n
                out_probe[n] = probes[i]
                out_row[n] = row[position]
                # No branch: whether a candidate is a match is as good as random.
                n += (
                    (lo_x[i] <= x[position])
                    & (x[position] <= hi_x[i])
                    & (lo_y[i] <= y[position])
                    & (y[position] <= hi_y[i])
                )
                position += 1
            position = -1
            column += 1
        column = 0
    state[0] = from_cell.size
    return n


@kernel
def list_cell_pairs(row, x, y, used, lo_x, hi_x, lo_y, hi_y, probes, state, out_probe, out_row):
    """Nested loop over the insertion buffer; state: [probe, position]. Counted first, without a branch: most probes find nothing."""
    position = state[1]
    xs = x[:used]
    ys = y[:used]
    n = 0
    for i in range(state[0], lo_x.size):
        found = 0
        for j in range(xs.size):
            found += (xs[j] >= lo_x[i]) & (xs[j] <= hi_x[i]) & (ys[j] >= lo_y[i]) & (ys[j] <= hi_y[i])
        while found > 0 and position < used:
            if lo_x[i] <= x[position] <= hi_x[i] and lo_y[i] <= y[position] <= hi_y[i]:
                if n == out_probe.size:
                    state[0] = i
                    state[1] = position
                    return n
                out_probe[n] = probes[i]
                out_row[n] = row[position]
                n += 1
            position += 1
        position = 0
    state[0] = lo_x.size
    return n
