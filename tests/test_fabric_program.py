"""The thesis's examples, as assigned and programmed; words and back; order by synchronisers; refusals by their text."""

import pytest

import watersmeet as wm
from fabric_cases import aggregation, join, number, projection, selection
from fabric_machine import check
from watersmeet.errors import FabricError
from watersmeet.fabric.assign import assign
from watersmeet.fabric.assignment import Assignment, empty
from watersmeet.fabric.components import Unit
from watersmeet.fabric.encoding import BODY, HEAD, HEADER, decode, encode
from watersmeet.fabric.fabric import FabricAssignment
from watersmeet.fabric.operator import Attribute, Need, Operator, Output, Stream, Term, Token
from watersmeet.fabric.program import Chunk, Instruction, program_of
from watersmeet.fabric.routes import routes_of
from watersmeet.fabric.topology import Topology

A, B, C = Stream("a"), Stream("b"), Stream("c")


def placed(assignment: Assignment) -> dict[str, tuple[str, ...]]:
    return {
        f"{op.kind} {'/'.join(assignment.queries_of(op))}": one.slots for op, one in assignment.placed.items()
    }


def fits(topology: Topology, *needs: Need) -> Assignment:
    assignment = assign(empty(topology), needs)
    check(assignment)
    return assignment


# ---- the thesis ---------------------------------------------------------------------------------------------------


def test_the_two_queries_of_section_4_2_need_eight_blocks_where_the_thesis_takes_nine() -> None:
    """The selection that both begin with stands between the two joins, and gives to both sides."""
    older = selection(A, "a", 25)
    women = selection(older, "a", 1)
    first, second = join((older, B), ("a", "b"), 1536), join((women, B), ("a", "b"), 2048)
    found = fits(wm.Fabric.op_chain(9, window=512).topology, Need("q1", (first,)), Need("q2", (second,)))
    assert found.slots == 8
    assert placed(found) == {
        "selection q1/q2": ("block4",),
        "join q1": ("block1", "block2", "block3"),
        "selection q2": ("block4",),
        "join q2": ("block5", "block6", "block7", "block8"),
    }


def test_in_parallel_chains_a_shared_selection_is_repeated() -> None:
    """As in figure 4.2.3: no way leads from one chain to the other."""
    older = selection(A, "a", 25)
    needs = [Need(f"q{rows}", (join((older, B), ("a", "b"), rows),)) for rows in (1536, 2048)]
    assert fits(wm.Fabric.op_chain(3, window=2048).topology, *needs).slots == 3
    assert placed(fits(wm.Fabric.parallel_fqp(2, 2, window=2048).topology, *needs)) == {
        "selection q1536": ("chain1_1",),
        "join q1536": ("chain1_2",),
        "selection q2048": ("chain2_1",),
        "join q2048": ("chain2_2",),
    }


def q3() -> Need:
    """TPC-H's third query, as the thesis has it on SSP."""
    customer, orders, lineitem = (
        selection(Stream(name), name, 1) for name in ("customer", "orders", "lineitem")
    )
    terms = (
        Term(Attribute("customer", "c_custkey", 32), "=", Attribute("orders", "o_custkey", 32)),
        Term(Attribute("lineitem", "l_orderkey", 32), "=", Attribute("orders", "o_orderkey", 32)),
    )
    leaves = ("customer", "orders", "lineitem")
    joined = Operator("join", (customer, orders, lineitem), terms, windows=(1024,) * 3, leaves=leaves)
    price, discount = (Token(Attribute("lineitem", name, 64)) for name in ("l_extendedprice", "l_discount"))
    revenue = (price, Token(constant=number(1)), discount, Token(call="-", arity=2), Token(call="*", arity=2))
    keys = Output("l_orderkey", (Token(Attribute("lineitem", "l_orderkey", 32)),), "key")
    grouped = Operator("aggregation", (joined,), outputs=(keys, Output("revenue", revenue, "sum")))
    by = Output("revenue", (Token(Attribute("", "revenue", 64)),), "descending")
    return Need("q3", (Operator("order_by", (grouped,), outputs=(by,), windows=(10,)),))


