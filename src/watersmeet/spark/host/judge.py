"""Statements before they count: parsed, bound and planned against the program as it stands, and refused as a ``Processor`` would refuse
them.

One judge a host, in the process that is its source. A statement goes from the inbox to the log, is answered, and leaves the inbox, in
this order; a judge that dies in between finds it again, and its id in the log, or its answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from watersmeet import errors
from watersmeet.api.state import schema_to_json
from watersmeet.errors import OptionError, WatersmeetError, listed
from watersmeet.query.instruction import Instruction, Top
from watersmeet.query.statement import Command
from watersmeet.spark.host.files import ControlFiles
from watersmeet.spark.host.program import Hosted, Program, Programs, digest_of
from watersmeet.spark.host.setting import Setting
from watersmeet.spark.host.spread import Spread, spread_of
from watersmeet.spark.host.warm import check_warm
from watersmeet.streams.window import Window, window_from_json

VERBS = ("create", "alter", "drop")


class Judge:
    """Reads the inbox, and writes the log."""

    def __init__(self, control: ControlFiles, setting: Setting) -> None:
        self.control, self.setting = control, setting
        self.programs = Programs(control)
        self.program = self.programs.of(control.last())
        self._numbers = {entry["id"]: entry["number"] for entry in self.programs.entries}

    def take_in(self) -> int:
        """Judge what lies in the inbox; returns the number of the newest statement."""
        for name in self.control.asked():
            self._take(name)
        return self.program.version

    def _take(self, name: str) -> None:
        statement = self.control.statement(name)
        if statement is None:
            return
        if name in self._numbers:
            self.control.answer(name, {"number": self._numbers[name]})
        elif self.control.answered(name) is None:
            self.control.answer(name, self._answer(name, statement))
        self.control.taken(name)

    def _answer(self, name: str, statement: Any) -> dict[str, Any]:
        try:
            entry = judged(statement, name, self.program, self.setting)
        except WatersmeetError as error:
            return {"error": type(error).__name__, "said": str(error)}
        except Exception as error:  # a bad statement must not end the host
            return {
                "error": "OptionError",
                "said": f"the statement cannot be planned: {type(error).__name__}: {error}",
            }
        self.control.enter(entry)
        self.program = self.programs.of(entry["number"])
        self._numbers[name] = entry["number"]
        return {"number": entry["number"]}


def judged(statement: Any, name: str, program: Program, setting: Setting) -> dict[str, Any]:
    """The statement as it goes into the log."""
    verb, query, sql, windows, emit, warm = _read(statement)
    old = program.queries.get(query)
    if verb == "create" and old is not None:
        raise OptionError(
            f"the name of a new query must be free; got {query!r}, which is there; alter it, or drop it first"
        )
    if verb != "create" and old is None:
        there = listed([repr(one) for one in program.queries]) if program.queries else "none"
        raise OptionError(f"{verb} must name a query that is there: {there}; got {query!r}")
    number = program.created if old is None else old.number
    entry: dict[str, Any] = {
        "number": program.version + 1,
        "id": name,
        "verb": verb,
        "name": query,
        "query": number,
    }
    if verb != "drop":
        own = old.windows if windows is None and old is not None else (windows or {})
        kept = old.emit if emit is None and old is not None else emit
        entry |= {
            "sql": sql,
            "windows": own,
            "emit": kept,
            "generation": 0 if old is None else old.generation + 1,
            "warm": warm,
        }
        command = Command("create", query, sql, kept, warm)
        others = [one for one in program.queries.values() if one is not old]
        entry |= _planned(command, windows_of(own), setting, number, others, old and old.spread)
    return {**entry, "digest": digest_of(program.digest, entry)}


def _read(statement: Any) -> tuple[str, str, str, dict[str, Any] | None, str | None, bool]:
    if not isinstance(statement, Mapping) or statement.get("verb") not in VERBS:
        raise OptionError(
            f"a statement must be JSON with a verb, one of {', '.join(VERBS)}; got {str(statement)[:80]!r}"
        )
    query, sql, windows, emit = (statement.get(name) for name in ("name", "sql", "windows", "emit"))
    if not isinstance(query, str) or not query:
        raise OptionError(f"the name of a query must be a text; got {query!r}")
    if statement["verb"] != "drop" and not isinstance(sql, str):
        raise OptionError(f"a query must be SQL text; got {sql!r}")
    if not isinstance(windows, dict | None):
        raise OptionError(f"windows= must be a dict from a name in FROM to a window; got {windows!r}")
    warm = is_warm(statement.get("start", "now"))
    return statement["verb"], query, sql or "", windows, emit, warm


def is_warm(start: Any) -> bool:
    """Whether a query is to begin with rows that are stored."""
    if start not in ("now", "warm"):
        raise OptionError(f"start= must be 'now' or 'warm'; got {start!r}")
    return bool(start == "warm")


def windows_of(data: Mapping[str, Any]) -> dict[str, Window]:
    """A query's own windows."""
    return {name: window_from_json(window) for name, window in data.items()}


def _planned(
    command: Command,
    windows: Mapping[str, Window],
    setting: Setting,
    number: int,
    others: Sequence[Hosted],
    before: Any,
) -> dict[str, Any]:
    """What follows from the text: its streams, how it is spread, the columns of its results."""
    running = setting.running()
    try:
        running.execute([replace(command, warm=False)], windows)
        entry = running.entries[command.name]
        if entry.bound is None:
            raise OptionError(
                f"a hosted query must know the types of its columns; {command.name!r} waits for {entry.waits}; do: cast that "
                "column in the DataFrame"
            )
        running.mend()
        result = running.push(running.feed.known, {}, None)[command.name]
        _check_types(command.name, result.schema)
        stored: list[Spread] = []
        if command.warm:
            check_warm(command.name, entry.bound.plan, setting)
            stored = [one.spread for one in others if entry.asked.streams <= set(one.streams)]
        there = [one.spread for one in others]
        return {
            "streams": sorted(entry.asked.streams),
            "spread": spread_of(entry.bound, setting, number, there, before, stored).id,
            "schema": schema_to_json(result.schema),
            "complete": _complete(entry.bound.plan),
        }
    finally:
        running.feed.shared.close()


def _check_types(name: str, schema: pa.Schema) -> None:
    """A table has columns that Parquet and Spark know alike."""
    for column in schema:
        if (
            pa.types.is_null(column.type)
            or pa.types.is_duration(column.type)
            or pa.types.is_interval(column.type)
        ):
            raise OptionError(
                f"the columns of a hosted query must have types that Parquet and Spark know; got {column.type} for "
                f"{column.name!r} of {name!r}; cast it"
            )


def _complete(plan: Instruction) -> bool:
    return isinstance(plan, Top) and plan.emit == "complete"


def error_of(answer: Mapping[str, Any]) -> WatersmeetError:
    """The error that a statement was refused with."""
    kind = getattr(errors, answer["error"], OptionError)
    found: WatersmeetError = kind(answer["said"])
    return found
