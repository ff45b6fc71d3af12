"""The options of a join as one frozen value, checked when it is made."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from watersmeet.errors import OptionError
from watersmeet.flow.catalog import flow_model
from watersmeet.flow.options import MODELS, FlowModel, FlowOptions
from watersmeet.join.outer import How, join_type
from watersmeet.join.plan import INDEXES
from watersmeet.join.planner import checked_orders

MODES = ("pairs", "count", "ranges")


@dataclass(frozen=True, kw_only=True)
class JoinOptions(FlowOptions):
    """What ``StreamJoin`` was told beside its streams: its keywords, each a field. Those of a flow value stand here one by one.

    >>> JoinOptions(condition="r.x = s.a", order="outer").model
    ThreeStep(order='outer', precision=None, target_rate=None, target_latency=None, granularity=None, queue=None)
    """

    condition: str
    how: str = "inner"
    select: str = "*"
    index: str = "auto"
    cores: int = 1
    result: str = "pairs"
    subwindow: int | None = None
    flow: str | None = None
    order: str = "none"
    precision: int | None = None
    granularity: int | None = None
    fanout: int | None = None
    queue: int | None = None
    on_core_failure: str = "raise"
    target_rate: float | None = None
    target_latency: float | None = None
    collect: str | float | None = None
    probe_order: Mapping[str, Sequence[str]] | None = None
    stash: str | int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.condition, str):
            raise OptionError(f"the condition must be SQL text; got {self.condition!r}")
        if not isinstance(self.select, str):
            raise OptionError(f"select= must be a SQL select list; got {self.select!r}")
        kind = join_type(self.how)
        for name, value, allowed in (("index", self.index, INDEXES), ("result", self.result, MODES)):
            if value not in allowed:
                raise OptionError(f"{name}= must be one of {', '.join(allowed)}; got {value!r}")
        rows: Any = self.subwindow
        if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
            raise OptionError(f"subwindow= must be a whole number of at least 1; got {rows!r}")
        if isinstance(self.probe_order, Mapping):  # plain data, whatever was given
            plain = {
                name: list(order) if isinstance(order, list | tuple) else order
                for name, order in self.probe_order.items()
            }
            object.__setattr__(self, "probe_order", plain)
        self.check()
        if self.model is not None and self.order != "none":
            if self.result != "pairs":
                raise OptionError(
                    f"order={self.order!r} needs result='pairs', which can be put in order; got result={self.result!r}"
                )
            if not kind.pairs:
                raise OptionError(
                    f"order={self.order!r} is an order of pairs; got how={self.how!r}, which gives none"
                )

    @property
    def kind(self) -> How:
        """The join type."""
        return join_type(self.how)

    @cached_property
    def model(self) -> FlowModel | None:
        """The flow that runs the join, with its options: the one that was asked for, or that the order needs."""
        return flow_model(self.flow, self)

    def check_streams(self, streams: Sequence[str]) -> None:
        """Refuse what so many streams cannot have."""
        given = len(streams)
        if self.model is not None:
            self._check_flow(self.model, given)
        if given == 2:
            if self.probe_order is not None:
                raise OptionError(
                    f"probe_order= must have three streams or more; got {' and '.join(map(repr, streams))}"
                )
            if self.stash is not None:
                raise OptionError(
                    f"stash= must have three streams or more; got {' and '.join(map(repr, streams))}"
                )
            return
        if self.kind.name != "inner":
            raise OptionError(
                f"how={self.how!r} must have two streams; got {given}; chain two-way joins: push what one gives to the next, whose "
                "window has lateness= of at least the first one's Range duration plus its lateness: rows without a partner come that late"
            )
        if self.result == "ranges":
            raise OptionError(
                f"result='ranges' must have two streams; got {given}; use result='pairs' or 'count'"
            )
        if self.probe_order is not None and self.model is not None and self.model.one_order:
            raise OptionError(
                f"probe_order= must be left out with flow={self.model.name!r}, whose cores fix the order of the streams; got "
                f"{self.probe_order!r}"
            )
        checked_orders(self.probe_order, streams)

    def _check_flow(self, model: FlowModel, given: int) -> None:
        least, most = model.streams
        if least <= given <= most:
            return
        asked = f"flow={model.name!r}" if self.order == "none" else f"order={self.order!r}"
        able = ", ".join(
            repr(name) for name, other in MODELS.items() if other.streams[0] <= given <= other.streams[1]
        )
        if most == 2:
            does = "two streams"
        else:
            does = "three streams" if most == 3 else "three streams or more"
        raise OptionError(
            f"{asked} must have {does}; got {given}; leave it out, or use one of the flows {able}"
            + ("" if given == 2 else "; or chain two-way joins")
        )

    def to_json(self) -> dict[str, Any]:
        """As a saved state has it."""
        data = asdict(self)
        for name in ("probe_order", "stash"):  # two streams have none
            if data[name] is None:
                del data[name]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "JoinOptions":
        return cls(**data)
