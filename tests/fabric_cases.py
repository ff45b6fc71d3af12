"""Small fabrics and queries, drawn from a seed; and the best assignment found by trying all of them."""

from collections import deque
from collections.abc import Iterator
from itertools import combinations, pairwise, product
from random import Random

from watersmeet.fabric import catalog
from watersmeet.fabric.components import Brick, Composer, Entry, Exit, OpBlock, Unit
from watersmeet.fabric.operator import (
    Attribute,
    Constant,
    Flow,
    Need,
    Operator,
    Output,
    Stream,
    Term,
    Token,
    operators_of,
)
from watersmeet.fabric.topology import Topology

NAMES = ("a", "b", "c")


def number(value: int) -> Constant:
    return Constant("int", value.to_bytes(8, "little"), text=str(value))


def selection(flow: Flow, leaf: str, value: int) -> Operator:
    return Operator("selection", (flow,), terms=(Term(Attribute(leaf, "x", 32), ">", None, number(value)),))


def join(inputs: tuple[Flow, ...], leaves: tuple[str, ...], rows: int) -> Operator:
    terms = tuple(Term(Attribute(leaves[0], "k", 32), "=", Attribute(leaf, "k", 32)) for leaf in leaves[1:])
    return Operator("join", inputs, terms, windows=(rows,) * len(inputs), leaves=leaves)


def projection(flow: Flow, leaf: str) -> Operator:
    return Operator("projection", (flow,), outputs=(Output("x", (Token(Attribute(leaf, "x", 32)),)),))


def aggregation(flow: Flow, leaf: str) -> Operator:
    outputs = (Output("k", (Token(Attribute(leaf, "k", 32)),), "key"), Output("n", (), "count"))
    return Operator("aggregation", (flow,), outputs=outputs)


# ---- fabrics ------------------------------------------------------------------------------------------------------

KINDS = ("selection", "op_block", "op_block", "op_block", "join", "aggregation", "processor", "synchroniser")


def unit(random: Random, name: str) -> Unit:
    kind = random.choice(KINDS)
    return Unit(name, kind, random.randint(1, 4), 2 + (kind == "join"), random.choice([2, 4, 8, 8]))


