"""The options of a flow, checked when a join is made."""

from dataclasses import dataclass
from typing import Any

from watersmeet.errors import OptionError
from watersmeet.flow.adaptive import Tuner
from watersmeet.flow.collect import collecting_time
from watersmeet.flow.order import Order

ORDERS = ("none", "outer", "inner", "adaptive")
ON_FAILURE = ("raise", "continue")
DEFAULT_GRANULARITY = 8192


@dataclass(frozen=True)
class FlowOptions:
    """What ``StreamJoin`` was given; None: not given."""

    flow: str | None = None
    cores: int = 1
    order: str = "none"
    precision: int | None = None
    granularity: int | None = None
    fanout: int | None = None
    queue: int | None = None
    on_core_failure: str = "raise"
    target_rate: float | None = None
    target_latency: float | None = None
    collect: str | float | None = None

    @property
    def tuner(self) -> Tuner | None:
        return Tuner(self.target_rate, self.target_latency) if self.order == "adaptive" else None

    @property
    def fixed_order(self) -> Order | None:
        return Order(self.order, self.precision or 1) if self.order in ("outer", "inner") else None


def check_options(options: FlowOptions) -> None:
    """Refuse what makes no sense, whatever the flow."""
    if options.order not in ORDERS:
        raise OptionError(f"order= must be one of {', '.join(ORDERS)}; got {options.order!r}")
    if options.on_core_failure not in ON_FAILURE:
        raise OptionError(
            f"on_core_failure= must be one of {', '.join(ON_FAILURE)}; got {options.on_core_failure!r}"
        )
    for name, least in (("precision", 1), ("granularity", 1), ("fanout", 2), ("queue", 1)):
        value: Any = getattr(options, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise OptionError(f"{name}= must be a whole number of at least {least}; got {value!r}")
    for name in ("target_rate", "target_latency"):
        value = getattr(options, name)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or value <= 0
        ):
            raise OptionError(f"{name}= must be a number above 0; got {value!r}")
    targets = [name for name in ("target_rate", "target_latency") if getattr(options, name) is not None]
    if options.order == "adaptive" and len(targets) != 1:
        raise OptionError(
            "order='adaptive' needs target_rate= (rows a second) or target_latency= (seconds a push); got "
            + (" and ".join(targets) or "neither")
        )
    if options.order != "adaptive" and targets:
        raise OptionError(f"{targets[0]}= goes with order='adaptive'; got order={options.order!r}")
    if options.collect is not None:
        collecting_time(options.collect)
    if options.precision is not None and options.order not in ("outer", "inner"):
        raise OptionError(f"precision= goes with order='outer' or 'inner'; got order={options.order!r}")


def uses_flow(options: FlowOptions) -> bool:
    """Whether a network is needed at all: a join without a flow and an order has its cores work on one chain."""
    return options.flow is not None or options.order != "none"
