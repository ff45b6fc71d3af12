"""What can be said of a flow, and the flows as values: ``flow=SplitJoin(cores=2, fanout=4)``.

A flow has as fields what it can use. Nothing else can be said to it, and whatever asks it for the rest gets the value that holds
without being said, from ``FlowOptions``. Values are frozen, and checked when they are made.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from watersmeet.errors import OptionError
from watersmeet.flow.adaptive import Tuner
from watersmeet.flow.collect import collecting_time
from watersmeet.flow.order import Order

ORDERS = ("none", "outer", "inner", "adaptive")
ON_FAILURE = ("raise", "continue")
LEAST = {"cores": 1, "precision": 1, "granularity": 1, "fanout": 2, "queue": 1}
DEFAULT_GRANULARITY = 8192


class FlowOptions:
    """All options of flows; None: worked out. Subclasses are dataclasses, with those as fields that can be said to them."""

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
    stash: str | int | None = None

    @property
    def tuner(self) -> Tuner | None:
        """What finds the order, if it is adaptive."""
        return Tuner(self.target_rate, self.target_latency) if self.order == "adaptive" else None

    @property
    def fixed_order(self) -> Order | None:
        """The order, if it is the same for every push."""
        return Order(self.order, self.precision or 1) if self.order in ("outer", "inner") else None

    def check(self) -> None:
        """Refuse what makes no sense, whatever the flow."""
        if self.order not in ORDERS:
            raise OptionError(f"order= must be one of {', '.join(ORDERS)}; got {self.order!r}")
        if self.on_core_failure not in ON_FAILURE:
            raise OptionError(
                f"on_core_failure= must be one of {', '.join(ON_FAILURE)}; got {self.on_core_failure!r}"
            )
        for name, least in LEAST.items():
            value: Any = getattr(self, name)
            if value is None and name != "cores":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise OptionError(f"{name}= must be a whole number of at least {least}; got {value!r}")
        self._check_targets()
        if self.collect is not None:
            collecting_time(self.collect)
        entries: Any = self.stash
        whole = isinstance(entries, int) and not isinstance(entries, bool) and entries >= 1
        if entries is not None and entries != "auto" and not whole:
            raise OptionError(
                f"stash= must be 'auto', a whole number of entries of at least 1, or None; got {entries!r}"
            )
        if self.precision is not None and self.order not in ("outer", "inner"):
            raise OptionError(f"precision= goes with order='outer' or 'inner'; got order={self.order!r}")

    def _check_targets(self) -> None:
        targets = {"target_rate": self.target_rate, "target_latency": self.target_latency}
        given = [name for name, value in targets.items() if value is not None]
        for name in given:
            value: Any = targets[name]
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise OptionError(f"{name}= must be a number above 0; got {value!r}")
        if self.order == "adaptive" and len(given) != 1:
            raise OptionError(
                "order='adaptive' needs target_rate= (rows a second) or target_latency= (seconds a push); got "
                + (" and ".join(given) or "neither")
            )
        if self.order != "adaptive" and given:
            raise OptionError(f"{given[0]}= goes with order='adaptive'; got order={self.order!r}")


@dataclass(frozen=True, kw_only=True)
class FlowModel(FlowOptions):
    """A flow with its options, as a value."""

    name: ClassVar[str]  # as in flow="split_join"
    streams: ClassVar[tuple[int, int]] = (2, 2)  # how many it joins, at least and at most
    one_order: ClassVar[bool] = False  # of many streams: whether their probe orders follow from the network

    def __post_init__(self) -> None:
        self.check()

    @classmethod
    def takes(cls, option: str) -> bool:
        """Whether an option can be said to this flow."""
        return option in (field.name for field in fields(cls))

    def cores_for(self, streams: int) -> int:
        """How many cores it has for so many streams."""
        return self.cores


@dataclass(frozen=True, kw_only=True)
class ThreeStep(FlowModel):
    """One core that scans, inserts and invalidates: the reference.

    >>> ThreeStep(order="outer", precision=8).fixed_order
    Order(kind='outer', precision=8)
    """

    name: ClassVar[str] = "three_step"
    order: str = "none"
    precision: int | None = None
    target_rate: float | None = None
    target_latency: float | None = None
    granularity: int | None = None
    queue: int | None = None


@dataclass(frozen=True, kw_only=True)
class Handshake(FlowModel):
    """Streams walk past each other along a line of cores. No order can be promised."""

    name: ClassVar[str] = "handshake"
    cores: int = 1
    granularity: int | None = None
    queue: int | None = None


@dataclass(frozen=True, kw_only=True)
class LowLatencyHandshake(FlowModel):
    """Every row passes all cores of a line at once, and stays in one of them. No order can be promised."""

    name: ClassVar[str] = "low_latency_handshake"
    cores: int = 1
    granularity: int | None = None
    queue: int | None = None


@dataclass(frozen=True, kw_only=True)
class SplitJoin(FlowModel):
    """A tree of ``fanout`` hands every row to every core; each stores its share."""

    name: ClassVar[str] = "split_join"
    cores: int = 1
    fanout: int | None = None
    order: str = "none"
    precision: int | None = None
    target_rate: float | None = None
    target_latency: float | None = None
    granularity: int | None = None
    queue: int | None = None
    on_core_failure: str = "raise"


@dataclass(frozen=True, kw_only=True)
class PanJoin(FlowModel):
    """A manager sends sorted batches and commands to workers; ``collect``: how long rows may wait for a batch to fill."""

    name: ClassVar[str] = "pan_join"
    cores: int = 1
    collect: str | float | None = None
    order: str = "none"
    precision: int | None = None
    target_rate: float | None = None
    target_latency: float | None = None
    granularity: int | None = None
    queue: int | None = None
    on_core_failure: str = "raise"


MANY = (3, 32)


@dataclass(frozen=True, kw_only=True)
class LinearMJ(FlowModel):
    """Many streams: a line of cores, one a step; every core can look through every stream."""

    name: ClassVar[str] = "linear_mj"
    streams: ClassVar[tuple[int, int]] = MANY
    granularity: int | None = None
    queue: int | None = None

    def cores_for(self, streams: int) -> int:
        return streams - 1


@dataclass(frozen=True, kw_only=True)
class CircularMJ(FlowModel):
    """Many streams: a ring of cores, one a stream; partial results go round."""

    name: ClassVar[str] = "circular_mj"
    streams: ClassVar[tuple[int, int]] = MANY
    one_order: ClassVar[bool] = True
    granularity: int | None = None
    queue: int | None = None

    def cores_for(self, streams: int) -> int:
        return streams


@dataclass(frozen=True, kw_only=True)
class StashedMJ(FlowModel):
    """Three streams on two cores; ``stash``: how many pairs of two of them are kept for the third, which arrives most often.

    >>> StashedMJ(stash=4096).cores_for(3)
    2
    """

    name: ClassVar[str] = "stashed_mj"
    streams: ClassVar[tuple[int, int]] = (3, 3)
    one_order: ClassVar[bool] = True
    stash: str | int | None = None
    granularity: int | None = None
    queue: int | None = None

    def cores_for(self, streams: int) -> int:
        return 2


@dataclass(frozen=True, kw_only=True)
class ParallelMJ(FlowModel):
    """Many streams: a tree of ``fanout`` hands every row to every core; one stream is dealt out, the others are whole on each."""

    name: ClassVar[str] = "parallel_mj"
    streams: ClassVar[tuple[int, int]] = MANY
    cores: int = 1
    fanout: int | None = None
    granularity: int | None = None
    queue: int | None = None


MODELS: dict[str, type[FlowModel]] = {
    model.name: model
    for model in (
        ThreeStep,
        Handshake,
        LowLatencyHandshake,
        SplitJoin,
        PanJoin,
        LinearMJ,
        CircularMJ,
        StashedMJ,
        ParallelMJ,
    )
}
