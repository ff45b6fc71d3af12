"""What travels from the cores to the exit."""

from dataclasses import dataclass
from typing import Any

from watersmeet.flow.order import Arranged
from watersmeet.join.matches import Matches


@dataclass(slots=True)
class Found:
    """What one core found for one load; with an order it is sent also if nothing was found: it is the *star* of the paper."""

    core: int
    load: Any  # a Load, or a MultiLoad where there are many streams
    matches: Matches
    arranged: Arranged | None
    begun: float  # when the core took the load, and when it was done with it
    done: float


@dataclass(slots=True)
class Mark:
    """Everything before it has been done. On its way in: of one push. On its way out: of one core, then of all."""

    number: int
    oldest: tuple[int, int] = (0, 0)  # by stream: the oldest arrival number that a core still holds
