"""A join in words: what ``explain(df)`` prints. Spark's own ``df.explain()`` shows it as watersmeet_pack, Exchange, watersmeet_join."""

from typing import Any

from watersmeet.errors import OptionError
from watersmeet.spark.shuffle.spread import one_order
from watersmeet.spark.spec import Binding
from watersmeet.spark.user.chaining import result_times
from watersmeet.spark.user.checks import trial_plan

_WAYS = {
    "hash": "hash: a row goes to the one core that its key names",
    "range": "range: buckets of keys; a row is copied to the buckets that its band touches",
    "broadcast": "broadcast: every core sees every row of one stream, and its share of the home stream",
    "counted": "broadcast: every core sees every row and stores its share",
}


def explain(joined: Any) -> str:
    """How a DataFrame made by ``stream_join`` is joined: spreading, index, windows, state. One line a fact."""
    bound = getattr(joined, "_watersmeet", None)
    if not isinstance(bound, Binding):
        raise OptionError(
            f"explain() must get what stream_join returned, before anything else is done with it; got {type(joined).__name__}"
        )
    spec = bound.spec
    plan = trial_plan(bound.condition, spec.index)
    lines = [
        f"stream_join {bound.how.name} of {' and '.join(spec.streams)}, {bound.tasks} core(s), name {spec.name}",
        f"  condition  {spec.condition}",
        f"  spread     {_WAYS[spec.spread]}",
        *(f"  {line}" for line in _driven(bound)),
        f"  index      {plan.kinds[0] if len(plan.kinds) == 1 else 'auto: one of ' + ', '.join(plan.kinds)}",
        *(f"  driver     {text}" for text in plan.driver.texts),
        *(f"  {line}" for line in str(bound.condition).splitlines()),
        *(f"  stream {stream}   {window}" for stream, window in zip(spec.streams, spec.windows, strict=True)),
        f"  select     {spec.select}",
        *(f"  {line}" for line in _times(bound)),
        f"  state      {spec.state or 'none: a batch is joined in one go'}",
    ]
    return "\n".join(lines)


def _driven(bound: Binding) -> list[str]:
    """What the spreading goes by, and who is at home."""
    spec = bound.spec
    lines = []
    if spec.spread == "hash":
        lines.append(f"spread by  {' AND '.join(band.text for band in bound.equalities)}")
    elif spec.spread == "range" and bound.band is not None:
        lines.append(f"spread by  {bound.band.text}")
    else:
        lines.append(f"because of {_why_broadcast(bound)}")
    if spec.spread == "range" and bound.how.name == "inner":
        lines.append(f"home       {' or '.join(spec.streams)}, whichever the keys seen make cheaper")
    elif spec.spread != "hash" and bound.how.name != "inner":
        homes = [f"{spec.streams[section.home]} ({section.how.name})" for section in bound.sections]
        lines.append(f"home       {' and '.join(homes)}")
    return lines


def _times(bound: Binding) -> list[str]:
    """How late the result's times come, for whoever sets a watermark on them."""
    lines = []
    for name, known in result_times(bound).items():
        late = known.get("why") or f"comes at most {known['lateness']} behind the largest so far"
        lines.append(f"time {name:<5} {late}")
    return lines


def _why_broadcast(bound: Binding) -> str:
    why = one_order(bound.spec.windows, bound.spec.order)
    if why is not None:
        return why
    if bound.equalities or bound.band is not None:
        return "spread='broadcast'"
    return "the condition, which has neither an equality nor a band with two ends"
