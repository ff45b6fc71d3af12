"""What queries ask of a fabric, in its own words: operators over streams, each with its inputs in it, so that equal plans are equal values.

A kind of operator is one of ``components.OPERATORS``. What it does is *terms*, comparisons that the thesis's blocks know (a column with a
constant, or with a column of another stream and a constant added), *code*, any other condition in postfix order, and *outputs*: columns
of a projection, keys and aggregates, keys of an order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property

CONDITIONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
STATELESS = ("selection", "projection")


@dataclass(frozen=True)
class Attribute:
    """A column: of a stream, or of a leaf of a join (``s#2``: the same stream a second time), ``bits`` wide."""

    leaf: str
    name: str
    bits: int

    def __str__(self) -> str:
        return f"{self.leaf}.{self.name}" if self.leaf else self.name


@dataclass(frozen=True)
class Constant:
    """A constant as bits: ``kind`` says how to read ``raw``. ``scale``: of a decimal, or the unit of a time (0 s, 3 ms, 6 us, 9 ns)."""

    kind: str
    raw: bytes
    scale: int = 0
    text: str = field(default="", compare=False)  # for people

    def __str__(self) -> str:
        return self.text or f"{self.kind} {self.raw.hex()}"


@dataclass(frozen=True)
class Term:
    """``left condition right + constant``; without ``right``: with the constant alone."""

    left: Attribute
    condition: str
    right: Attribute | None = None
    constant: Constant | None = None

    def __str__(self) -> str:
        if self.right is None:
            return f"{self.left} {self.condition} {self.constant}"
        return f"{self.left} {self.condition} {self.right}" + (f" + {self.constant}" if self.constant else "")


@dataclass(frozen=True)
class Token:
    """A step of postfix code: push a column, push a constant, or call a function on the last ``arity`` values."""

    attribute: Attribute | None = None
    constant: Constant | None = None
    call: str = ""
    arity: int = 0

    def __str__(self) -> str:
        return self.call if self.call else str(self.attribute or self.constant)


Code = tuple[Token, ...]


@dataclass(frozen=True)
class Output:
    """A column that an operator makes or goes by. ``function``: "" (the value), an aggregate, "key", "ascending" or "descending"."""

    name: str
    code: Code
    function: str = ""

    def __str__(self) -> str:
        value = " ".join(map(str, self.code))
        return f"{self.function} {value}".strip()


@dataclass(frozen=True)
class Stream:
    """A stream as it comes in."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Operator:
    """One operator of a plan.

    - ``windows``: of a join, how many rows of each input must be held; of an order, how many are kept. None: no number bounds them.
    - ``start``: joins are the same only if they have begun at the same moment.
    - ``copy``: whose own it is, of an operator that is repeated rather than shared.
    """

    kind: str
    inputs: tuple[Flow, ...]
    terms: tuple[Term, ...] = ()
    code: tuple[Code, ...] = ()
    outputs: tuple[Output, ...] = ()
    windows: tuple[int | None, ...] = ()
    leaves: tuple[str, ...] = ()
    how: str = "inner"
    start: Hashable = 0
    copy: str = ""

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, one.name) for one in fields(self)))

    def __hash__(self) -> int:  # plans are nested, and looked up often
        return self._hash

    @property
    def stateless(self) -> bool:
        return self.kind in STATELESS

    @cached_property
    def computes(self) -> bool:
        """Whether it needs a block that evaluates expressions."""
        return bool(self.code) or any(len(output.code) > 1 for output in self.outputs)

    @cached_property
    def memory(self) -> int:
        """Entries for its instruction: a comparison takes one, and one for its constant, a projected column or a step of code one
        (4.5.7).
        """
        terms = sum(1 + (term.constant is not None) for term in self.terms)
        outputs = sum(len(output.code) or 1 for output in self.outputs)
        return terms + sum(map(len, self.code)) + outputs or 1

    @property
    def attributes(self) -> list[Attribute]:
        """The columns that it reads, each once."""
        found = [one for term in self.terms for one in (term.left, term.right) if one is not None]
        codes = [*self.code, *(output.code for output in self.outputs)]
        found += [token.attribute for code in codes for token in code if token.attribute is not None]
        return list(dict.fromkeys(found))

    def __str__(self) -> str:
        does = [str(term) for term in self.terms] + [" ".join(map(str, code)) for code in self.code]
        what = " AND ".join(does) or ", ".join(map(str, self.outputs))
        if self.kind == "join":
            return f"{self.how} join of {', '.join(self.leaves)}" + (f" on {what}" if what else "")
        if self.kind == "order_by" and self.windows and self.windows[0] is not None:
            what = f"{what} limit {self.windows[0]}"
        return f"{self.kind} {what}"


Flow = Stream | Operator


@dataclass(frozen=True)
class Need:
    """What one query needs: its results are the rows of all ``roots``."""

    query: str
    roots: tuple[Flow, ...]


def operators_of(roots: Iterable[Flow]) -> Iterator[Operator]:
    """All operators under the roots, each after those it reads from; one that is read twice comes twice."""
    for root in roots:
        if isinstance(root, Operator):
            yield from operators_of(root.inputs)
            yield root
