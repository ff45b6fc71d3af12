"""Statements under load: rows come push after push, and queries are created, altered and dropped in between.

What stays true: a round does every kind once, on texts that were not there before, and each statement is followed by a push, then by one
that no statement came before. The first round compiles and is not timed. In it and in the last one every count of the push that follows a
statement, also of the queries that were always there, is compared with a recount.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from watersmeet.bench.measure import Point
from watersmeet.bench.queries_many import Queries
from watersmeet.bench.queries_plan import QueriesCase, QueriesOutcome, QueriesPlan, Told
from watersmeet.workloads.queries import JOIN, SELECTION, Asked, MarketFeed, mixed
from watersmeet.workloads.users import UserWorkload, market
from watersmeet.workloads.users_feed import Push

STANDING = 10  # queries that are always there
RESTARTS = 3
SUMS = "SELECT sym, COUNT(*) AS n, SUM(price * size) AS turnover FROM t WHERE size > {least} GROUP BY sym"


@dataclass(frozen=True)
class Kind:
    """A statement on a query: ``create``, ``alter`` or ``drop``; what it asks for then; from which row on it knows all rows."""

    title: str
    verb: str
    query: str
    asks: Callable[[int, UserWorkload], Asked] | None = None
    start: str = "now"
    anew: bool = True  # whether a join begins again: it knows the rows that come from then on


def _join(first: int) -> Callable[[int, UserWorkload], Asked]:
    def asks(number: int, work: UserWorkload) -> Asked:
        least = first + number
        text = JOIN.format(scale=number + 1, rows=work.window, least=least)
        return Asked("", text, least, work.window)

    return asks


def _other_list(number: int, work: UserWorkload) -> Asked:
    asked = _join(8_000)(number, work)
    return replace(asked, sql=asked.sql.replace("AS scaled", "AS other"))


def _selection(first: int) -> Callable[[int, UserWorkload], Asked]:
    return lambda number, work: Asked(
        "", SELECTION.format(scale=number + 1, least=first + number), first + number
    )


def _sums(number: int, work: UserWorkload) -> Asked:
    return Asked("", SUMS.format(least=number), number)


KINDS = (
    Kind("create a selection", "create", "selection", _selection(9_000)),
    Kind("alter a selection's filter", "alter", "selection", _selection(8_000)),
    Kind("create a join", "create", "join", _join(8_000)),
    Kind("alter a join's select list", "alter", "join", _other_list, anew=False),
    Kind("alter a join's filter", "alter", "join", _join(7_000)),
    Kind("create a warm join", "create", "warm", _join(6_000), "warm"),
    Kind("create an aggregate", "create", "sums", _sums),
    Kind("drop an aggregate", "drop", "sums"),
    Kind("drop a warm join", "drop", "warm"),
    Kind("drop a join", "drop", "join"),
    Kind("drop a selection", "drop", "selection"),
)


class Live:
    """A processor under load, the queries that come and go, and what they know."""

    def __init__(self, plan: QueriesPlan) -> None:
        self.work = market(plan.window, None)
        self.feed, self._batch = MarketFeed(self.work), plan.batch
        self.queries = Queries(mixed(STANDING, self.work), self.work, plan.cores)
        self._there: dict[str, tuple[Asked, int]] = {}  # by name, and since which row
        while self.feed.pushed < self.work.window:
            self.queries.store(self._next())

    def _next(self) -> Push:
        return self.feed.pushes(self._batch, 1)[0]

    def tell(self, kind: Kind, number: int) -> tuple[float, float]:
        """Do the statement; return milliseconds, on the clock and of the processor's time."""
        processor, since = self.queries.processor, self.feed.pushed
        asked = None if kind.asks is None else kind.asks(number, self.work)
        begin, worked = time.perf_counter(), time.thread_time()
        if asked is None:
            processor.drop(kind.query)
        elif kind.verb == "create":
            processor.create(kind.query, asked.sql, start=kind.start)
        else:
            processor.queries()[kind.query].alter(asked.sql)
        spent = (time.perf_counter() - begin) * 1e3, (time.thread_time() - worked) * 1e3
        if asked is None:
            del self._there[kind.query]
        else:
            known = 0 if kind.start == "warm" else since if kind.anew else self._there[kind.query][1]
            self._there[kind.query] = asked, known
        return spent

    def push(self) -> float:
        """One push with everything gathered, in milliseconds."""
        push = self._next()
        begin = time.perf_counter()
        self.queries.push(push)
        return (time.perf_counter() - begin) * 1e3

    def right(self) -> bool:
        """Whether the newest push gave all queries what the recount says; an aggregate is asked for its number of groups."""
        expected = self.feed.counts(self.queries.asked, self._batch)
        for name, (asked, since) in self._there.items():
            expected[name] = self._expected(asked, since)
        return self.queries.counts == expected

    def _expected(self, asked: Asked, since: int) -> int:
        if "GROUP BY" not in asked.sql:
            return self.feed.count(asked, self._batch, since)
        return self.feed.symbols(asked, self._batch)


def statement_cases(plan: QueriesPlan) -> Iterator[QueriesCase]:
    """One case: all kinds, in rounds; and the restart beside them."""
    yield QueriesCase("statements under load", _statements)
    yield QueriesCase("restart of the program", _restart)


def _statements(plan: QueriesPlan, outcome: QueriesOutcome) -> list[Point] | str:
    live = Live(plan)
    found: dict[str, list[tuple[float, float, float]]] = {kind.title: [] for kind in KINDS}
    right = dict.fromkeys(found, True)
    for number in range(plan.rounds + 1):
        for kind in KINDS:
            (spent, worked), next_push = live.tell(kind, number), live.push()
            if number in (0, plan.rounds):
                right[kind.title] &= live.right()
            plain = live.push()
            if number:
                found[kind.title].append((spent, worked, next_push))
                outcome.plain.append(plain)
    live.queries.close()
    for title, times in found.items():
        clock, cpu, after = (tuple(column) for column in zip(*times, strict=True))
        outcome.told.append(Told(title, clock, cpu, after, right[title]))
        if not right[title]:
            outcome.problems.append(f"ours: statements under load: {title}: a count differs from the recount")
    worst = max(outcome.told, key=lambda told: max(told.spent))
    return f"{len(KINDS)} kinds, {plan.rounds} times each; the longest took {max(worst.spent):.1f} ms ({worst.kind})"


def _restart(plan: QueriesPlan, outcome: QueriesOutcome) -> str:
    """A program that ends, and begins again with one more query: a new processor, all queries, and its windows filled by one push."""
    work = market(plan.window, None)
    feed = MarketFeed(work)
    asked: list[Any] = [*mixed(STANDING, work), replace(_join(6_000)(0, work), name="warm")]
    rows = feed.pushes(plan.window, 1)[0]
    for number in range(RESTARTS + 1):
        begin = time.perf_counter()
        one = Queries(asked, work, plan.cores)
        one.store(rows)
        spent = (time.perf_counter() - begin) * 1e3
        one.close()
        if number:  # the first one compiles
            outcome.restarts.append(spent)
    return f"{min(outcome.restarts):,.0f} ms at best, without the start of Python"