def test_tpch_q3_stands_as_in_figure_7_1_7() -> None:
    found = fits(wm.Fabric.tpch_q3().topology, q3())
    assert [slots for _, slots in FabricAssignment(found).placements["q3"]] == [
        ("brick1_1.selection1",),
        ("brick1_1.selection2",),
        ("brick1_1.selection3",),
        ("brick2_1.join",),
        ("brick3_1.aggregation",),
        ("brick4_1.order_by",),
    ]
    assert found.proven
    program = program_of(found)
    first = [one for one in program.instructions if one.b_id == 1]
    assert [(one.inst, one.stream, one.port) for one in first] == [
        ("gswitch_l", stream, 1) for stream in (2, 3, 4, 5)
    ]
    assert {program.streams[one.stream]: one.segments for one in first} == {
        "the end": 1,
        "customer by streams": 2,  # a number, x and c_custkey
        "orders by streams": 2,
        "lineitem by streams": 4,  # a number, x, l_orderkey, and 2 x 64 bits
    }
    local = {
        one.stream: one.body[0].constant
        for one in program.instructions
        if (one.inst, one.b_id) == ("lswitch", 2)
    }
    assert {stream: mask.text for stream, mask in local.items() if mask} == {2: "1", 3: "2", 4: "4", 5: "8"}


def test_a_join_is_split_over_the_cores_of_split_join() -> None:
    found = fits(
        wm.Fabric.split_join(4, window=256).topology,
        Need("q", (projection(join((A, B), ("a", "b"), 1000), "a"),)),
    )
    assert found.slots == 4
    joins = [one for one in program_of(found).instructions if one.inst == "join"]
    shares = [[(chunk.attribute, chunk.other) for chunk in one.body if chunk.tag == "share"] for one in joins]
    assert shares == [[(at, 4)] for at in range(4)]
    assert {
        chunk.constant.text for one in joins for chunk in one.body if chunk.tag == "input" and chunk.constant
    } == {"250"}


def test_the_windows_of_a_chain_are_filled_in_the_order_in_which_rows_come_by() -> None:
    found = fits(wm.Fabric.op_chain(3, window=100).topology, Need("q", (join((A, B), ("a", "b"), 250),)))
    held = [
        [
            (chunk.condition, chunk.constant.text)
            for chunk in one.body
            if chunk.tag == "window" and chunk.constant
        ]
        for one in program_of(found).instructions
        if one.inst == "join"
    ]
    assert held == [
        [("r", "100 of 250 from 0"), ("s", "50 of 250 from 200")],
        [("r", "100 of 250 from 100"), ("s", "100 of 250 from 100")],
        [("r", "50 of 250 from 200"), ("s", "100 of 250 from 0")],
    ]


def test_a_selection_before_a_join_is_a_part_of_it_where_no_block_comes_before() -> None:
    asked = Need("q", (join((selection(A, "a", 3), selection(selection(B, "b", 4), "b", 5)), ("a", "b"), 8),))
    found = fits(wm.Fabric.split_join(1, window=8).topology, asked)
    (op,) = found.placed
    assert [str(term) for term in op.terms] == ["a.k = b.k", "a.x > 3", "b.x > 5", "b.x > 4"]
    again = assign(found, [asked, Need("r", (op,))])
    assert (list(again.placed), again.moved) == ([op], ())


# ---- order --------------------------------------------------------------------------------------------------------


def columns(*kinds: tuple[str, str]) -> Topology:
    """Two columns; selections of one comparison in the first row."""
    first = [[Unit("s", "selection", memory=2)], [Unit("s", "selection", memory=2)]]
    rest = [[[Unit("u", one, 8)], [Unit("u", other, 8)]] for one, other in kinds]
    return wm.Fabric.ssp([first, *rest]).topology


def test_rows_that_come_by_two_ways_pass_a_synchroniser_before_they_are_joined() -> None:
    asked = Need("q", (join((selection(A, "a", 1), selection(B, "b", 2)), ("a", "b"), 8),))
    found = fits(columns(("projection", "synchroniser"), ("projection", "join")), asked)
    synchronised = routes_of(found).synchronised
    assert {place: len(keys) for place, keys in synchronised.items()} == {"brick2_2.u": 2}
    assert [one.inst for one in program_of(found).instructions if one.inst == "synchronise"] == [
        "synchronise"
    ]


