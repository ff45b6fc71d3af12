"""Calendar arithmetic that Arrow lacks: days between dates, and months added."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.sql.arithmetic import integers
from watersmeet.sql.casts import saturating, ticks
from watersmeet.sql.types import Value, factor

# From one end of the timestamps to beyond the other; NumPy's calendar has room for it.
_MOST_MONTHS = 2**43
_DATES, _TIMESTAMPS = np.iinfo(np.int32), np.iinfo(np.int64)


def days_between(later: Value, earlier: Value) -> Value:
    """DATEDIFF(later, earlier): 32 bits, of which as many as there are stay, as in Spark."""
    return pc.cast(saturating(ticks(later), ticks(earlier), "subtract"), pa.int32(), safe=False)


def date_part(date: Value, part: str) -> Value:
    """Year ("Y"), month ("M") or day ("D") of a date, however far away: Arrow's calendar ends at the year 32767."""
    if isinstance(date, pa.Scalar):
        return date_part(pa.repeat(date, 1), part)[0]
    days = ticks(date).fill_null(0).to_numpy(zero_copy_only=False).astype("datetime64[D]")
    years, months = days.astype("datetime64[Y]"), days.astype("datetime64[M]")
    number = {
        "Y": lambda: years.astype(np.int64) + 1970,
        "M": lambda: (months - years.astype("datetime64[M]")).astype(np.int64) + 1,
        "D": lambda: (days - months.astype("datetime64[D]")).astype(np.int64) + 1,
    }[part]()
    return pa.array(number.astype(np.int32), mask=~date.is_valid().to_numpy(zero_copy_only=False))


def add_months(moment: Value, months: Value, type_: pa.DataType) -> Value:
    """The same day and time of day so many months on; 31 January plus one month is the last of February."""
    length = next((len(part) for part in (moment, months) if isinstance(part, pa.Array)), 1)
    columns = [pa.repeat(part, length) if isinstance(part, pa.Scalar) else part for part in (moment, months)]
    valid = pc.and_(columns[0].is_valid(), columns[1].is_valid()).to_numpy(zero_copy_only=False)
    count = ticks(columns[0]).fill_null(0).to_numpy(zero_copy_only=False)
    by = integers(columns[1]).fill_null(0).to_numpy(zero_copy_only=False)
    by = np.clip(by, -_MOST_MONTHS, _MOST_MONTHS)
    if pt.is_date(type_):
        moved = np.clip(_moved(count, by), _DATES.min, _DATES.max).astype(np.int32)
    else:
        per_day = 86_400 * factor("s", type_.unit)
        days, rest = np.divmod(count, per_day)
        moved = _counted(_moved(days, by), per_day, rest)
    result = pa.array(moved, mask=~valid).cast(type_)
    return result if isinstance(moment, pa.Array) or isinstance(months, pa.Array) else result[0]


def _counted(days: np.ndarray, per_day: int, rest: np.ndarray) -> np.ndarray:
    """days * per_day + rest, stopping at the ends of int64."""
    count: np.ndarray = days * per_day + rest
    for i in np.flatnonzero(np.abs(days) >= _TIMESTAMPS.max // per_day):
        exact = int(days[i]) * per_day + int(rest[i])
        count[i] = min(max(exact, int(_TIMESTAMPS.min)), int(_TIMESTAMPS.max))
    return count


def _moved(days: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Days since 1970 moved by months."""
    dates = days.astype("datetime64[D]")
    month = dates.astype("datetime64[M]")
    day_of_month = dates - month.astype("datetime64[D]")
    target = month + by.astype("timedelta64[M]")
    last = (
        (target + np.timedelta64(1, "M")).astype("datetime64[D]")
        - target.astype("datetime64[D]")
        - np.timedelta64(1, "D")
    )
    moved = target.astype("datetime64[D]") + np.minimum(day_of_month, last)
    return moved.astype(np.int64)
