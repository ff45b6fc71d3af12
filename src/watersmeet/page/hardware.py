"""The seam to the simulated hardware: what runs a design cycle by cycle, where ``watersmeet.hardware`` has it.

Nothing is made up here: a design that no simulated hardware has says so.
"""

from importlib.util import find_spec
from typing import Any, Protocol

from watersmeet.errors import OptionError
from watersmeet.fabric.topology import Topology
from watersmeet.page.streams import Streams


class Machine(Protocol):
    """A design as hardware, on which time stands still between two steps."""

    def step(self, cycles: int) -> dict[str, Any]:
        """Let so many cycles pass; what was so after them: ``cycle``, ``taken`` and ``given`` rows, ``levels`` of queues, ``results``."""

    def close(self) -> None: ...


def machine_for(topology: Topology, streams: Streams, sql: str) -> Machine:
    """The hardware of a design; what has none is refused with the reason."""
    raise OptionError(
        f"a run cycle by cycle must be of a design that there is hardware for; got {topology.name!r}; {absence()}"
    )


def verilog_of(topology: Topology, streams: Streams, sql: str) -> str:
    """The design as Verilog; what has none is refused with the reason."""
    raise OptionError(
        f"Verilog must be of a design that there is hardware for; got {topology.name!r}; {absence()}"
    )


def absence() -> str:
    """Why there is none."""
    if find_spec("amaranth") is None:
        return "amaranth is not installed; do: pip install 'watersmeet[hardware]'"
    return (
        "the simulated hardware of this version cannot be put together from a fabric yet; run it in software"
    )
