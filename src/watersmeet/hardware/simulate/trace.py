"""What a simulation has shown, as a value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Trace:
    """Transfers by stream, with their cycles.

    ``cycles`` goes up to and with the last transfer; the idle ones after it are not counted. ``simulated``: all of them.
    ``settled``: it ended because everything was taken and nothing moved any more, and not because the cycles were used up.
    """

    simulator: str
    cycles: int
    simulated: int
    settled: bool
    taken: Mapping[str, Sequence[int]]  # by input: the cycle at which each was accepted
    given: Mapping[str, Sequence[tuple[int, int]]]  # by output: cycle and payload
    watched: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by name: the value in every cycle

    def payloads(self, name: str) -> list[int]:
        """What left by output ``name``, in order."""
        return [payload for _, payload in self.given[name]]
