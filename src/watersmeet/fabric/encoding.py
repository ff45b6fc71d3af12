"""Instructions as words, and back. A word is 80 bits: a header of 16, a payload of 64.

| header of an instruction's word | bits |            | first payload | bits |      | further payloads     | bits |
|---|---|---|---|---|---|---|---|
| S: comes by stream S, always 1  | 1    |            | inst          | 4    |      | tag                  | 4    |
| Q: an instruction, always 1     | 1    |            | B-ID          | 12   |      | function             | 6    |
| spare                           | 2    |            | CC, chunks    | 12   |      | attribute            | 14   |
| stream-ID: 0 block, 1 network   | 12   |            | stream-ID     | 12   |      | condition            | 4    |
|                                 |      |            | out stream-ID | 12   |      | other                | 14   |
|                                 |      |            | port          | 3    |      | kind of the constant | 4    |
|                                 |      |            | seg-count     | 7    |      | scale                | 6    |
|                                 |      |            | lane          | 2    |      | bytes of the constant| 12   |

A constant follows its chunk in payloads of 8 bytes. CC counts all words of an instruction. The thesis has 9 bytes a chunk, 2 bits of inst
and 4 of B-ID as an example (4.1.2), and leaves these widths to who builds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from watersmeet.errors import FabricError
from watersmeet.fabric.operator import CONDITIONS, Constant
from watersmeet.fabric.program import BLOCK, INSTS, NETWORK, TAGS, Chunk, Instruction

HEADER = (("s", 1), ("q", 1), ("spare", 2), ("stream_id", 12))
HEAD = (
    ("inst", 4),
    ("b_id", 12),
    ("cc", 12),
    ("stream", 12),
    ("out", 12),
    ("port", 3),
    ("segments", 7),
    ("lane", 2),
)
BODY = (
    ("tag", 4),
    ("function", 6),
    ("attribute", 14),
    ("condition", 4),
    ("other", 14),
    ("kind", 4),
    ("scale", 6),
    ("bytes", 12),
)
WORD = 80
NETWORK_INSTS = ("gswitch_l", "gswitch_d", "lswitch")
LANES = ("", "r", "s")
# The last three are what a step of an aggregation computes in hardware (``hardware/ssp``).
FUNCTIONS = (
    "", "key", "ascending", "descending", "ascending_nulls_last", "descending_nulls_first", "count", "count_distinct", "sum", "avg", "min",
    "max", "first", "last", "var_pop", "var_samp", "stddev_pop", "stddev_samp", "+", "-", "*",
)  # fmt: skip
KINDS = ("", "null", "bool", "int", "float", "decimal", "text", "binary", "date", "timestamp", "duration")
_CODES = (*CONDITIONS, *LANES)


def encode(instructions: Sequence[Instruction]) -> list[int]:
    """All instructions as words of 80 bits."""
    return [word for instruction in instructions for word in _words(instruction)]


def _words(instruction: Instruction) -> list[int]:
    bodies = [payload for chunk in instruction.body for payload in _payloads(chunk)]
    head = _packed(
        HEAD,
        inst=INSTS.index(instruction.inst),
        b_id=instruction.b_id,
        cc=1 + len(bodies),
        stream=instruction.stream,
        out=instruction.out,
        port=instruction.port,
        segments=instruction.segments,
        lane=LANES.index(instruction.lane),
    )
    sort = NETWORK if instruction.inst in NETWORK_INSTS else BLOCK
    header = _packed(HEADER, s=1, q=1, spare=0, stream_id=sort)
    return [header << 64 | payload for payload in [head, *bodies]]


def _payloads(chunk: Chunk) -> list[int]:
    constant = chunk.constant or Constant("", b"")
    first = _packed(
        BODY,
        tag=TAGS.index(chunk.tag),
        function=_index(FUNCTIONS, chunk.function, "function"),
        attribute=chunk.attribute,
        condition=_CODES.index(chunk.condition),
        other=chunk.other,
        kind=KINDS.index(constant.kind),
        scale=constant.scale,
        bytes=len(constant.raw),
    )
    return [
        first,
        *(int.from_bytes(constant.raw[at : at + 8], "little") for at in range(0, len(constant.raw), 8)),
    ]


def decode(words: Sequence[int]) -> list[Instruction]:
    """The instructions that words are; the words of constants, which only people read, are gone."""
    found, at = [], 0
    while at < len(words):
        header, head = _unpacked(HEADER, words[at] >> 64), _unpacked(HEAD, words[at] & (1 << 64) - 1)
        count = head["cc"]
        if (
            not (header["s"] and header["q"])
            or count < 1
            or at + count > len(words)
            or head["inst"] >= len(INSTS)
        ):
            raise FabricError(
                f"word {at} must begin an instruction; got {words[at]:#x}; give what encode() returns, whole"
            )
        payloads = [word & (1 << 64) - 1 for word in words[at + 1 : at + count]]
        found.append(
            Instruction(
                INSTS[head["inst"]],
                head["b_id"],
                head["stream"],
                head["out"],
                head["port"],
                head["segments"],
                LANES[head["lane"]],
                tuple(_chunks(payloads)),
            )
        )
        at += count
    return found


def _chunks(payloads: Sequence[int]) -> Iterator[Chunk]:
    at = 0
    while at < len(payloads):
        first = _unpacked(BODY, payloads[at])
        size = first["bytes"]
        words = payloads[at + 1 : at + 1 + -(-size // 8)]
        raw = b"".join(word.to_bytes(8, "little") for word in words)[:size]
        constant = Constant(KINDS[first["kind"]], raw, first["scale"]) if first["kind"] else None
        yield Chunk(
            TAGS[first["tag"]],
            first["attribute"],
            _CODES[first["condition"]],
            first["other"],
            FUNCTIONS[first["function"]],
            constant,
        )
        at += 1 + len(words)


def _index(names: Sequence[str], name: str, what: str) -> int:
    if name not in names:
        raise FabricError(
            f"a {what} of an instruction must be one of {', '.join(filter(None, names))}; got {name!r}"
        )
    return names.index(name)


def _packed(fields: Sequence[tuple[str, int]], **values: int) -> int:
    """The first field highest."""
    word = 0
    for name, bits in fields:
        value = values[name]
        if not 0 <= value < 1 << bits:
            raise FabricError(
                f"{name} of an instruction must fit {bits} bits; got {value}; use fewer blocks, streams or columns, or a shorter constant"
            )
        word = word << bits | value
    return word


def _unpacked(fields: Sequence[tuple[str, int]], word: int) -> dict[str, int]:
    found = {}
    for name, bits in reversed(fields):
        found[name] = word & (1 << bits) - 1
        word >>= bits
    return found
