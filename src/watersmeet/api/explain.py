"""What ``StreamJoin.explain()`` and ``stats()`` show of a join's description: the plan in words, and the numbers."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from watersmeet.errors import listed
from watersmeet.flow.order import Order
from watersmeet.streams.window import window_from_json

COUNTS = ("rows", "arrived", "late", "subwindows", "indexes", "index_bytes", "payload_bytes", "bytes")
TOTALS = ("results", "pushes", "seconds", "rows_per_second")


def explain(facts: Mapping[str, Any]) -> str:
    """One line a fact, names first, so that a test or a person can find them."""
    options, streams = facts["options"], facts["streams"]
    lines = [f"StreamJoin {options['how']} of {listed(list(streams))}, {options['cores']} core(s)"]
    lines.append(f"  condition  {options['condition']}")
    if facts["flow"] is not None:
        lines += _flow_lines(facts["flow"])
    if facts["plan"] is None:
        every = "both" if len(streams) == 2 else "all"
        lines.append(f"  not bound yet: waiting for the first batch, and so the schema, of {every} streams")
    elif "orders" in facts["plan"]:
        lines += _order_lines(facts["plan"])
    else:
        lines += _plan_lines(facts["plan"])
    lines += [_stream_line(name, stream) for name, stream in streams.items()]
    if facts["watermark"] is not None:
        lines.append(f"  watermark  {facts['watermark']['text']}")
    lines.append(f"  result     {options['result']}: select {options['select']}")
    return "\n".join(lines)


def stats(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers alone."""
    watermark = facts["watermark"]
    return {
        "streams": {name: {key: stream[key] for key in COUNTS} for name, stream in facts["streams"].items()},
        **{key: facts[key] for key in TOTALS},
        "watermark": None if watermark is None else watermark["value"],
    }


def _flow_lines(flow: Mapping[str, Any]) -> list[str]:
    order = "none" if flow["order"] is None else str(Order(**flow["order"]))
    tuned = ", tuned to its target" if flow["tuned"] else ""
    lines = [
        f"  flow       {flow['name']} on {flow['cores']} core(s), up to {flow['granularity']:,} rows a message",
        f"  order      {order}{tuned}",
    ]
    if flow["collect"] is not None:
        most, seconds, waiting = (flow["collect"][key] for key in ("rows", "seconds", "waiting"))
        lines.append(f"  collect    up to {most:,} rows or {seconds:g} s a batch; {waiting:,} rows wait")
    return lines


def _plan_lines(plan: Mapping[str, Any]) -> list[str]:
    def line(what: str, part: Mapping[str, Any]) -> str:
        share = part["selectivity"]
        about = "" if share is None else f"   (about {share:.2g} of all pairs)"
        return f"  {what:<10} {part['text']}{about}"

    *others, last = plan["indexes"]
    kinds = f"auto: one of {', '.join(plan['indexes'])}" if others else last
    lines = [f"  index      {kinds}"]
    lines += [line("driver", part) for part in plan["drivers"]]
    lines += [line("check", part) for part in plan["checks"]]
    lines += [f"  filter {name}   {text}" for name, text in plan["filters"].items()]
    if plan["residual"] is not None:
        lines.append(f"  residual   {plan['residual']}")
    return lines


def _order_lines(plan: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, steps in plan["orders"].items():
        for place, step in enumerate(steps):
            head = f"  order {name:<4}" if place == 0 else " " * 12
            measured = "" if step["measured"] is None else f", {_about(step['measured'])} measured"
            by = " and ".join(step["drivers"]) or "nothing: a product, every row is a candidate"
            lines.append(
                f"{head} -> {step['stream']} by {by}   (about {_about(step['expected'])} for each{measured})"
            )
            lines += [f"{' ' * 15} check {text}" for text in [*step["checks"], *step["residuals"]]]
    stash = plan["stash"]
    if stash is not None:
        state = (
            "complete" if stash["complete"] else "not complete: older rows are looked for in the plain way"
        )
        lines.append(
            f"  stash      for {stash['hot']}: pairs of {' and '.join(stash['pair'])}, {stash['entries']:,} of {stash['room']:,}, {state}"
        )
    if len(plan["linked"]) > 1:
        parts = " from ".join(listed(part) for part in plan["linked"])
        lines.append(f"  warning    no comparison leads to {parts}: a product, which grows with the windows")
    lines += [f"  filter {name}   {text}" for name, text in plan["filters"].items()]
    return lines


def _about(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}"


def _stream_line(name: str, stream: Mapping[str, Any]) -> str:
    kinds = Counter(stream["indexes"])
    held = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "none yet"
    window = window_from_json(stream["window"])
    return f"  stream {name}   {window}: {stream['rows']:,} rows in sub-windows: {held}"
