"""The blocks of SSP alone, in Amaranth's simulator, against models of a few lines; and mutants that must be found out."""

from collections import Counter, deque
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from amaranth.hdl import Array, Module, Signal, Value
from amaranth.sim import Simulator
from tests.hardware.harness import offers, stalls

from watersmeet.errors import OptionError
from watersmeet.fabric.program import Chunk, Instruction
from watersmeet.hardware.blocks import Buffer
from watersmeet.hardware.simulate import simulate
from watersmeet.hardware.ssp import brick
from watersmeet.hardware.ssp.brick import Brick, Bypass, Collector
from watersmeet.hardware.ssp.gather import connected
from watersmeet.hardware.ssp.hash_window import HashWindow
from watersmeet.hardware.ssp.lowered import LAST, marked, whole, words_of
from watersmeet.hardware.ssp.murmur import STEPS, Murmur, hashes
from watersmeet.hardware.ssp.riders import Sieve
from watersmeet.hardware.ssp.switches import GSwitchD, GSwitchL
from watersmeet.hardware.ssp.synchroniser import Synchroniser
from watersmeet.hardware.ssp.words import CONTINUED, WORD, field

TICK = 1 << 77


def row(stream: int, *segments: int) -> list[int]:
    """The words of a row."""
    return marked([(stream if k == 0 else CONTINUED) << 64 | one for k, one in enumerate(segments)])


def rows_in(words: Sequence[int]) -> list[tuple[int, ...]]:
    """Rows that left: stream, whether a tick, segments; instructions left out."""
    found, now = [], []
    for word in words:
        now.append(word)
        if word & LAST:
            if not now[0] >> 78 & 1:
                found.append(
                    (now[0] >> 64 & CONTINUED, now[0] >> 77 & 1, *(one & (1 << 64) - 1 for one in now))
                )
            now = []
    assert not now, "a row without its last word"
    return found


# ---- hashes and windows -----------------------------------------------------------------------------------------------


def test_murmur_is_murmur3() -> None:
    assert hashes(0)[0] == hashes(0)[0] != hashes(0)[1]
    keys = [Random(k).getrandbits(64) for k in range(12)]
    design, found = Murmur(), []

    async def bench(ctx: Any) -> None:
        ctx.set(design.go, 1)
        for key in [*keys, *[0] * STEPS]:
            ctx.set(design.key, key)
            found.append((ctx.get(design.first), ctx.get(design.second)))
            await ctx.tick()

    simulated(design, bench)
    assert found[STEPS:] == [hashes(key) for key in keys]


def simulated(design: Any, bench: Any) -> None:
    simulator = Simulator(design)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def window_run(
    design: HashWindow, seed: int, window: int, cores: int, keyed: bool, ticks: bool = True
) -> None:
    """Random rows, ticks and searches, against a deque."""
    rng = Random(seed)
    core = rng.randrange(cores)
    kept: deque[int | None] = deque(maxlen=window)  # the last rows of the stream; None: a tick
    numbers = iter(range(1, 1000))
    seen: list[int] = []

    async def bench(ctx: Any) -> None:
        for name, value in {"rows": window, "cores": cores, "core": core, "hashed": keyed}.items():
            ctx.set(getattr(design, name), value)
        ctx.set(Value.cast(design.by), field(0, 0))
        ctx.set(design.clear, 1)
        await ctx.tick()
        ctx.set(design.clear, 0)
        await ctx.tick().until(~design.clearing)
        for _ in range(60):
            key = rng.randrange(4)
            first, second = hashes(key)
            ctx.set(design.first, first)
            ctx.set(design.second, second)
            if rng.random() < 0.6:
                tick, number = rng.random() < 0.3, next(numbers)
                mine = len(seen) % cores == core
                seen.append(number)
                kept.append(None if tick or not mine else number << 16 | key)
                if not tick or ticks:
                    ctx.set(design.row, number << 16 | key)
                    ctx.set(design.tick, tick)
                    ctx.set(design.store, 1)
                    await ctx.tick()
                    ctx.set(design.store, 0)
                await ctx.tick()
                continue
            ctx.set(design.wanted, key)
            ctx.set(design.search, 1)
            await ctx.tick()
            ctx.set(design.search, 0)
            found = []
            for _ in range(200):
                if ctx.get(design.over):
                    break
                ctx.set(design.skip, 0)
                if ctx.get(design.found):
                    found.append(ctx.get(design.match))
                    ctx.set(design.skip, 1)
                await ctx.tick()
                ctx.set(design.skip, 0)
            wanted = [one for one in kept if one is not None and (not keyed or one & 0xFFFF == key)]
            assert Counter(found) == Counter(wanted)

    simulated(design, bench)


