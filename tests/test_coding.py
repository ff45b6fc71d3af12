"""Joins that share streams code and sort each batch once; what they find is what each finds alone."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from watersmeet.join import prepare
from watersmeet.sql.condition import Band

TRADE = {"sym": pa.string(), "price": pa.float64(), "size": pa.int64()}
QUOTE = {"sym": pa.string(), "bid": pa.float64(), "ask": pa.float64()}
NEAR = (
    "SELECT t.sym, t.price, q.bid FROM last_rows(t, {rows}) t JOIN last_rows(q, {rows}) q "
    "ON t.sym = q.sym AND t.price BETWEEN q.bid AND q.ask WHERE t.size > {least}"
)
SUMS = "SELECT t.price, q.bid FROM t JOIN q ON t.sym = q.sym AND t.price * q.bid > 30"  # a program, over both
THREE = (
    "SELECT t.price, q.bid, o.ask FROM t, q, q o WHERE t.sym = q.sym AND o.sym = q.sym AND o.ask < t.price"
)


def pushes(seed: int, count: int) -> Iterator[dict[str, pa.RecordBatch]]:
    """Rows of both streams, some of them without a symbol or a price."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        rows = int(rng.integers(200, 400))
        syms = pa.array([None if k == 29 else f"symbol {k}" for k in rng.integers(0, 30, rows)])
        bid = rng.integers(0, 100, rows) / 10
        price = pa.array(bid + 0.1, mask=rng.random(rows) < 0.1)
        columns = {"t": [syms, price, pa.array(rng.integers(0, 10, rows))], "q": [syms, bid, bid + 0.3]}
        schemas = {"t": TRADE, "q": QUOTE}
        yield {
            name: pa.RecordBatch.from_arrays(
                [pa.array(one) for one in found], schema=pa.schema(schemas[name])
            )
            for name, found in columns.items()
        }


def processor(texts: list[str]) -> wm.Processor:
    """A processor with these queries, by number."""
    qp = wm.Processor(t=wm.Rows(500), q=wm.Rows(500), schemas={"t": TRADE, "q": QUOTE})
    for k, text in enumerate(texts):
        qp.create(str(k), text)
    return qp


def rows_of(result: wm.Result) -> pa.Table:
    """The rows in an order of their own."""
    rows = result.to_arrow()
    return rows.sort_by([(name, "ascending") for name in rows.schema.names])


def test_joins_that_share_streams_find_what_each_finds_alone() -> None:
    texts = [NEAR.format(rows=rows, least=least) for rows in (100, 500) for least in (0, 8)]
    texts += [SUMS, THREE, NEAR.format(rows=500, least=3).replace("BETWEEN q.bid AND q.ask", "> q.bid")]
    together, alone = processor(texts), [processor([text]) for text in texts]
    found = 0
    for push in pushes(5, 4):
        results = together.push(push)
        for k, one in enumerate(alone):
            mine = rows_of(results[str(k)])
            assert mine.equals(rows_of(one.push(push)["0"])), texts[k]
            found += mine.num_rows
    assert found > 10_000


def test_what_a_driver_learns_of_rows_it_learns_of_all() -> None:
    """Points within intervals: how long the intervals are is learnt as they are coded, by each join for itself."""
    texts = [NEAR.format(rows=500, least=least) for least in (0, 1, 2)]
    together, alone = processor(texts[:1]), [processor([text]) for text in texts]
    found = 0
    for number, push in enumerate(pushes(9, 8)):
        if 0 < number < 3:
            text = texts[number]
            together.create(str(number), text)
            alone[number] = processor([text])
        quotes = push["q"]
        ask = pc.add(quotes.column("bid"), 0.1 * 3**number)  # ever longer
        push["q"] = quotes.set_column(2, "ask", ask)
        results = together.push(push)
        for k in range(min(number, 2) + 1):
            mine = rows_of(results[str(k)])
            assert mine.equals(rows_of(alone[k].push(push)["0"])), (number, k)
            found += mine.num_rows
    assert found > 10_000


@pytest.mark.parametrize("queries", [2, 8])
def test_a_column_is_coded_and_sorted_once_however_many_joins_read_it(
    queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = NEAR.replace("t.price BETWEEN q.bid AND q.ask", "ABS(t.price - q.bid) <= 0.3")
    qp = processor([near.format(rows=400 + k, least=3) for k in range(queries)])
    given = list(pushes(7, 4))
    for push in given[:-1]:
        qp.push(push)
    coded: Counter[str] = Counter()
    plain, sort = Band.keys, prepare.sorted_keys

    def counted(band: Band, stream: str, columns: pa.RecordBatch) -> object:
        coded[stream] += columns.equals(given[-1][stream])  # others are samples, by which plans are chosen
        return plain(band, stream, columns)

    def sorting(*args: object) -> object:
        coded["sorted"] += 1
        return sort(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Band, "keys", counted)
    monkeypatch.setattr(prepare, "sorted_keys", sorting)
    qp.push(given[-1])
    assert coded == {"t": 2, "q": 2, "sorted": 2}
