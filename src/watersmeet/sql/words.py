"""The words of a text in their order, for what a parser's tree does not keep: how something was written, and where."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from watersmeet.sql.syntax import Span

_STEPS = {"(": 1, ")": -1}


class Word(NamedTuple):
    """A name, keyword, literal or mark, and where it stands."""

    text: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        """Its place in the text."""
        return self.start, self.end


class Words:
    """All words of one text."""

    def __init__(self, words: Iterable[Word]) -> None:
        self._words = list(words)
        self._starts = [word.start for word in self._words]

    def after(self, place: int) -> list[Word]:
        """The words that start at a place or behind it."""
        return self._words[bisect_left(self._starts, place) :]

    def opened_by(self, place: int) -> Word | None:
        """The word in front of the innermost bracket that is open at a place: the function whose argument stands there."""
        depth = 0
        for at in range(bisect_left(self._starts, place) - 1, 0, -1):
            depth += _STEPS.get(self._words[at].text, 0)
            if depth > 0:
                return self._words[at - 1]
        return None

    def bracket_end(self, place: int) -> int:
        """Where the bracket that is open at a place has its last word."""
        depth, end = 0, place
        for word in self.after(place):
            depth += _STEPS.get(word.text, 0)
            if depth < 0:
                break
            end = word.end
        return end

    def calls(self) -> Iterator[tuple[Word, int]]:
        """Each word with a bracket behind it, and how many arguments the bracket holds."""
        opened: list[tuple[int, int]] = []  # places of the brackets that are open, and the commas in each
        for at, word in enumerate(self._words):
            if word.text == "(":
                opened.append((at, 0))
            elif word.text == "," and opened:
                bracket, commas = opened[-1]
                opened[-1] = (bracket, commas + 1)
            elif word.text == ")" and opened:
                bracket, commas = opened.pop()
                if bracket > 0:
                    yield self._words[bracket - 1], 0 if at == bracket + 1 else commas + 1
