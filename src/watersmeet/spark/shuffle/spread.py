"""Which way rows are spread over cores, from condition and windows; and why not another."""

from collections.abc import Sequence

from watersmeet.errors import OptionError
from watersmeet.spark.spec import spreading_band
from watersmeet.sql.condition import BoundCondition
from watersmeet.streams.window import Window

SPREADS = ("auto", "hash", "range", "broadcast")


def choose_spread(
    asked: str, condition: BoundCondition, windows: Sequence[Window], order: str | None, how: str
) -> str:
    """``hash``, ``range``, ``broadcast``, or ``counted``: broadcast in which all cores see all rows of both streams."""
    if asked not in SPREADS:
        raise OptionError(f"spread= must be one of {', '.join(SPREADS)}; got {asked!r}")
    equality = any(band.hashable for band in condition.bands)
    band = spreading_band(condition)
    why = one_order(windows, order)
    if why is not None:
        if asked in ("hash", "range"):
            raise OptionError(
                f"spread={asked!r} must not need the order of all rows; got {why}, for which every core has to see every row; use "
                "spread='auto' or 'broadcast'"
            )
        return "counted"
    if asked == "hash" and not equality:
        raise OptionError(
            f"spread='hash' needs an equality between the streams whose types compare exactly; got the condition {condition.text!r}; use "
            "spread='auto'"
        )
    if asked == "range" and band is None:
        raise OptionError(
            f"spread='range' needs a band with two ends, such as r.x BETWEEN s.a - 10 AND s.a + 10; got the condition {condition.text!r}; "
            "use spread='auto'"
        )
    if asked == "auto":
        asked = "hash" if equality else ("range" if band is not None else "broadcast")
    return "counted" if asked == "broadcast" and how == "inner" else asked


def one_order(windows: Sequence[Window], order: str | None) -> str | None:
    """Why a join depends on the order of all rows of a batch; None if it does not."""
    if any(window.rows is not None for window in windows):
        return "a Rows window, which is counted over all cores"
    timed = [window.timed for window in windows]
    if order is not None and timed[0] != timed[1]:
        return f"order={order!r} with a Range window opposite a window without time"
    return None
