"""The untyped tree that parsing gives, and errors that show their place in the text.

Every node knows the span of text it came from, so that whoever finds something wrong later (an unknown
column, two types that do not fit) can underline it. Nothing here knows about schemas, types of columns or
the SQL parser.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import ConditionError

Span = tuple[int, int]
"""Half-open range of character positions in the text."""


@dataclass(frozen=True)
class Source:
    """The SQL text itself, and what it is: a "condition" or a "select list"."""

    text: str
    kind: str

    def error(self, span: Span, message: str) -> ConditionError:
        """An error whose message ends with the line of the text in question, underlined with ``^^^^``."""
        place = self._closed(span)
        found = ConditionError(f"{message}\n{self.underlined(place)}")
        start = min(max(place[0], 0), len(self.text))
        found.span = start, min(max(place[1], start + 1), len(self.text))
        return found

    @contextmanager
    def of_any_depth(self) -> Iterator[None]:
        """Refuses what is nested so deeply that Python gives up on it."""
        try:
            yield
        except RecursionError:
            raise self.error(
                (0, len(self.text)),
                f"a {self.kind} must be nested less deeply; got {len(self.text)} characters; make columns of its parts",
            ) from None

    def underlined(self, span: Span) -> str:
        """The line that holds the start of the span, and a line of carets under the span."""
        start = min(max(span[0], 0), len(self.text))
        line_start = self.text.rfind("\n", 0, start) + 1
        line_end = self.text.find("\n", start)
        line_end = len(self.text) if line_end < 0 else line_end
        carets = max(min(span[1], line_end) - start, 1)
        line = self.text[line_start:line_end]
        blank = "".join("\t" if c == "\t" else " " for c in self.text[line_start:start])
        return f"    {line}\n    {blank}{'^' * carets}"

    def part(self, span: Span) -> str:
        """The text of a span, on one line."""
        start, end = self._closed(span)
        return " ".join(self.text[start:end].split())

    def _closed(self, span: Span) -> Span:
        """The span with the brackets closed that it opens: a parser's tokens end before them."""
        start, end = span
        missing = self.text.count("(", start, end) - self.text.count(")", start, end)
        for _ in range(missing):
            end = max(end, self.text.find(")", end) + 1)
        return start, end


@dataclass(frozen=True)
class Syntax:
    """One node: an operation, its arguments, a value that is not an argument, and where it stood.

    ``op`` is one of: ``column`` (value: (stream or None, name)), ``star`` (value: stream or None; args: columns left out),
    ``literal`` (value: (Python value, Arrow type)), ``interval`` (value: (months, microseconds)),
    ``cast`` (value: Arrow type), ``alias`` (value: name), or an operator or function name in lower case
    (``+``, ``<=``, ``and``, ``abs``, ...).
    """

    op: str
    args: tuple[Syntax, ...]
    value: Any
    span: Span

    def names(self) -> set[str]:
        """The column names in it, in lower case and whatever their stream; ``*`` for a star."""
        own = {"*"} if self.op == "star" else {self.value[1].lower()} if self.op == "column" else set()
        return own.union(*(arg.names() for arg in self.args))
