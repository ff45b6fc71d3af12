"""Joins with a port for each stream: random runs against the engine, and mutants made by changing a line of a module.

``random_run`` is one run; ``found_out`` says whether a few of them notice a design that is wrong. ``mutant`` is a module with one line
of its text replaced: the text must be there, once, so that a mutant cannot silently become the original.
"""

import inspect
from collections.abc import Callable, Mapping
from random import Random
from types import ModuleType
from typing import Any

from hardware.harness import offers, stalls
from watersmeet.errors import WatersmeetError
from watersmeet.hardware.registry import Design, Run

LONGEST = 4000  # cycles of a run that must be over by then
Quiet = Callable[[Mapping[str, int]], int]


def random_run(
    design: Design,
    parameters: Mapping[str, int],
    seed: object,
    rows: int = 30,
    values: int = 5,
    simulator: str = "python",
) -> Run:
    """Rows with few keys, so that many match, and handshakes that hurry or dawdle."""
    rng = Random(f"{design.name} {sorted(parameters.items())} {seed}")
    counts = {"left": rng.randint(1, rows), "right": rng.randint(1, rows)}
    keys = {side: [rng.randrange(values) for _ in range(count)] for side, count in counts.items()}
    return design.run(
        parameters,
        keys,
        simulator,
        offers={side: offers(rng, count) for side, count in counts.items()},
        stalls={"results": stalls(rng)},
        cycles=LONGEST,
    )


def found_out(design: Design, parameters: Mapping[str, int], tries: int = 8, **options: int) -> bool:
    """Whether one of some random runs gives another answer than the engine, or does not come to an end."""
    for seed in range(tries):
        try:
            if not random_run(design, parameters, seed, **options).agrees:
                return True
        except WatersmeetError:
            return True
    return False


def mutant(module: ModuleType, text: str, instead: str) -> Any:
    """The module with ``text`` replaced."""
    source = inspect.getsource(module)
    assert source.count(text) == 1, f"{text!r} must be in {module.__name__} once; got {source.count(text)}"
    changed = ModuleType(f"{module.__name__}_mutant")
    exec(compile(source.replace(text, instead), module.__file__ or "", "exec"), changed.__dict__)
    return changed
