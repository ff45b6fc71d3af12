"""Which way rows are spread over cores, from condition and windows; and why not another."""

from collections.abc import Collection, Sequence

from watersmeet.errors import OptionError
from watersmeet.spark.graph import band_tree, equality_classes
from watersmeet.sql.condition import BoundCondition
from watersmeet.streams.window import Window

SPREADS = ("auto", "hash", "shares", "range", "broadcast")
NEEDS = {
    "hash": "an equality between the streams whose types compare exactly",
    "shares": "three streams or more, and an equality between two of them whose types compare exactly",
    "range": "a band with two ends, such as r.x BETWEEN s.a - 10 AND s.a + 10",
}


def choose_spread(
    asked: str,
    condition: BoundCondition,
    windows: Sequence[Window],
    order: str | None,
    how: str,
    static: Collection[int] = (),
) -> str:
    """``hash``, ``shares``, ``range``, ``broadcast``, or ``counted``: broadcast in which all cores see all rows of all streams.

    ``static``: streams that are tables.
    """
    if asked not in SPREADS:
        raise OptionError(f"spread= must be one of {', '.join(SPREADS)}; got {asked!r}")
    why = one_order([window for k, window in enumerate(windows) if k not in static], order)
    if why is not None:
        if asked not in ("auto", "broadcast"):
            raise OptionError(
                f"spread={asked!r} must not need the order of all rows; got {why}, for which every core has to see every row; use "
                "spread='auto' or 'broadcast'"
            )
        return "counted"
    ways = possible(condition)
    if asked not in ("auto", *ways):
        needs = NEEDS[asked]
        if asked == "hash" and len(windows) > 2:
            needs = "equalities that make one value of all streams equal, and whose types compare exactly"
        raise OptionError(
            f"spread={asked!r} needs {needs}; got the condition {condition.text!r}; use spread='auto'"
        )
    chosen = ways[0] if asked == "auto" else asked
    return "counted" if chosen == "broadcast" and how == "inner" and len(windows) == 2 else chosen


def possible(condition: BoundCondition) -> list[str]:
    """The ways of spreading that the condition allows, the best one first."""
    streams, classes, tree = len(condition.streams), equality_classes(condition), band_tree(condition)
    near = 0 if tree is None else len(tree.bands)
    allowed = {
        "hash": any(len(one.bands) == streams for one in classes),
        "range": near == streams,
        "shares": bool(classes) and streams > 2,
        "broadcast": True,
    }
    found = [way for way, may in allowed.items() if may]
    return found if near in (0, streams) else [*found[:-1], "range", "broadcast"]


def one_order(windows: Sequence[Window], order: str | None) -> str | None:
    """Why a join depends on the order of all rows of a batch; None if it does not. Of streams: a table's rows came before them all."""
    if any(window.rows is not None for window in windows):
        return "a Rows window, which is counted over all cores"
    timed = sum(window.timed for window in windows)
    if order is not None and 0 < timed < len(windows):
        return f"order={order!r} with a Range window opposite a window without time"
    if 1 < timed < len(windows):
        return (
            "several Range windows beside one without time, whose rows must know what they had seen of each"
        )
    return None