def test_without_a_synchroniser_they_are_not_joined() -> None:
    asked = Need("q", (join((selection(A, "a", 1), selection(B, "b", 2)), ("a", "b"), 8),))
    found = fits(columns(("projection", "projection"), ("projection", "join")), asked)
    assert [op.kind for op in found.placed] == ["join"]  # both selections are parts of it
    tight = columns(("projection", "projection"), ("projection", "projection"))
    units = [Unit("u", "join", 8, memory=2)]
    components = [
        type(one)(one.name, (*one.units[:1], *units)) if one.name == "brick3_2" else one  # type: ignore[attr-defined, call-arg]
        for one in tight.components
    ]
    with pytest.raises(FabricError, match="its inputs do not reach it from the right sides, in order"):
        fits(Topology("", tuple(components), tight.links), asked)


# ---- moves --------------------------------------------------------------------------------------------------------


def test_others_move_only_to_make_room() -> None:
    topology = wm.Fabric.op_chain(4, window=10).topology
    small = [Need(f"small{k}", (join((A, B), ("a", "b"), 10 - k),)) for k in range(3)]
    three = assign(empty(topology), small)
    two = assign(three, [small[0], small[2]])
    assert two.placed == {op: three.placed[op] for op in two.placed}
    assert two.moved == ()
    large = Need("large", (join((A, C), ("a", "c"), 20),))
    after = assign(two, [small[0], small[2], large])
    check(after)
    assert len(after.moved) == 1
    assert after.slots == 4
    with pytest.raises(FabricError, match="others could not make room; drop a query, or use a larger fabric"):
        assign(after, [*after.asked, Need("more", (join((B, C), ("b", "c"), 1),))])


def test_the_same_task_has_the_same_answer() -> None:
    topology = wm.Fabric.parallel_fqp(3, 4, window=10).topology
    needs = [
        Need(f"q{k}", (projection(join((selection(A, "a", k % 2), B), ("a", "b"), 5 * k + 1), "a"),))
        for k in range(4)
    ]
    first = assign(empty(topology), needs)
    assert all(assign(empty(topology), needs) == first for _ in range(3))


def test_a_large_fabric_is_filled_with_bounded_work() -> None:
    topology = wm.Fabric.parallel_fqp(16, 8, window=64).topology
    assigned = empty(topology)
    needs: list[Need] = []
    for k in range(40):
        left = selection(A, "a", k % 5)
        needs.append(Need(f"q{k}", (projection(join((left, B), ("a", "b"), 32 + 4 * k), "a"),)))
        assigned = assign(assigned, needs)
    check(assigned)
    assert len(assigned.needs) == 40


# ---- words --------------------------------------------------------------------------------------------------------


def test_the_example_of_7_2_7_as_a_word() -> None:
    """1:23:4:south:3: block 23 routes rows of stream 4, of 3 segments, to its south port."""
    (word,) = encode([Instruction("gswitch_l", 23, 4, port=1, segments=3)])
    assert word >> 64 == 0b11_00_000000000001
    assert word & (1 << 64) - 1 == int("0000000000010111000000000001000000000100000000000000001000001100", 2)
    assert decode([word]) == [Instruction("gswitch_l", 23, 4, port=1, segments=3)]


def test_a_selection_has_three_words_a_join_of_one_comparison_as_the_thesis_counts_them() -> None:
    term = Chunk("term", 1, ">", constant=number(25))
    assert len(encode([Instruction("selection", 1, 3, 4, body=(term,))])) == 3
    assert len(encode([Instruction("join", 1, 3, 4, body=(Chunk("term", 1, "=", 2),))])) == 2
    assert len(encode([Instruction("projection", 1, 3, 4, body=(Chunk("column", 1),))])) == 2
    assert len(encode([Instruction("reset", 1, 3, port=1)])) == 1


