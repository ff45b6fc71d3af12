"""Queries to which a push brings nothing: of a thousand rules that is most of them, and they must cost next to nothing.

A query that shows the rows of a filter as they are, where the filter is one of a rule set, is asked only if the set has found rows for it.
Else its result is the one that it was given before: no rows are no rows. All others are asked every time. What is known here
follows from the queries and their sets: there is nothing to take back.
"""

from collections.abc import Mapping

from watersmeet.api.result import Result
from watersmeet.query.block import Block, ProjectBlock
from watersmeet.query.catalog import Entry
from watersmeet.query.delta import Nothing
from watersmeet.query.rules import Found, Place, RuleSet
from watersmeet.query.turn import GraphTurn


class Idle:
    """Which of some queries have to be asked, and the results of the others."""

    def __init__(self, entries: Mapping[str, Entry], rules: Mapping[Block, Place]) -> None:
        self.entries, self.rules = entries, rules
        running = {name: entry for name, entry in entries.items() if entry.root is not None}
        self._results: dict[str, Result | None] = dict.fromkeys(running)
        self._always: list[Entry] = []
        self._readers: dict[RuleSet, list[list[Entry]]] = {}  # of each filter of a set
        self._nothing: dict[RuleSet, Nothing] = {}  # what results of no rows were made of
        for entry in running.values():
            root = entry.root
            place = rules.get(root.inputs[0]) if isinstance(root, ProjectBlock) else None
            if place is None:
                self._always.append(entry)
                continue
            together, number = place
            if together not in self._readers:
                self._readers[together] = [[] for _ in together.filters]
            self._readers[together][number].append(entry)

    def asked(self, turn: GraphTurn) -> tuple[dict[str, Result | None], list[Entry]]:
        """The results by query, None of those that have to be asked; and these."""
        asked = list(self._always)
        for together, readers in self._readers.items():
            some = self._some(together, turn)
            asked += [entry for number in some for entry in readers[number]]
        results = dict(self._results)
        for entry in asked:
            results[entry.name] = None
        return results, asked

    def _some(self, together: RuleSet, turn: GraphTurn) -> list[int]:
        """The filters of a set whose queries have to be asked."""
        everyone = list(range(len(together.filters)))
        try:
            found = turn.of(together)
        except MemoryError:
            raise
        except Exception:  # each will say so for itself
            return everyone
        assert isinstance(found, Found)
        if not isinstance(found.nothing, Nothing):  # rows were late
            return everyone
        if self._nothing.get(together) is not found.nothing:
            self._learn(together, found.nothing)
        return found.some

    def _learn(self, together: RuleSet, nothing: Nothing) -> None:
        for entry in (entry for several in self._readers[together] for entry in several):
            assert isinstance(entry.root, ProjectBlock)
            assert entry.bound is not None
            self._results[entry.name] = entry.root.result_of(nothing, entry.bound.names)
        self._nothing[together] = nothing
