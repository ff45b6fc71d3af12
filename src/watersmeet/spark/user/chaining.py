"""A join of a join: how late the first one's rows come, so that the second one loses none of them.

Let W be a join's watermark before a batch: the smaller of (largest time seen of r) - L_r and (largest time seen of s) - L_s. The rows that
the batch gives have a new row in them, whose time is W or later, or have waited for a partner until now:

- a pair's r.ts is at least W - T_r, as its partner is W or later; an r without a partner has waited until the watermark passed r.ts + T_r,
  so it is at least W - T_r too;
- all r.ts given before are at most the largest time seen of r, and at most T_s above that of s: above W by max(L_r, T_s + L_s) at most.

So r.ts comes at most T_r + max(L_r, T_s + L_s) behind the largest r.ts given before, and a join that waits so long for it refuses none. The
GREATEST of both times is W or later in a pair, so it needs T_r less. Opposite a stream without time, W is s's own: s.ts comes at most
max(T_s, L_s) behind. A time that windows do not bound (of a stream in a Rows or Unbounded window, say) may come as late as it likes.

Of more streams W is the smallest over all timed ones, and every two rows of a result are a pair: r.ts comes at most T_r + max(L_r,
T_s + L_s, T_t + L_t, ...) behind. The GREATEST of all times needs T_r less if every stream has one: a row without may be the last.

What is known is written into the metadata of the result's time columns, where Spark carries it through select, where, alias and withColumn.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pyspark.sql import DataFrame

from watersmeet.codes.integer import NANOSECONDS
from watersmeet.errors import OptionError
from watersmeet.spark.spec import Binding
from watersmeet.sql.tree import Call, Column, Expr
from watersmeet.streams.window import Duration, Range, Window, nanoseconds

KEY = "watersmeet"  # of the metadata
CLAIM = "spark.watermarkDelayMs"  # what withWatermark writes there
JOIN = "watersmeet_join<"  # what Spark's plan calls a join of ours
# Operations that give each row at once, with the time that it had. Of a Join that is so if the other side is a table.
AT_ONCE = {
    "Project", "Filter", "SubqueryAlias", "CollectMetrics", "EventTimeWatermark", "Repartition", "RepartitionByExpression",
    "RebalancePartitions", "ResolvedHint", "Sample", "Generate", "Deduplicate", "View", "Join",
}  # fmt: skip
FLOAT_SLACK = 2.0**-20  # sums of float times are rounded: more than that can add up to
UNITS = {"d": 86_400 * 10**9, "h": 3600 * 10**9, "min": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3}


# ---- what a join gives -------------------------------------------------------------------------------------------


def result_times(bound: Binding) -> dict[str, dict[str, Any]]:
    """Of each result column that holds times of windows: its lateness, or why it has none."""
    columns = zip(bound.select.schema.names, bound.select.expressions, strict=True)
    known = {name: metadata(bound, expr) for name, expr in columns}
    return {name: said[KEY] for name, said in known.items() if said}


def metadata(bound: Binding, expr: Expr) -> dict[str, Any] | None:
    """What a result column's metadata says of its times; None where it holds no times that a window knows."""
    sides = _sides(bound, expr)
    if not sides or not bound.spec.streaming:
        return None
    streams, how = bound.spec.streams, bound.how
    for k in how.unmatched if how.pairs else ():
        if k not in sides:
            return {KEY: {"why": f"which is NULL in rows of {streams[k]!r} that have found nobody"}}
    return {KEY: {"lateness": _given(bound, _lateness(bound, expr, sides))}}


def _sides(bound: Binding, expr: Expr) -> list[int]:
    """The streams whose windows' times an expression chooses from; none if it is anything else."""
    axis = bound.axis
    if axis is None:
        return []
    if isinstance(expr, Column):
        k = bound.spec.streams.index(expr.stream)
        return [k] if axis.columns[k] == expr.name else []
    if isinstance(expr, Call) and expr.op in ("greatest", "least", "coalesce"):
        found = [_sides(bound, arg) if isinstance(arg, Column) else [] for arg in expr.args]
        return sorted({k for sides in found for k in sides}) if all(found) else []
    return []