def test_fields_fill_a_word() -> None:
    assert [sum(bits for _, bits in fields) for fields in (HEADER, HEAD, BODY)] == [16, 64, 64]


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (
            Instruction("reset", 4096, 3),
            "b_id of an instruction must fit 12 bits; got 4096; use fewer blocks, streams or columns",
        ),
        (Instruction("gswitch_l", 1, 3, segments=128), "segments of an instruction must fit 7 bits; got 128"),
        (
            Instruction("aggregation", 1, 3, body=(Chunk("output", function="median"),)),
            "a function of an instruction must be one of key, ascending, descending,",
        ),
    ],
)
def test_what_does_not_fit_a_word_is_refused(instruction: Instruction, text: str) -> None:
    with pytest.raises(FabricError) as refused:
        encode([instruction])
    assert text in str(refused.value)


def test_words_that_are_no_instruction_are_refused() -> None:
    words = encode([Instruction("selection", 1, 3, 4, body=(Chunk("term", 1, ">", constant=number(25)),))])
    for damaged in (words[:-1], [0], [words[0] & (1 << 64) - 1]):
        with pytest.raises(FabricError, match="word 0 must begin an instruction; got 0x"):
            decode(damaged)


# ---- refusals -----------------------------------------------------------------------------------------------------

CHAIN = wm.Fabric.op_chain(2, window=8, memory=2).topology


@pytest.mark.parametrize(
    ("topology", "flow", "text"),
    [
        (
            CHAIN,
            aggregation(A, "a"),
            "its aggregation key a.k, count needs a block for an aggregation and 2 entries of memory, and there is none: "
            "block1 and block2: does no aggregation; use a fabric that has one",
        ),
        (
            CHAIN,
            join((A, B, C), ("a", "b", "c"), 4),
            "needs blocks for a join of 3 streams within 4 rows and 2 entries of memory, and there is none: block1 and "
            "block2: joins 2 streams, not 3",
        ),
        (
            CHAIN,
            join((A, B), ("a", "b"), 17),
            "for its inner join of a, b on a.k = b.k, which needs blocks for a join of 2 streams within 17 rows and 1 entry"
            " of memory, there is no place: block1 and block2: free, but holds 8 rows; drop a query, or use a larger fabric",
        ),
        (
            CHAIN,
            Operator("join", (A, B), windows=(4, None), leaves=("a", "b")),
            "holds a number of rows, and no number bounds the window; give its streams windows of Rows(n), or say with "
            "fabric.holding(...)",
        ),
        (
            CHAIN,
            Operator("join", (A, B), windows=(4, 4), leaves=("a", "b"), how="left"),
            "block1 and block2: does inner joins, no left ones",
        ),
        (
            CHAIN,
            Operator("selection", (A,), code=((Token(Attribute("a", "x", 32)),),)),
            "needs a block for a selection, expressions and 1 entry of memory, and there is none: block1 and block2: "
            "computes no expressions",
        ),
        (
            CHAIN,
            Operator("selection", (A,), selection(A, "a", 1).terms * 2),
            "block1 and block2: has memory for 2 entries, not for 4",
        ),
        (
            wm.Fabric.tpch_q3(window=8).topology,
            Operator("order_by", (A,), windows=(9,)),
            "brick4_1.order_by: keeps 8 rows, not 9",
        ),
        (
            Topology("bare", (), ()),
            selection(A, "a", 1),
            "a fabric must have an entry; 'bare' has none; add it, and wire it",
        ),
        (
            Topology("loose", CHAIN.components, ()),
            selection(A, "a", 1),
            "a fabric must have a block that an entry reaches; 'loose' has none",
        ),
        (
            Topology("shut", CHAIN.components, CHAIN.links[:-1]),
            selection(A, "a", 1),
            "block1 and block2: free, but its results reach no exit",
        ),
    ],
)
def test_a_refusal_says_what_is_missing_and_where(topology: Topology, flow: Operator, text: str) -> None:
    with pytest.raises(FabricError) as refused:
        assign(empty(topology), [Need("q", (flow,))])
    assert text in str(refused.value)
