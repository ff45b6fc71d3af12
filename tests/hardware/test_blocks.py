"""The blocks lose and double nothing, whatever the handshakes do."""

from random import Random

import pytest
from amaranth.hdl import unsigned

from hardware.harness import both, offers, same_multiset, stalls
from watersmeet.errors import DataError, OptionError, WatersmeetError
from watersmeet.hardware.blocks import Buffer, Fifo, Fork, Merge, Shared
from watersmeet.hardware.simulate import Session, simulate

WIDTH = 12
ONE = {
    "buffer": lambda: Buffer(unsigned(WIDTH)),
    "fifo": lambda: Fifo(unsigned(WIDTH), 5),
    "shared": lambda: Shared(Buffer, unsigned(WIDTH)),
}


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("seed", range(4))
def test_a_queue_gives_what_it_took_in_order(name: str, seed: int) -> None:
    rng = Random(f"{name}{seed}")
    sent = [rng.randrange(1 << WIDTH) for _ in range(60)]
    trace = simulate(
        ONE[name](), {"i": sent}, offers={"i": offers(rng, 60)}, stalls={"o": stalls(rng)}, simulator="python"
    )
    assert trace.payloads("o") == sent
    assert trace.settled


def test_a_buffer_passes_a_row_every_cycle() -> None:
    trace = simulate(Buffer(unsigned(8)), {"i": range(50)}, simulator="python")
    assert trace.taken["i"] == list(range(50))
    assert trace.given["o"] == [(k + 1, k) for k in range(50)]
    assert trace.cycles == 51


@pytest.mark.parametrize("seed", range(4))
def test_a_fork_gives_every_row_to_every_output(seed: int) -> None:
    rng = Random(seed)
    sent = [rng.randrange(1 << WIDTH) for _ in range(40)]
    trace = simulate(
        Fork(unsigned(WIDTH), 3),
        {"i": sent},
        offers={"i": offers(rng, 40)},
        stalls={f"o__{k}": stalls(rng) for k in range(3)},
        simulator="python",
    )
    for k in range(3):
        assert trace.payloads(f"o__{k}") == sent


@pytest.mark.parametrize("grant", ["toggle", "round_robin"])
@pytest.mark.parametrize("seed", range(4))
def test_a_merger_gives_every_row_of_every_input_in_its_order(grant: str, seed: int) -> None:
    rng = Random(f"{grant}{seed}")
    ways = rng.choice([2, 3, 4])
    sent = {f"i__{k}": [k << 8 | n for n in range(rng.randint(0, 20))] for k in range(ways)}
    trace = simulate(
        Merge(unsigned(WIDTH), ways, grant),
        sent,
        offers={name: offers(rng, len(rows)) for name, rows in sent.items()},
        stalls={"o": stalls(rng)},
        simulator="python",
    )
    got = trace.payloads("o")
    same_multiset(got, [row for rows in sent.values() for row in rows])
    for k in range(ways):
        assert [row for row in got if row >> 8 == k] == sent[f"i__{k}"]


def test_round_robin_keeps_the_output_busy_and_shares_it() -> None:
    alone = simulate(Merge(unsigned(8), 4, "round_robin"), {"i__2": range(32)}, simulator="python")
    assert alone.cycles == 34
    full = simulate(
        Merge(unsigned(8), 4, "round_robin"), {f"i__{k}": [k] * 20 for k in range(4)}, simulator="python"
    )
    assert [payload for _, payload in full.given["o"]] == [0, 1, 2, 3] * 20


def test_a_session_goes_on_where_it_stood_and_shows_what_is_watched() -> None:
    session = Session(Fifo(unsigned(8), 8), simulator="python")
    assert session.watched() == {}
    session.stall("o", [True, True, True, True, True, True, True, False])
    session.offer("i", [1, 2, 3])
    session.step(4)
    assert session.cycle == 4
    assert session.taken("i") == [0, 1, 2]
    assert session.watched() == {"level": 3}
    session.step(4)
    assert session.given("o") == [(7, 1)]
    session.offer("i", [4])
    assert session.settle(idle=20)
    assert [payload for _, payload in session.given("o")] == [1, 2, 3, 4]


def test_watched_signals_are_there_for_every_cycle() -> None:
    trace = simulate(Buffer(unsigned(8)), {"i": [1, 2]}, idle=3, watch=True, simulator="python")
    assert trace.watched == {"level": [0, 1, 1, 0, 0, 0]}


def test_what_is_wrong_with_a_stimulus_is_said() -> None:
    with pytest.raises(DataError, match="a payload for i must have at most 8 bits; got 256"):
        simulate(Buffer(unsigned(8)), {"i": [256]}, simulator="python")
    with pytest.raises(OptionError, match="an input must be one of i; got 'j'"):
        simulate(Buffer(unsigned(8)), {"j": [1]}, simulator="python")
    with pytest.raises(OptionError, match="stalls of o must leave a cycle free"):
        simulate(Buffer(unsigned(8)), {"i": [1]}, stalls={"o": [True]}, simulator="python")
    with pytest.raises(OptionError, match="offers for i must be as many as its payloads, 2; got 1"):
        simulate(Buffer(unsigned(8)), {"i": [1, 2]}, offers={"i": [0]}, simulator="python")
    with pytest.raises(OptionError, match="simulator must be one of"):
        simulate(Buffer(unsigned(8)), {"i": [1]}, simulator="fast")
    with pytest.raises(WatersmeetError, match="i must be taken within 10 cycles; got 5 of 20"):
        simulate(
            Fifo(unsigned(8), 5),
            {"i": range(20)},
            stalls={"o": [True] * 99 + [False]},
            cycles=10,
            simulator="python",
        )


def test_traces_that_differ_are_told_apart() -> None:
    made = iter([Buffer(unsigned(8)), Fifo(unsigned(8), 4)])
    with pytest.raises(AssertionError, match="give differently"):
        both(lambda: next(made), ["python", "python"], inputs={"i": [1, 2, 3]})
