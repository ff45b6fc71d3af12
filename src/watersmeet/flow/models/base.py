"""What the driver needs of a flow."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol

from watersmeet.flow.models.message import Mark
from watersmeet.flow.network import Link, Message, Network
from watersmeet.flow.options import DEFAULT_GRANULARITY
from watersmeet.join.chain import SubWindow

Sending = Iterator[tuple[Link, Message]]


class Keeper(Protocol):
    """A core from outside. ``missing``: what went with it, once it has failed and the others go on."""

    missing: Any

    def subwindows(self, side: int, /) -> Sequence[SubWindow]:
        """The sub-windows of a stream that are here."""


class Flow:
    """A network of cores, and how to send rows into it, as ``Load`` and ``Part``, or of many streams as ``MultiLoad`` and ``MultiPart``."""

    name: ClassVar[str]
    prompt: ClassVar[bool] = True  # whether a row meets all stored rows as soon as it has been processed
    granularity: ClassVar[int] = DEFAULT_GRANULARITY  # rows a message, unless the user says how many

    network: Network
    cores: list[Any]  # each a ``Keeper``

    def place(self, part: Any) -> None:
        """Give stored rows back to the cores, before anything moves: rows that have met everything there was."""
        raise NotImplementedError

    def send(self, load: Any) -> Sending:
        """What to put where for a load."""
        raise NotImplementedError

    def send_mark(self, mark: Mark) -> Sending:
        """What to put where at the end of a push."""
        raise NotImplementedError

    def send_drain(self, mark: Mark) -> Sending:
        """What to put where at the end of the streams: before the mark comes out, all rows have met."""
        return self.send_mark(mark)

    def note(self, message: Message) -> None:
        """Called by the driver with everything that leaves: status that a flow wants to know of."""

    def borders(self) -> list[list[int]] | None:
        """Not prompt: by core [first r, after the last r, first s, after the last s], while nothing moves. Saved with the rows."""
        return None

    def place_between(self, borders: list[list[int]]) -> None:
        """Not prompt: the borders that the rows placed from now on are to be placed by."""