def topology(random: Random, most: int) -> Topology:
    """A fabric with up to about ``most`` slots."""
    shape = random.choice(["chain", "chain", "parallel", "split_join", "ssp", "ssp", "ssp"])
    if shape == "chain":
        return uneven_chain(random, random.randint(1, most))
    if shape == "parallel":
        return catalog.parallel_fqp(2, most // 2, random.randint(1, 4), random.choice([2, 4, 8]), False)
    if shape == "split_join":
        return catalog.split_join(random.randint(1, most), random.randint(1, 3), random.choice([2, 4, 8]))
    high, wide = random.choice([(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2)])
    each = max(1, most // (high * wide))
    return catalog.ssp(
        [[[unit(random, f"u{k}") for k in range(each)] for _ in range(wide)] for _ in range(high)]
    )


def uneven_chain(random: Random, blocks: int) -> Topology:
    """An OP-Chain whose blocks are not alike; some have no way to the exit."""
    base = catalog.op_chain(blocks, 1, 8, False)
    changed = tuple(
        OpBlock(one.name, random.randint(1, 3), random.choice([2, 4, 8, 8]))
        if isinstance(one, OpBlock)
        else one
        for one in base.components
    )
    links = [link for link in base.links if ".result" not in link.source or random.randrange(8)]
    return Topology(base.name, changed, tuple(links))


# ---- queries ------------------------------------------------------------------------------------------------------


def need(random: Random, name: str, chained: bool) -> Need:
    """A query of a few operators, mostly of such as the fabric knows."""
    leaf = random.choice(NAMES[:2])
    left: Flow = Stream(leaf)
    if random.randrange(2):
        left = selection(left, leaf, random.randrange(2))
    shapes = [
        "two",
        "two",
        "two",
        "none",
        *([] if chained and random.randrange(10) else ["three", "aggregate"]),
    ]
    shape = random.choice(shapes)
    if shape in ("two", "three"):
        other = random.choice(["b", "c"]) if leaf == "a" else "c"
        right: Flow = Stream(other)
        if not random.randrange(3):
            right = selection(right, other, 0)
        rows = random.randint(1, 6)
        if shape == "two":
            left = join((left, right), (leaf, other), rows)
        else:
            left = join((left, right, Stream("d")), (leaf, other, "d"), rows)
    if shape == "aggregate":
        left = aggregation(left, leaf)
    elif random.randrange(2) or (chained and isinstance(left, Stream)):
        left = projection(left, leaf)
    return Need(name, (left,))


def chained(topology: Topology) -> bool:
    return any(isinstance(one, OpBlock) for one in topology.components)


# ---- all assignments ------------------------------------------------------------------------------------------------


class Everything:
    """Tries all assignments of one task, by the rules as they are written in ``rules.py``, from the wires alone."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.wires = {link.source: link.target for link in topology.links}
        self.entries = [one.name for one in topology.components if isinstance(one, Entry)]
        self.composed = any(isinstance(one, Composer) for one in topology.components)
        self.exits = [f"{one.name}.in" for one in topology.components if isinstance(one, Exit)]
        self.units: dict[str, tuple[str, object, str]] = {}  # kind, parameters, component
        self.sync: set[str] = set()
        for one in topology.components:
            if isinstance(one, OpBlock):
                self.units[one.name] = ("op_block", one, one.name)
            if isinstance(one, Brick):
                self.units |= {f"{one.name}.{unit.name}": (unit.kind, unit, one.name) for unit in one.units}
        self.units = {
            place: one for place, one in self.units.items() if one[0] not in ("bypass", "synchroniser")
        }
        self.far = {one.name: self._far(one.name) for one in topology.components}

    def _far(self, source: str) -> dict[str, int]:
        named, found = self.topology.named, {}
        queue = deque((f"{source}.{port}", 1) for port in named[source].outputs)
        while queue:
            out, way = queue.popleft()
            arrival = self.wires.get(out)
            if arrival is None or arrival in found:
                continue
            found[arrival] = way
            name, port = arrival.split(".")
            component = named[name]
            if isinstance(component, OpBlock):
                queue.append((f"{name}.{port[0]}_out", way + 1))
            else:
                queue.extend((f"{name}.{out}", way + 1) for out in component.outputs if out != "detached")
        return found

    def places(self, op: Operator) -> Iterator[tuple[tuple[str, ...], bool]]:
        fit = [place for place in self.units if self._fits(op, place)]
        if op.kind != "join":
            yield from (((place,), False) for place in fit)
            return
        rows = max(window for window in op.windows if window is not None)
        chains = [place for place in fit if place in self.topology.named]
        for size in range(1, len(chains) + 1):
            for some in combinations(chains, size):
                for order in ([*some], [*some][::-1]):
                    row = all(self.wires.get(f"{x}.r_out") == f"{y}.r_in" for x, y in pairwise(order))
                    room = sum(self.units[place][1].window for place in order)  # type: ignore[attr-defined]
                    if row and room >= rows and len(op.inputs) == 2 and (size > 1 or order == [*some]):
                        yield tuple(order), False
                        yield tuple(order), True
        in_bricks = [place for place in fit if place not in self.topology.named]
        for size in range(1, len(in_bricks) + 1):
            for some in combinations(in_bricks, size):
                single = len(op.inputs) > 2 or any(self.units[place][0] == "processor" for place in some)
                room = size * min(self.units[place][1].window for place in some)  # type: ignore[attr-defined]
                if room >= rows and (size == 1 or not single):
                    yield some, False

    def _fits(self, op: Operator, place: str) -> bool:
        kind, unit, component = self.units[place]
        able = {"op_block": ("selection", "projection", "join"), "processor": (op.kind,)}.get(kind, (kind,))
        reached = any(
            arrival.split(".")[0] == component for entry in self.entries for arrival in self.far[entry]
        )
        ways = kind == "processor" or op.kind != "join" or len(op.inputs) <= getattr(unit, "ways", 2)
        return op.kind in able and op.memory <= unit.memory and ways and reached  # type: ignore[attr-defined]

    def best_of(self, needs: list[Need]) -> tuple[int, int, int] | None:
        """Of whole queries; where results are composed, what is selected needs no block."""
        roots = [
            root.inputs[0]
            if self.composed and isinstance(root, Operator) and root.kind == "projection"
            else root
            for one in needs
            for root in one.roots
        ]
        return self.best(roots, list(dict.fromkeys(operators_of(roots))))

    def best(self, roots: list[Flow], ops: list[Operator]) -> tuple[int, int, int] | None:
        """The least (slots, hops, depth of selections), or None if nothing fits."""
        found = None
        options = [[*self.places(op)] for op in ops]
        for at, op in enumerate(ops):  # riders of joins on several slots
            if op.kind in ("selection", "projection") and isinstance(op.inputs[0], Operator):
                below = options[ops.index(op.inputs[0])]
                options[at] += [(slots, False) for slots, _ in below if len(slots) > 1]
                options[at] = list(dict.fromkeys(options[at]))
        for choice in product(*options):
            cost = self.cost(dict(zip(ops, choice, strict=True)), roots)
            if cost is not None and (found is None or cost < found):
                found = cost
        return found

    def cost(
        self, placed: dict[Operator, tuple[tuple[str, ...], bool]], roots: list[Flow]
    ) -> tuple[int, int, int] | None:
        if not self._room(placed):
            return None
        hops = depth = 0
        for op, (slots, flipped) in placed.items():
            for at, flow in enumerate(op.inputs):
                step = self._step(op, slots, flipped, at, flow, placed)
                if step is None:
                    return None
                hops += step
            if op.kind == "selection":
                arrivals = (
                    [f"{slots[0]}.r_in", f"{slots[0]}.s_in"]
                    if slots[0] in self.topology.named
                    else [f"{self.units[slots[0]][2]}.in"]
                )
                depth += min(self.far[e][one] for e in self.entries for one in arrivals if one in self.far[e])
        for root in dict.fromkeys(roots):
            ways = [way for exit in self.exits if (way := self._way(root, [exit], placed)) is not None]
            if not ways:
                return None
            hops += min(ways)
        return len({place for slots, _ in placed.values() for place in slots}), hops, depth

    def _room(self, placed: dict[Operator, tuple[tuple[str, ...], bool]]) -> bool:
        for place, (kind, unit, _) in self.units.items():
            here = [op for op, (slots, _) in placed.items() if place in slots]
            if sum(op.memory for op in here) > unit.memory:  # type: ignore[attr-defined]
                return False
            holders = [op for op in here if op.kind in ("join", "aggregation", "order_by")]
            if kind == "processor" or not holders:
                continue
            if len(holders) > 1 or any(not self._on(op, holders[0], placed) for op in here):
                return False
        for op, (slots, _) in placed.items():
            if len(slots) > 1 and op.kind != "join":
                below = op.inputs[0]
                if not isinstance(below, Operator) or placed[below][0] != slots:
                    return False
        return True

    def _on(
        self, op: Operator, holder: Operator, placed: dict[Operator, tuple[tuple[str, ...], bool]]
    ) -> bool:
        """Whether an operator is the holder, or rides on it, itself or through others."""
        while op != holder:
            below = op.inputs[0]
            if not isinstance(below, Operator) or placed[below][0] != placed[op][0]:
                return False
            op = below
        return True

    def _step(
        self, op: Operator, slots: tuple[str, ...], flipped: bool, at: int, flow: Flow, placed: dict
    ) -> int | None:
        if isinstance(flow, Operator) and placed[flow][0] == slots:
            shared = all(self.units[place][0] == "processor" for place in slots)
            if op.kind in ("selection", "projection") or shared:
                return 0
        if slots[0] not in self.topology.named:
            return self._way(flow, [f"{self.units[place][2]}.in" for place in slots], placed)
        if op.kind == "join":
            left = (at == 0) != flipped
            return self._way(flow, [f"{slots[0]}.r_in" if left else f"{slots[-1]}.s_in"], placed)
        ways = [self._way(flow, [f"{slots[0]}.{lane}_in"], placed) for lane in "rs"]
        return min((way for way in ways if way is not None), default=None)

    def _way(self, flow: Flow, arrivals: list[str], placed: dict) -> int | None:
        if not isinstance(flow, Operator):
            ways = [
                max(self.far[entry][one] for one in arrivals)
                for entry in self.entries
                if all(one in self.far[entry] for one in arrivals)
            ]
            return min(ways, default=None)
        slots = placed[flow][0]
        sources = list(dict.fromkeys(self.units[place][2] for place in slots))
        if slots[0] in self.topology.named:
            if not all(one in self.far[source] for source in sources for one in arrivals):
                return None
            return max(self.far[source][one] for source in sources for one in arrivals)
        order = sorted(sources, key=lambda one: sum(f"{one}.in" in self.far[other] for other in sources))
        total = 0
        for one, other in pairwise(order):
            if f"{other}.in" not in self.far[one]:
                return None
            total += self.far[one][f"{other}.in"]
        if not all(one in self.far[order[-1]] for one in arrivals):
            return None
        return total + max(self.far[order[-1]][one] for one in arrivals)