def _lateness(bound: Binding, expr: Expr, sides: Sequence[int]) -> Any:
    """How far behind the largest time given before one can come, in units of the axis."""
    axis = bound.axis
    assert axis is not None
    duration, lateness = axis.duration, axis.lateness
    timed = [k for k, column in enumerate(axis.columns) if column is not None]
    if len(timed) == 1:
        (k,) = sides
        return max(duration[k], lateness[k])
    above = max(
        max(lateness[j] + (0 if j == k else duration[j]) for j in timed) for k in sides
    )  # how far the largest time given may lie above W
    waiting = [duration[k] for k in sides]
    if isinstance(expr, Call) and expr.op == "greatest" and len(sides) == len(axis.columns):
        waiting = [duration[k] for k in bound.how.unmatched]
    return above + max(waiting, default=0)


def _given(bound: Binding, length: Any) -> Duration:
    """A length as ``lateness=`` takes it."""
    assert bound.axis is not None
    domain = bound.axis.domain
    if domain.unit is not None:
        return _text(Fraction(length) * NANOSECONDS[domain.unit])
    return length * (1 + FLOAT_SLACK) if domain.name.startswith("float") or not domain.exact else length


def _text(length: Fraction) -> str:
    for unit, size in UNITS.items():
        if length % size == 0:
            return f"{length // size} {unit}"
    return f"{-(-length // 1)} ns"


# ---- what the next join takes ------------------------------------------------------------------------------------


def handed_on(stream: str, window: Window, frame: DataFrame) -> Window:
    """The window of a stream, with the lateness that its rows need if they come from a join of ours."""
    if not window.timed or not frame.isStreaming:
        return window
    plan, claimed = _origin(frame._jdf.queryExecution().analyzed())
    if JOIN not in plan.toString():
        return window
    held_up = None if _is_join(plan) else plan.nodeName()
    noted = frame.schema[window.time].metadata
    said = noted.get(KEY, {}) if held_up is None else {}
    if "lateness" in said:
        needed = said["lateness"]
    elif claimed and CLAIM in noted:
        needed = f"{noted[CLAIM]} ms"
    else:
        raise OptionError(_unknown(stream, window, said.get("why"), held_up))
    return replace(window, lateness=needed) if _longer(needed, window.lateness) else window


def _origin(plan: Any) -> tuple[Any, bool]:
    """Where the rows of a DataFrame come from: down to a join of ours, a source, or an operation that may hold rows back or mix them with
    others; and whether withWatermark stands above that."""
    claimed = False
    while not _is_join(plan):
        children = [plan.children().apply(i) for i in range(plan.children().size())]
        streaming = [child for child in children if child.isStreaming()]
        if plan.nodeName() not in AT_ONCE or len(streaming) != 1:
            break
        claimed |= plan.nodeName() == "EventTimeWatermark"
        plan = streaming[0]
    return plan, claimed


def _is_join(plan: Any) -> bool:
    return plan.nodeName() == "MapInArrow" and JOIN in plan.simpleString(1000)


def _longer(needed: Duration, given: Duration) -> bool:
    if isinstance(needed, str):
        return nanoseconds(needed) > (0 if isinstance(given, int | float) else nanoseconds(given))
    assert isinstance(needed, int | float)
    assert isinstance(given, int | float)
    return needed > given


def _unknown(stream: str, window: Range, why: str | None, held_up: str | None) -> str:
    if held_up is not None:
        why = f"after {held_up}, of which nothing is known"
    why = why or "which is no time of that join's windows as it was"
    return (
        f"the time of stream {stream!r}, which comes from another join, must have a known lateness, or rows would be refused as late; got "
        f"{stream}.{window.time}, {why}; do: use the time column of one of that join's Range windows, or select GREATEST(r.ts, s.ts) AS ts "
        f"there; or say how late it may be: .withWatermark({window.time!r}, '1 minute') on the DataFrame that is given as {stream}="
    )
