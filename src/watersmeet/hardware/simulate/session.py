"""A simulation that goes on step by step, and ``simulate``, which runs one to its end.

What stays true: which simulator runs changes nothing but the time it takes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from watersmeet.errors import OptionError, WatersmeetError
from watersmeet.hardware.ports import stream_ports, wires
from watersmeet.hardware.simulate.lines import lines_of
from watersmeet.hardware.simulate.model import Model
from watersmeet.hardware.simulate.python import PythonModel
from watersmeet.hardware.simulate.trace import Trace

SIMULATORS = ("auto", "compiled", "python", "verilator")
OBSERVERS: ContextVar[tuple[list[tuple[Any, Trace]], ...]] = ContextVar("observers", default=())


class Session:
    """One component, at rest between two cycles."""

    def __init__(
        self,
        design: Any,
        simulator: str = "auto",
        watch: bool = True,
        constants: Mapping[str, int] | None = None,
    ) -> None:
        self.model = _model(design, simulator, watch, constants or {})
        self.lines = lines_of(stream_ports(design), self.model.watched)

    @property
    def cycle(self) -> int:
        """The number of the next cycle."""
        return self.lines.cycle

    def offer(self, name: str, payloads: Sequence[int], at: Sequence[int] | None = None) -> None:
        """More payloads for input ``name``, after those that wait; ``at``: the earliest cycle of each."""
        self.lines.source(name).offer(payloads, at, self.cycle)

    def stall(self, name: str, pattern: Iterable[bool]) -> None:
        """From now on output ``name`` is not taken where the pattern, by the number of the cycle, is true."""
        self.lines.sink(name).stall(pattern)

    def step(self, cycles: int = 1) -> None:
        """Goes on for exactly so many cycles."""
        self.model.run(self.lines, self.cycle + cycles, None)

    def settle(self, cycles: int = 100_000, idle: int = 200) -> bool:
        """Goes on until all is taken and nothing has moved for ``idle`` cycles; False if ``cycles`` were too few."""
        return self.model.run(self.lines, self.cycle + cycles, idle)

    def taken(self, name: str) -> list[int]:
        """When each payload of input ``name`` was accepted."""
        return self.lines.source(name).taken

    def given(self, name: str) -> list[tuple[int, int]]:
        """What output ``name`` has given, with the cycle."""
        return self.lines.sink(name).given

    def watched(self) -> dict[str, int]:
        """The watched signals in the last cycle; none before the first."""
        return {name: values[-1] for name, values in self.lines.watched.items() if values}


def simulate(
    design: Any,
    inputs: Mapping[str, Sequence[int]],
    offers: Mapping[str, Sequence[int]] | None = None,
    stalls: Mapping[str, Iterable[bool]] | None = None,
    cycles: int = 100_000,
    idle: int = 200,
    simulator: str = "auto",
    watch: bool = False,
    constants: Mapping[str, int] | None = None,
) -> Trace:
    """Packed payloads through a component until nothing moves any more.

    ``offers``: the earliest cycle for each payload, as soon as possible by default. ``stalls``: when an output is not ready,
    repeated round and round. ``constants``: values of ports that are no streams. Raises if ``cycles`` were not enough for
    everything to be taken.
    """
    observers = OBSERVERS.get()
    session = Session(design, simulator, watch or bool(observers), constants)
    for name, pattern in (stalls or {}).items():
        session.stall(name, pattern)
    for name in offers or {}:
        session.lines.source(name)
    for name, payloads in inputs.items():
        session.offer(name, payloads, (offers or {}).get(name))
    settled = session.settle(cycles, idle)
    lines = session.lines
    for source in lines.sources.values():
        if source.waiting:
            raise WatersmeetError(
                f"{source.port.name} must be taken within {cycles} cycles; got {len(source.taken)} of"
                f" {len(source.payloads)}; give more cycles, or look for what blocks"
            )
    trace = Trace(
        simulator=session.model.name,
        cycles=lines.last + 1,
        simulated=lines.cycle,
        settled=settled,
        taken={name: source.taken for name, source in lines.sources.items()},
        given={name: sink.given for name, sink in lines.sinks.items()},
        watched=lines.watched,
    )
    for seen in observers:
        seen.append((design, trace))
    return trace


@contextmanager
def observed() -> Iterator[list[tuple[Any, Trace]]]:
    """While it lasts, every ``simulate`` watches, and its design and trace are in the list."""
    seen: list[tuple[Any, Trace]] = []
    token = OBSERVERS.set((*OBSERVERS.get(), seen))
    try:
        yield seen
    finally:
        OBSERVERS.reset(token)


def _model(design: Any, simulator: str, watch: bool, constants: Mapping[str, int]) -> Model:
    if simulator not in SIMULATORS:
        raise OptionError(f"simulator must be one of {', '.join(SIMULATORS)}; got {simulator!r}")
    values = _constants(design, constants)
    if simulator == "python":
        return PythonModel(design, watch, values)
    # LLVM, Yosys and Verilator only when they are asked for.
    if simulator == "verilator":
        from watersmeet.hardware.simulate.verilator import VerilatorModel

        return VerilatorModel(design, watch, values)
    from watersmeet.hardware.simulate.compiled.model import CompiledModel

    return CompiledModel(design, watch, values)


def _constants(design: Any, given: Mapping[str, int]) -> dict[str, Any]:
    known = wires(design)
    for name in given:
        if name not in known or not known[name][0]:
            inward = [name for name, (inward, _) in known.items() if inward]
            raise OptionError(f"a constant must be one of {', '.join(inward) or 'none'}; got {name!r}")
    return {name: (known[name][1], value) for name, value in given.items()}