@pytest.mark.parametrize(
    ("seed", "window", "cores", "keyed"),
    [(1, 5, 1, True), (2, 8, 1, True), (3, 7, 3, True), (4, 6, 1, False)],
)
def test_a_window_holds_the_last_rows_of_its_stream(seed: int, window: int, cores: int, keyed: bool) -> None:
    window_run(HashWindow(8, 2, 1), seed, window, cores, keyed)


class NothingExpires(HashWindow):
    def _order(self, m: Module) -> Signal:
        storing = super()._order(m)
        self.expires = Signal()
        return storing


class NothingOverflows(HashWindow):
    def _places(self, m: Module) -> None:
        super()._places(m)
        self.newest = Signal.like(self.oldest)


@pytest.mark.parametrize("mutant", [NothingExpires, NothingOverflows])
def test_windows_that_keep_or_lose_rows_are_found_out(mutant: type[HashWindow]) -> None:
    with pytest.raises(AssertionError):
        window_run(mutant(8, 2, 1), 1, 5, 1, True)


def test_a_window_that_does_not_hear_of_rows_that_were_not_selected_is_found_out() -> None:
    with pytest.raises(AssertionError):
        window_run(HashWindow(8, 2, 1), 1, 5, 1, True, ticks=False)


def test_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(OptionError, match="table must be a power of two, at least 2; got 3"):
        HashWindow(8, 3, 1)
    with pytest.raises(OptionError, match="depth of a GSwitch-D must be a power of two, at least 2; got 3"):
        GSwitchD(1, 8, 2, depth=3)
    with pytest.raises(OptionError, match="must have a way in and a way out"):
        GSwitchL(1, 8, [], ["south"])


# ---- bricks -----------------------------------------------------------------------------------------------------------


def small_brick() -> Brick:
    """A fast selection of stream 3, a slow one (two slots) of stream 4, and a bypass, which 4 passes too."""
    units = [("bypass", Bypass()), ("one", Sieve(2, 2, 1)), ("two", Sieve(3, 2, 2))]
    return Brick(1, 8, units, 0)


def brick_program() -> list[int]:
    def below(most: int) -> Chunk:
        return Chunk("term", field(0, 0), "<", constant=whole(most))

    return words_of(
        [
            Instruction("lswitch", 1, 3, body=(Chunk("mask", constant=whole(0b010)),)),
            Instruction("lswitch", 1, 4, body=(Chunk("mask", constant=whole(0b101)),)),
            Instruction("reset", 2, 0),
            Instruction("selection", 2, 3, 5, 4, 2, body=(Chunk("input", other=3), below(50))),
            Instruction("reset", 3, 0),
            Instruction("selection", 3, 4, 6, 4, 1, body=(Chunk("input", other=4), below(50))),
            Instruction("selection", 3, 6, 7, 4, 1, body=(Chunk("input", 1, other=4), below(20))),
        ]
    )


def brick_run(seed: int) -> None:
    rng = Random(seed)
    words, wanted = brick_program(), []
    for number in range(40):
        value = rng.randrange(100) | number << 16
        low = value & 0xFFFF
        if rng.random() < 0.5:
            words += row(3, value, number)
            wanted.append((5, 0, value, number) if low < 50 else (5, 1, value))
        else:
            words += row(4, value)
            wanted += [(6, int(low >= 50), value), (7, int(low >= 20), value), (4, 0, value)]
    trace = simulate(
        small_brick(),
        {"i": words},
        offers={"i": offers(rng, len(words), 3)},
        stalls={"o": stalls(rng)},
        simulator="python",
    )
    assert rows_in([word for _, word in trace.given["o"]]) == wanted


@pytest.mark.parametrize("seed", range(2))
def test_a_brick_keeps_the_order_of_arrival_and_tells_what_it_dropped(seed: int) -> None:
    brick_run(seed)


