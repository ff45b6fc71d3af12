"""Exact codes for texts: a text's code is its hash, unless texts that were around together have met in one hash.

A table has the text of every hash. Texts that meet in one hash, which is as good as never seen, are remembered for good: the first keeps
the hash as its code, the others get codes of their own. So equal codes are equal texts, among all texts that the table knows: whoever
stores codes sees to it that the table knows theirs. There are several such tables, each for its share of the hashes, so that the streams
of a push can be coded at the same time.

What nobody stores any more may be forgotten. Time goes in *turns*, each of which begins at a *moment*: a text that was coded in a turn
is known until ``turn`` is told that nothing is stored that was coded before a later moment. That costs next to nothing, but where one
stream's rows stay for long, it forgets little; then ``keep`` begins anew with the texts that are named.
"""

import threading
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any
from weakref import WeakSet

import numpy as np

from watersmeet.codes.text_table import TextTable
from watersmeet.kernels.intern import ANOTHER

Texts = tuple[
    np.ndarray, np.ndarray, np.ndarray
]  # all bytes, where each text starts and the last one ends, hashes
SLACK = 1 << 16  # texts that are never too many
SHARES = 2  # a power of two
LARGE = 1024  # rows: what fewer need is fetched soon enough
_TURNS = 8  # so many turns to as many rows as are stored


class Interner:
    """Which text each code stands for. Several threads may ask."""

    def __init__(self) -> None:
        self.keepers: WeakSet[Any] = WeakSet()  # who stores codes
        self._shares = tuple(_Share(number) for number in range(SHARES))
        self._begin = 0  # with which share whoever asks next begins: best another than who asks now
        self._pause = SLACK // 16  # with how many rows a turn is over
        self.moment = 0  # at which the turn has begun: turns are counted
        # The moments that may still be asked for, and where each table stood then.
        self._moments = deque([(0, [0] * SHARES)])

    def __len__(self) -> int:
        return sum(share.table.used for share in self._shares)

    def codes(self, data: np.ndarray, offsets: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """The codes of texts whose hashes are given: those, but for texts that have met another in theirs."""
        codes, shares = hashes, self._shares
        if hashes.size == 1:
            shares = (shares[int(hashes[0]) % SHARES],)
        else:
            self._begin = begin = (self._begin + 1) % SHARES
            shares = shares[begin:] + shares[:begin]
        for share in shares:
            if hashes.size >= LARGE and share.lock.locked():
                # The streams of a push are coded at the same time. Who has to wait fetches what it will need.
                share.table.look_ahead(hashes)
            with share.lock:
                share.coded += -(-hashes.size // len(shares))
                codes = share.enter(data, offsets, hashes, codes)
        return codes

    @property
    def due(self) -> bool:
        """Whether it is time for another turn."""
        coded = 0
        for share in self._shares:
            coded += share.coded
        return coded > self._pause

    def turn(self, oldest: int, rows: int) -> bool:
        """Begin another turn; ``rows`` are stored, and none of them was coded before the moment ``oldest``.

        Returns whether too much is known all the same: time to ``keep`` what is stored.
        """
        moments = self._moments
        while moments[0][0] < oldest:
            moments.popleft()
        stood = [share.turn(place) for share, place in zip(self._shares, moments[0][1], strict=True)]
        moments.append((self.moment + 1, stood))
        self.moment += 1
        self._pause = max(SLACK // 16, rows // _TURNS)
        enough = SLACK + 2 * rows  # with no more, there is little to forget
        if len(self) <= enough:
            return False
        for share in self._shares:
            with share.lock:
                share.table.sweep()
        return len(self) > enough or any(share.table.roomy for share in self._shares)

    def keep(self, texts: Iterable[Texts]) -> None:
        """Forget all texts but these. Who has codes of others must not compare them any more."""
        with ExitStack() as locked:
            for share in self._shares:
                locked.enter_context(share.lock)
            anew = [share.anew() for share in self._shares]
            for data, offsets, hashes in texts:
                for share in anew:
                    share.enter(data, offsets, hashes, hashes)
            for share, new in zip(self._shares, anew, strict=True):
                new.table.refresh()
                share.table = new.table


class _Share:
    """The texts whose hashes have one remainder. Whoever changes them has the lock."""

    def __init__(self, number: int) -> None:
        self.lock, self._number = threading.Lock(), number
        self.table = TextTable(0, number, SHARES)
        self.coded = 0  # rows in this turn, about
        self._met: dict[bytes, np.uint64] = {}  # the codes of texts that have met another in their hash
        self._spoilt: set[int] = set()  # codes that a hash alone does not decide

    def enter(
        self, data: np.ndarray, offsets: np.ndarray, hashes: np.ndarray, codes: np.ndarray
    ) -> np.ndarray:
        """Learn the texts of this share; what codes all have then. ``codes``: by now; a copy is changed if they are the hashes."""
        row = 0
        while row < hashes.size:
            row, why = self.table.learn(data, offsets, hashes, row)
            if why == ANOTHER:
                text = data[offsets[row] : offsets[row + 1]].tobytes()
                if codes is hashes:
                    codes = hashes.copy()
                codes[row] = self._apart(text, hashes[row])
                row += 1
        return codes

    def _apart(self, text: bytes, code: np.uint64) -> np.uint64:
        """The code of a text whose hash stands for another one, or for several."""
        table = self.table
        first = table.text_of(code)
        if first is not None:
            self._met[first] = code
            self._spoil(code)
        if text not in self._met:
            number = int(code)
            while number % SHARES != self._number or number in self._spoilt or table.knows(np.uint64(number)):
                number = (number * 6364136223846793005 + 1442695040888963407) % 2**64
            self._met[text] = np.uint64(number)
            self._spoil(np.uint64(number))
        return self._met[text]

    def _spoil(self, code: np.uint64) -> None:
        """From now on every text with this hash is looked up by itself."""
        self._spoilt.add(int(code))
        self.table.spoil(code)

    def turn(self, place: int) -> int:
        """Forget what was learnt before the table stood at ``place``; where it stands now."""
        with self.lock:
            self.table.forget_before(place)
            self.table.refresh()
            self.coded = 0
            return self.table.moment

    def anew(self) -> "_Share":
        """Another that goes on from here, and knows no text."""
        other = _Share(self._number)
        other.table = TextTable(self.table.moment, self._number, SHARES)
        other._met, other._spoilt = self._met, self._spoilt
        for code in self._spoilt:
            other.table.spoil(np.uint64(code))
        return other
