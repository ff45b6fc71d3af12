"""A fabric run by its program alone: rows are symbols, and what leaves says by which operators they have come.

Independent of how assignments are found: it knows the topology, the words of the program, and what each component does with a row.
A row is (what it is, the ways it has come by). Two rows meet in a join core only if they have come by the same ways, or by the same since
a synchroniser has put them in order.
"""

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from watersmeet.fabric.assignment import Assignment
from watersmeet.fabric.components import (
    Brick,
    Composer,
    Decomposer,
    GSwitchD,
    GSwitchL,
    OpBlock,
    ResultBuffer,
)
from watersmeet.fabric.encoding import decode, encode
from watersmeet.fabric.operator import Flow, Operator
from watersmeet.fabric.program import Chunk, Instruction, Program, program_of

POLICIES = ("r_out", "s_out", "result")


def value(chunk: Chunk) -> int:
    assert chunk.constant is not None
    return int.from_bytes(chunk.constant.raw, "little")


class Machine:
    def __init__(self, assignment: Assignment, program: Program) -> None:
        self.topology, self.program = assignment.topology, program
        self.wires = {link.source: link.target for link in self.topology.links}
        self.ids = {place: number for number, place in program.blocks.items()}
        self.blocks: dict[int, list[Instruction]] = defaultdict(list)
        self.table: dict[tuple[int, int], int] = {}
        self.ports: dict[tuple[int, int], int] = {}
        self.waiting: dict[tuple[int, int], dict[int, list]] = defaultdict(lambda: defaultdict(list))
        self.left: dict[int, Counter] = defaultdict(Counter)
        self.ended: Counter = Counter()
        for one in decode(encode(program.instructions)):
            if one.inst == "gswitch_l":
                self._once(self.table, (one.b_id, one.stream), one.port)
            elif one.inst in ("gswitch_d", "lswitch"):
                self._once(self.table, (one.b_id, one.stream), value(one.body[0]))
            elif one.inst == "reset":
                self._once(self.ports, (one.b_id, one.out or one.stream), one.port)
            else:
                self.blocks[one.b_id].append(one)

    @staticmethod
    def _once(table: dict, key: tuple[int, int], entry: int) -> None:
        assert key not in table, f"programmed twice: {key}"
        table[key] = entry

    def run(self) -> None:
        for stream, name, entry in self.program.inputs:
            self.send(f"{entry}.out", stream, name, ())

    def send(self, out: str, stream: int, what: Any, trail: tuple) -> None:
        target = self.wires.get(out)
        if target is None:
            return
        name, port = target.split(".")
        component, trail = self.topology.named[name], (*trail, out)
        if isinstance(component, GSwitchL | GSwitchD):
            mask = self.table.get((self.ids[name], stream), 0)
            for at, way in enumerate(component.outputs):
                if mask >> at & 1:
                    self.send(f"{name}.{way}", stream, what, trail)
        elif isinstance(component, Brick):
            mask = self.table.get((self.ids[name], stream), 0)
            for at, unit in enumerate(component.units):
                if mask >> at & 1:
                    self.unit(name, unit.name, unit.kind, stream, what, trail)
        elif isinstance(component, OpBlock):
            self.send(f"{name}.{'r_out' if port == 'r_in' else 's_out'}", stream, what, trail)
            self.execute(name, name, stream, port[0], what, trail)
        elif isinstance(component, ResultBuffer | Decomposer | Composer):
            self.send(f"{name}.out", stream, what, trail)
        else:
            self.left[stream][what] += 1

    def unit(self, brick: str, unit: str, kind: str, stream: int, what: Any, trail: tuple) -> None:
        place = f"{brick}.{unit}"
        if kind == "bypass":
            self.send(f"{brick}.out", stream, what, trail)
        elif kind == "synchroniser":
            assert any(chunk.other == stream for one in self.blocks[self.ids[place]] for chunk in one.body)
            self.send(f"{brick}.out", stream, what, (f"in order by {place}",))
        else:
            self.execute(brick, place, stream, "", what, trail)

    def execute(self, component: str, place: str, stream: int, lane: str, what: Any, trail: tuple) -> None:
        """Every instruction of a block on a row that comes in, or that another instruction of the block has made (lane "")."""
        b_id = self.ids[place]
        if stream == 2:
            self.ended[place] += 1
        for number, one in enumerate(self.blocks[b_id]):
            if one.inst == "join":
                for result, way in self.join(b_id, number, one, stream, lane, what, trail):
                    self.give(component, place, one.out, result, way)
            elif (stream, lane) in {
                (one.stream, one.lane),
                *((c.other, c.condition) for c in one.body if c.tag == "input"),
            }:
                self.give(component, place, one.out, (self.does(one), what), trail)

    def join(
        self, b_id: int, number: int, one: Instruction, stream: int, lane: str, what: Any, trail: tuple
    ) -> list:
        inputs = [chunk for chunk in one.body if chunk.tag in ("input", "window")]
        core = next((chunk.attribute for chunk in one.body if chunk.tag == "share"), 0)
        found = []
        held = self.waiting[b_id, number]
        mine = [at for at, chunk in enumerate(inputs) if (chunk.other, chunk.condition) == (stream, lane)]
        for at in mine:
            held[at].append((what, trail))
            combos: list[list] = [[]]
            for k in range(len(inputs)):
                options = [(what, trail)] if k == at else held[k]
                combos = [[*combo, option] for combo in combos for option in options]
            for combo in combos:
                if not lane:
                    assert len({way for _, way in combo}) == 1, f"rows may overtake each other: {combo}"
                found.append(((self.does(one), core, tuple(row for row, _ in combo)), combo[0][1]))
        return found

    def give(self, component: str, place: str, stream: int, what: Any, trail: tuple) -> None:
        self.execute(component, place, stream, "", what, trail)  # who rides
        mask = self.ports[self.ids[place], stream]
        if component != place:
            assert mask in (0, 4)
            if mask:
                self.send(f"{component}.out", stream, what, trail)
            return
        for at, port in enumerate(POLICIES):
            if mask >> at & 1:
                self.send(f"{place}.{port}", stream, what, trail)

    def does(self, one: Instruction) -> tuple:
        """An instruction in words, without the numbers that the program has given."""
        columns = self.program.attributes

        def column(number: int) -> tuple | None:
            return None if not number else (columns[number - 1].leaf, columns[number - 1].name)

        words = []
        for chunk in one.body:
            raw = None if chunk.constant is None else chunk.constant.raw
            if chunk.tag == "term":
                words.append((column(chunk.attribute), chunk.condition, column(chunk.other), raw))
            elif chunk.tag == "output":
                words.append((chunk.function, chunk.attribute))
            elif chunk.tag == "column":
                words.append(column(chunk.attribute))
            elif chunk.tag in ("constant", "call"):
                words.append(raw)
        return (one.inst, *words)


