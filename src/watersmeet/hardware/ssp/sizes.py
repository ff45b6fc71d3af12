"""How large the hardware of a fabric is built: what a topology leaves open."""

from dataclasses import dataclass

from watersmeet.errors import OptionError
from watersmeet.fabric.components import Unit


@dataclass(frozen=True)
class Sizes:
    """Parameters of the hardware.

    - ``streams``: stream-IDs that switches know. ``row``, ``result``: segments of 64 bits of a row that is joined (a power of two), and of
      what a join gives; selections take rows of ``result``.
    - ``table``: places of each of the four hash tables of a window. ``terms``: comparisons of a join.
    - ``key``: segments of a group's key; ``aggregates``, ``steps``, ``groups``: of an aggregation. ``sort_keys``: of an order.
    - ``riders``: selections that may ride on a join, an aggregation or an order. ``skew``: rows that may wait in a
      synchroniser.
    """

    streams: int = 32
    row: int = 2
    result: int = 4
    table: int = 2048
    terms: int = 4
    key: int = 2
    aggregates: int = 4
    steps: int = 4
    groups: int = 1024
    sort_keys: int = 2
    riders: int = 0
    skew: int = 64

    def __post_init__(self) -> None:
        for name in ("row", "table", "groups"):
            value = getattr(self, name)
            if value < 1 or value & (value - 1):
                raise OptionError(f"{name} must be a power of two; got {value}")
        for name in ("streams", "result", "terms", "key", "aggregates", "steps", "sort_keys"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1; got {getattr(self, name)}")
        if self.wide > 16:
            raise OptionError(f"key and aggregates must be at most 16 segments together; got {self.wide}")

    @property
    def wide(self) -> int:
        """Segments of a group, and of a row that is sorted."""
        return max(self.key + self.aggregates, self.result)

    def slots(self, unit: Unit) -> int:
        """Selections and projections that a unit can have: each takes a comparison and a constant."""
        if unit.kind in ("selection", "projection", "op_block"):
            return min(8, max(1, unit.memory // 2))
        return self.riders
