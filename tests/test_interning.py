"""Texts have exact codes: equal codes are equal texts, also where hashes meet."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from watersmeet.codes import interning, text
from watersmeet.codes.interning import Interner
from watersmeet.codes.text import BytesDomain


def few_hashes(data: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """A hash as bad as can be: the length, and the first byte's last bit."""
    for i in range(out.size):
        size = offsets[i + 1] - offsets[i]
        out[i] = size % 3 * 2 + (int(data[offsets[i]]) & 1 if size else 0)


@pytest.fixture
def _bad_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "hash_bytes", few_hashes)


def domain() -> BytesDomain:
    made = BytesDomain("text", ordered=False)
    made.interner = Interner()
    return made


texts = st.lists(st.text("abAB", max_size=6), max_size=30)


@pytest.mark.usefixtures("_bad_hash")
@given(st.lists(texts, max_size=5))
def test_equal_codes_are_equal_texts_in_whatever_batches_they_come(batches: list[list[str]]) -> None:
    mine, codes = domain(), {}
    for batch in batches:
        for value, code in zip(batch, mine.codes(pa.array(batch, pa.string()))[0].tolist(), strict=True):
            assert codes.setdefault(value, code) == code
    assert len(set(codes.values())) == len(codes)


@pytest.mark.usefixtures("_bad_hash")
@given(texts, texts, texts)
def test_what_is_kept_keeps_its_code(first: list[str], kept: list[str], then: list[str]) -> None:
    mine = domain()
    assert mine.interner is not None
    mine.codes(pa.array(first, pa.string()))
    before = dict(zip(kept, mine.codes(pa.array(kept, pa.string()))[0].tolist(), strict=True))
    mine.interner.keep([mine.texts(pa.array(kept, pa.string()))])
    after = dict(zip(then, mine.codes(pa.array(then, pa.string()))[0].tolist(), strict=True))
    assert all(after.get(value, code) == code for value, code in before.items())
    together = {**after, **before}
    assert len(set(together.values())) == len(together)


def test_a_table_grows_and_knows_all_its_texts() -> None:
    mine = domain()
    values = [f"{'x' * (i % 50)}{i}" for i in range(20_000)]
    codes = mine.codes(pa.array(values))[0]
    assert len(set(codes.tolist())) == len(values)
    assert mine.codes(pa.array(values).dictionary_encode())[0].tolist() == codes.tolist()


@pytest.mark.usefixtures("_bad_hash")
@pytest.mark.parametrize(
    "options",
    [{}, {"result": "count"}, {"index": "hash"}, {"flow": "split_join", "cores": 2}, {"how": "left"}],
)
@pytest.mark.parametrize("window", [wm.Rows(40), wm.Range(30, time="ts")])
@pytest.mark.parametrize("comparison", ["=", "<>"])
def test_joins_on_texts_whose_hashes_meet_are_exact(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], window: Any, comparison: str
) -> None:
    """Texts come and go, and are forgotten all the time."""
    monkeypatch.setattr(interning, "SLACK", 0)
    random, seen = np.random.default_rng(5), Counter()
    if comparison == "<>" and options.get("index") == "hash":
        options = {"index": "bi_sort"}
    join = wm.StreamJoin(f"r.name {comparison} s.name", r=window, s=window, **options)
    twin = wm.StreamJoin(f"r.id {comparison} s.id", r=window, s=window, **options)
    for at in range(30):
        rows = {}
        for stream in "rs":
            ids = random.integers(at * 3, at * 3 + 40, random.integers(1, 30))
            rows[stream] = {
                "id": ids,
                "name": [f"{'ab'[i % 2]}{i}" for i in ids],
                "ts": np.full(ids.size, 5 * at),
            }
        got, wanted = join.push(rows), twin.push(rows)
        assert got.count == wanted.count
        if options.get("result") != "count":
            pairs = [
                sorted(zip(*(one.tolist() for one in each.pairs().values()), strict=True))
                for each in (got, wanted)
            ]
            assert pairs[0] == pairs[1]
        seen["results"] += got.count
    assert seen["results"] > 500


def test_texts_that_have_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "SLACK", 100)
    join = wm.StreamJoin("r.name = s.name", r=wm.Rows(50), s=wm.Rows(50))
    for at in range(100):
        names = [f"name {at * 20 + i}" for i in range(20)]
        assert join.push(r={"name": names}, s={"name": names}).count == 20
    condition = join._engine.planning.condition
    assert condition is not None
    assert condition.interner is not None
    assert len(condition.interner) < 500
