"""An assignment: where the operators of some queries stand. It is a value; another one is made from it, and it is never changed in
place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from watersmeet.fabric.floor import floor_of
from watersmeet.fabric.operator import Need, Operator, operators_of
from watersmeet.fabric.rules import Placement, Rules
from watersmeet.fabric.topology import Topology


@dataclass(frozen=True)
class Assignment:
    """Where the operators of some queries stand.

    - ``asked``: what the queries need; ``needs``: the same, as it is placed.
    - ``moved``: operators that the last change has moved. ``proven``: whether the last change is known to be the best.
    """

    topology: Topology
    asked: tuple[Need, ...]
    needs: tuple[Need, ...]
    placed: Mapping[Operator, Placement]
    moved: tuple[Operator, ...] = ()
    proven: bool = True

    @property
    def slots(self) -> int:
        """How many slots are used."""
        return len({place for placement in self.placed.values() for place in placement.slots})

    @property
    def hops(self) -> int:
        """How many wires rows pass, over all steps from entries to exits."""
        rules, placed = Rules(floor_of(self.topology)), self.placed
        roots = dict.fromkeys(root for need in self.needs for root in need.roots)
        inside = [rules.hops_in(op, placement, placed) for op, placement in placed.items()]
        leaving = [rules.hops_out(root, placed) for root in roots]
        return sum(hops for hops in [*inside, *leaving] if hops is not None)

    @cached_property
    def _owners(self) -> Mapping[Operator, list[str]]:
        found: dict[Operator, list[str]] = {}
        for need in self.needs:
            for op in dict.fromkeys(operators_of(need.roots)):
                found.setdefault(op, []).append(need.query)
        return found

    def queries_of(self, op: Operator) -> list[str]:
        """The queries that an operator is for."""
        return self._owners.get(op, [])


def empty(topology: Topology) -> Assignment:
    """No queries."""
    return Assignment(topology, (), (), {})


def in_order(needs: tuple[Need, ...]) -> list[Operator]:
    """All operators, each once, after those they read from."""
    return list(dict.fromkeys(op for need in needs for op in operators_of(need.roots)))
