"""Aggregates and orders on a fabric: TPC-H's third query from its text to the thesis's places; what no block does is refused by name."""

from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from fabric_machine import check

MONEY = pa.decimal128(12, 2)
SCHEMAS: dict[str, dict[str, Any]] = {
    "customer": {"c_custkey": pa.int32(), "c_mktsegment": pa.string()},
    "orders": {
        "o_orderkey": pa.int32(),
        "o_custkey": pa.int32(),
        "o_orderdate": pa.date32(),
        "o_shippriority": pa.int32(),
    },
    "lineitem": {
        "l_orderkey": pa.int32(),
        "l_extendedprice": MONEY,
        "l_discount": MONEY,
        "l_shipdate": pa.date32(),
    },
}
WINDOWS = {name: wm.Rows(1024) for name in SCHEMAS}
Q3 = """
    SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
    FROM customer, orders, lineitem
    WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
    AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
    GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10"""
ANYTHING = wm.Fabric.ssp([[[wm.Unit("cpu", "processor", 2000, memory=200, computes=True)]]])


def processor(fabric: wm.Fabric) -> wm.Processor:
    return wm.Processor(windows=WINDOWS, schemas=SCHEMAS, fabric=fabric)


def test_the_text_of_tpch_q3_stands_as_in_figure_7_1_7() -> None:
    qp = processor(wm.Fabric.tpch_q3())
    qp.create("q3", Q3)
    shown = qp.fabric_assignment()
    assert [(op.split()[0], slots) for op, slots in shown.placements["q3"]] == [
        ("selection", ("brick1_1.selection1",)),
        ("selection", ("brick1_1.selection2",)),
        ("selection", ("brick1_1.selection3",)),
        ("inner", ("brick2_1.join",)),
        ("aggregation", ("brick3_1.aggregation",)),
        ("order_by", ("brick4_1.order_by",)),
    ]
    assert "sum lineitem.l_extendedprice 1 lineitem.l_discount - *" in str(shown)
    check(shown.assignment)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("SELECT COUNT(*) AS n FROM orders", ["aggregation"]),
        ("SELECT o_custkey, COUNT(*) AS n FROM orders WHERE o_shippriority = 1 GROUP BY o_custkey HAVING MAX(o_orderkey) > 2",
         ["selection", "aggregation", "selection"]),
        ("SELECT o_custkey, COUNT(*) AS n FROM last_rows(orders, 10) GROUP BY o_custkey", ["aggregation"]),
        ("SELECT * FROM orders ORDER BY o_orderdate DESC NULLS FIRST LIMIT 3", ["order_by"]),
        ("SELECT k, COUNT(*) AS n FROM (SELECT o_custkey AS k FROM orders UNION ALL SELECT c_custkey FROM customer) GROUP BY k "
         "ORDER BY n LIMIT 5",
         ["projection", "projection", "aggregation", "order_by"]),
    ],
)  # fmt: skip
def test_answers_become_aggregations_selections_and_orders(text: str, kinds: list[str]) -> None:
    with processor(ANYTHING) as qp:
        qp.create("q", text)
        assigned = qp.fabric_assignment().assignment
        assert [op.kind for op in assigned.placed] == kinds
        check(assigned)


def test_an_answer_is_the_same_with_a_fabric_as_without() -> None:
    orders = {
        "o_orderkey": [1, 2, 3],
        "o_custkey": [7, 8, 7],
        "o_orderdate": [None] * 3,
        "o_shippriority": [0] * 3,
    }
    text = "SELECT o_custkey, COUNT(*) AS n FROM orders GROUP BY o_custkey ORDER BY n DESC LIMIT 1"
    answers = []
    for fabric in (ANYTHING, None):
        qp = wm.Processor(windows=WINDOWS, schemas=SCHEMAS, fabric=fabric)
        qp.create("q", text)
        answers.append([qp.push(orders=orders)["q"].to_arrow().to_pylist() for _ in range(2)])
    assert answers[0] == answers[1] == [[{"o_custkey": 7, "n": 2}], [{"o_custkey": 7, "n": 4}]]


@pytest.mark.parametrize(
    ("fabric", "text", "reason"),
    [
        (ANYTHING, "SELECT DISTINCT o_custkey FROM orders", "orders of an answer; got distinct; run it in a processor without a fabric"),
        (wm.Fabric.tpch_q3(), "SELECT COUNT(*) AS n FROM last_rows(orders, 10)", "brick3_1.aggregation: aggregates all rows so far,"),
        (wm.Fabric.tpch_q3(), "SELECT * FROM orders ORDER BY o_orderdate LIMIT 2000", "brick4_1.order_by: keeps 1024 rows, not 2000"),
        (wm.Fabric.op_chain(3), "SELECT COUNT(*) AS n FROM orders", "block1, block2 and block3: does no aggregation"),
    ],
)  # fmt: skip
def test_what_no_block_does_is_refused_by_name(fabric: wm.Fabric, text: str, reason: str) -> None:
    qp = processor(fabric)
    with pytest.raises(wm.FabricError) as refused:
        qp.create("q", text)
    assert reason in str(refused.value)
    assert qp.queries() == {}
