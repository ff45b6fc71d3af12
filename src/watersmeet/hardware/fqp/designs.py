"""The designs of this folder as the registry knows them, with a workload of their own: equi-joins that fill the whole fabric."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from watersmeet.fabric.catalog import op_chain, parallel_fqp
from watersmeet.fabric.fabric import Fabric
from watersmeet.hardware.fqp.op_block import OpBlock
from watersmeet.hardware.fqp.processor import Fqp
from watersmeet.hardware.fqp.running import Step, run
from watersmeet.hardware.registry import Design, Parameter, Run
from watersmeet.streams.window import Rows

MEMORY = 16
SCHEMAS = {"a": {"k": pa.int64()}, "b": {"k": pa.int64()}}
BLOCKS = Parameter(4, 1, 64, what="OP-Blocks of a chain")
WINDOW = Parameter(16, 1, 1 << 12, what="rows of each stream that a block holds")
CHAINS = Parameter(2, 1, 16, what="chains beside each other")


def workload(count: int, values: int = 32, seed: int = 0) -> list[tuple[str, dict[str, int]]]:
    """Rows of two streams, in turns of one to four."""
    rng = Random(seed)
    found: list[tuple[str, dict[str, int]]] = []
    while len(found) < count:
        stream = rng.choice("ab")
        found += [(stream, {"k": rng.randrange(values)}) for _ in range(rng.randint(1, 4))]
    return found[:count]


def _drive(
    name: str, fabric: Fabric, parameters: Mapping[str, int], streams: Any, simulator: str, options: Any
) -> Run:
    """``streams``: rows in order of arrival, ``("a", {"k": 3})``. One query a chain, each with a band of its own.

    ``rows``: how many, without streams; the other options are those of ``running.run``.
    """
    window, size = parameters["blocks"] * parameters["window"], parameters.get("chains", 1)
    sides = [f"last_rows({one}, {window}) {one}" for one in "ab"]
    queries = [
        f"CREATE QUERY q{k} AS SELECT a.k AS a, b.k AS b FROM {' JOIN '.join(sides)} ON a.k = b.k + {k}"
        for k in range(size)
    ]
    given: Sequence[Step] = workload(options.pop("rows", 400)) if streams is None else list(streams)
    windows = {"a": Rows(window), "b": Rows(window)}
    answer = run(fabric, [*queries, *given], schemas=SCHEMAS, windows=windows, simulator=simulator, **options)
    notes = {"words of instructions": answer.instructions, "queries": size}
    found = tuple(answer.numbers)
    return Run(
        name,
        dict(parameters),
        answer.rows,
        found,
        answer.cycles,
        answer.trace.simulator,
        answer.agrees,
        notes,
    )


def _chain(blocks: int, window: int) -> Fqp:
    return Fqp(op_chain(blocks, window, MEMORY, False))


def _parallel(chains: int, blocks: int, window: int) -> Fqp:
    return Fqp(parallel_fqp(chains, blocks, window, MEMORY, False))


def _drive_chain(parameters: Mapping[str, int], streams: Any, simulator: str, **options: Any) -> Run:
    fabric = Fabric.op_chain(parameters["blocks"], window=parameters["window"])
    return _drive("op_chain", fabric, parameters, streams, simulator, options)


def _drive_parallel(parameters: Mapping[str, int], streams: Any, simulator: str, **options: Any) -> Run:
    fabric = Fabric.parallel_fqp(parameters["chains"], parameters["blocks"], window=parameters["window"])
    return _drive("parallel_fqp", fabric, parameters, streams, simulator, options)


DESIGNS = (
    Design(
        "op_block",
        "OP-Block: an online programmable block",
        "thesis 4.1",
        {
            "window": WINDOW,
            "operators": Parameter(4, 2, 16, what="operators in a query buffer"),
            "terms": Parameter(8, 2, 64, what="comparisons in a query buffer"),
            "attributes": Parameter(16, 2, 4096, power_of_two=True, what="attributes of all rows"),
            "columns": Parameter(4, 1, 64, what="attributes of one row"),
        },
        OpBlock,
    ),
    Design(
        "op_chain",
        "OP-Chain: OP-Blocks in a row",
        "thesis 4.2",
        {"blocks": BLOCKS, "window": WINDOW},
        _chain,
        _drive_chain,
    ),
    Design(
        "parallel_fqp",
        "Parallel FQP: OP-Chains beside each other",
        "thesis 4.2, figure 4.5.8",
        {"chains": CHAINS, "blocks": BLOCKS, "window": WINDOW},
        _parallel,
        _drive_parallel,
    ),
)
