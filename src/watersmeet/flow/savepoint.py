"""Where to go back to, should a push fail: one place that knows what a push may change.

What a push changes it replaces (numbers, the plan, lists that shrink), appends to (chunks, sub-windows) or writes down itself (flags). So
references and lengths are enough: taking a savepoint copies no row, and going back is a few assignments, which may be repeated.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from watersmeet.join.flags import Flags


class Attributes:
    """Names of attributes, to be read in one go: a savepoint is taken at every push."""

    __slots__ = ("names", "read")

    def __init__(self, first: str, second: str, *others: str) -> None:
        self.names = (first, second, *others)
        self.read = attrgetter(*self.names)


class Savepoint:
    """Values of attributes and lengths of lists, as they were, and where flags stood."""

    __slots__ = ("_flags", "_lengths", "_values")

    def __init__(self, flags: Sequence[Flags | None]) -> None:
        self._flags = [(one, one.mark()) for one in flags if one is not None]
        self._values: list[tuple[Any, tuple[str, ...], tuple[Any, ...]]] = []
        self._lengths: list[tuple[list[Any], int]] = []

    def keep(self, thing: Any, attributes: Attributes) -> None:
        """Attributes that are replaced."""
        self._values.append((thing, attributes.names, attributes.read(thing)))

    def keep_value(self, thing: Any, name: str, value: Any) -> None:
        """One attribute; if it is changed in place, a copy of it."""
        self._values.append((thing, (name,), (value,)))

    def keep_length(self, grown: list[Any]) -> None:
        """A list that is appended to, or left alone and replaced by another."""
        self._lengths.append((grown, len(grown)))

    def restore(self) -> None:
        for flags, mark in self._flags:
            flags.back_to(mark)
        for grown, length in self._lengths:
            del grown[length:]
        for thing, names, values in self._values:
            for name, value in zip(names, values, strict=True):
                setattr(thing, name, value)
