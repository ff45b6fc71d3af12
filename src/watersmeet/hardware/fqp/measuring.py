"""What the figures of thesis 4.5 are measured with: instructions and rows as words, without queries, on one block or a chain.

A row has one attribute, as in the thesis (a tuple of one segment), and its arrival number.
"""

from dataclasses import dataclass
from functools import cache
from random import Random

from watersmeet.fabric.catalog import op_chain
from watersmeet.fabric.operator import Constant
from watersmeet.fabric.program import Chunk, Instruction
from watersmeet.hardware.fqp.changes import words_of
from watersmeet.hardware.fqp.op_block import OpBlock
from watersmeet.hardware.fqp.processor import Fqp, Queue
from watersmeet.hardware.fqp.words import TO_RESULT, WORD
from watersmeet.hardware.ports import pack
from watersmeet.hardware.simulate import simulate

R, S, OUT = 3, 4, 7  # stream-IDs
KEY_R, KEY_S = 1, 2  # attributes
WINDOW = 16
IDLE = 300


def _number(value: int) -> Constant:
    return Constant("int", value.to_bytes(8, "little", signed=True))


def share(stream: int, lane: str, first: int, held: int, size: int) -> Chunk:
    """The slots of a window that a block holds."""
    if held == size:
        return Chunk("window", held, lane, stream)
    raw = b"".join(number.to_bytes(4, "little") for number in (first, held, size))
    return Chunk("window", 0, lane, stream, constant=Constant("binary", raw))


def instruction(
    kind: str, block: int = 1, place: int = 0, blocks: int = 1, window: int = WINDOW
) -> Instruction:
    """An operator for a block: a row of R with a key above 25; its key; a pair with equal keys."""
    body: tuple[Chunk, ...] = ()
    if kind == "selection":
        body = (Chunk("term", KEY_R, ">", 0, constant=_number(25)),)
    if kind == "projection":
        body = (Chunk("output", 1), Chunk("column", KEY_R))
    if kind == "join":
        back = (blocks - 1 - place) * window
        body = (
            share(R, "r", place * window, window, blocks * window),
            share(S, "s", back, window, blocks * window),
            Chunk("term", KEY_R, "=", KEY_S, function="key"),
        )
    return Instruction(kind, block, R, OUT, lane="r", body=body)


def reset(block: int = 1) -> Instruction:
    return Instruction("reset", block, OUT, port=TO_RESULT)


def row(stream: int, number: int, key: int) -> list[int]:
    """A row as two words."""
    by_s = stream == S
    first = {"id": stream, "data": number, "s": by_s}
    second = {"id": KEY_S if by_s else KEY_R, "data": key, "s": by_s, "last": 1}
    return [pack(WORD, first), pack(WORD, second)]


def insertion(kind: str) -> float:
    """Cycles from the first word at the S port until the instruction is in force."""
    words = words_of([reset() if kind == "reset" else instruction(kind)])
    shown = "ported" if kind == "reset" else "used"
    trace = simulate(
        OpBlock(WINDOW), {"s_in": words}, constants={"number": 1}, watch=True, idle=20, simulator="python"
    )
    return float(next(cycle for cycle, value in enumerate(trace.watched[shown]) if value))


def bypass() -> float:
    """Cycles that a word of an instruction for another block takes through a block, and through the queue to its neighbour."""
    words = words_of([reset(block=2)])
    through = simulate(OpBlock(WINDOW), {"s_in": words}, constants={"number": 1}, idle=20, simulator="python")
    queue = simulate(Queue(32), {"i": words}, idle=20, simulator="python")
    return float(through.given["s_out"][0][0] + queue.given["o"][0][0])


def cycles_a_tuple(kind: str, rows: int = 60) -> float:
    """Cycles between two rows of R that one block takes, when rows wait; a join has full windows and finds nothing."""
    code = words_of([reset(), instruction(kind)])
    held = [word for k in range(WINDOW) for word in row(S, k, 1000 + k)] if kind == "join" else []
    sent = [word for k in range(rows) for word in row(R, k, 30 + k)]
    start = 40 + 8 * len(held)
    trace = simulate(
        OpBlock(WINDOW),
        {"s_in": code + held, "r_in": sent},
        offers={"r_in": [start] * len(sent)},
        constants={"number": 1},
    )
    taken = trace.taken["r_in"]
    return (taken[-1] - taken[21]) / (len(taken) - 22) * 2


@dataclass(frozen=True)
class Rates:
    """Of a chain: cycles a row, and the share of cycles in which a word of a result leaves."""

    cycles: float
    output: float


@cache
def chain(blocks: int, window: int, share_of_pairs: float, turn: int = 1, most: int = 64) -> Rates:
    """An equi-join of two streams on a chain whose blocks hold ``window`` rows each. Streams take turns of ``turn`` rows.

    Counted is what comes after the windows are full. ``most``: rows that a block could hold; smaller windows are programmed.
    """
    rng = Random(f"{blocks} {window} {share_of_pairs}")
    values = round(1 / share_of_pairs) if share_of_pairs else 1 << 40
    code = [
        one for k in range(blocks) for one in (reset(k + 1), instruction("join", k + 1, k, blocks, window))
    ]
    words = words_of(code)
    filled, counted = 2 * blocks * window, 160
    starts = []
    for k in range(filled + counted):
        stream = (R, S)[k // turn % 2]
        starts.append(len(words))
        words += row(stream, k, rng.randrange(values))
    design = Fqp(op_chain(blocks, max(window, most), 16, False))
    trace = simulate(design, {"chunks": words}, cycles=4_000_000, idle=IDLE)
    begin, end = (trace.taken["chunks"][starts[at]] for at in (filled, -1))
    given = sum(begin <= cycle < end for cycle, _ in trace.given["results"])
    return Rates((end - begin) / (counted - 1), given / (end - begin))


def saturation(blocks: int, window: int) -> float:
    """The smallest of some match probabilities at which results leave in 85 of 100 cycles; 1 if none does. Streams take turns of 8."""
    shares = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15)
    return next((one for one in shares if chain(blocks, window, one, 8).output >= 0.85), 1.0)
