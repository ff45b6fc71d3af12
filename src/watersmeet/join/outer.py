"""Outer, semi and anti joins: which rows have found a partner, and which never will.

Each row of a tracked stream has a flag (``flags.py``). A row is emitted without a partner once, when it can no longer match: it has left
its window, the watermark has passed it, or the streams have ended.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.errors import OptionError
from watersmeet.join.flags import Flags, Rows
from watersmeet.join.matches import NOBODY, Matches
from watersmeet.streams.arrival import Gone


@dataclass(frozen=True)
class How:
    """A join type: which streams (0 left, 1 right) are tracked, and what becomes of pairs."""

    name: str
    unmatched: tuple[int, ...] = ()  # streams whose partnerless rows are emitted
    semi: int | None = None  # emit this stream's rows at their first match, and no pairs
    pairs: bool = True

    def tracks(self, k: int) -> bool:
        return k in self.unmatched or k == self.semi

    def may_miss(self, k: int) -> bool:
        """Whether results may have no row of stream k."""
        return self.pairs and any(j != k for j in self.unmatched)

    @property
    def one_sided(self) -> int | None:
        """The only stream that appears in the output of a semi or anti join."""
        return None if self.pairs else (self.semi if self.semi is not None else self.unmatched[0])


_TYPES = [
    How("inner"), How("left", (0,)), How("right", (1,)), How("full", (0, 1)),
    How("left_semi", (), 0, False), How("right_semi", (), 1, False),
    How("left_anti", (0,), None, False), How("right_anti", (1,), None, False),
]  # fmt: skip
_BY_NAME = {how.name: how for how in _TYPES}
_BY_NAME |= {
    "semi": _BY_NAME["left_semi"], "anti": _BY_NAME["left_anti"], "outer": _BY_NAME["full"],
    "left_outer": _BY_NAME["left"], "right_outer": _BY_NAME["right"], "full_outer": _BY_NAME["full"],
}  # fmt: skip


def join_type(name: object) -> How:
    if not isinstance(name, str) or name not in _BY_NAME:
        raise OptionError(
            f"how= must be one of {', '.join(how.name for how in _TYPES)}, semi, anti; got {name!r}"
        )
    return _BY_NAME[name]


def matched(how: How, matches: Matches, flags: Sequence[Flags | None]) -> Matches:
    """Pairs as the join type wants them; who has found a partner is flagged."""
    if how.name == "inner":
        return matches
    columns = matches.columns()
    if how.semi is not None:
        return Matches([alone(how.semi, _of(flags, how.semi).match(columns[how.semi]))])
    for k in how.unmatched:
        _of(flags, k).match(columns[k])
    return matches if how.pairs else Matches()


def unmatched(
    how: How, flags: Sequence[Flags | None], segments: Sequence[Iterable[Rows]], gone: Sequence[Gone]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The rows that are over and have found nobody, as pairs; each once."""
    return [alone(k, _of(flags, k).sweep(segments[k], *gone[k])) for k in how.unmatched]


def _of(flags: Sequence[Flags | None], k: int) -> Flags:
    mine = flags[k]
    assert mine is not None
    return mine


def alone(side: int, arrivals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows without a partner as (left, right) pairs."""
    nobody = np.full(arrivals.size, NOBODY, np.int64)
    return (arrivals, nobody) if side == 0 else (nobody, arrivals)
