"""What is known of each design: frozen values that feed tests, tables, plots and the command.

What stays true: a figure is measured when it is asked for, and never written down here; beside it stands the paper's number, and
where they differ, why.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import OptionError

GOALS = ("equal", "at most", "at least", "about")


@dataclass(frozen=True)
class Parameter:
    """An integer that a design is built with."""

    default: int
    least: int = 1
    most: int = 1 << 20
    power_of_two: bool = False
    what: str = ""

    def check(self, name: str, value: int) -> None:
        """Refuses a value that the design cannot have."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise OptionError(f"{name} must be a whole number; got {value!r}")
        if not self.least <= value <= self.most:
            raise OptionError(f"{name} must be from {self.least} to {self.most}; got {value}")
        if self.power_of_two and value & (value - 1):
            raise OptionError(f"{name} must be a power of two; got {value}")


@dataclass(frozen=True)
class Run:
    """Streams of rows that went through a design, and whether the engine says the same."""

    design: str
    parameters: Mapping[str, int]
    rows: int
    results: tuple[tuple[int, ...], ...]  # arrival numbers, one a stream
    cycles: int
    simulator: str
    agrees: bool  # with the engine, by arrival numbers, as a multiset
    notes: Mapping[str, Any] = field(default_factory=dict)  # what else a design has to tell
    loses: str = ""  # why results are missing, and nothing else is wrong: the paper's design finds no more

    @property
    def cycles_a_row(self) -> float:
        """Cycles divided by rows that were taken."""
        return self.cycles / max(1, self.rows)


@dataclass(frozen=True)
class Design:
    """``build(**parameters)`` makes the component; ``drive(parameters, streams, simulator, **options)`` runs rows through it.

    ``streams`` is what ``drive`` documents, or None for a workload of its own.
    """

    name: str
    title: str
    source: str  # "thesis 5.5"
    parameters: Mapping[str, Parameter]
    make: Callable[..., Any]
    drive: Callable[..., Run] | None = None

    def checked(self, given: Mapping[str, int]) -> dict[str, int]:
        """All parameters, with defaults for those that were not given."""
        if not isinstance(given, Mapping):
            raise OptionError(
                f"parameters of {self.name} must be numbers by name; got {given!r}; write {{name: number}}"
            )
        for name in given:
            if name not in self.parameters:
                raise OptionError(
                    f"a parameter of {self.name} must be one of {', '.join(self.parameters)}; got {name!r}"
                )
        values = {name: given.get(name, parameter.default) for name, parameter in self.parameters.items()}
        for name, value in values.items():
            self.parameters[name].check(name, value)
        return values

    def build(self, **parameters: int) -> Any:
        """The component."""
        return self.make(**self.checked(parameters))

    def run(
        self,
        parameters: Mapping[str, int] | None = None,
        streams: Any = None,
        simulator: str = "auto",
        **options: Any,
    ) -> Run:
        """Rows through the component, compared with the engine."""
        if self.drive is None:
            raise OptionError(f"{self.name} must have rows that can be run; got a block; simulate it instead")
        return self.drive(self.checked(parameters or {}), streams, simulator, **options)


@dataclass(frozen=True)
class Figure:
    """One number of a paper, and how to measure ours."""

    name: str
    design: str
    parameters: Mapping[str, int]
    paper: float | None  # None: the paper gives a curve or a statement, in ``note``
    unit: str
    section: str
    tool: str  # "cycles, compiled simulation"
    measure: Callable[[], float]
    goal: str = "equal"
    slow: bool = False
    note: str = ""  # why we deviate, "open", or nothing
    tolerance: float = 0.1  # of "about"

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise OptionError(f"goal must be one of {', '.join(GOALS)}; got {self.goal!r}")

    def met(self, value: float) -> bool:
        """Whether ``value`` is what the paper says, or better."""
        if self.paper is None:
            return True
        near = abs(value - self.paper) <= self.tolerance * abs(self.paper)
        return {
            "equal": abs(value - self.paper) < 1e-9,
            "at most": value <= self.paper,
            "at least": value >= self.paper,
            "about": near,
        }[self.goal]
