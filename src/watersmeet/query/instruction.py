"""Instructions: what programs a block, as frozen plain data. An instruction has those of its inputs in it, so it is a plan, and equal
instructions are equal plans.

Columns are named by *leaf*: the stream they come from, or ``stream#2`` where a join reads a stream a second time. Names that a text gives
its inputs are not in an instruction: ``FROM trades t`` and ``FROM trades x`` are the same.

``remembers``: whether the block has state of its own between pushes. Such blocks are the same only if they have also begun alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from watersmeet.sql.tree import Expr
from watersmeet.streams.window import Window

PRESENT = (
    "\0present"  # a column that every leaf has: whether a row of it is there; in an outer join it may not be
)


@dataclass(frozen=True)
class Scan:
    """All rows of a stream, as they come. Nothing is stored."""

    remembers: ClassVar[bool] = False
    stream: str

    @property
    def leaves(self) -> tuple[str, ...]:
        return (self.stream,)

    @property
    def inputs(self) -> tuple[Instruction, ...]:
        return ()

    def __str__(self) -> str:
        return f"scan {self.stream}"


@dataclass(frozen=True)
class Join:
    """A join of streams within windows."""

    remembers: ClassVar[bool] = True
    streams: tuple[str, ...]
    leaves: tuple[str, ...]
    windows: tuple[Window, ...]
    how: str
    condition: Expr

    @property
    def inputs(self) -> tuple[Instruction, ...]:
        return ()

    def __str__(self) -> str:
        within = ", ".join(f"{leaf} {window}" for leaf, window in zip(self.leaves, self.windows, strict=True))
        return f"join {self.how} of {within}\n  on {self.condition}"


@dataclass(frozen=True)
class Filter:
    """The rows for which a predicate is true."""

    remembers: ClassVar[bool] = False
    input: Scan | Join
    predicate: Expr

    @property
    def leaves(self) -> tuple[str, ...]:
        return self.input.leaves

    @property
    def inputs(self) -> tuple[Instruction, ...]:
        return (self.input,)

    def __str__(self) -> str:
        return f"filter {self.predicate}".replace("\0", "")


@dataclass(frozen=True)
class Project:
    """Named columns, computed from each row."""

    remembers: ClassVar[bool] = False
    input: Scan | Join | Filter
    names: tuple[str, ...]
    exprs: tuple[Expr, ...]

    @property
    def leaves(self) -> tuple[str, ...]:
        return self.input.leaves

    @property
    def inputs(self) -> tuple[Instruction, ...]:
        return (self.input,)

    def __str__(self) -> str:
        columns = (f"{expr} AS {name}" for name, expr in zip(self.names, self.exprs, strict=True))
        return f"project {', '.join(columns)}".replace("\0", "")


@dataclass(frozen=True)
class Union:
    """All rows of several plans."""

    remembers: ClassVar[bool] = False
    inputs: tuple[Project, ...]

    @property
    def leaves(self) -> tuple[str, ...]:
        return tuple(leaf for one in self.inputs for leaf in one.leaves)

    def __str__(self) -> str:
        return f"union of {len(self.inputs)}"


Instruction = Scan | Join | Filter | Project | Union
