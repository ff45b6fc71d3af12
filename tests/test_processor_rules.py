"""Filters of one shape are evaluated together, by an index over their constants: each gives what it gives alone, whoever comes and goes."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from harness import examples
from interruptions import every_step
from watersmeet.aggregate.dictionary import Dictionary
from watersmeet.query import delta, rule_results, rules
from watersmeet.query.rule import MOST, rule_of

NAN, INF = float("nan"), float("inf")
START = datetime(2024, 5, 1)
# By column: its type, values that rows have, and constants as a text may write them, of its own type and of others.
COLUMNS: dict[str, tuple[pa.DataType, list[Any], list[str]]] = {
    "sym": (pa.string(), ["A", "B", "AB", "", "\u00e4", "A" * 20, None], ["'A'", "'B'", "''", "'\u00e4'", f"'{'A' * 20}'"]),
    "tag": (pa.dictionary(pa.int8(), pa.string()), ["A", "B", None], ["'A'", "'B'", "'C'"]),
    "raw": (pa.binary(), [b"A", b"\x00", None], ["X'41'", "X'00'"]),
    "price": (pa.float64(), [1.5, -0.0, 0.0, 0.1, NAN, INF, -INF, None], ["1.5", "0", "-0.0D", "0.1", "1e0", "CAST('NaN' AS DOUBLE)"]),
    "real": (pa.float32(), [1.5, 0.1, -0.0, NAN, None], ["1.5", "0.1", "CAST(0.1 AS FLOAT)", "0"]),
    "size": (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, None], ["0", "1", "-1", "1.5", "1.0", "9223372036854775807", "1e0"]),
    "few": (pa.int8(), [0, 1, 127, None], ["0", "1", "127", "200", "0.5", "1e0"]),
    "huge": (pa.uint64(), [0, 1, 2**64 - 1, None], ["0", "1", "9223372036854775807", "1.5"]),
    "cash": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("0.10"), Decimal("-1"), None], ["1.5", "0.1", "1.505", "-1", "1e0", "0.1D"]),
    "wide": (pa.decimal128(30, 5), [Decimal("1.5"), Decimal("1.50001"), Decimal(10**20), None], ["1.5", "1.50001", "1", "1.5000100001"]),
    "day": (pa.date32(), [date(2024, 5, 1), date(1969, 1, 1), None], ["DATE '2024-05-01'", "TIMESTAMP '2024-05-01 00:00:00'"]),
    "at": (pa.timestamp("ns"), [START, START + timedelta(seconds=1), None], ["TIMESTAMP '2024-05-01 00:00:00'", "DATE '2024-05-01'"]),
    "flag": (pa.bool_(), [True, False, None], ["TRUE", "FALSE"]),
}  # fmt: skip
SCHEMA = pa.schema({name: kind for name, (kind, _, _) in COLUMNS.items()})
KEYS = {**{name: name for name in COLUMNS}, "size": "size + few", "real": "real * 2", "sym": "UPPER(sym)"}
COMPARED = ("=", "<", "<=", ">", ">=", "<=>", "<>")


@contextmanager
def together(few: int = 0) -> Iterator[None]:
    """So many filters are evaluated alone; all others together."""
    with patch.object(rules, "FEW", few):
        yield


@st.composite
def conjunct_shapes(draw: st.DrawFn) -> tuple[str, str]:
    """A form with places for constants, and the column that they are of."""
    column = draw(st.sampled_from(list(COLUMNS)))
    key = draw(st.sampled_from([column, column, KEYS[column]]))
    forms = [
        *(f"{key} {op} ?" for op in COMPARED),
        f"? < {key}",
        f"{key} BETWEEN ? AND ?",
        f"{key} IN (?, ?, NULL)",
    ]
    forms += [f"NOT {key} > ?", f"({key} = ? OR few = 1)", f"{key} IN (?)"]
    return draw(st.sampled_from(forms)), column


@st.composite
def rule_texts(draw: st.DrawFn) -> list[str]:
    """Predicates of a few shapes."""
    shapes = draw(st.lists(st.lists(conjunct_shapes(), min_size=1, max_size=3), min_size=1, max_size=2))
    texts = []
    for _ in range(draw(st.integers(2, 8))):
        parts = []
        for form, column in draw(st.sampled_from(shapes)):
            constants = st.sampled_from(
                [*COLUMNS[column][2], *(["NULL"] if draw(st.integers(0, 9)) == 0 else [])]
            )
            parts.append("".join(piece if piece != "?" else draw(constants) for piece in _pieces(form)))
        texts.append(" AND ".join(draw(st.permutations(parts))))
    return texts


def _pieces(form: str) -> list[str]:
    return [piece for part in form.split("?") for piece in (part, "?")][:-1]


def batch(seed: int, rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    columns = [
        pa.array([values[k] for k in rng.integers(0, len(values), rows)], kind)
        for kind, values, _ in COLUMNS.values()
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def processor() -> wm.Processor:
    return wm.Processor(s=wm.Rows(10), schemas={"s": SCHEMA})


def sql(predicate: str) -> str:
    return f"SELECT sym, price FROM s WHERE {predicate}"


@given(st.data())
@examples(60)
def test_rules_find_what_each_finds_alone(data: st.DataObject) -> None:
    texts = data.draw(rule_texts())
    note("\n".join(texts))
    qp, alone = processor(), {f"q{n}": processor() for n in range(5)}
    live = list[str]()
    for step in range(data.draw(st.integers(3, 8))):
        name, text = data.draw(st.sampled_from(list(alone))), sql(data.draw(st.sampled_from(texts)))
        action = (
            data.draw(st.sampled_from(["create", "create", "alter", "drop", "push"])) if step else "create"
        )
        for one in (qp, alone[name]):
            if action == "drop" and name in live:
                one.drop(name)
            elif action == "alter" and name in live:
                one.queries()[name].alter(text)
            elif action != "push" and name not in live:
                one.create(name, text)
        live = list(qp.queries())
        rows = batch(data.draw(st.integers(0, 1000)), data.draw(st.integers(0, 12)))
        slack, few, small = (data.draw(st.sampled_from(given)) for given in ([0, 1024], [0, 1, 4], [0, 64]))
        gathered = patch.multiple(rule_results, ALONE=few, SMALL=small)
        with together(), gathered, patch.object(rules, "SLACK", slack):
            out = qp.push(s=rows)
        assert (list(out), out.stopped) == (live, {})
        for name, other in alone.items():
            for wanted in other.push(s=rows).values():
                found = out[name]
                assert found.numbers()["s"].tolist() == wanted.numbers()["s"].tolist(), (name, qp.explain())
                assert repr(found.to_arrow()) == repr(wanted.to_arrow())
                assert (found.count, found.late) == (wanted.count, wanted.late)


def trades(rng: np.random.Generator, rows: int, start: int = 0) -> pa.RecordBatch:
    """Rows of 40 symbols; every tenth is late by far."""
    times = start + np.arange(rows) - np.where(np.arange(rows) % 10 == 9, 500, 0)
    return pa.record_batch(
        {
            "sym": pa.array([f"S{k}" for k in rng.integers(0, 40, rows)]),
            "price": pa.array(np.round(rng.uniform(0, 10, rows), 1)),
            "size": pa.array(rng.integers(0, 5, rows)),
            "ts": pa.array(times * 1_000_000, pa.timestamp("us")),
        }
    )


TIMED = wm.Range("10 s", time="ts", lateness="5 s")
OVER = {
    "rows": ("SELECT sym, price FROM trades WHERE {where}", None),
    "counted": ("SELECT sym, COUNT(*) AS n, SUM(price) AS p FROM trades WHERE {where} GROUP BY sym", "changelog"),
    "complete": ("SELECT COUNT(*) AS n FROM trades WHERE {where}", "complete"),
    "sliding": ("SELECT COUNT(*) AS n FROM last_rows(trades, 20) WHERE {where}", "complete"),
    "windows": ("SELECT window.start AS w, COUNT(*) AS n FROM trades WHERE {where} GROUP BY window(ts, '10 seconds')", None),
    "distinct": ("SELECT DISTINCT sym FROM trades WHERE {where}", None),
    "derived": ("SELECT sym FROM (SELECT DISTINCT sym, price, size FROM trades) WHERE {where}", None),
    "outer": ("SELECT trades.sym, bid FROM trades LEFT JOIN quotes ON trades.sym = quotes.sym WHERE trades.{where}", None),
    "absent": ("SELECT trades.sym FROM trades LEFT JOIN quotes ON trades.sym = quotes.sym WHERE bid >= {n} AND trades.{where}", None),
    "union": ("SELECT sym FROM trades WHERE {where} UNION ALL SELECT sym FROM quotes WHERE bid > {n}", None),
    "rest": ("SELECT sym FROM trades WHERE {where} AND (size % 2 = 1 OR price * size > {n})", None),
}  # fmt: skip


def company() -> wm.Processor:
    rng = np.random.default_rng(0)
    quotes = pa.schema({"sym": pa.string(), "bid": pa.float64(), "ts": pa.timestamp("us")})
    return wm.Processor(
        trades=TIMED, quotes=TIMED, schemas={"trades": trades(rng, 1).schema, "quotes": quotes}
    )


@pytest.mark.parametrize("over", OVER)
def test_whatever_stands_over_rules_is_as_alone(over: str) -> None:
    text, emit = OVER[over]
    rng = np.random.default_rng(7)
    queries = {
        f"q{n}": text.format(where=f"sym = 'S{n}' AND trades.price > {n}.5", n=n) if "quotes" in text
        else text.format(where=f"sym = 'S{n}' AND price > {n}.5", n=n)
        for n in range(6)
    }  # fmt: skip
    qp, alone = company(), {name: company() for name in queries}
    for name, query in queries.items():
        qp.create(name, query, emit=emit)
        alone[name].create(name, query, emit=emit)
    found = False
    for number in range(6):
        rows = trades(rng, 60, number * 60)
        rows = rows.set_column(0, "sym", pa.array([f"S{k}" for k in rng.integers(0, 6, 60)]))
        bids = {
            "sym": [f"S{k}" for k in range(6)],
            "bid": [float(k) for k in range(6)],
            "ts": [rows["ts"][0]] * 6,
        }
        pushed = {"trades": rows, "quotes": pa.table(bids, qp._running.feed.known.schemas["quotes"])}
        if number == 3:
            qp.drop("q5")
            del alone["q5"]
        out = qp.push(pushed)
        for name, other in alone.items():
            wanted = other.push(pushed)[name]
            assert out[name].to_arrow().equals(wanted.to_arrow()), name
            assert out[name].late == wanted.late
            found = found or wanted.count > 0
    assert found
    assert ("evaluated with 4 others" in qp.explain()) == (len(alone) > rules.FEW)
    ended = qp.finish()
    assert all(
        ended[name].to_arrow().equals(other.finish()[name].to_arrow()) for name, other in alone.items()
    )


def test_a_thousand_rules() -> None:
    rng = np.random.default_rng(3)
    schema = trades(rng, 1).schema
    qp = wm.Processor(trades=wm.Rows(10), schemas={"trades": schema})
    asked = {f"r{n}": (f"S{n % 50}", n // 50 / 2) for n in range(1000)}
    qp.execute(
        ";".join(
            f"CREATE QUERY {name} AS SELECT price FROM trades WHERE sym = '{s}' AND price > {p}"
            for name, (s, p) in asked.items()
        )
    )
    for size in (1, 500):
        rows = trades(rng, size)
        out = qp.push(trades=rows)
        symbols, prices = rows["sym"].to_pylist(), rows["price"].to_pylist()
        for name, (s, p) in asked.items():
            wanted = [b for a, b in zip(symbols, prices, strict=True) if a == s and b > p]
            assert out[name].to_arrow()["price"].to_pylist() == wanted
    assert qp.queries()["r7"].explain().count("evaluated with 999 others by trades.sym, trades.price") == 1


# ---- what belongs together --------------------------------------------------------------------------------------


def explained(*predicates: str, few: int = 0) -> list[str]:
    """What is said of the filter of each."""
    with together(few):
        qp = processor()
        for n, predicate in enumerate(predicates):
            qp.create(f"q{n}", sql(predicate))
        lines = [query.explain().split("\n") for query in qp.queries().values()]
        return [next(line.strip() for line in one if "filter" in line) for one in lines]


def test_explain_says_which_filters_are_evaluated_together() -> None:
    found = explained(
        "sym = 'A' AND price > 1.5", "price > 2 AND 'B' = sym", "sym IN ('A', 'C') AND price > 3e0 AND flag"
    )
    by = "evaluated with 2 others by s.sym, s.price"
    assert found[0] == f"filter s.sym = 'A' AND s.price > 1.5 (0 rows; {by})"
    assert [by in line for line in found] == [True, True, True]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("price > 1", "price < 1"),
        ("price > 1", "size > 1"),
        ("sym = 'A'", "sym = 'A' AND price > 1"),
        ("sym > 'A'", "tag > 'A'"),
        ("few > 1", "few > 1e0"),
    ],
)
def test_other_shapes_are_other_sets(one: str, other: str) -> None:
    found = explained(one, one.replace("1", "2").replace("'A'", "'B'"), other)
    assert ["evaluated with 1 other by" in line for line in found] == [True, True, False]


@pytest.mark.parametrize(
    "predicate",
    [
        "sym LIKE 'A%'",
        "price > size",
        "flag",
        "sym = NULL",
        "price <> 1",
        "few = 1 OR size = 2",
        "sym IN (NULL)",
    ],
)
def test_what_constants_do_not_decide_is_evaluated_alone(predicate: str) -> None:
    assert not any("evaluated with" in line for line in explained(predicate, predicate + " AND few IS NULL"))


def test_a_few_filters_are_evaluated_one_by_one() -> None:
    texts = [f"sym = '{n}'" for n in range(rules.FEW + 1)]
    assert not any("evaluated with" in line for line in explained(*texts[:-1], few=rules.FEW))
    assert all("evaluated with 4 others" in line for line in explained(*texts, few=rules.FEW))


def test_many_lists_are_not_multiplied() -> None:
    many = ", ".join(map(str, range(100)))
    qp = processor()
    qp.create("q", sql(f"few IN ({many}) AND size IN ({many}) AND sym = 'A'"))
    (block,) = (one for one in qp._running.graph.blocks.values() if isinstance(one, rules.FilterBlock))
    rule = rule_of(block.predicate)
    assert rule is not None
    assert rule.combinations == 100 < MOST
    assert "IN" in str(rule.rest)


# ---- changes, failures, states ----------------------------------------------------------------------------------


def some_rules() -> wm.Processor:
    rng = np.random.default_rng(5)
    qp = wm.Processor(trades=wm.Rows(20), schemas={"trades": trades(rng, 1).schema})
    for n in range(4):
        qp.create(
            f"q{n}", f"SELECT sym, size FROM trades WHERE sym = 'S{n}' AND price > {n} AND size % 2 = 1"
        )
    qp.push(trades=trades(rng, 30))
    return qp


def rows_of(results: Any) -> dict[str, Any]:
    return {name: result.to_arrow().to_pylist() for name, result in results.items()}


CHANGES: dict[str, Any] = {
    "push": lambda qp: qp.push(trades=trades(np.random.default_rng(6), 200)),
    "create": lambda qp: qp.create("new", "SELECT size FROM trades WHERE sym = 'S3' AND price > 1").name,
    "drop": lambda qp: qp.drop("q1"),
    "alter": lambda qp: qp.queries()["q1"].alter("SELECT size FROM trades WHERE sym = 'S3' AND price > 2"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_interrupted_change_of_rules_is_undone(name: str) -> None:
    def shown(given: Any) -> Any:
        return rows_of(given) if isinstance(given, dict) else given

    def rest(qp: wm.Processor) -> Any:
        return rows_of(qp.push(trades=trades(np.random.default_rng(8), 200))), qp.explain()

    with together():
        undisturbed = some_rules()
        wanted, after = shown(CHANGES[name](undisturbed)), rest(undisturbed)
        assert any(after[0].values())

        def check(qp: wm.Processor, given: Any) -> None:
            assert shown(given) == wanted
            assert rest(qp) == after

        every_step(some_rules, CHANGES[name], check, at_most=40, standing=lambda qp: qp.explain())


def test_an_error_in_the_rest_of_one_rule_stops_its_query_only() -> None:
    functions = sys.modules["watersmeet.sql.evaluate"]._FUNCTIONS  # type: ignore[attr-defined]
    failing = functions["%"]

    def fails(call: Any, args: Any) -> Any:
        if str(call.args[1]) == "3":
            raise ValueError("no such remainder")
        return failing(call, args)

    with together(), patch.dict(functions, {"%": fails}):
        qp = some_rules()
        qp.create("bad", "SELECT size FROM trades WHERE sym = 'S3' AND price > 2 AND size % 3 = 1")
        rows = trades(np.random.default_rng(6), 200)
        out = qp.push(trades=rows)
        assert out.stopped == {"bad": "ValueError: no such remainder"}
        assert list(out) == ["q0", "q1", "q2", "q3"]
        other = some_rules()
    assert rows_of(out) == rows_of(other.push(trades=rows))


def test_rules_are_saved_and_loaded(tmp_path: Path) -> None:
    with together():
        qp = some_rules()
        qp.save(tmp_path / "state")
        loaded = wm.Processor.load(tmp_path / "state")
        assert loaded.explain() == qp.explain()
        rows = trades(np.random.default_rng(6), 200)
        assert rows_of(loaded.push(trades=rows)) == rows_of(qp.push(trades=rows))


def test_a_warm_rule_is_given_the_past_alone() -> None:
    with together():
        qp, other = some_rules(), some_rules()
        text = "SELECT sym, price FROM trades WHERE sym IN ('S1', 'S3', 'S9', 'S20') AND price > 1"
        warm = qp.create("warm", text, start="warm", backfill=True)
        assert warm.backfill is not None
    with together(few=100):
        alone = other.create("warm", text, start="warm", backfill=True)
        assert alone.backfill is not None
        assert warm.backfill.to_arrow().equals(alone.backfill.to_arrow())


def test_results_of_no_rows_are_whole() -> None:
    """They are made once, and must hold as those that are made anew."""
    with together():
        qp = some_rules()
        first, second = (qp.push(trades=trades(np.random.default_rng(6), 0))["q0"] for _ in range(2))
        full = qp.push(trades=trades(np.random.default_rng(6), 200))["q0"]
        empty = qp.push(trades=trades(np.random.default_rng(6), 1))["q0"]
    for one in (first, second, empty):
        assert (len(one), one.late, dict(one.missing), one.schema) == (0, {}, {}, full.schema)
        assert one.numbers()["trades"].tolist() == []
        assert one.to_arrow().num_rows == 0
    assert full.count > 0


def test_columns_that_come_later_do_not_disturb_rules() -> None:
    with together():
        qp = some_rules()
        qp.alter_stream("trades", add={"venue": pa.string()})
        qp.create("new", "SELECT venue FROM trades WHERE sym = 'S1' AND price > 1 AND size % 2 = 1")
        rows = trades(np.random.default_rng(6), 200)
        rows = rows.append_column("venue", pa.array(["V"] * 200))
        out = qp.push(trades=rows)
    assert out["new"].to_arrow()["venue"].to_pylist() == ["V"] * out["q1"].count
    assert out["q1"].count > 0


# ---- results that are gathered together -------------------------------------------------------------------------


def shown_rules(*more: str) -> wm.Processor:
    """Twenty rules with two select lists, and others."""
    qp = wm.Processor(trades=wm.Rows(20), schemas={"trades": trades(np.random.default_rng(5), 1).schema})
    for n in range(20):
        listed = "sym, size" if n % 2 else "price * 2 AS twice, sym"
        qp.create(f"q{n}", f"SELECT {listed} FROM trades WHERE sym = 'S{n}' AND price > {n % 4}")
    for n, text in enumerate(more):
        qp.create(f"more{n}", text)
    return qp


def test_small_results_of_a_set_are_slices_of_what_is_gathered_once() -> None:
    qp = shown_rules()
    out = qp.push(trades=trades(np.random.default_rng(6), 300))
    calls = []
    rows = delta.Answer.rows

    def counted(self: delta.Answer, *args: Any) -> Any:
        calls.append(self)
        return rows(self, *args)

    with patch.object(delta.Answer, "rows", counted):
        found = rows_of(out)
    assert len(calls) == 2 * (rule_results.ALONE + 1)
    with patch.object(rule_results, "SMALL", 0):
        assert rows_of(shown_rules().push(trades=trades(np.random.default_rng(6), 300))) == found
    assert sum(map(len, found.values())) == sum(result.count for result in out.values()) > 40
    # What a notebook shows of one is the beginning of its own rows, before and after.
    wanted = out["q13"]._repr_html_()
    again = qp.push(trades=trades(np.random.default_rng(6), 300))
    assert again["q13"]._repr_html_() == wanted


def test_a_row_that_cannot_be_shown_fails_for_its_rule_alone() -> None:
    qp = shown_rules()
    for n in range(20, 26):
        qp.create(f"q{n}", f"SELECT sym, size % 3 AS rest FROM trades WHERE sym = 'S{n}' AND price > 0")
    functions = sys.modules["watersmeet.sql.evaluate"]._FUNCTIONS  # type: ignore[attr-defined]
    plain, bad = functions["%"], {"sym": ["S22", "S21", "S23"], "price": [1.0] * 3, "size": [7777, 4, 5]}

    def fails(call: Any, args: Any) -> Any:
        if 7777 in args[0].to_pylist():
            raise ValueError("no such remainder")
        return plain(call, args)

    rows = pa.concat_batches([trades(np.random.default_rng(6), 300), batch_of(bad)])
    with patch.dict(functions, {"%": fails}), patch.object(rule_results, "ALONE", 0):
        out = qp.push(trades=rows)
        with pytest.raises(ValueError, match="no such remainder"):
            out["q22"].to_arrow()
        found = rows_of({name: result for name, result in out.items() if name != "q22"})
    again = shown_rules(
        *(f"SELECT sym, size % 3 AS rest FROM trades WHERE sym = 'S{n}' AND price > 0" for n in (21, 23))
    )
    wanted = rows_of(again.push(trades=rows))
    assert (found["q21"], found["q23"], found["q7"]) == (wanted["more0"], wanted["more1"], wanted["q7"])
    assert found["q21"][-1] == {"sym": "S21", "rest": 1}


def batch_of(columns: dict[str, Any]) -> pa.RecordBatch:
    schema = trades(np.random.default_rng(5), 1).schema
    return pa.RecordBatch.from_pydict({**columns, "ts": [START] * len(columns["sym"])}, schema)


def test_blocks_count_the_rows_of_rules_once() -> None:
    """Also where several queries show a filter's rows, or one counts them."""
    where = "FROM trades WHERE sym = 'S3' AND price > 3"
    more = (f"SELECT sym, size {where}", f"SELECT size {where}", f"SELECT COUNT(*) AS n {where}")
    for some in (more, more[:2]):
        qp, alone = shown_rules(*some), shown_rules(*some)
        for seed in range(3):
            rows = trades(np.random.default_rng(seed), 300)
            out = qp.push(trades=rows)
            with together(few=100):
                assert rows_of(out) == rows_of(alone.push(trades=rows))
        with together(few=100):
            alone.create("last", "SELECT ts FROM trades")
            qp.create("last", "SELECT ts FROM trades")
            wanted = alone.explain()
        assert "evaluated with" not in wanted
        assert qp.explain().replace("; evaluated with 19 others by trades.sym, trades.price", "") == wanted


# ---- the dictionary of constants --------------------------------------------------------------------------------


def test_texts_are_looked_up_and_not_entered() -> None:
    known = Dictionary(pa.large_binary())
    known.encode(pa.array(["A", "B"], pa.large_string()))
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        numbers, there = known.find(pa.array(["B", None, "C", "A", ""], pa.string()).cast(kind))
        assert numbers.tolist() == [1, -1, -1, 0, -1]
        assert there.tolist() == [True, False, False, True, False]
    numbers, _ = known.find(
        pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.string()))
    )
    assert numbers.tolist() == [-1, -1]
    numbers, _ = known.find(
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array([None, "A"]))
    )
    assert numbers.tolist() == [-1, 0, -1]
    assert len(known) == 2
