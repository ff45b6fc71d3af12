"""A join in words: what ``explain(df)`` prints. Spark's own ``df.explain()`` shows it as watersmeet_pack, Exchange, watersmeet_join."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from watersmeet.errors import OptionError
from watersmeet.join.orders import Step
from watersmeet.join.plan import Plan
from watersmeet.spark.shuffle.layout import first_layouts
from watersmeet.spark.shuffle.spread import one_order
from watersmeet.spark.spec import Binding
from watersmeet.spark.user.chaining import result_times
from watersmeet.spark.user.checks import trial_plan

_WAYS = {
    "hash": "hash: a row goes to the one core that its key names",
    "shares": "shares: cores are a grid; a row goes to all that agree with it in the dimensions that it has",
    "range": "range: buckets of keys; a row is copied to the buckets that its band touches",
    "broadcast": "broadcast: every core sees every row of one stream, and its share of the home stream",
    "counted": "broadcast: every core sees every row and stores its share",
}
_ASKED = "spread='broadcast'"
_CONDITION = "the condition, which has neither an equality nor a band with two ends"
_WAYS_OF_MANY = {
    **_WAYS,
    "broadcast": "broadcast: streams are dealt out, each in a dimension of its own, or whole on every core",
    "counted": "broadcast: every core sees every row, and stores its share of one stream",
}


def explain(joined: Any) -> str:
    """How a DataFrame made by ``stream_join`` is joined: spreading, index, windows, state. One line a fact."""
    bound = getattr(joined, "_watersmeet", None)
    if not isinstance(bound, Binding):
        raise OptionError(
            f"explain() must get what stream_join returned, before anything else is done with it; got {type(joined).__name__}"
        )
    spec = bound.spec
    lines = [
        f"stream_join {bound.how.name} of {_listed(spec.streams)}, {bound.tasks} core(s), name {spec.name}",
        f"  condition  {spec.condition}",
        f"  spread     {(_WAYS_OF_MANY if bound.many else _WAYS)[spec.spread]}",
        *(f"  {line}" for line in (_grid(bound) if bound.many else _driven(bound))),
        *(f"  {line}" for line in _planned(bound)),
        *(f"  {line}" for line in str(bound.condition).splitlines()),
        *(f"  {line}" for line in _streams(bound)),
        f"  select     {spec.select}",
        *(f"  {line}" for line in _times(bound)),
        f"  state      {spec.state or 'none: a batch is joined in one go'}",
    ]
    return "\n".join(lines)


def _streams(bound: Binding) -> list[str]:
    spec = bound.spec
    return [
        f"table {stream}    {table.rows:,} rows" if table else f"stream {stream}   {window}"
        for stream, window, table in zip_longest(spec.streams, spec.windows, spec.tables)
    ]


def _listed(names: Sequence[str], word: str = "and") -> str:
    return f" {word} ".join([", ".join(names[:-1]), names[-1]])


def _planned(bound: Binding) -> list[str]:
    """How a core looks for results, before it knows anything of its rows."""
    plan, streams = trial_plan(bound.condition, bound.spec.index), bound.spec.streams
    if isinstance(plan, Plan):
        kinds = plan.kinds[0] if len(plan.kinds) == 1 else "auto: one of " + ", ".join(plan.kinds)
        return [f"index      {kinds}", *(f"driver     {text}" for text in plan.driver.texts)]
    return [
        f"probes     {streams[k]}: " + ", then ".join(_step(streams[step.stream], step) for step in steps)
        for k, steps in enumerate(plan.steps)
    ]


def _step(stream: str, step: Step) -> str:
    by = " and ".join(comparison.text for comparison in step.drivers)
    return f"{stream} by {by}" if by else f"every row of {stream}"


def _grid(bound: Binding) -> list[str]:
    """What the spreading of many streams goes by. Sizes are those of the first batch; later ones follow the data."""
    spec, (layout,) = bound.spec, bound.spec.layouts or first_layouts(bound)
    if spec.spread == "counted":
        why = one_order(
            [window for k, window in enumerate(spec.windows) if k not in bound.static], spec.order
        )
        return [f"because of {why}", f"dealt out  {spec.streams[layout.home]}"]
    if spec.spread == "range" and bound.tree is not None:
        homes = [spec.streams[k] for k in bound.tree.bands]
        others = [name for name in spec.streams if name not in homes]
        lines = [
            f"spread by  {bound.tree.text}",
            f"home       {_listed(homes, 'or')}, whichever the keys seen make cheapest",
        ]
        return lines + ([f"copied     {', '.join(others)}: to all cores"] if others else [])
    lines = [
        f"spread by  {dimension.text}" for dimension in bound.dimensions if any(dimension.bands.values())
    ]
    if spec.spread == "broadcast":
        known = bound.spanning or bound.tree is not None
        lines.append(f"because of {_CONDITION if not known else _ASKED}")
    sizes = [
        f"{size} by {dimension.text}"
        for dimension, size in zip(bound.dimensions, layout.sizes, strict=True)
        if size > 1
    ]
    return [
        *lines,
        f"grid       {' x '.join(sizes) or 'one core'} at first; then as the rows seen make cheapest",
    ]


def _driven(bound: Binding) -> list[str]:
    """What the spreading goes by, and who is at home."""
    spec = bound.spec
    lines = []
    if spec.spread == "hash":
        lines.append(f"spread by  {' AND '.join(one.text for one in bound.spanning)}")
    elif spec.spread == "range" and bound.tree is not None:
        lines.append(f"spread by  {bound.tree.text}")
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
    live = [window for k, window in enumerate(bound.spec.windows) if k not in bound.static]
    why = one_order(live, bound.spec.order)
    if why is not None:
        return why
    return _ASKED if bound.spanning or bound.tree is not None else _CONDITION
