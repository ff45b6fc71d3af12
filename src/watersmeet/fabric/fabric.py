"""``Fabric``: what users see of all this, and ``FabricAssignment``, where their queries stand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from watersmeet.fabric import catalog
from watersmeet.fabric.assignment import Assignment
from watersmeet.fabric.components import Unit
from watersmeet.fabric.draw import drawn, plotted
from watersmeet.fabric.encoding import encode
from watersmeet.fabric.plain import from_plain, to_plain
from watersmeet.fabric.program import Program, program_of
from watersmeet.fabric.show import as_plain, notes_of, summary, table
from watersmeet.fabric.topology import Topology


class Fabric:
    """A fixed network of processing blocks that queries are assigned to: ``Processor(fabric=...)``.

    >>> chain = Fabric.op_chain(3, window=512)
    >>> Fabric.from_json(chain.to_json()) == chain
    True
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    @staticmethod
    def op_chain(blocks: int, *, window: int = 512, memory: int = 16, computes: bool = False) -> Fabric:
        """A chain of OP-Blocks, each of which holds ``window`` rows of each stream that it joins, and ``memory`` entries of
        instructions.
        """
        return Fabric(catalog.op_chain(blocks, window, memory, computes))

    @staticmethod
    def parallel_fqp(
        chains: int, blocks: int, *, window: int = 512, memory: int = 16, computes: bool = False
    ) -> Fabric:
        """``chains`` chains of ``blocks`` OP-Blocks beside each other."""
        return Fabric(catalog.parallel_fqp(chains, blocks, window, memory, computes))

    @staticmethod
    def split_join(cores: int, *, window: int = 512, memory: int = 16) -> Fabric:
        """SplitJoin: ``cores`` join cores that all see every row, and each store a share."""
        return Fabric(catalog.split_join(cores, window, memory))

    @staticmethod
    def ssp(rows: Sequence[Sequence[Sequence[Unit]]]) -> Fabric:
        """A simplex stream processor: rows of bricks, each a list of units, on a network of GSwitches; a bypass comes with every brick."""
        return Fabric(catalog.ssp(rows))

    @staticmethod
    def tpch_q3(*, window: int = 1024) -> Fabric:
        """The thesis's topology for the third query of TPC-H."""
        return Fabric(catalog.tpch_q3(window))

    @staticmethod
    def from_json(data: Any) -> Fabric:
        """What ``to_json`` has given: a text, or the dict in it."""
        return Fabric(from_plain(data))

    def to_json(self) -> str:
        """The fabric as JSON text."""
        return json.dumps(to_plain(self.topology), indent=1)

    def holding(self, **rows: int) -> Fabric:
        """The same fabric, with how many rows the windows of some streams hold at most: of time windows only the user can know it."""
        return Fabric(replace(self.topology, holds=tuple({**dict(self.topology.holds), **rows}.items())))

    def draw(self) -> str:
        """The topology as text."""
        return drawn(self.topology)

    def plot(self, path: Any) -> None:
        """The topology as a picture in a file; needs matplotlib."""
        plotted(self.topology, path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fabric) and self.topology == other.topology

    def __hash__(self) -> int:
        return hash(self.topology)

    def __repr__(self) -> str:
        return f"<Fabric {self.topology.name}: {len(self.topology.components)} components, {len(self.topology.links)} wires>"


class FabricAssignment:
    """Where the queries of a processor stand in its fabric, and what programs it."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment

    @cached_property
    def program(self) -> Program:
        """The instructions."""
        return program_of(self.assignment)

    @property
    def placements(self) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
        """By query: its operators, each with the blocks that it stands at."""
        found: dict[str, list[tuple[str, tuple[str, ...]]]] = {
            need.query: [] for need in self.assignment.needs
        }
        for op, placement in self.assignment.placed.items():
            for query in self.assignment.queries_of(op):
                found[query].append((str(op), placement.slots))
        return found

    def words(self) -> list[int]:
        """The instructions as words of 80 bits."""
        return encode(self.program.instructions)

    def to_json(self) -> str:
        """Everything as JSON text."""
        return json.dumps(as_plain(self.assignment, self.program), indent=1)

    def draw(self) -> str:
        """The topology with the operators in it, as text."""
        return drawn(self.assignment.topology, notes_of(self.assignment))

    def plot(self, path: Any) -> None:
        """The same as a picture in a file; needs matplotlib."""
        plotted(self.assignment.topology, path, notes_of(self.assignment))

    def __str__(self) -> str:
        return f"{summary(self.assignment)}\n{table(self.program)}"
