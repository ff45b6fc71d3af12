"""A join as plain data: what ``StreamJoin.describe()`` gives, and ``explain()`` and ``stats()`` show in part.

Dicts, lists, texts and numbers, nothing else: it can be logged as JSON. Looking changes nothing.
"""

from typing import Any

from watersmeet.api.options import JoinOptions
from watersmeet.api.tally import Tally
from watersmeet.join.binding import Schemas
from watersmeet.join.core import JoinCore
from watersmeet.join.plan import Plan
from watersmeet.streams.clock import BOTTOM


def describe(
    core: JoinCore, options: JoinOptions, schemas: Schemas, counters: Tally, ended: str
) -> dict[str, Any]:
    """Everything that is known of a join now. ``ended``: by what call, or ""."""
    arrived = int(core.arrivals.counts.sum())
    seconds = counters.seconds
    return {
        "options": options.to_json(),
        "flow": core.describe_flow(),
        "plan": None if core.plan is None else _plan(core.plan),
        "streams": {
            name: {
                "window": core.windows[k].to_json(),
                "schema": None if schema is None else {field.name: str(field.type) for field in schema},
                **_stream(core, k, counters.late[k]),
            }
            for k, (name, schema) in enumerate(zip(core.streams, schemas, strict=True))
        },
        "watermark": _watermark(core),
        "results": counters.results,
        "pushes": counters.pushes,
        "seconds": seconds,
        "rows_per_second": arrived / seconds if seconds else 0.0,
        "ended": ended,
    }


def _plan(plan: Plan) -> dict[str, Any]:
    """What drives the index, what is checked on candidates, and what is left of the condition."""

    def part(text: str) -> dict[str, Any]:
        share = plan.selectivity.get(text)
        return {"text": text, "selectivity": None if share is None else float(share)}

    residual = plan.condition.residual
    return {
        "indexes": list(plan.kinds),
        "drivers": [part(text) for text in plan.driver.texts],
        "checks": [part(band.text) for band in plan.checks],
        "filters": {name: str(expr) for name, expr in plan.condition.filters.items()},
        "residual": None if residual is None else str(residual),
    }


def _stream(core: JoinCore, k: int, late: int) -> dict[str, Any]:
    chain, payload = core.chains[k], core.payload[k]
    index_bytes, payload_bytes = core.index_bytes(k), 0 if payload is None else payload.nbytes
    return {
        "rows": chain.rows,
        "arrived": int(core.arrivals.counts[k]),
        "late": late,
        "subwindows": len(chain.subwindows),
        "indexes": core.indexes(k),
        "index_bytes": index_bytes,
        "payload_bytes": payload_bytes,
        "bytes": index_bytes + payload_bytes,
    }


def _watermark(core: JoinCore) -> dict[str, Any] | None:
    """Before it every row is late; None: there is none yet, or no stream has a time."""
    axis, code = core.arrivals.axis, core.arrivals.watermark
    return None if axis is None or code == BOTTOM else {"value": axis.value(code), "text": axis.text(code)}
