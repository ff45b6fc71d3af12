"""``Control``: statements for a host, from any process."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import OptionError, StateError
from watersmeet.query.answer import check_emit
from watersmeet.spark.host.files import ControlFiles
from watersmeet.spark.host.judge import error_of, is_warm
from watersmeet.spark.host.program import Programs
from watersmeet.streams.window import Window

POLL = 0.05  # seconds between two looks for an answer


@dataclass(frozen=True)
class HostedQuery:
    """A query of a host, as ``control.queries()`` shows it."""

    name: str
    sql: str
    generation: int  # how often it was altered
    statement: int  # the number of the statement that has made it what it is
    state: str  # "accepted" (it acts within two batches), "running" or "stopped" (by an error of its own)
    reason: str | None  # why it was stopped
    spread: str  # how it lies on the cores
    start: str = "now"  # or "warm", as was asked for
    # What rows of this batch, or of a later one, add is what they would add had the query been there since the first; None: not yet, or
    # not known.
    complete_from: int | None = None

    def __repr__(self) -> str:
        return f"<HostedQuery {self.name!r}: {self.state}>"


class Control:
    """The control folder of a ``QueryHost``, for whoever creates, alters and drops queries.

    >>> control = Control("/data/control")                                         # doctest: +SKIP
    >>> control.create("large", "SELECT sym, price FROM trades WHERE size > 9000")   # doctest: +SKIP
    1

    A statement is a file. The host numbers it once it has been parsed, bound and planned, and answers; it acts within two batches.
    ``timeout`` is how many seconds to wait for the answer; with ``timeout=None`` nobody waits, and the statement's id is returned in
    place of its number. A statement that is refused raises what a ``Processor`` would raise.
    """

    def __init__(self, folder: str) -> None:
        self._files = ControlFiles(folder)

    def create(
        self,
        name: str,
        sql: str,
        *,
        windows: Mapping[str, Window] | None = None,
        emit: str | None = None,
        start: str = "now",
        timeout: float | None = 60.0,
    ) -> int | str:
        """A new query. ``windows``, ``emit``: as for ``Processor.create``.

        ``start="warm"``: a join goes on as if it had been there since the host's first batch, where another query stores all the rows that
        this takes, spread alike; else it begins with the rows that come. ``queries()`` says which (``complete_from``).
        """
        return self._say("create", name, sql, windows, emit, start, timeout)

    def alter(
        self,
        name: str,
        sql: str,
        *,
        windows: Mapping[str, Window] | None = None,
        emit: str | None = None,
        start: str = "now",
        timeout: float | None = 60.0,
    ) -> int | str:
        """Another text for a query: a new generation, with a table of its own. What stays as it is goes on, if the query is spread as
        before."""
        return self._say("alter", name, sql, windows, emit, start, timeout)

    def drop(self, name: str, *, timeout: float | None = 60.0) -> int | str:
        """End a query. Its tables stay."""
        return self._say("drop", name, "", None, None, "now", timeout)

    def queries(self) -> dict[str, HostedQuery]:
        """All queries by name: what the log says, and how far the host has come."""
        program = Programs(self._files)
        now = program.of(self._files.last())
        status = self._files.read("status.json") or {"version": 0, "stopped": {}}
        found = {}
        for name, query in now.queries.items():
            reason = status["stopped"].get(query.key)
            acts = query.statement <= status["version"]
            state = "stopped" if reason is not None else "running" if acts else "accepted"
            found[name] = HostedQuery(
                name,
                query.sql,
                query.generation,
                query.statement,
                state,
                reason,
                str(query.spread),
                "warm" if query.warm else "now",
                status.get("complete", {}).get(query.key),
            )
        return found

    def answer(self, statement: str, timeout: float = 60.0) -> int:
        """The number of a statement, by the id that ``timeout=None`` has returned; or the error that it was refused with."""
        end = time.monotonic() + timeout
        while (said := self._files.answered(statement)) is None:
            if time.monotonic() > end:
                raise StateError(
                    f"a statement must be answered within {timeout} s; got no answer: no host runs on {self._files.location}, "
                    "or it is at a long batch. The "
                    f"statement stays in the inbox, and counts once a host takes it; do: control.answer({statement!r}) to wait on"
                )
            time.sleep(POLL)
        self._files.heard(statement)
        if "error" in said:
            raise error_of(said)
        return int(said["number"])

    def _say(
        self, verb: str, name: Any, sql: Any, windows: Any, emit: Any, start: Any, timeout: float | None
    ) -> int | str:
        is_warm(start)
        if not isinstance(name, str) or not name:
            raise OptionError(f"the name of a query must be a text; got {name!r}")
        if not isinstance(sql, str):
            raise OptionError(f"a query must be SQL text; got {sql!r}")
        check_emit(emit)
        if windows is not None and not (
            isinstance(windows, Mapping) and all(isinstance(one, Window) for one in windows.values())
        ):
            raise OptionError(
                f"windows= must be a dict from a name in FROM to a window, such as {{'t': Rows(100)}}; got {windows!r}"
            )
        own = None if windows is None else {key: window.to_json() for key, window in windows.items()}
        said = {"verb": verb, "name": name, "sql": sql, "windows": own, "emit": emit, "start": start}
        statement = self._files.ask(said)
        return statement if timeout is None else self.answer(statement, timeout)
