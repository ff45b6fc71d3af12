"""Exact codes for texts: a text's code is its hash, unless texts that were around together have met in one hash.

A table has the text of every hash. Texts that meet in one hash, which is as good as never seen, are remembered for good: the first keeps
the hash as its code, the others get codes of their own. So equal codes are equal texts, among all texts that the table knows: whoever
stores codes sees to it that the table knows theirs.

What nobody stores any more may be forgotten. Time goes in *turns*, each of which begins at a *moment*: a text that was coded in a turn
is known until ``turn`` is told that nothing is stored that was coded before a later moment. That costs next to nothing, but where one
stream's rows stay for long, it forgets little; then ``keep`` begins anew with the texts that are named.
"""

import threading
from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

import numpy as np

from watersmeet.codes.text_table import TextTable
from watersmeet.kernels.intern import ANOTHER

Texts = tuple[
    np.ndarray, np.ndarray, np.ndarray
]  # all bytes, where each text starts and the last one ends, hashes
SLACK = 1 << 16  # texts that are never too many
LARGE = 1024  # rows: what fewer need is fetched soon enough
_TURNS = 8  # so many turns to as many rows as are stored


class Interner:
    """Which text each code stands for. Several threads may ask."""

    def __init__(self) -> None:
        self.keepers: WeakSet[Any] = WeakSet()  # who stores codes
        self._lock = threading.Lock()
        self._table = TextTable()
        self._coded, self._pause = 0, SLACK // 16  # rows in this turn; with how many it is over
        self.moment = 0  # at which the turn has begun
        self._met: dict[bytes, np.uint64] = {}  # the codes of texts that have met another in their hash
        self._spoilt: set[int] = set()  # codes that a hash alone does not decide

    def __len__(self) -> int:
        return self._table.used

    def codes(self, data: np.ndarray, offsets: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """The codes of texts whose hashes are given: those, but for texts that have met another in theirs."""
        if hashes.size >= LARGE and self._lock.locked():
            # The streams of a push are coded at the same time. Who has to wait fetches what it will need.
            self._table.look_ahead(hashes)
        with self._lock:
            self._coded += hashes.size
            return self._enter(self._table, data, offsets, hashes)

    def _enter(
        self, table: TextTable, data: np.ndarray, offsets: np.ndarray, hashes: np.ndarray
    ) -> np.ndarray:
        codes, row = hashes, 0
        while row < hashes.size:
            row, why = table.learn(data, offsets, hashes, row)
            if why == ANOTHER:
                text = data[offsets[row] : offsets[row + 1]].tobytes()
                if codes is hashes:
                    codes = hashes.copy()
                codes[row] = self._apart(table, text, hashes[row])
                row += 1
        return codes

    def _apart(self, table: TextTable, text: bytes, code: np.uint64) -> np.uint64:
        """The code of a text whose hash stands for another one, or for several."""
        first = table.text_of(code)
        if first is not None:
            self._met[first] = code
            self._spoil(table, code)
        if text not in self._met:
            number = int(code)
            while number in self._spoilt or table.knows(np.uint64(number)):
                number = (number * 6364136223846793005 + 1442695040888963407) % 2**64
            self._met[text] = np.uint64(number)
            self._spoil(table, np.uint64(number))
        return self._met[text]

    def _spoil(self, table: TextTable, code: np.uint64) -> None:
        """From now on every text with this hash is looked up by itself."""
        self._spoilt.add(int(code))
        table.spoil(code)

    @property
    def due(self) -> bool:
        """Whether it is time for another turn."""
        return self._coded > self._pause

    def turn(self, oldest: int, rows: int) -> bool:
        """Begin another turn; ``rows`` are stored, and none of them was coded before the moment ``oldest``.

        Returns whether too much is known all the same: time to ``keep`` what is stored.
        """
        with self._lock:
            table = self._table
            table.forget_before(oldest)
            table.refresh()
            self.moment = table.moment
            self._coded, self._pause = 0, max(SLACK // 16, rows // _TURNS)
            enough = SLACK + 2 * rows  # with no more, there is little to forget
            if table.used <= enough:
                return False
            table.sweep()
            return table.used > enough or table.roomy

    def keep(self, texts: Iterable[Texts]) -> None:
        """Forget all texts but these. Who has codes of others must not compare them any more."""
        with self._lock:
            table = TextTable(self._table.moment)
            for code in self._spoilt:
                table.spoil(np.uint64(code))
            for data, offsets, hashes in texts:
                self._enter(table, data, offsets, hashes)
            self._table, self.moment = table, table.moment
            table.refresh()
