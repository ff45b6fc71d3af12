"""The plan in words: what ``StreamJoin.explain()`` prints."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from watersmeet.join.core import JoinCore
from watersmeet.join.plan import Plan
from watersmeet.streams.clock import BOTTOM


def explain(core: JoinCore, options: Mapping[str, Any]) -> str:
    """One line a fact, names first, so that a test or a person can find them."""
    lines = [f"StreamJoin {options['how']} of {' and '.join(core.streams)}, {options['cores']} core(s)"]
    lines.append(f"  condition  {options['condition']}")
    lines += core.flow_lines()
    if core.plan is None:
        lines.append("  not bound yet: waiting for the first batch, and so the schema, of both streams")
    else:
        lines += _plan_lines(core.plan)
    for k, stream in enumerate(core.streams):
        lines.append(_stream_line(core, k, stream))
    axis, watermark = core.arrivals.axis, core.arrivals.watermark
    if axis is not None and watermark > BOTTOM:
        lines.append(f"  watermark  {axis.text(watermark)}")
    lines.append(f"  result     {options['result']}: select {options['select']}")
    return "\n".join(lines)


def _plan_lines(plan: Plan) -> list[str]:
    def share(text: str) -> str:
        found = plan.selectivity.get(text)
        return f"   (about {found:.2g} of all pairs)" if found is not None else ""

    kinds = plan.kinds[0] if len(plan.kinds) == 1 else f"auto: one of {', '.join(plan.kinds)}"
    lines = [f"  index      {kinds}"]
    lines += [f"  driver     {text}{share(text)}" for text in plan.driver.texts]
    lines += [f"  check      {band.text}{share(band.text)}" for band in plan.checks]
    lines += [f"  filter {stream}   {expr}" for stream, expr in plan.condition.filters.items()]
    if plan.condition.residual is not None:
        lines.append(f"  residual   {plan.condition.residual}")
    return lines


def _stream_line(core: JoinCore, k: int, stream: str) -> str:
    chain = core.chains[k]
    kinds = Counter(core.indexes(k))
    held = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "none yet"
    return f"  stream {stream}   {core.windows[k]}: {chain.rows:,} rows in sub-windows: {held}"
