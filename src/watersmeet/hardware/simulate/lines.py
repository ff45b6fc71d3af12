"""What waits at each input and what each output has given: the state of a stimulus, the same for every simulator.

What stays true, in every cycle c: an input shows its next payload iff there is one whose offer is not later than c, and the
payload 0 otherwise; an output is ready iff its stalls, repeated round and round, are false at c. A transfer counts in the cycle in
which valid and ready are both high.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from watersmeet.errors import DataError, OptionError
from watersmeet.hardware.ports import Port


@dataclass
class Source:
    """The line of payloads before an input."""

    port: Port
    payloads: list[int] = field(default_factory=list)
    offers: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)  # as long as the part that has gone

    def offer(self, payloads: Sequence[int], at: Sequence[int] | None, cycle: int) -> None:
        """More payloads at the end of the line, each not before its cycle in ``at``."""
        name, limit = self.port.name, 1 << self.port.width
        for number, payload in enumerate(payloads):
            if not 0 <= payload < limit:
                raise DataError(
                    f"a payload for {name} must have at most {self.port.width} bits; got {payload} (number {number})"
                )
        when = [cycle] * len(payloads) if at is None else list(at)
        if len(when) != len(payloads):
            raise OptionError(
                f"offers for {name} must be as many as its payloads, {len(payloads)}; got {len(when)}"
            )
        self.payloads += [int(payload) for payload in payloads]
        self.offers += [int(c) for c in when]

    @property
    def waiting(self) -> bool:
        """Whether somebody is still in the line."""
        return len(self.taken) < len(self.payloads)


@dataclass
class Sink:
    """What takes from an output."""

    port: Port
    stalls: list[bool] = field(default_factory=lambda: [False])
    given: list[tuple[int, int]] = field(default_factory=list)

    def stall(self, pattern: Iterable[bool]) -> None:
        """From now on not ready where the pattern, repeated by the number of the cycle, is true."""
        stalls = [bool(one) for one in pattern] or [False]
        if all(stalls):
            raise OptionError(
                f"stalls of {self.port.name} must leave a cycle free; got none; put a False into them"
            )
        self.stalls = stalls


@dataclass
class Lines:
    """All sources and sinks of a component, and what was watched."""

    sources: dict[str, Source]
    sinks: dict[str, Sink]
    watched: dict[str, list[int]]
    cycle: int = 0  # the next one
    last: int = -1  # the last one in which something moved

    @property
    def waiting(self) -> bool:
        """Whether any source has something left."""
        return any(source.waiting for source in self.sources.values())

    def source(self, name: str) -> Source:
        """The source before input ``name``."""
        if name not in self.sources:
            raise OptionError(f"an input must be one of {', '.join(self.sources)}; got {name!r}")
        return self.sources[name]

    def sink(self, name: str) -> Sink:
        """The sink behind output ``name``."""
        if name not in self.sinks:
            raise OptionError(f"an output must be one of {', '.join(self.sinks)}; got {name!r}")
        return self.sinks[name]


def lines_of(ports: Sequence[Port], watched: Iterable[str]) -> Lines:
    """Empty lines for a component's streams."""
    return Lines(
        {port.name: Source(port) for port in ports if port.inward},
        {port.name: Sink(port) for port in ports if not port.inward},
        {name: [] for name in watched},
    )
