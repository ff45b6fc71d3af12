"""A join as plain data: what ``StreamJoin.describe()`` gives, and ``explain()`` and ``stats()`` show in part.

Dicts, lists, texts and numbers, nothing else: it can be logged as JSON. Looking changes nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from watersmeet.api.options import JoinOptions
from watersmeet.api.tally import Tally
from watersmeet.join.access import StepAccess
from watersmeet.join.binding import Schemas
from watersmeet.join.interface import Engine
from watersmeet.join.orders import Orders
from watersmeet.join.plan import Plan
from watersmeet.streams.clock import BOTTOM


def describe(
    engine: Engine, options: JoinOptions, schemas: Schemas, counters: Tally, ended: str
) -> dict[str, Any]:
    """Everything that is known of a join now. ``ended``: by what call, or ""."""
    arrived = int(engine.ledger.arrivals.counts.sum())
    seconds = counters.seconds
    return {
        "options": options.to_json(),
        "flow": engine.describe_flow(),
        "plan": _plan(engine),
        "streams": {
            name: {
                "window": engine.ledger.windows[k].to_json(),
                "schema": None if schema is None else {field.name: str(field.type) for field in schema},
                **_stream(engine, k, counters.late[k]),
            }
            for k, (name, schema) in enumerate(zip(engine.ledger.streams, schemas, strict=True))
        },
        "watermark": _watermark(engine),
        "results": counters.results,
        "pushes": counters.pushes,
        "seconds": seconds,
        "rows_per_second": arrived / seconds if seconds else 0.0,
        "ended": ended,
    }


def _plan(engine: Engine) -> dict[str, Any] | None:
    plan = engine.planning.plan
    if plan is None:
        return None
    return _orders(engine, plan) if isinstance(plan, Orders) else _pair_plan(plan)


def _orders(engine: Engine, plan: Orders) -> dict[str, Any]:
    """In which order each arriving stream probes the others, and by what."""
    names, orders = engine.ledger.streams, {}
    for k, steps in enumerate(plan.steps):
        described = []
        for step, expected in zip(steps, plan.fanouts[k], strict=True):
            arrangement = plan.arrangements[step.stream][step.by]
            measured = engine.planning.learnt.fanouts.get(step.edge)
            described.append(
                {
                    "stream": names[step.stream],
                    "index": arrangement.text,
                    "indexes": list(arrangement.kinds),
                    "drivers": [link.text for link in step.drivers],
                    "checks": [link.text for link in step.checks if link not in step.drivers],
                    "residuals": [str(residual.expr) for residual in step.residuals],
                    "expected": float(expected),
                    "measured": None if measured is None else float(measured),
                }
            )
        orders[names[k]] = described
    linked = _linked(names, [band.streams for band in plan.condition.bands])
    return {
        "orders": orders,
        "linked": linked,
        "stash": _stash(engine),
        "filters": {name: str(expr) for name, expr in plan.condition.filters.items()},
    }


def _stash(engine: Engine) -> dict[str, Any] | None:
    stash = engine.planning.access.stash if isinstance(engine.planning.access, StepAccess) else None
    if stash is None:
        return None
    return {
        "hot": engine.ledger.streams[stash.plan.hot],
        "pair": [engine.ledger.streams[k] for k in stash.plan.pair],
        "drivers": [link.text for link in stash.plan.drivers],
        "entries": stash.held,
        "room": stash.rows,
        "overwritten": stash.overwritten,
        "complete": stash.complete_from <= engine.ledger.chains[stash.plan.pair[0]].first,
        "bytes": stash.nbytes,
    }


def _linked(names: Sequence[str], pairs: Iterable[Sequence[str]]) -> list[list[str]]:
    """The streams in parts that no comparison links."""
    parts = [{name} for name in names]
    for pair in pairs:
        touched = [part for part in parts if part.intersection(pair)]
        parts = [part for part in parts if part not in touched] + [set().union(*touched)]
    return sorted(
        ([name for name in names if name in part] for part in parts), key=lambda part: names.index(part[0])
    )


def _pair_plan(plan: Plan) -> dict[str, Any]:
    """What drives the index, what is checked on candidates, and what is left of the condition."""

    def part(text: str, share: float | None = None) -> dict[str, Any]:
        share = plan.selectivity.get(text, share)
        return {"text": text, "selectivity": None if share is None else float(share)}

    residual = plan.condition.residual
    return {
        "indexes": list(plan.kinds),
        "drivers": [part(text, plan.share) for text in plan.driver.texts],
        "checks": [part(band.text) for band in plan.checks],
        "filters": {name: str(expr) for name, expr in plan.condition.filters.items()},
        "residual": None if residual is None else str(residual),
    }


def _stream(engine: Engine, k: int, late: int) -> dict[str, Any]:
    chain, payload = engine.ledger.chains[k], engine.ledger.payload[k]
    index_bytes, payload_bytes = engine.index_bytes(k), 0 if payload is None else payload.nbytes
    return {
        "rows": chain.rows,
        "arrived": int(engine.ledger.arrivals.counts[k]),
        "late": late,
        "subwindows": len(chain.subwindows),
        "indexes": engine.indexes(k),
        "index_bytes": index_bytes,
        "payload_bytes": payload_bytes,
        "bytes": index_bytes + payload_bytes,
    }


def _watermark(engine: Engine) -> dict[str, Any] | None:
    """Before it every row is late; None: there is none yet, or no stream has a time."""
    axis, code = engine.ledger.arrivals.axis, engine.ledger.arrivals.watermark
    return None if axis is None or code == BOTTOM else {"value": axis.value(code), "text": axis.text(code)}
