"""A fabric with queries and rows, ready to run a step at a time: for who wants to look on, as the page does.

What stays true: who has one needs to know neither the fabric's kind nor its encodings. A wire has moved a word in a cycle in which its
valid and ready were both high.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Results = Mapping[str, list[tuple[Any, ...]]]  # by query


@dataclass(frozen=True)
class Prepared:
    """A component of a fabric, the words that go in, and how results are read from what comes out.

    ``programming``: words of instructions. ``wires``: by link of the fabric, the stream (with ``valid`` and ``ready``) that it is.
    ``composed``: of the words that have left so far, by cycle and word, the rows of each query. ``expected``: what the engine gives.
    """

    design: Any
    entry: str
    exit: str
    words: Sequence[int]
    programming: int
    wires: Mapping[str, Any]
    composed: Callable[[Sequence[tuple[int, int]]], Results]
    expected: Results
