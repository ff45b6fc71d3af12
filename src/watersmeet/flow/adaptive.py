"""Order as strict as the streams allow: the precision is tuned until a target is met (splitjoin.txt 7.6).

From strict inner order over strict outer order to punctuations that are far apart, every step costs less. The tuner goes one
step coarser when the target is missed, and one step finer when it has been met with room to spare for a while.
"""

from dataclasses import dataclass, field

from watersmeet.flow.order import Order

LADDER = (
    Order("inner", 1),
    Order("inner", 64),
    Order("inner", 4096),
    Order("outer", 1),
    Order("outer", 16),
    Order("outer", 256),
    Order("outer", 4096),
)
START = 3  # strict outer order
ROOM = 1.25  # by this much the target must be met
WHILE = 3  # pushes, before a finer order is tried


@dataclass
class Tuner:
    """Rows per second, or seconds a push, whichever was asked for."""

    rate: float | None = None
    latency: float | None = None
    step: int = START
    _good: int = field(default=0, repr=False)

    @property
    def order(self) -> Order:
        return LADDER[self.step]

    def learn(self, rows: int, seconds: float) -> None:
        """A push has been done."""
        if not rows or seconds <= 0:
            return
        # How many times better than asked for.
        better = rows / seconds / self.rate if self.rate is not None else (self.latency or 0.0) / seconds
        if better < 1.0:
            self.step, self._good = min(self.step + 1, len(LADDER) - 1), 0
        elif better >= ROOM:
            self._good += 1
            if self._good >= WHILE and self.step > 0:
                self.step, self._good = self.step - 1, 0
        else:
            self._good = 0

    def mark(self) -> tuple[int, int]:
        """What ``back_to`` goes back to."""
        return self.step, self._good

    def back_to(self, mark: tuple[int, int]) -> None:
        self.step, self._good = mark