class ByPriority(Collector):
    """As the thesis has it: whoever has something, the first one first."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.out = out = Buffer(WORD)
        connected(m, out.o, self.o)
        chosen, held = Signal(range(self.units)), Signal(range(self.units))
        locked = Signal()
        m.d.comb += chosen.eq(held)
        with m.If(~locked):
            for k in reversed(range(self.units)):
                with m.If(self.i[k].valid):
                    m.d.comb += chosen.eq(k)
        units = Array(self.i)
        moved = units[chosen].valid & (units[chosen].payload.void | out.i.ready)
        m.d.comb += [
            self.tokens.ready.eq(1),
            Value.cast(out.i.payload).eq(Value.cast(units[chosen].payload)[: WORD.size]),
            out.i.valid.eq(units[chosen].valid & ~units[chosen].payload.void),
        ]
        for k, unit in enumerate(self.i):
            m.d.comb += unit.ready.eq(moved & (chosen == k))
        with m.If(moved):
            m.d.sync += [held.eq(chosen), locked.eq(~units[chosen].payload.done)]
        return m


def test_a_collector_that_goes_by_priorities_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brick, "Collector", ByPriority)
    with pytest.raises(AssertionError):
        for seed in range(2):
            brick_run(seed)


# ---- switches ---------------------------------------------------------------------------------------------------------


def sent(rng: Random, streams: Sequence[int], count: int) -> tuple[list[int], list[tuple[int, ...]]]:
    words, rows = [], []
    for number in range(count):
        stream, size = rng.choice(streams), rng.randint(1, 3)
        segments = [number << 8 | k for k in range(size)]
        words += row(stream, *segments)
        rows.append((stream, 0, *segments))
    return words, rows


@pytest.mark.parametrize("seed", range(3))
def test_a_gswitch_l_gives_each_row_to_the_ways_of_its_stream(seed: int) -> None:
    rng = Random(seed)
    masks = {3: 1, 4: 2, 5: 3}  # 6 goes nowhere
    program = words_of([Instruction("gswitch_l", 9, stream, port=mask) for stream, mask in masks.items()])
    north, from_north = sent(rng, [3, 4, 5, 6], 25)
    west, from_west = sent(rng, [3, 4, 5], 25)
    first = 40 + len(program)
    trace = simulate(
        GSwitchL(9, 8, ["north", "west"], ["south", "east"]),
        {"north": program + north, "west": program + west},
        offers={
            "north": [0] * len(program) + [first] * len(north),
            "west": [0] * len(program) + [first] * len(west),
        },
        stalls={"south": stalls(rng), "east": stalls(rng)},
        simulator="python",
    )
    for bit, way in ((1, "south"), (2, "east")):
        words = [word for _, word in trace.given[way]]
        assert [word for word in words if word >> 78 & 1] == program  # once, though it came twice
        found = rows_in(words)
        for source in (from_north, from_west):
            wanted = [one for one in source if masks.get(one[0], 0) & bit]
            left = iter(found)
            assert all(one in left for one in wanted), "lost, or out of order"
        assert len(found) == sum(bool(masks.get(one[0], 0) & bit) for one in from_north + from_west)


@pytest.mark.parametrize("seed", range(2))
def test_a_gswitch_d_lets_a_slow_way_hold_nobody_up_before_its_buffer_is_full(seed: int) -> None:
    rng = Random(seed)
    masks = {3: 0b001, 4: 0b110, 5: 0b111}
    program = words_of(
        [
            Instruction("gswitch_d", 9, stream, body=(Chunk("mask", constant=whole(mask)),))
            for stream, mask in masks.items()
        ]
    )
    words, rows = sent(rng, [3, 4, 5, 6], 40)
    trace = simulate(
        GSwitchD(9, 8, 3, depth=8),
        {"i": program + words},
        stalls={"o__0": stalls(rng), "o__1": stalls(rng), "o__2": [True] * 30 + [False]},
        simulator="python",
    )
    for k in range(3):
        assert rows_in([word for _, word in trace.given[f"o__{k}"]]) == [
            one for one in rows if masks.get(one[0], 0) >> k & 1
        ]


# ---- the synchroniser -------------------------------------------------------------------------------------------------


def test_a_synchroniser_puts_rows_back_in_order_and_tells_if_too_many_wait() -> None:
    program = words_of(
        [
            Instruction("reset", 9, 0),
            Instruction("synchronise", 9, 3, body=(Chunk("input", 2, other=3), Chunk("input", 1, other=4))),
        ]
    )
    rng = Random(3)
    streams = [4, *(rng.choice([3, 4]) for _ in range(30))]
    behind = {3: deque[int](), 4: deque[int]()}
    for ticket, stream in enumerate(streams):
        behind[stream].append(ticket)
    wanted = [(3, 0, at, 7) if stream == 3 else (4, at % 2, at) for at, stream in enumerate(streams)]
    for skew in (4, 100):  # one way is up to so many rows ahead of the other; of the larger, all of stream 3
        words, left = list(program), {stream: deque(tickets) for stream, tickets in behind.items()}
        while left[3] or left[4]:
            first = min(one[0] for one in left.values() if one)
            could = [one for one in (3, 4) if left[one] and left[one][0] < first + skew]
            stream = rng.choice(could) if skew == 4 else could[0]
            ticket = left[stream].popleft()
            dropped = TICK if ticket % 2 else 0
            words += row(3, ticket, 7) if stream == 3 else [one | dropped for one in row(4, ticket)]
        design = Synchroniser(9, 2, 2, depth=6)
        given = simulate(design, {"i": words}, stalls={"o": stalls(rng)}, simulator="python").given["o"]
        if skew == 4:
            assert rows_in([one & (1 << 80) - 1 for _, one in given if not one >> 80 & 1]) == wanted
        else:
            assert any(one >> 79 & 1 for _, one in given), "rows were lost, and nobody was told"