def said(op: Operator) -> tuple:
    """The same of an operator."""
    words: list = []
    for term in op.terms:
        right = None if term.right is None else (term.right.leaf, term.right.name)
        raw = None if term.constant is None else term.constant.raw
        words.append(((term.left.leaf, term.left.name), term.condition, right, raw))
    for code in op.code:
        words += [_step(token) for token in code]
    for output in op.outputs:
        words += [(output.function, len(output.code)), *(_step(token) for token in output.code)]
    return (op.kind, *words)


def _step(token: Any) -> Any:
    if token.attribute is not None:
        return (token.attribute.leaf, token.attribute.name)
    return token.constant.raw if token.constant is not None else token.call.encode()


def expected(flow: Flow, assignment: Assignment) -> Counter:
    """The rows of a flow."""
    if not isinstance(flow, Operator):
        return Counter([flow.name])
    inputs = [expected(one, assignment) for one in flow.inputs]
    if flow.kind != "join":
        return Counter({(said(flow), what): count for rows in inputs for what, count in rows.items()})
    combos: list[tuple] = [()]
    for rows in inputs:
        combos = [(*combo, what) for combo in combos for what in rows.elements()]
    cores = range(len(assignment.placed[flow].slots))
    return Counter((said(flow), core, combo) for core in cores for combo in combos)


def check(assignment: Assignment) -> None:
    """Every row of every query leaves once, and by nobody else's stream; nothing else leaves; slots hold what stands there."""
    program = program_of(assignment)
    assert decode(encode(program.instructions)) == list(program.instructions)
    machine = Machine(assignment, program)
    machine.run()
    wanted: dict[int, Counter] = {}
    for need in assignment.needs:
        rows = sum((expected(root, assignment) for root in dict.fromkeys(need.roots)), Counter())
        left = sum((machine.left[stream] for stream in program.results[need.query]), Counter())
        assert left == rows, f"{need.query}: missing {rows - left}, extra {left - rows}"
        wanted |= {stream: machine.left[stream] for stream in program.results[need.query]}
    assert {stream for stream, rows in machine.left.items() if rows} <= wanted.keys() | {2}
    for op, placement in assignment.placed.items():
        if op.kind in ("aggregation", "order_by"):
            assert all(machine.ended[place] == 1 for place in placement.slots)
    _check_slots(assignment)


def _check_slots(assignment: Assignment) -> None:
    units: dict[str, Any] = {}
    for component in assignment.topology.components:
        if isinstance(component, OpBlock):
            units[component.name] = ("op_block", component)
        if isinstance(component, Brick):
            units |= {f"{component.name}.{unit.name}": (unit.kind, unit) for unit in component.units}
    for place, (kind, unit) in units.items():
        here = [op for op, placement in assignment.placed.items() if place in placement.slots]
        assert sum(op.memory for op in here) <= unit.memory
        stateful = [op for op in here if op.kind in ("join", "aggregation", "order_by")]
        assert kind == "processor" or len(stateful) <= 1
        for op in here:
            assert unit.computes or not op.computes
            assert kind in ("op_block", "processor", op.kind)
            assert kind != "op_block" or op.kind in ("selection", "projection", "join")
            if (
                stateful and kind != "processor" and op not in stateful
            ):  # a rider: on all slots of the one it rides on
                assert assignment.placed[op].slots == assignment.placed[stateful[0]].slots
            if op.kind == "join":
                _check_join(assignment, op, units, chained=place in assignment.topology.named)


def _check_join(assignment: Assignment, op: Operator, units: dict, chained: bool) -> None:
    slots = assignment.placed[op].slots
    rows = max(window for window in op.windows if window is not None)
    windows = [units[place][1].window for place in slots]
    if chained:
        assert sum(windows) >= rows
        after = {link.source: link.target for link in assignment.topology.links}
        assert all(after[f"{one}.r_out"] == f"{other}.r_in" for one, other in pairwise(slots))
    else:
        assert min(windows) * len(slots) >= rows
        assert len(slots) == 1 or len(op.inputs) == 2
