"""FQP gives what the processor in software gives, whatever stalls and however queries come and go; what it cannot do it refuses."""

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from amaranth.hdl import Const, Mux

import watersmeet as wm
from hardware.fqp_scripts import FABRICS, SCHEMAS, SIZES, WINDOWS, answer
from hardware.harness import both
from watersmeet.errors import FabricError, OptionError, WatersmeetError
from watersmeet.fabric.operator import Constant
from watersmeet.fabric.program import Chunk, Instruction
from watersmeet.hardware.fqp import DESIGNS, FIGURES, measuring, run
from watersmeet.hardware.fqp.buffer_manager import BufferManager, For
from watersmeet.hardware.fqp.changes import changes, words_of
from watersmeet.hardware.fqp.dealer import Dealer
from watersmeet.hardware.fqp.designs import workload
from watersmeet.hardware.fqp.op_block import OpBlock
from watersmeet.hardware.fqp.running import Answer, Step, _Script
from watersmeet.hardware.fqp.switch import SwitchD
from watersmeet.hardware.fqp.window_buffer import WindowBuffer
from watersmeet.hardware.fqp.words import WORD
from watersmeet.hardware.ports import pack
from watersmeet.hardware.registry import Figure
from watersmeet.hardware.simulate import simulate

ROWS = [("a", {"k": k % 4, "v": k % 3}) for k in range(6)] + [
    ("b", {"k": k % 4, "w": 5 - k}) for k in range(6)
]
JOIN = "SELECT a.k, a.v, b.w FROM last_rows(a, 5) a JOIN last_rows(b, 5) b ON a.k = b.k WHERE a.v > 0"
TURNS = [ROWS[at // 2 + 6 * (at % 2)] for at in range(12)]  # one of each stream in turn


def agrees(found: Answer) -> None:
    assert not found.missing, f"missing {dict(list(found.missing.items())[:5])}"
    assert not found.extra, f"too much {dict(list(found.extra.items())[:5])}"


def on_chain(script: list[Step], **options: Any) -> Answer:
    return run(FABRICS["chain"], script, schemas=SCHEMAS, windows=WINDOWS, sizes=SIZES, **options)


# ---- exact ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chain", pytest.param("parallel", marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", range(2))
def test_queries_that_come_and_go_give_what_the_processor_gives(name: str, seed: int) -> None:
    found = answer(name, seed, 120)
    if found is not None:
        agrees(found)
        assert sum(map(len, found.results.values())) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_more_of_them(name: str, seed: int) -> None:
    found = answer(name, seed, 250)
    if found is not None:
        agrees(found)


def test_a_join_over_several_blocks_finds_each_pair_once_whatever_the_streams_turns() -> None:
    found = on_chain(
        [f"CREATE QUERY q AS {JOIN.replace('5', '8').replace(' WHERE a.v > 0', '')}", *TURNS * 3, *ROWS * 3]
    )
    agrees(found)
    assert len(found.results["q"]) > 50


def test_reprogramming_amid_the_stream_loses_and_doubles_nothing() -> None:
    """Each row is selected by the constant that stood when it came, and by that alone."""
    script: list[Step] = ["CREATE QUERY q AS SELECT k, v FROM a WHERE v > 0"]
    for bound in (1, 0, 2, 1):
        script += [*ROWS[:6], f"ALTER QUERY q AS SELECT k, v FROM a WHERE v > {bound}"]
    found = on_chain([*script, *ROWS[:6]])
    agrees(found)
    assert len(found.results["q"]) == 4 + 2 + 4 + 0 + 2


def test_a_join_that_stays_keeps_its_rows_while_others_come_and_go() -> None:
    script = [
        f"CREATE QUERY kept AS {JOIN}",
        *TURNS,
        "CREATE QUERY brief AS SELECT w FROM b WHERE w < 3",
        *TURNS,
        "DROP QUERY brief",
        *TURNS,
    ]
    found = on_chain(script)
    agrees(found)
    assert len(found.results["kept"]) > 5
    assert len(found.results["brief"]) == 3


def test_switches_have_room_for_the_streams_of_every_program() -> None:
    streams = [f"s{k}" for k in range(10)]
    made = _Script(
        FABRICS["parallel"], {name: {"k": pa.int32()} for name in streams}, dict.fromkeys(streams, wm.Rows(9))
    )
    for name in streams[:9]:
        made.step(f"CREATE QUERY {name} AS SELECT k FROM {name}")
    assert made.sizes({})["streams"] == 9
    with pytest.raises(OptionError, match="streams must be at least 9 for these queries; got 8"):
        made.sizes({"streams": 8})
    dropped = made.loaded
    made.step("DROP QUERY s0; CREATE QUERY s9 AS SELECT k FROM s9")
    assert made.loaded is not None
    masks = [one.body[0].constant for one in changes(dropped, made.loaded) if one.inst == "gswitch_d"]
    assert [any(mask.raw) for mask in masks if mask] == [False, True]


@pytest.mark.parametrize("seed", range(4))
def test_a_switch_knows_each_stream_by_its_last_mask(seed: int) -> None:
    """Streams are forgotten and come back, by entries that other streams have had."""
    rng, masks, words = Random(seed), dict[int, int](), list[int]()
    expected: list[list[int]] = [[], []]
    for number in range(120):
        stream = rng.randrange(3, 8)
        if rng.random() < 0.5:
            masks[stream] = rng.choice([0, 0, 1, 2, 3])
            mask = Chunk("mask", constant=Constant("int", masks[stream].to_bytes(8, "little")))
            words += words_of([Instruction("gswitch_d", 0, stream, body=(mask,))])
            continue
        words.append(pack(WORD, {"data": number, "id": stream, "mark": 0, "last": 1, "q": 0, "s": 0}))
        for way, rows in enumerate(expected):
            if masks.get(stream, 0) >> way & 1:
                rows.append(words[-1])
    trace = simulate(SwitchD(2, streams=5), {"i": words}, simulator="python")
    assert [trace.payloads(f"o__{way}") for way in range(2)] == expected
    assert all(expected)


def test_a_stream_gets_a_column_while_a_query_runs() -> None:
    """The example of 4.4: rows get longer, the old query goes on, a new one sees both segments."""
    script: list[Step] = [
        "CREATE QUERY older AS SELECT * FROM a WHERE v > 1",
        *ROWS[:6],
        ("+a", {"height": pa.int32()}),
        *ROWS[:6],
        "CREATE QUERY small AS SELECT k, height FROM a WHERE v > 0 AND height < 180",
        *(("a", {"k": k, "v": k % 3, "height": 175 + 2 * k if k % 4 else None}) for k in range(9)),
    ]
    found = on_chain(script)
    agrees(found)
    assert found.results["small"] == [{"k": 1, "height": 177}, {"k": 2, "height": 179}]


def test_values_of_every_sort_come_back_as_they_went_in() -> None:
    kinds = {
        "f": pa.float64(), "t": pa.string(), "d": pa.date32(), "u": pa.timestamp("us"), "m": pa.decimal128(9, 2), "y": pa.bool_(),
    }  # fmt: skip
    columns = [
        pa.array([-0.5, 0.0, 1e300]), pa.array(["", "né", "a long text"]), pa.array([-3, 0, 9000], pa.int32()).cast(pa.date32()),
        pa.array([-1, 0, 10**15]).cast(pa.timestamp("us")), pa.array(["-0.05", "0.00", "7.25"]).cast(pa.decimal128(9, 2)),
        pa.array([False, None, True]),
    ]  # fmt: skip
    values = pa.table(columns, names=list(kinds)).to_pylist()
    texts = [
        "f > -0.25",
        "t = 'né'",
        "t <> 'a long text'",
        "d >= DATE '1970-01-01'",
        "m < 7.25",
        "f <= 1e300",
        "y <=> TRUE",
    ]
    script: list[Step] = [
        f"CREATE QUERY q{k} AS SELECT * FROM x WHERE {text}" for k, text in enumerate(texts)
    ]
    windows = {"x": wm.Rows(1)}
    found = run(
        wm.Fabric.op_chain(1, memory=99),
        [*script, *(("x", one) for one in values)],
        schemas={"x": kinds},
        windows=windows,
        simulator="python",
    )
    agrees(found)
    assert sum(map(len, found.results.values())) == 2 + 1 + 2 + 2 + 2 + 3 + 1


def test_two_simulators_agree_cycle_for_cycle() -> None:
    words = measuring.words_of([measuring.reset(), measuring.instruction("join")])
    held = [word for k in range(9) for word in measuring.row(measuring.S, k, k % 3)]
    sent = [word for k in range(9) for word in measuring.row(measuring.R, k, k % 4)]
    trace = both(
        lambda: OpBlock(measuring.WINDOW),
        ("compiled", "python"),
        inputs={"s_in": words + held, "r_in": sent},
        offers={"r_in": [90 + k for k in range(len(sent))]},
        stalls={"result": [True, False, False]},
        constants={"number": 1},
        watch=True,
        idle=60,
    )
    assert len(trace.given["result"]) > 20


# ---- mutants ------------------------------------------------------------------------------------------------------------

PAIR = wm.Fabric.op_chain(2, window=4)
SMALL = {"operators": 3, "terms": 2, "attributes": 8, "columns": 2, "queue": 32}
BOTH = [  # a selection that gives to a join in the next block; two blocks that hold one window
    "SELECT a.k, b.w FROM last_rows(a, 4) a JOIN last_rows(b, 4) b ON a.k = b.k WHERE a.v > 0",
    "SELECT a.k, b.w FROM last_rows(a, 7) a JOIN last_rows(b, 6) b ON a.k = b.k",
]
MUTANTS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "no stall between streams": (Dealer, "is_quiet", lambda self, since: Const(1)),
    "no stall for the units": (BufferManager, "is_free", lambda self, wanted: Const(1)),
    "expiry a row late": (
        WindowBuffer,
        "after",
        lambda self, turn: Mux(turn == self.share.size, 0, turn + 1),
    ),
    "no expiry by dropped rows": (BufferManager, "lives", lambda self, dropped: Const(1)),
    "no bypass for rows that are wanted": (BufferManager, "goes_on", lambda self, whose: whose == For.NOBODY),
}


def on_pair() -> list[Answer]:
    rows = [*ROWS, *TURNS * 2]
    return [
        run(
            PAIR,
            [f"CREATE QUERY q AS {text}", *rows],
            schemas=SCHEMAS,
            windows=WINDOWS,
            cycles=20_000,
            sizes=SMALL,
        )
        for text in BOTH
    ]


def test_without_a_mutation_both_agree() -> None:
    assert sound()


FAST = ("no stall between streams", "expiry a row late")  # each is compiled


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in FAST else pytest.mark.slow) for one in MUTANTS]
)
def test_mutants_are_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    assert not sound()


