"""A few cycles of a run, cycle by cycle: what was taken, what each part was at, what was given. As a table or as a picture.

Watched signals are grouped by what stands before the dot in their names. A group shows those that are not zero, or what the
component's own ``tell(values)`` makes of them (optional; values by the name behind the dot).
"""

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from rich.table import Table

from watersmeet.hardware.ports import stream_ports, unpack
from watersmeet.hardware.simulate.trace import Trace
from watersmeet.looks import pyplot


def rows(design: Any, trace: Trace, cycles: Sequence[int]) -> tuple[list[str], list[list[str]]]:
    """The heads of the columns, and a row a cycle; parts in which nothing ever happens are left out."""
    ports = {port.name: port for port in stream_ports(design)}
    tell = getattr(design, "tell", _tell)
    groups: dict[str, list[str]] = {}
    for name in trace.watched:
        groups.setdefault(name.split(".")[0] if "." in name else "", []).append(name)
    heads = (
        [f"{name} in" for name in trace.taken]
        + [g or "state" for g in groups]
        + [f"{n} out" for n in trace.given]
    )
    came = {
        name: dict(zip(cycles_, range(len(cycles_)), strict=True)) for name, cycles_ in trace.taken.items()
    }
    gone = {name: dict(given) for name, given in trace.given.items()}
    table = []
    for c in cycles:
        line = [f"#{came[name][c]}" if c in came[name] else "" for name in came]
        for names in groups.values():
            line.append(tell({name.split(".")[-1]: trace.watched[name][c] for name in names}))
        line += [
            _fields(unpack(ports[name].layout, gone[name][c])) if c in gone[name] else "" for name in gone
        ]
        table.append(line)
    used = [k for k in range(len(heads)) if any(line[k] for line in table)]
    return [heads[k] for k in used], [[line[k] for k in used] for line in table]


def _tell(values: dict[str, int]) -> str:
    return " ".join(f"{name} {value}" for name, value in values.items() if value)


def _fields(value: Any) -> str:
    """A payload in short: its numbers in their order."""
    if isinstance(value, dict):
        return " ".join(f"{name} {_fields(one)}" for name, one in value.items())
    if isinstance(value, list):
        return "[" + " ".join(_fields(one) for one in value) + "]"
    return value.name if isinstance(value, Enum) else str(value)


def meeting(trace: Trace, around: int = 16) -> range:
    """Cycles before the first thing that was given; the first cycles if nothing was."""
    first = min((given[0][0] for given in trace.given.values() if given), default=around - 3)
    return range(max(0, first - around + 3), min(first + 3, trace.simulated))


def table(design: Any, trace: Trace, cycles: Sequence[int]) -> Table:
    """For the terminal."""
    heads, lines = rows(design, trace, cycles)
    made = Table("cycle", *heads, title=f"cycles {cycles[0]} to {cycles[-1]}", show_lines=False)
    for c, line in zip(cycles, lines, strict=True):
        made.add_row(str(c), *line)
    return made


def picture(design: Any, trace: Trace, cycles: Sequence[int], path: Path) -> None:
    """The same as a picture: time to the right, a line a part, coloured where something is going on."""
    plt = pyplot()
    heads, lines = rows(design, trace, cycles)
    figure, axes = plt.subplots(figsize=(1.0 + 1.02 * len(cycles), 0.9 + 0.62 * len(heads)))
    for x, line in enumerate(lines):
        for y, text in enumerate(line):
            if text:
                colour = (
                    "#cfe6f5"
                    if heads[y].endswith(" in")
                    else "#f6d5db"
                    if heads[y].endswith(" out")
                    else "#e4efe6"
                )
                axes.add_patch(plt.Rectangle((x - 0.48, y - 0.45), 0.96, 0.9, color=colour))
                axes.text(x, y, _wrapped(text), ha="center", va="center", fontsize=5.5)
    axes.set(xlim=(-0.5, len(cycles) - 0.5), ylim=(len(heads) - 0.5, -0.5), xlabel="cycle")
    axes.set_xticks(range(len(cycles)), [str(c) for c in cycles], fontsize=7)
    axes.set_yticks(range(len(heads)), heads, fontsize=8)
    for side in axes.spines.values():
        side.set_visible(False)
    figure.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(figure)


def _wrapped(text: str) -> str:
    words = text.split()
    pairs = [" ".join(words[k : k + 2]) for k in range(0, len(words), 2)]
    return "\n".join(pairs)
