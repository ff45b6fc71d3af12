"""One band of a condition: left between right + low and right + high, and which side the text computes."""

import math
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from watersmeet.errors import ConditionError

Offset = int | float | Decimal | Fraction | timedelta
Form = Literal["add_right", "add_left", "difference"]
Side = Literal["left", "right"]
FORMS = ("add_right", "add_left", "difference")


@dataclass(frozen=True, eq=True)
class Interval:
    """left >= right + low and left <= right + high; ``None`` is an open end, ``*_open`` a strict comparison.

    Offsets are finite and in value units: plain numbers for numbers and decimals; for dates days, for other
    temporal types counts of the domain's ``unit`` (or a timedelta). ``form`` says what the text computes,
    which matters where arithmetic rounds or saturates: "add_right" compares left with right + offset,
    "add_left" compares left + (-offset) with right, "difference" compares left - right with offset, where a difference
    that is NaN lies in no interval.

    >>> Interval(-10, 10)  # left BETWEEN right - 10 AND right + 10
    Interval(low=-10, high=10, low_open=False, high_open=False, form='add_right')
    """

    low: Offset | None = None
    high: Offset | None = None
    low_open: bool = False
    high_open: bool = False
    form: Form = "add_right"
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        for offset in (self.low, self.high):
            if offset is not None and not isinstance(offset, timedelta) and not math.isfinite(offset):
                raise ConditionError(
                    f"a band's offset must be finite; got {offset}; compare without arithmetic instead"
                )
        if self.form not in FORMS:
            raise ConditionError(
                f"a band's form must be one of {', '.join(FORMS)}; got {self.form!r}; choose one of these"
            )
        # Looked up at every push, so computed once; of numbers only, as text hashes differ between processes.
        key = (self.low, self.high, self.low_open, self.high_open, FORMS.index(self.form))
        object.__setattr__(self, "_hash", hash(key))

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_equality(self) -> bool:
        """left = right, and nothing else."""
        return self.low == 0 and self.high == 0 and not (self.low_open or self.high_open)