def sound() -> bool:
    """Whether the design agrees with the processor. One that hangs, or gives words that are no row, does not."""
    try:
        return all(found.agrees for found in on_pair())
    except WatersmeetError:
        return False


# ---- refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT k + 1 AS n FROM a", "must compare columns and constants, and keep columns; got projection a.k 1 +"),
        ("SELECT x.k FROM a x JOIN a y ON x.k = y.v", "a join on FQP must be of two different streams; got inner join"),
        ("SELECT k FROM a WHERE k > 2.5", "must have a constant that the column can have; got decimal 2.5; write it in the column's type"),
    ],
)  # fmt: skip
def test_what_blocks_cannot_do_is_refused(text: str, reason: str) -> None:
    fabric = wm.Fabric.op_chain(2, window=9, computes=True)
    with pytest.raises(FabricError) as refused:
        run(fabric, [f"CREATE QUERY q AS {text}"], schemas=SCHEMAS, windows=WINDOWS)
    assert reason in str(refused.value)


def test_texts_are_equal_or_not_and_no_more() -> None:
    with pytest.raises(
        FabricError,
        match=r"a comparison of x\.t, string, on FQP must be by =, <>, <=>; got <; run it without hardware",
    ):
        run(
            wm.Fabric.op_chain(1),
            ["CREATE QUERY q AS SELECT t FROM x WHERE t < 'm'"],
            schemas={"x": {"t": pa.string()}},
            windows={"x": wm.Rows(1)},
        )


