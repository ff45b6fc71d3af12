"""Texts have exact codes: equal codes are equal texts, also where hashes meet."""

import threading
from collections import Counter, deque
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
from watersmeet.codes.text_table import TextTable
from watersmeet.kernels.intern import ANOTHER, DONE


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


@pytest.mark.usefixtures("_bad_hash")
@given(
    st.lists(st.tuples(st.lists(st.text("abAB", max_size=20), max_size=20), st.booleans()), max_size=12),
    st.integers(1, 5),
)
def test_what_was_coded_in_the_last_turns_is_told_apart(
    batches: list[tuple[list[str], bool]], turns: int
) -> None:
    """Texts of turns before are forgotten; those that have come again since are not."""
    mine = domain()
    assert mine.interner is not None
    held: list[tuple[int, dict[str, int]]] = [(0, {})]  # by turn: when it began, and the codes in it
    for batch, over in batches:
        codes = mine.codes(pa.array(batch, pa.string()))[0].tolist()
        held[-1][1].update(zip(batch, codes, strict=True))
        known: dict[str, int] = {}
        for _, some in held:
            assert all(known.setdefault(value, code) == code for value, code in some.items())
        assert len(set(known.values())) == len(known)
        if over:
            held = held[-turns:]
            mine.interner.turn(held[0][0], len(known))
            held.append((mine.interner.moment, {}))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 36, 1000])
def test_a_table_of_texts_that_come_and_go_stays_as_large_as_it_needs_to_be(size: int) -> None:
    table = TextTable()
    held: deque[tuple[int, list[bytes]]] = deque()
    for at in range(0, 4000, 100):
        texts = [f"{number:07}"[:size].encode() + bytes(max(0, size - 7)) for number in range(at, at + 100)]
        data = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
        offsets, hashes = np.arange(101) * size, np.arange(at, at + 100, dtype=np.uint64)
        held.append((table.moment, texts))
        table.refresh()
        assert table.learn(data, offsets, hashes, 0) == (100, DONE)
        if len(held) > 3:
            held.popleft()
            table.forget_before(held[0][0])
        first = at + 100 - 100 * len(held)
        for number, value in enumerate((value for _, texts in held for value in texts), first):
            assert table.text_of(np.uint64(number)) == value
        assert first == 0 or not table.knows(np.uint64(first - 1))
        wrong = np.zeros(max(1, size), np.uint8)
        assert table.learn(wrong, np.array([0, size + 1]), hashes[:1], 0) == (0, ANOTHER)
    table.sweep()
    assert table.used == 300
    assert table.nbytes < 100_000 + 16 * 300 * size


def test_a_hash_of_bytes_is_the_same_for_ever() -> None:
    """Spark deals stored rows out by it."""

    def scramble(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    values = [bytes((7 * i + k * k) % 256 for k in range(size)) for i, size in enumerate([*range(40), 100])]
    got = BytesDomain("binary", ordered=False).codes(pa.array(values, pa.binary()))[0].view(np.uint64)
    for value, code in zip(values, got.tolist(), strict=True):
        wanted = scramble(len(value) + 0x9E3779B97F4A7C15)
        for start in range(0, len(value), 8):
            word = int.from_bytes(value[start : start + 8], "big")
            wanted = scramble((wanted * 0x9E3779B97F4A7C15 + word) % 2**64)
        assert code == wanted


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


@pytest.mark.parametrize("pushed", [1, 20])
def test_a_stream_that_stands_still_does_not_keep_the_texts_of_the_other(
    monkeypatch: pytest.MonkeyPatch, pushed: int
) -> None:
    monkeypatch.setattr(interning, "SLACK", 100)
    join = wm.StreamJoin("r.name = s.name", r=wm.Rows(50), s=wm.Rows(50))
    join.push(s={"name": ["name 3", "name 900"]})
    found = 0
    for at in range(0, 1000, pushed):
        found += join.push(r={"name": [f"name {at + i}" for i in range(pushed)]}).count
    assert found == 2
    condition = join._engine.planning.condition
    assert condition is not None
    assert condition.interner is not None
    assert len(condition.interner) < 500


def test_who_has_to_wait_only_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """While another thread codes, the texts are looked for, and nothing is entered; then they get the codes that they have anyway."""
    mine, alone = domain(), domain()
    assert mine.interner is not None
    words = pa.array([f"text {n % 700}" for n in range(1500)])
    for one in (mine, alone):
        one.codes(words.slice(0, 100))
    looked: list[int] = []
    looks = TextTable.look_ahead

    def noted(self: TextTable, hashes: np.ndarray) -> None:
        before = self._slots.copy(), self._tape.copy(), self._state.copy()
        looks(self, hashes)
        for array, old in zip((self._slots, self._tape, self._state), before, strict=True):
            np.testing.assert_array_equal(array, old)
        looked.append(hashes.size)
        release.set()

    monkeypatch.setattr(TextTable, "look_ahead", noted)
    release, held = threading.Event(), threading.Event()

    def hold() -> None:
        with mine.interner._shares[0].lock:
            held.set()
            release.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(60)
    codes = mine.codes(words)[0]
    other.join()
    assert looked == [1500]
    np.testing.assert_array_equal(codes, alone.codes(words)[0])
