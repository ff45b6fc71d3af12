"""SplitJoin gives what the engine gives, whatever the streams, windows, operators and stalls; and costs what the thesis says."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from amaranth.hdl import Module, Mux
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import watersmeet as wm
from hardware.harness import both, expected, offers, same_multiset, stalls
from watersmeet.errors import OptionError
from watersmeet.hardware import catalog
from watersmeet.hardware.blocks import Queue
from watersmeet.hardware.joins.nodes import GNode, OrderedGNode
from watersmeet.hardware.joins.operator import Band, program
from watersmeet.hardware.joins.split_join import SplitJoin
from watersmeet.hardware.joins.split_join_run import Arrival, latency, pairs_of, words_of
from watersmeet.hardware.joins.storage_core import StorageCore
from watersmeet.hardware.ports import unpack
from watersmeet.hardware.simulate import simulate

SHAPES = [  # cores, window, attributes, bits, fan, scalable, ordered: few, since each is compiled once
    (1, 3, 1, 8, 2, 1, 0),
    (4, 8, 1, 8, 2, 1, 0),
    (3, 12, 2, 6, 2, 1, 0),
    (4, 8, 1, 8, 2, 0, 0),
    (4, 12, 1, 8, 2, 1, 1),
]
BANDS = [
    Band(),
    Band(-1, 2),
    Band(negate=True),
    Band(None, -1),
    Band(0, None),
    Band(None, None),
    Band(-3, 0, True),
]


def rows_of(rng: Random, n: int, attributes: int, bits: int) -> list[Arrival]:
    edge = 1 << (bits - 1)
    values = [-edge, edge - 1, -1, 0, 1, 2, 3, 4]
    return [(rng.choice("rs"), [rng.choice(values) for _ in range(attributes)]) for _ in range(n)]


def answer(rows: Sequence[Arrival], bands: Sequence[Band], window: dict[str, Any]) -> list[tuple[int, ...]]:
    names = [f"a{k}" for k in range(len(bands))]
    text = " AND ".join(band.text(f"r.{n}", f"s.{n}") for band, n in zip(bands, names, strict=True))
    return expected([(of, dict(zip(names, values, strict=True))) for of, values in rows], text, window)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1 << 30), st.sampled_from(SHAPES))
def test_it_gives_what_the_engine_gives(seed: int, shape: tuple[int, ...]) -> None:
    rng = Random(seed)
    design = SplitJoin(*shape)
    cores = rng.randint(1, design.cores)  # fewer than there are may take part
    shares = (rng.randint(1, design.share), rng.randint(1, design.share))
    bands = [rng.choice(BANDS) for _ in range(design.attributes)]
    rows = rows_of(rng, rng.randint(0, 60), design.attributes, design.bits)
    words = program(cores, shares, bands, design.bits) + words_of(design, rows)
    trace = simulate(
        design,
        {"words": words},
        offers={"words": offers(rng, len(words))},
        stalls={"results": stalls(rng)},
        cycles=60_000,
        simulator="compiled",
    )
    windows = {"r": wm.Rows(cores * shares[0]), "s": wm.Rows(cores * shares[1])}
    found = pairs_of(design, trace.payloads("results"))
    same_multiset(found, answer(rows, bands, windows))
    if design.ordered:
        in_order(rows, found)
        ends = [one for one in trace.payloads("results") if unpack(design.result, one)["ends"]]
        assert len(ends) == len(rows), "every row must end once"


def in_order(rows: Sequence[Arrival], found: Sequence[tuple[int, int]]) -> None:
    """Results come in the order of the rows that found them."""
    moments = {of: [k for k, (stream, _) in enumerate(rows) if stream == of] for of in "rs"}
    later = [max(moments["r"][r], moments["s"][s]) for r, s in found]
    assert later == sorted(later), "results must come in the order of the rows that found them"


def test_two_simulators_agree_in_every_cycle() -> None:
    rng = Random(5)
    for shape in (SHAPES[1], SHAPES[4]):
        design = SplitJoin(*shape)
        words = program(4, (design.share, design.share), [Band(-1, 1)], 8)
        words += words_of(design, rows_of(rng, 25, 1, 8))
        stimulus = {"offers": {"words": offers(rng, len(words))}, "stalls": {"results": stalls(rng)}}
        both(
            lambda shape=shape: SplitJoin(*shape),
            ["python", "compiled"],
            inputs={"words": words},
            watch=bool(design.ordered),
            **stimulus,
        )


def test_a_time_window_is_a_band_on_the_time() -> None:
    rng = Random(3)
    times = sorted(rng.randrange(60) for _ in range(60))
    rows = [(rng.choice("rs"), [rng.randrange(3), time]) for time in times]
    design = SplitJoin(3, 63, 2, 8)
    t_r, t_s = 9, 14  # how long a row of R, of S, stays in its window
    bands = [Band(), Band(-t_s, t_r)]
    trace = simulate(
        design, {"words": program(3, (21, 21), bands, 8) + words_of(design, rows)}, simulator="compiled"
    )
    wanted = expected(
        [(of, {"k": values[0], "ts": values[1]}) for of, values in rows],
        "r.k = s.k",
        {"r": wm.Range(t_r), "s": wm.Range(t_s)},
    )
    assert wanted
    same_multiset(pairs_of(design, trace.payloads("results")), wanted)


def test_a_new_condition_in_the_middle_of_the_stream_loses_and_doubles_nothing() -> None:
    rng = Random(11)
    design = SplitJoin(*SHAPES[1])
    rows = rows_of(rng, 60, 1, 8)
    first, second = Band(), Band(-1, 2)
    words = program(4, (2, 2), [first], 8) + words_of(design, rows)
    at = len(words) - 30
    words[at:at] = program(4, (2, 2), [second], 8, new=False)
    trace = simulate(design, {"words": words}, stalls={"results": [True, True, False]}, simulator="compiled")
    windows = {"r": wm.Rows(8), "s": wm.Rows(8)}
    moment = {
        (of, n): k for of in "rs" for n, k in enumerate(k for k, row in enumerate(rows) if row[0] == of)
    }

    def found_by(pairs: Sequence[tuple[int, ...]], early: bool) -> list[tuple[int, ...]]:
        return [(r, s) for r, s in pairs if (max(moment["r", r], moment["s", s]) < 30) == early]

    wanted = found_by(answer(rows, [first], windows), True) + found_by(answer(rows, [second], windows), False)
    same_multiset(pairs_of(design, trace.payloads("results")), wanted)


@pytest.mark.parametrize(
    ("cores", "window", "scalable"),
    [
        (4, 64, 1),
        (4, 64, 0),
        pytest.param(1, 8, 1, marks=pytest.mark.slow),
        pytest.param(5, 40, 1, marks=pytest.mark.slow),
    ],
)
def test_a_row_costs_its_share_of_the_window(cores: int, window: int, scalable: int) -> None:
    done = catalog.run(
        "split_join", {"cores": cores, "window": window, "scalable": scalable}, rows=5 * window
    )
    assert done.agrees
    assert done.notes["full"] == window / cores


def test_latency_grows_by_the_levels_of_the_trees() -> None:
    two, four, eight = (latency(cores, 8 * cores) for cores in (2, 4, 8))
    assert (
        two < four < eight <= two + 2 * 4
    )  # a level of each tree: one cycle down, up to two cycles at the grant, one through


def test_windows_that_the_cores_cannot_share_are_refused() -> None:
    with pytest.raises(OptionError, match="window must be a multiple of the 4 cores; got 10"):
        SplitJoin(4, 10)
    with pytest.raises(OptionError, match="cores must be from 1 to 512; got 0"):
        catalog.design("split_join").build(cores=0)
    with pytest.raises(OptionError, match="an operand must be from -128 to 127; got 200"):
        program(2, (200, 4), [Band()], 8)


# Mutants: each breaks one rule, and must be found out by some seed.


def ignores_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read is issued though the queue of results has no room for it."""
    real = Queue.elaborate

    def elaborate(self: Any, platform: Any) -> Module:
        m = real(self, platform)
        m.d.sync += self.room.eq(1)
        return m

    monkeypatch.setattr(Queue, "elaborate", elaborate)


