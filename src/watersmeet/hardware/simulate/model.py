"""What every simulator can do: run the lines of a component for some cycles."""

from typing import Protocol

from watersmeet.hardware.simulate.lines import Lines


class Model(Protocol):
    """A component that goes on from the cycle at which it stands."""

    name: str
    watched: tuple[str, ...]

    def run(self, lines: Lines, until: int, idle: int | None) -> bool:
        """Goes on to cycle ``until``, or (with ``idle``) until all is taken and nothing has moved for so long.

        True if it stopped for the second reason. ``lines`` is brought up to date.
        """
        ...
