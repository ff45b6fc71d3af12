"""The flows by name, and which of them can do what."""

from dataclasses import fields
from typing import Any

from watersmeet.errors import OptionError
from watersmeet.flow.base import Flow
from watersmeet.flow.handshake import Handshake
from watersmeet.flow.low_latency_handshake import LowLatencyHandshake
from watersmeet.flow.options import FlowOptions, check_options, uses_flow
from watersmeet.flow.pan_join import PanJoin
from watersmeet.flow.split_join import SplitJoin
from watersmeet.flow.three_step import ThreeStep
from watersmeet.flow.work import Work
from watersmeet.join.outer import join_type

FLOWS: dict[str, type[Flow]] = {
    flow.name: flow for flow in (ThreeStep, Handshake, LowLatencyHandshake, SplitJoin, PanJoin)
}
QUEUE = 16  # loads a link holds at least; more where loads are small: waking a thread costs more than a row
QUEUE_ROWS = 4096
FANOUT = 4
FLOW_ONLY = ("granularity", "fanout", "queue", "collect")


def flow_class(options: FlowOptions) -> type[Flow]:
    """The flow that was asked for, or that an order needs; refuses what it cannot do."""
    name = options.flow
    if name is None:
        name = "split_join" if options.cores > 1 else "three_step"
    if name not in FLOWS:
        raise OptionError(f"flow= must be one of {', '.join(FLOWS)}; got {name!r}")
    flow = FLOWS[name]
    if options.order != "none" and not flow.orders:
        able = ", ".join(repr(other.name) for other in FLOWS.values() if other.orders)
        raise OptionError(f"flow={name!r} cannot promise order={options.order!r}; flows that can: {able}")
    if options.on_core_failure == "continue" and not flow.goes_on:
        able = ", ".join(repr(other.name) for other in FLOWS.values() if other.goes_on)
        raise OptionError(
            f"flow={name!r} cannot go on without a core, as on_core_failure='continue' asks; flows that can: {able}"
        )
    if name == "three_step" and options.cores > 1:
        raise OptionError(f"flow='three_step' runs on one core; got cores={options.cores}")
    if options.fanout is not None and name != "split_join":
        raise OptionError(f"fanout= goes with flow='split_join'; got flow={name!r}")
    if options.collect is not None and name != "pan_join":
        raise OptionError(f"collect= goes with flow='pan_join'; got flow={name!r}")
    return flow


def make_flow(kind: type[Flow], work: Work, options: FlowOptions) -> Flow:
    """A network of idle cores."""
    queue = options.queue or max(QUEUE, min(1024, QUEUE_ROWS // (options.granularity or kind.granularity)))
    if kind is ThreeStep:
        return ThreeStep(work, queue)
    if kind is Handshake or kind is LowLatencyHandshake:
        return kind(work, queue)
    if kind is SplitJoin:
        return SplitJoin(work, queue, options.fanout or FANOUT, options.order != "none")
    if kind is PanJoin:
        return PanJoin(work, queue)
    raise NotImplementedError(kind)


def checked_flow(options: FlowOptions, how: str, result: str) -> dict[str, Any]:
    """The options of a flow as they are saved; refuses what cannot be done."""
    check_options(options)
    given = {field.name: getattr(options, field.name) for field in fields(options) if field.name != "cores"}
    if not uses_flow(options):
        extra = [name for name in FLOW_ONLY if given[name] is not None] + ["on_core_failure"] * (
            options.on_core_failure != "raise"
        )
        if extra:
            raise OptionError(
                f"{extra[0]}= goes with a flow; got no flow=, which may be one of {', '.join(FLOWS)}"
            )
        return given
    flow_class(options)
    if options.order != "none" and result != "pairs":
        raise OptionError(
            f"order={options.order!r} needs result='pairs', which can be put in order; got result={result!r}"
        )
    if options.order != "none" and not join_type(how).pairs:
        raise OptionError(f"order={options.order!r} is an order of pairs; got how={how!r}, which gives none")
    return given
