"""What a join has done so far, in numbers."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Rows refused as late by stream, results given, pushes, and the seconds that they took. Has one writer."""

    late: list[int]
    results: int = 0
    pushes: int = 0
    seconds: float = 0.0

    def late_with(self, late: Sequence[int]) -> list[int]:
        """What ``late`` is once these rows have been counted, too."""
        return [one + two for one, two in zip(self.late, late, strict=True)]

    def plus(self, other: "Tally") -> "Tally":
        """What both have counted."""
        late = [one + two for one, two in zip(self.late, other.late, strict=True)]
        pushes, seconds = self.pushes + other.pushes, self.seconds + other.seconds
        return Tally(late, self.results + other.results, pushes, seconds)
