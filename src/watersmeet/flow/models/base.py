"""What the driver needs of a flow."""

from collections.abc import Iterator
from typing import ClassVar

from watersmeet.flow.models.core import Core
from watersmeet.flow.models.load import Load, Part
from watersmeet.flow.models.message import Mark
from watersmeet.flow.models.work import Work
from watersmeet.flow.network import Link, Message, Network
from watersmeet.flow.options import DEFAULT_GRANULARITY

Sending = Iterator[tuple[Link, Message]]


class Flow:
    """A network of cores, and how to send rows into it."""

    name: ClassVar[str]
    prompt: ClassVar[bool] = True  # whether a row meets all stored rows as soon as it has been processed
    granularity: ClassVar[int] = DEFAULT_GRANULARITY  # rows a message, unless the user says how many

    network: Network
    cores: list[Core]

    def __init__(self, work: Work, queue: int) -> None:
        """``queue``: how many messages a link holds."""
        raise NotImplementedError

    def place(self, part: Part) -> None:
        """Give stored rows back to the cores, before anything moves: rows that have met everything there was."""
        raise NotImplementedError

    def send(self, load: Load) -> Sending:
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
