"""Which operators may stand where, and which ways their rows take: what every assignment must obey.

- A slot does the kinds of operators that it is made for, computes expressions only if it can, and has memory for their instructions.
- An operator that remembers rows has its slots to itself (a ``processor`` is shared). A selection or projection may *ride*: stand on all
  slots of the operator that it reads from, and work on what each of them gives.
- A join of two streams within windows of W rows may stand on several slots: OP-Blocks in a row, one stream coming from each side, that
  hold W rows together; or units of bricks along one way, each of which sees every row and stores every k-th (SplitJoin), so ceil(W / k)
  must fit each. A join of more streams stands on one slot.
- Rows go forward only: from an entry or the slots of an operator to those of the next, and in the end to an exit.
- Inputs of a join in a brick that come by different ways have to pass one synchroniser after they have met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from watersmeet.fabric.floor import Floor, Slot
from watersmeet.fabric.operator import Flow, Operator, Stream

MOST_SETS = 256  # sets of units that are tried for one join


@dataclass(frozen=True)
class Placement:
    """The slots of an operator, from left to right or along the way. ``flipped``: in an OP-Chain the first stream of a join comes from
    the right.
    """

    slots: tuple[str, ...]
    flipped: bool = False

    def __str__(self) -> str:
        return ", ".join(self.slots)


Placed = Mapping[Operator, Placement]


class Rules:
    """The rules on one floor."""

    def __init__(self, floor: Floor) -> None:
        self.floor = floor
        self._able: dict[Operator, list[Slot]] = {}

    def able(self, op: Operator) -> list[Slot]:
        """The slots that could do the operator, or a share of it, were they empty."""
        if op not in self._able:
            self._able[op] = [slot for slot in self.floor.slots.values() if self.lacks(op, slot) is None]
        return self._able[op]

    # ---- one slot -----------------------------------------------------------------------------------------------

    def lacks(self, op: Operator, slot: Slot) -> str | None:
        """What an empty slot lacks for an operator, or for a share of a join; None: nothing."""
        if op.kind not in slot.operators:
            return f"does no {op.kind}"
        if op.computes and not slot.computes:
            return "computes no expressions"
        if op.memory > slot.memory:
            return f"has memory for {slot.memory} entries, not for {op.memory}"
        if op.kind == "join":
            return self._lacks_join(op, slot)
        if op.kind == "aggregation" and op.windows and slot.kind != "processor":
            return "aggregates all rows so far, no sliding window"
        if op.kind == "order_by" and (op.windows[0] is None or op.windows[0] > slot.window):
            return f"keeps {slot.window} rows, not {'all' if op.windows[0] is None else op.windows[0]}"
        return None

    def _lacks_join(self, op: Operator, slot: Slot) -> str | None:
        if op.how != "inner" and slot.kind != "processor":
            return f"does inner joins, no {op.how} ones"
        if slot.kind != "processor" and len(op.inputs) > slot.ways:
            return f"joins {slot.ways} streams, not {len(op.inputs)}"
        if None in op.windows:
            return "holds a number of rows, and no number bounds the window"
        if not self.splits(op, slot) and _rows(op) > slot.window:
            return f"holds {slot.window} rows a stream, not {_rows(op)}"
        return "holds no rows" if slot.window == 0 else None

    def splits(self, op: Operator, slot: Slot) -> bool:
        """Whether a join may have several such slots."""
        return len(op.inputs) == 2 and slot.kind != "processor"

    # ---- slots that could be ------------------------------------------------------------------------------------

    def placements(
        self, op: Operator, free: Callable[[Slot], bool], alike: Callable[[Slot], object]
    ) -> Iterator[Placement]:
        """Where the operator could stand but for what feeds it. Of free slots that are ``alike`` only the first ones are given."""
        fit = [slot for slot in self.able(op) if free(slot)]
        if op.kind == "join":
            yield from self._in_chains(op, {slot.place for slot in fit})
            fit = [slot for slot in fit if slot.component != slot.place]
            yield from self._in_bricks(op, [slot for slot in fit if self.splits(op, slot)], alike)
            fit = [slot for slot in fit if not self.splits(op, slot)]
        seen = set()
        for slot in fit:
            sort = alike(slot)
            if sort not in seen:
                seen.add(sort)
                yield Placement((slot.place,))

    def _in_chains(self, op: Operator, fit: set[str]) -> Iterator[Placement]:
        """The shortest rows of OP-Blocks that hold the windows together: longer ones are never better."""
        if len(op.inputs) != 2:
            return
        for chain in self.floor.chains:
            for start in range(len(chain)):
                rows = 0
                for end in range(start, len(chain)):
                    if chain[end].place not in fit:
                        break
                    rows += chain[end].window
                    if rows >= _rows(op):
                        places = tuple(slot.place for slot in chain[start : end + 1])
                        yield Placement(places)
                        yield Placement(places, flipped=True)
                        break

    def _in_bricks(
        self, op: Operator, fit: Sequence[Slot], alike: Callable[[Slot], object]
    ) -> Iterator[Placement]:
        """The smallest sets of units along one way whose equal shares fit."""
        classes: dict[object, list[Slot]] = {}
        for slot in fit:
            classes.setdefault(alike(slot), []).append(slot)
        groups = list(classes.values())
        given = 0
        for size in range(1, len(fit) + 1):
            share = -(-_rows(op) // size)
            for chosen in _counts([len(group) for group in groups], size):
                slots = [slot for group, n in zip(groups, chosen, strict=True) for slot in group[:n]]
                if min(slot.window for slot in slots) < share or self._shrinks(op, slots):
                    continue
                ordered = self._along(slots)
                if ordered is not None:
                    given += 1
                    yield Placement(ordered)
                if given >= MOST_SETS:
                    return

    @staticmethod
    def _shrinks(op: Operator, slots: Sequence[Slot]) -> bool:
        """Whether fewer of the slots would do as well: without the smallest ones, the rest may hold a larger share."""
        windows = sorted((slot.window for slot in slots), reverse=True)
        return any(windows[n - 1] * n >= _rows(op) for n in range(1, len(windows)))

    def _along(self, slots: Sequence[Slot]) -> tuple[str, ...] | None:
        """The slots in the order of one way through their bricks; None if there is none."""
        reach = self.floor.distance
        bricks = list(dict.fromkeys(slot.component for slot in slots))
        bricks.sort(key=lambda one: sum(reach(other, f"{one}.in") is not None for other in bricks))
        if any(reach(one, f"{other}.in") is None for one, other in pairwise(bricks)):
            return None
        return tuple(slot.place for brick in bricks for slot in slots if slot.component == brick)

    # ---- ways ---------------------------------------------------------------------------------------------------

    def ways_in(self, op: Operator, placement: Placement, at: int) -> list[tuple[str, ...]]:
        """For an input: the sets of ways in by one of which its rows must come."""
        first, last = (self.floor.slots[place] for place in (placement.slots[0], placement.slots[-1]))
        if first.component != first.place:
            return [
                tuple(dict.fromkeys(f"{self.floor.slots[place].component}.in" for place in placement.slots))
            ]
        if op.kind == "join":
            from_left = (at == 0) != placement.flipped
            return [(f"{first.place}.r_in",)] if from_left else [(f"{last.place}.s_in",)]
        return [(f"{first.place}.r_in",), (f"{first.place}.s_in",)]

    def rides(self, op: Operator, placement: Placement, on: Placement) -> bool:
        """Whether it stands on the very slots of what it reads from, and may."""
        if placement.slots != on.slots:
            return False
        return op.stateless or all(self.floor.slots[place].shared for place in placement.slots)

    def sources(self, placement: Placement) -> tuple[str, ...]:
        """The components that give an operator's results, in order."""
        return tuple(dict.fromkeys(self.floor.slots[place].component for place in placement.slots))

    def way_from(self, placement: Placement, arrival: str) -> int | None:
        """How far the results of an operator have to go, from the farthest of its slots."""
        sources, reach = self.sources(placement), self.floor.distance
        if self.floor.slots[placement.slots[0]].component == placement.slots[0]:
            ways = [reach(source, arrival) for source in sources]
            return None if None in ways else max(way for way in ways if way is not None)
        ways = [reach(one, f"{other}.in") for one, other in pairwise(sources)]
        ways.append(reach(sources[-1], arrival))
        return None if None in ways else sum(way for way in ways if way is not None)

    def step(self, flow: Flow, placed: Placed, arrivals: Sequence[str]) -> tuple[int, str] | None:
        """How far it is for a flow to all of the ways in, and from which entry, for a stream."""
        if isinstance(flow, Operator):
            ways = [self.way_from(placed[flow], arrival) for arrival in arrivals]
            return None if None in ways else (max(way for way in ways if way is not None), "")
        best: tuple[int, str] | None = None
        for entry in self.floor.entries:
            ways = [self.floor.distance(entry, arrival) for arrival in arrivals]
            if None not in ways:
                far = max(way for way in ways if way is not None)
                if best is None or far < best[0]:
                    best = far, entry
        return best

    def best_step(
        self, flow: Flow, placed: Placed, alternatives: Sequence[tuple[str, ...]]
    ) -> tuple[int, str, tuple[str, ...]] | None:
        """The shortest of several ways: its length, entry and ways in."""
        found = [
            (*step, arrivals)
            for arrivals in alternatives
            if (step := self.step(flow, placed, arrivals)) is not None
        ]
        return min(found, key=lambda one: one[0]) if found else None

    def hops_in(self, op: Operator, placement: Placement, placed: Placed) -> int | None:
        """How far all inputs of an operator have to go; None: one of them cannot come."""
        total = 0
        for at, flow in enumerate(op.inputs):
            if isinstance(flow, Operator) and self.rides(op, placement, placed[flow]):
                continue
            step = self.best_step(flow, placed, self.ways_in(op, placement, at))
            if step is None:
                return None
            total += step[0]
        if op.kind == "join" and self.floor.meets and self.synchronisers(op, placement, placed) is None:
            return None
        return total

    def hops_out(self, flow: Flow, placed: Placed) -> int | None:
        """How far results have to go to an exit; None: they cannot."""
        step = self.best_step(flow, placed, [(f"{name}.in",) for name in self.floor.exits])
        return None if step is None else step[0]

    # ---- order --------------------------------------------------------------------------------------------------

    def synchronisers(self, op: Operator, placement: Placement, placed: Placed) -> list[str] | None:
        """The synchronisers that a join needs; None: it needs one that is not there."""
        first = self.floor.slots[placement.slots[0]]
        if first.component == first.place or len(op.inputs) < 2:
            return []
        found = []
        (arrivals,) = self.ways_in(op, placement, 0)
        for arrival in arrivals:
            trails = [
                self._trail(one.inputs[at], placed, arrival, arrivals)
                for one, at in self.arriving(op, placement, placed)
            ]
            if len({tuple(outs) for outs, _ in trails}) < 2:
                continue
            common = _common_end([outs for outs, _ in trails])
            made = {brick for _, bricks in trails for brick in bricks}
            passed = [brick for brick in self.floor.bricks_along(common) if brick not in made]
            places = [place for brick in passed if (place := self.floor.synchroniser(brick)) is not None]
            if not places:
                return None
            found.append(places[-1])
        return list(dict.fromkeys(found))

    def arriving(self, op: Operator, placement: Placement, placed: Placed) -> Iterator[tuple[Operator, int]]:
        """The inputs, by operator and place, whose rows come to its slots from outside: its own, and of those that it rides on theirs."""
        for at, flow in enumerate(op.inputs):
            if isinstance(flow, Operator) and self.rides(op, placement, placed[flow]):
                yield from self.arriving(flow, placed[flow], placed)
            else:
                yield op, at

    def _trail(
        self, flow: Flow, placed: Placed, arrival: str, arrivals: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """The ways out that rows have come by, from an entry on, and the bricks on the way that have made them."""
        if isinstance(flow, Stream):
            step = self.step(flow, placed, arrivals)
            assert step is not None
            return self.floor.path(step[1], arrival), []
        placement, first = placed[flow], flow.inputs[0]
        here = self.outs(placement, arrival)[0]
        if isinstance(first, Operator) and self.rides(flow, placement, placed[first]):
            return self._trail(first, placed, arrival, arrivals)
        best = self.best_step(first, placed, self.ways_in(flow, placement, 0))
        assert best is not None
        outs, made = self._trail(first, placed, best[2][0], best[2])
        return outs + here, [*made, *self.sources(placement)]

    def outs(self, placement: Placement, arrival: str) -> list[list[str]]:
        """The ways out that an operator's results take to a way in: from each OP-Block; from bricks the whole way, first to last."""
        sources = self.sources(placement)
        if self.floor.slots[placement.slots[0]].component == placement.slots[0]:
            return [self.floor.path(source, arrival) for source in sources]
        steps = [*(f"{other}.in" for other in sources[1:]), arrival]
        return [
            [out for source, to in zip(sources, steps, strict=True) for out in self.floor.path(source, to)]
        ]


def _rows(op: Operator) -> int:
    """The rows of the largest window of a join."""
    return max(window for window in op.windows if window is not None)


def _counts(sizes: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    """All ways to take ``total`` from groups of these sizes, from the first groups first."""
    if not sizes:
        if total == 0:
            yield ()
        return
    for n in range(min(sizes[0], total), -1, -1):
        if total - n <= sum(sizes[1:]):
            for rest in _counts(sizes[1:], total - n):
                yield (n, *rest)


def _common_end(ways: Sequence[Sequence[str]]) -> list[str]:
    end: list[str] = []
    for outs in zip(*(reversed(way) for way in ways), strict=False):
        if len(set(outs)) > 1:
            break
        end.append(outs[0])
    return end[::-1]
