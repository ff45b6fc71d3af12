"""The flows by name, and which of them can do what."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from watersmeet.errors import OptionError
from watersmeet.flow.models.base import Flow
from watersmeet.flow.models.handshake import HandshakeFlow
from watersmeet.flow.models.low_latency_handshake import LowLatencyHandshakeFlow
from watersmeet.flow.models.multiway.circular import CircularMJFlow
from watersmeet.flow.models.multiway.linear import LinearMJFlow
from watersmeet.flow.models.multiway.parallel import ParallelMJFlow
from watersmeet.flow.models.multiway.stage import MultiwayFlow, MultiWork
from watersmeet.flow.models.multiway.stashed import StashedMJFlow
from watersmeet.flow.models.pan_join import PanJoinFlow
from watersmeet.flow.models.split_join import SplitJoinFlow
from watersmeet.flow.models.three_step import ThreeStepFlow
from watersmeet.flow.models.work import Work
from watersmeet.flow.options import MODELS, FlowModel, FlowOptions, ParallelMJ, SplitJoin

FLOWS: dict[str, type[Flow]] = {
    flow.name: flow
    for flow in (ThreeStepFlow, HandshakeFlow, LowLatencyHandshakeFlow, SplitJoinFlow, PanJoinFlow)
}
MULTIWAY: dict[str, type[MultiwayFlow]] = {
    flow.name: flow for flow in (LinearMJFlow, CircularMJFlow, StashedMJFlow, ParallelMJFlow)
}
QUEUE = 16  # loads a link holds at least; more where loads are small: waking a thread costs more than a row
QUEUE_ROWS = 4096
FANOUT = 4


def spelled_out(flow: object, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """``flow=`` and the keywords beside it with a flow value taken apart. What stands at its default has not been said."""
    if not isinstance(flow, FlowModel):
        return {"flow": flow, **keywords}
    said = {}
    for option in fields(flow):
        name, value = option.name, getattr(flow, option.name)
        if value != option.default:
            if keywords[name] not in (option.default, value):
                raise OptionError(
                    f"{name}= must be the same wherever it is given; got {name}={keywords[name]!r} beside "
                    f"{type(flow).__name__}({name}={value!r}); leave one of them out"
                )
            said[name] = value
    return {"flow": flow.name, **keywords, **said}


def flow_model(name: object, options: FlowOptions) -> FlowModel | None:
    """The flow that was asked for, or that an order needs, with what was said to it; None: none is needed. Refuses what it cannot do."""
    if name is None:
        if options.order == "none":
            _refuse_without_flow(options)
            return None
        name = "split_join" if options.cores > 1 else "three_step"
    if not isinstance(name, str) or name not in MODELS:
        shown = f"the class {name.__name__}; say {name.__name__}()" if isinstance(name, type) else repr(name)
        raise OptionError(f"flow= must be one of {', '.join(MODELS)}; got {shown}")
    model = MODELS[name]
    if options.order != "none" and not model.takes("order"):
        raise OptionError(
            f"flow={name!r} cannot promise order={options.order!r}; flows that can: {_able('order')}"
        )
    if options.on_core_failure == "continue" and not model.takes("on_core_failure"):
        raise OptionError(
            f"flow={name!r} cannot go on without a core, as on_core_failure='continue' asks; flows that can: "
            + _able("on_core_failure")
        )
    if options.cores > 1 and not model.takes("cores"):
        why = "runs on one core" if model.streams == (2, 2) else "has as many cores as its streams need"
        raise OptionError(f"flow={name!r} {why}; got cores={options.cores}")
    for option in ("fanout", "collect", "stash"):
        if getattr(options, option) is not None and not model.takes(option):
            raise OptionError(f"{option}= goes with flow={_able(option)}; got flow={name!r}")
    return model(**{field.name: getattr(options, field.name) for field in fields(model)})


def _able(option: str) -> str:
    return ", ".join(repr(name) for name, model in MODELS.items() if model.takes(option))


def _refuse_without_flow(options: FlowOptions) -> None:
    given = [
        name for name in ("granularity", "fanout", "queue", "collect") if getattr(options, name) is not None
    ]
    if options.on_core_failure != "raise":
        given.append("on_core_failure")
    if given:
        raise OptionError(
            f"{given[0]}= goes with a flow; got no flow=, which may be one of {', '.join(MODELS)}"
        )


def _queue(model: FlowModel, kind: type[Flow]) -> int:
    return model.queue or max(QUEUE, min(1024, QUEUE_ROWS // (model.granularity or kind.granularity)))


def make_flow(work: Work, model: FlowModel) -> Flow:
    """A network of idle cores."""
    kind: Any = FLOWS[model.name]
    queue = _queue(model, kind)
    if isinstance(model, SplitJoin):
        return SplitJoinFlow(work, queue, model.fanout or FANOUT, model.order != "none")
    flow: Flow = kind(work, queue)
    return flow


def make_multiway_flow(work: MultiWork, model: FlowModel, busiest: int) -> MultiwayFlow:
    """The same of many streams. ``busiest``: the stream that arrives most often: it is dealt out, where one is."""
    kind: Any = MULTIWAY[model.name]
    queue = _queue(model, kind)
    if isinstance(model, ParallelMJ):
        return ParallelMJFlow(work, queue, model.fanout or FANOUT, busiest)
    flow: MultiwayFlow = kind(work, queue)
    return flow
