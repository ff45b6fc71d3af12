"""What of a residual is computed from columns that lie beside the codes, in blocks and in sub-windows."""

import numpy as np

from watersmeet.index.base import PairBuffer
from watersmeet.join.chain import Block, Thin
from watersmeet.kernels.program import LOT, keep_satisfying
from watersmeet.sql.program import Program


class PairTest:
    """A program with the columns of the rows that probe.

    ``first``: where those begin among the columns of codes; the last one tells NULLs.
    """

    def __init__(self, program: Program, stream: str, block: Block, first: int) -> None:
        self._code, self._program, self._first = program.code[stream], program, first
        self._nulls = program.divides or block.nulls
        columns, nulls = block.codes[first:-1], block.codes[-1]
        mine = np.array(columns, np.int64).reshape(len(columns), nulls.size)
        self._mine = mine, mine.view(np.float64), nulls

    def among(self, stored: np.ndarray, nulls: bool) -> Thin:
        """A filter on candidates in a sub-window with these columns; ``nulls``: whether there are any."""
        program = self._program
        columns = stored[self._first : -1]
        theirs = columns, columns.view(np.float64), stored[-1]
        made = (self._code, self._nulls or nulls, program.floats, program.integers, program.result)
        shape = (program.registers, LOT)

        def keep(pairs: PairBuffer, n: int) -> int:
            registers = np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.uint8)
            return int(keep_satisfying(*made, pairs.probe, pairs.row, n, *self._mine, *theirs, *registers))

        return keep