def forgets_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full sub-window is taken for one row larger than it is."""
    real = StorageCore.elaborate

    def elaborate(self: Any, platform: Any) -> Module:
        m = real(self, platform)
        with m.If(self.count_r == 1):
            m.d.sync += self.count_r.eq(2)
        return m

    monkeypatch.setattr(StorageCore, "elaborate", elaborate)


def toggles_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node grants one input and takes the other's row."""
    real = GNode.elaborate

    def elaborate(self: Any, platform: Any) -> Module:
        m = real(self, platform)
        m.d.comb += self.buffer.i.payload.eq(Mux(self.turn, self.i[0].payload, self.i[1].payload))
        return m

    monkeypatch.setattr(GNode, "elaborate", elaborate)


def waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordered node goes on though an input has not ended its row."""
    real = OrderedGNode.elaborate

    def elaborate(self: Any, platform: Any) -> Module:
        m = real(self, platform)
        m.d.sync += self.done.eq(0)
        return m

    monkeypatch.setattr(OrderedGNode, "elaborate", elaborate)


@pytest.mark.parametrize(
    ("mutant", "shape"),
    [
        (ignores_room, SHAPES[1]),
        (forgets_expiry, SHAPES[1]),
        (toggles_twice, SHAPES[1]),
        (waits_for_nobody, SHAPES[4]),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_mutants_are_found_out(mutant: Any, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def agrees() -> bool:
        rng = Random(1)
        design = SplitJoin(*shape)
        rows = [(rng.choice("rs"), [rng.randrange(2)]) for _ in range(80)]
        words = program(4, (design.share, design.share), [Band(None, None)], 8) + words_of(design, rows)
        try:
            trace = simulate(
                design,
                {"words": words},
                stalls={"results": [True] * 30 + [False]},
                cycles=60_000,
                simulator="compiled",
            )
            found = pairs_of(design, trace.payloads("results"))
            window = wm.Rows(4 * design.share)
            same_multiset(found, answer(rows, [Band(None, None)], {"r": window, "s": window}))
            if design.ordered:
                in_order(rows, found)
        except (AssertionError, wm.WatersmeetError):
            return False
        return True

    assert agrees()
    mutant(monkeypatch)
    assert not agrees()
