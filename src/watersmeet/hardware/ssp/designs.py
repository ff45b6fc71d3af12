"""SSPs that are ready to run: those on which the thesis runs TPC-H's third and first query."""

from collections.abc import Mapping
from typing import Any

from watersmeet.bench.tpch_data import cache_folder, tables
from watersmeet.bench.tpch_queries import QUERIES
from watersmeet.fabric.components import Unit
from watersmeet.fabric.fabric import Fabric
from watersmeet.hardware.registry import Design, Parameter, Run
from watersmeet.hardware.ssp.processor import SSP
from watersmeet.hardware.ssp.running import Ran, run
from watersmeet.hardware.ssp.sizes import Sizes
from watersmeet.streams.window import Rows

# In windows the answer depends on the order of arrival; Q1 has no window, and its order needs a number of rows that are kept.
TEXTS = {"ssp_q3": QUERIES["Q3"], "ssp_q1": QUERIES["Q1"] + " LIMIT 16"}
Q1_SIZES = {"aggregates": 6, "steps": 4, "key": 1, "result": 4}


def q1_fabric() -> Fabric:
    """One path: a selection, an aggregation with group-by, an order (7.3.5)."""
    return Fabric.ssp(
        [
            [[Unit("selection", "selection", memory=2)]],
            [[Unit("aggregation", "aggregation", memory=64, computes=True)]],
            [[Unit("order_by", "order_by", 16)]],
        ]
    )


def _q3(window: int, table: int, groups: int) -> SSP:
    return SSP(Fabric.tpch_q3(window=window).topology, Sizes(table=table, groups=groups))


def _q1(groups: int) -> SSP:
    return SSP(q1_fabric().topology, Sizes(groups=groups, **Q1_SIZES))


def ran_q3(parameters: Mapping[str, int], rows: Any, simulator: str, **options: Any) -> Ran:
    """Q3 on ``rows``: tables by stream, mixed evenly unless ``order`` says otherwise."""
    sizes = Sizes(table=parameters["table"], groups=parameters["groups"])
    windows = {name: Rows(parameters["window"]) for name in rows}
    fabric = Fabric.tpch_q3(window=parameters["window"])
    return run(
        fabric, {"Q3": TEXTS["ssp_q3"]}, rows, windows=windows, sizes=sizes, simulator=simulator, **options
    )


def ran_q1(parameters: Mapping[str, int], rows: Any, simulator: str, **options: Any) -> Ran:
    """Q1 on the lines of ``rows``."""
    sizes = Sizes(groups=parameters["groups"], **Q1_SIZES)
    lines = {"lineitem": rows["lineitem"]}
    return run(
        q1_fabric(),
        {"Q1": TEXTS["ssp_q1"]},
        lines,
        windows={"lineitem": Rows(1)},
        sizes=sizes,
        simulator=simulator,
        **options,
    )


def _drive(name: str, runs: Any) -> Any:
    def drive(
        parameters: Mapping[str, int], streams: Any, simulator: str, sf: float = 0.001, **options: Any
    ) -> Run:
        """``streams``: tables of customer, orders and lineitem; None: TPC-H's at scale factor ``sf``."""
        rows = tables(sf, cache_folder()) if streams is None else streams
        found: Ran = runs(parameters, rows, simulator, **options)
        (answer,) = found.results.values()
        notes = {"answer": answer, "words of instructions": found.programming, "agrees": "in order, by value"}
        return Run(name, dict(parameters), found.rows, (), found.cycles, found.simulator, found.agrees, notes)

    return drive


DESIGNS = (
    Design(
        "ssp_q3",
        "SSP with three selections, a three-way hash join, aggregation and order-by",
        "thesis 7.1, 7.2, figure 7.1.7",
        {
            "window": Parameter(1024, 1, 1 << 16, what="rows of each stream that are joined"),
            "table": Parameter(2048, 2, 1 << 16, power_of_two=True, what="places of each hash table"),
            "groups": Parameter(1024, 2, 1 << 16, power_of_two=True, what="groups"),
        },
        _q3,
        _drive("ssp_q3", ran_q3),
    ),
    Design(
        "ssp_q1",
        "SSP with one path: selection, aggregation, order-by",
        "thesis 7.3.5",
        {"groups": Parameter(64, 2, 1 << 16, power_of_two=True, what="groups")},
        _q1,
        _drive("ssp_q1", ran_q1),
    ),
)
