"""When the stored rows of a join were coded, in an interner's turns: what it must not forget.

What stays true: rows from ``ends`` of an entry on were coded at its moment or later. An entry is dropped once all rows before the next
one's ends have gone; until then the moment of the oldest stands for all.
"""

from collections import deque
from collections.abc import Sequence

from watersmeet.join.chain import Chain


class Moments:
    """Of one join."""

    def __init__(self, moment: int) -> None:
        self._entries: deque[tuple[int, Sequence[int]]] = deque([(moment, ())])

    def note(self, moment: int, ends: Sequence[int]) -> None:
        """A turn has begun; by stream, the arrival number of the next row. No row is on its way that was coded before."""
        self._entries.append((moment, ends))

    def oldest(self, chains: Sequence[Chain]) -> int:
        """None of the rows that the chains hold was coded before this moment. While no push is on its way that may be taken back."""
        entries = self._entries
        while len(entries) > 1 and all(
            not chain.subwindows or chain.first >= end
            for chain, end in zip(chains, entries[1][1], strict=True)
        ):
            entries.popleft()
        return entries[0][0]
