"""What a join has done so far, in numbers."""

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Rows refused as late by stream, results given, pushes, and the seconds that they took. Has one writer."""

    late: tuple[int, int] = (0, 0)
    results: int = 0
    pushes: int = 0
    seconds: float = 0.0

    def plus(self, other: "Tally") -> "Tally":
        """What both have counted."""
        late = self.late[0] + other.late[0], self.late[1] + other.late[1]
        pushes, seconds = self.pushes + other.pushes, self.seconds + other.seconds
        return Tally(late, self.results + other.results, pushes, seconds)
