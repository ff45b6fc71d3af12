"""Random scripts for FQP: queries that come and go while rows flow, on chains and parallel chains that they fit."""

from random import Random
from typing import Any

import pyarrow as pa

import watersmeet as wm
from hardware.harness import stalls
from watersmeet.errors import FabricError
from watersmeet.hardware.fqp.running import Answer, Step, run

SCHEMAS = {"a": {"k": pa.int32(), "v": pa.int64()}, "b": {"k": pa.int32(), "w": pa.int16()}}
WINDOWS = {"a": wm.Rows(9), "b": wm.Rows(9)}
ALONE = ["k > 2", "v <= 3 AND k <> 1", "k = v", "k <=> v"]
PAIRS = [
    "a.k = b.k",
    "a.k < b.k",
    "a.k = b.k AND a.v <= b.w",
    "a.k = b.k + 1",
    "a.v >= b.w - 2 AND a.k <> b.k",
    "a.k <=> b.k",
]
BEFORE = ["", " WHERE a.v > 2", " WHERE a.v > 2 AND b.w < 6", " WHERE a.k > 1 AND a.v <> 3"]


def query(rng: Random) -> str:
    """A selection, a projection or a join."""
    kind = rng.randrange(5)
    if kind == 0:
        return f"SELECT * FROM a WHERE {rng.choice(ALONE)}"
    if kind == 1:
        return rng.choice(["SELECT w FROM b", "SELECT w, k FROM b WHERE w < 4"])
    sides = [f"last_rows({name}, {rng.choice([1, 2, 3, 5, 8])}) {name}" for name in "ab"]
    return f"SELECT a.k, a.v, b.w FROM {' JOIN '.join(sides)} ON {rng.choice(PAIRS)}{rng.choice(BEFORE)}"


def row(rng: Random) -> Step:
    """Few values, so that rows meet, and some NULLs."""
    stream = rng.choice("ab")
    return stream, {name: None if rng.random() < 0.1 else rng.randrange(6) for name in SCHEMAS[stream]}


FABRICS = {  # few, as each is compiled
    "chain": wm.Fabric.op_chain(3, window=3),
    "parallel": wm.Fabric.parallel_fqp(2, 1, window=5),
}
SIZES = {"operators": 8, "terms": 12, "attributes": 16, "columns": 4, "queue": 64}


def script(rng: Random, on: wm.Fabric, steps: int) -> list[Step]:
    """Rows in runs of one or more, and queries that the fabric has room for without moving a join."""
    found: list[Step] = []
    running: list[str] = []
    with wm.Processor(windows=WINDOWS, schemas=SCHEMAS, fabric=on) as qp:

        def moved() -> bool:
            return any(op.kind == "join" for op in qp.fabric_assignment().assignment.moved)

        def create() -> bool:
            name = f"q{len(found)}"
            try:
                qp.create(name, query(rng))
            except FabricError:
                return True
            found.append(f"CREATE QUERY {name} AS {qp.queries()[name].sql}")
            running.append(name)
            if moved():
                found.pop()
                return False
            return True

        going = create() and create() and create()
        while going and len(found) < steps:
            chance = rng.random()
            if chance < 0.06 and len(running) < 4:
                going = create()
            elif chance < 0.1 and running:
                name = running.pop(rng.randrange(len(running)))
                qp.drop(name)
                found.append(f"DROP QUERY {name}")
            else:
                found += [row(rng) for _ in range(rng.choice([1, 1, 2, 4]))]
    return found


def answer(name: str, seed: Any, steps: int, simulator: str = "compiled") -> Answer | None:
    """A random script on a fabric, with random stalls; None if it is refused."""
    rng = Random(f"{name} {seed}")
    on = FABRICS[name]
    rows = script(rng, on, steps)
    offers = [3 * k + rng.randrange(4) for k in range(300)] if rng.random() < 0.4 else None
    try:
        return run(
            on,
            rows,
            schemas=SCHEMAS,
            windows=WINDOWS,
            simulator=simulator,
            stalls=stalls(rng) if rng.random() < 0.6 else None,
            offers=offers,
            cycles=200_000,
            sizes=SIZES,
        )
    except FabricError:
        return None
