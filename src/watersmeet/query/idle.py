"""Queries to which a push brings nothing: of a thousand rules that is most of them, and they must cost next to nothing.

A query that shows the rows of a filter as they are, where the filter is one of a rule set, is asked only if the set has found rows for it.
Else its result is the one that it was given before: no rows are no rows. And if constants decide all of the filter, and nobody else reads
it, its result is made of what the set has found (``rule_results.py``). All others are asked every time. What is known here follows from
the queries and their sets: there is nothing to take back.
"""

from collections.abc import Mapping

from watersmeet.api.result import Result
from watersmeet.query.block import Block, ProjectBlock
from watersmeet.query.catalog import Entry
from watersmeet.query.delta import Nothing
from watersmeet.query.graph import blocks_of
from watersmeet.query.rule_results import Shown, results_of
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
        # Of each filter of a set, who shows its rows as they are found, None if they have to be asked for; and the number of select lists.
        self._shown: dict[RuleSet, tuple[list[Shown | None], int]] = {}
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
        roots = dict.fromkeys(entry.root for entry in self._always if entry.root is not None)
        # Those that others read too are asked, so that what they give is counted once.
        self._shared = (
            {block for root in roots for block in blocks_of(root) if block in rules} if rules else set()
        )

    def asked(self, turn: GraphTurn) -> tuple[dict[str, Result | None], list[Entry]]:
        """The results by query, None of those that have to be asked; and these."""
        asked = list(self._always)
        ready: dict[str, Result] = {}
        for together, readers in self._readers.items():
            found = self._found(together, turn)
            if found is None:
                asked += [entry for several in readers for entry in several]
                continue
            shown, lists = self._shown[together]
            asked += [entry for number in found.some if shown[number] is None for entry in readers[number]]
            ready |= results_of(found, shown, lists)
        results = dict(self._results)
        results.update(ready)
        for entry in asked:
            results[entry.name] = None
        return results, asked

    def _found(self, together: RuleSet, turn: GraphTurn) -> Found | None:
        """What a set has found; None: all its queries have to be asked."""
        try:
            found = turn.of(together)
        except MemoryError:
            raise
        except Exception:  # each will say so for itself
            return None
        assert isinstance(found, Found)
        if not isinstance(found.nothing, Nothing):  # rows were late
            return None
        if self._nothing.get(together) is not found.nothing:
            self._learn(together, found.nothing)
        return found

    def _learn(self, together: RuleSet, nothing: Nothing) -> None:
        lists: dict[str, int] = {}
        shown: list[Shown | None] = []
        for block, several in zip(together.filters, self._readers[together], strict=True):
            mine = []
            for entry in several:
                project, bound = entry.root, entry.bound
                assert isinstance(project, ProjectBlock)
                assert bound is not None
                answer, self._results[entry.name] = project.answers_of(nothing).of(bound.names)
                mine.append((entry.name, answer, lists.setdefault(project.listed, len(lists))))
            direct = block.rule is not None and block.rule.rest is None and block not in self._shared
            blocks = [block, *dict.fromkeys(entry.root for entry in several if entry.root is not None)]
            shown.append(Shown(blocks, mine) if direct else None)
        self._nothing[together], self._shown[together] = nothing, (shown, len(lists))