def test_other_fabrics_windows_and_sizes_are_refused() -> None:
    with pytest.raises(
        OptionError, match=r"must be made of entries, OP-Blocks, .* got 'cores', a brick; use Fabric.op_chain"
    ):
        run(wm.Fabric.split_join(2), [], schemas=SCHEMAS, windows=WINDOWS)
    with pytest.raises(
        OptionError, match=r"windows on FQP must be Rows\(n\), slots for n rows; got Unbounded"
    ):
        run(PAIR, [], schemas=SCHEMAS, windows={"a": wm.Unbounded(), "b": wm.Rows(1)})
    with pytest.raises(OptionError, match="columns must be at least 2 for these queries; got 1"):
        run(PAIR, [f"CREATE QUERY q AS {JOIN}"], schemas=SCHEMAS, windows=WINDOWS, sizes={"columns": 1})
    with pytest.raises(OptionError, match="attributes of an OP-Block must be a power of two; got 12"):
        OpBlock(attributes=12)


# ---- figures ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("figure", [one for one in FIGURES if not one.slow], ids=lambda one: one.name)
def test_a_block_takes_no_more_cycles_than_the_thesis_says(figure: Figure) -> None:
    assert figure.met(figure.measure())


def test_cycles_of_a_block() -> None:
    """Exact counts: a change of the design has to change these, too."""
    assert {kind: measuring.insertion(kind) for kind in ("selection", "projection", "join", "reset")} == {
        "selection": 4, "projection": 4, "join": 5, "reset": 2,
    }  # fmt: skip
    assert {kind: measuring.cycles_a_tuple(kind) for kind in ("selection", "projection", "join")} == {
        "selection": 11, "projection": 8, "join": 20,
    }  # fmt: skip


def test_every_design_builds_and_agrees_with_the_processor() -> None:
    small = {
        "op_chain": ({"blocks": 2, "window": 4}, SMALL),
        "parallel_fqp": ({"chains": 2, "blocks": 1, "window": 5}, SIZES),
    }
    for design in DESIGNS:
        if design.drive is not None:
            parameters, sizes = small[design.name]
            found = design.run(parameters, workload(60, values=4), sizes=sizes)
            assert found.agrees
            assert len(found.results) > 20
        else:
            assert isinstance(design.build(), OpBlock)
