"""The table that an interner looks texts up in: memory around the kernels of ``kernels/intern.py``, which say what it keeps true."""

import numpy as np

from watersmeet.kernels.intern import (
    EMPTY,
    FRESH,
    FULL,
    HASH,
    HEAD,
    SEVERAL,
    SPREAD,
    START,
    TAIL,
    USED,
    learn,
    look_ahead,
    relearn,
    room_in,
    sweep,
    words_of,
)

_LEAST = 10  # the sizes of table and tape to begin with, as powers of two
_LARGE = 1 << 16  # slots or words that are few enough to be kept


class TextTable:
    """Open addressing by hash; grows by doubling. Passes over what is not of its share."""

    def __init__(self, moment: int = 0, share: int = 0, shares: int = 1) -> None:
        """``moment``: where the tape begins; ``share``: the remainder that hashes here have by so many ``shares``, a power of two."""
        self._share = np.array([shares - 1, share], np.uint64)
        self._state = np.array([0, moment, moment, moment], np.int64)
        self._tape = np.empty(1 << _LEAST, np.uint64)
        self._make(_LEAST)

    def _make(self, bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        self._slots = np.empty((1 << bits, 2), np.int64)
        self._slots[:, START] = EMPTY

    @property
    def used(self) -> int:
        """How many texts there are at most: forgotten ones may be among them."""
        return int(self._state[USED])

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._tape.nbytes

    @property
    def moment(self) -> int:
        """What is learnt from now on can be told from what was learnt before."""
        return int(self._state[HEAD])

    @property
    def roomy(self) -> bool:
        """Whether most of the memory stands empty."""
        tape = int(self._state[HEAD] - self._state[TAIL])
        return self._slots.shape[0] > max(_LARGE, 16 * self.used) or self._tape.size > max(_LARGE, 16 * tape)

    def forget_before(self, moment: int) -> None:
        """Forget texts that were learnt before a moment, and not again since; ``refresh`` must have been called then."""
        self._state[TAIL] = max(self._state[TAIL], moment)

    def refresh(self) -> None:
        """From now on, who learns a text that is known keeps it from being forgotten with those before."""
        self._state[FRESH] = self._state[HEAD]

    def sweep(self) -> None:
        """Let go of what was forgotten."""
        sweep(self._slots, self._shift, self._state)

    # ---- texts --------------------------------------------------------------------------------------------------

    def learn(self, data: np.ndarray, offsets: np.ndarray, hashes: np.ndarray, row: int) -> tuple[int, int]:
        """Texts from a row on; how far it came, and why no farther."""
        while True:
            row, why = learn(
                data, offsets, hashes, row, self._share, self._shift, self._slots, self._tape, self._state
            )
            if why != FULL:
                return row, why
            self._grow(int(offsets[row + 1] - offsets[row]))

    def look_ahead(self, hashes: np.ndarray) -> None:
        """Bring what ``learn`` will need into the cache. Another thread may change the table meanwhile."""
        slots, tape, shift = self._slots, self._tape, self._shift
        # A table of another size than the shift is for may be taken in between.
        if slots.shape[0] == 1 << (64 - int(shift)):
            look_ahead(hashes, self._share, shift, slots, tape)

    def _grow(self, size: int) -> None:
        """Room for one more slot, and for a text of ``size`` bytes."""
        slots = self._slots.shape[0]
        if self._state[USED] >= room_in(slots):
            self.sweep()
            # Else sweeping was worth it: it frees half of the room at least. With tables that are half full it freed a third, and took a
            # tenth of the time of a join by 100,000 UUIDs; with a quarter a twentieth less, for twice the memory.
            if self._state[USED] > slots // 8 * 3:
                old = self._slots
                self._make(slots.bit_length())
                relearn(old, self._shift, self._slots)
        # What is left of the ring before its end may be too short for the text.
        needed = int(self._state[HEAD] - self._state[TAIL]) + 2 * words_of(size)
        if needed > self._tape.size:
            self._lengthen(1 << needed.bit_length())

    def _lengthen(self, words: int) -> None:
        """A longer ring; a text that does not go over the end of the old one does not go over that of the new one."""
        old, self._tape = self._tape, np.empty(words, np.uint64)
        place, head = int(self._state[TAIL]), int(self._state[HEAD])
        while place < head:
            stop = min(head, place - place % old.size + old.size)
            source, target = place % old.size, place % words
            self._tape[target : target + stop - place] = old[source : source + stop - place]
            place = stop

    # ---- one hash -----------------------------------------------------------------------------------------------

    def _slot(self, code: np.uint64) -> np.ndarray:
        """Where a hash is, or would be."""
        slots, number = self._slots, np.array(code).view(np.int64)
        start = (int(code) * int(SPREAD)) % 2**64 >> int(self._shift)
        for place in range(start, start + slots.shape[0]):
            slot: np.ndarray = slots[place % slots.shape[0]]
            if slot[START] == EMPTY or slot[HASH] == number:
                return slot
        raise AssertionError("a table has free slots")

    def knows(self, code: np.uint64) -> bool:
        """Whether a hash stands for a text, or for several."""
        return bool(self._slot(code)[START] >= self._state[TAIL])

    def text_of(self, code: np.uint64) -> bytes | None:
        """The one text that a hash stands for; None: no single one."""
        start = int(self._slot(code)[START])
        if start < self._state[TAIL] or start == SEVERAL:
            return None
        at = start % self._tape.size
        size = int(self._tape[at])
        whole, rest = divmod(size, 8)
        text = self._tape[at + 1 : at + 1 + whole].tobytes()
        if not rest:
            return text
        last = int(self._tape[at + 1 + whole])
        return text + (last.to_bytes(8, "little")[8 - rest :] if whole else last.to_bytes(rest, "big"))

    def spoil(self, code: np.uint64) -> None:
        """The hash stands for several texts, for good."""
        self._grow(0)
        slot = self._slot(code)
        self._state[USED] += slot[START] == EMPTY
        slot[HASH], slot[START] = np.array(code).view(np.int64), SEVERAL
