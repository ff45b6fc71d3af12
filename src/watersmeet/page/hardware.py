"""The seam to the simulated hardware: a design as the hardware that ``watersmeet.hardware`` makes of its fabric, cycle by cycle.

What stays true: every number that is shown was read from the simulation. A wire has moved a word in a cycle in which its valid and ready
were both high; results are composed of the words that have left; at the end they are compared with what the engine gives for the same rows.
A design that no hardware can be made of says why. ``watersmeet.hardware`` may be missing, or lack a part: then that is the reason.

A machine gets ``ROWS`` rows of each stream, and the instructions before them; it runs in Amaranth's own simulator, which starts at once.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.fabric.components import OpBlock
from watersmeet.fabric.fabric import Fabric
from watersmeet.fabric.topology import Topology
from watersmeet.page.streams import Streams
from watersmeet.query.parse import parse_commands

Results = Mapping[str, list[tuple[Any, ...]]]  # by query
ROWS = 32  # of each stream
SHOWN = 10  # rows of a result
QUIET = 2000  # cycles without a word on any wire, after which nothing will come
WORKS = 16  # cycles of a step between two looks at the wires


class Machine(Protocol):
    """A design as hardware, on which time stands still between two steps."""

    def step(self, cycles: int) -> dict[str, Any]:
        """Let so many cycles pass; how everything stands after them."""

    def close(self) -> None: ...


def machine_for(topology: Topology, streams: Streams, sql: str) -> Machine:
    """The hardware of a design; what has none is refused with the reason."""
    try:
        return Simulated(_prepared(topology, streams, _queries(sql)))
    except ImportError as error:
        raise OptionError(
            f"a run cycle by cycle must have the simulated hardware; {_absence(error)}"
        ) from error


def verilog_of(topology: Topology, streams: Streams, sql: str) -> str:
    """The design as Verilog; what has none is refused with the reason."""
    try:
        text: str = _hardware("tools.verilog").verilog(_prepared(topology, streams, _queries(sql)).design)
        return text
    except ImportError as error:
        raise OptionError(f"Verilog must have the simulated hardware; {_absence(error)}") from error


def _hardware(part: str, *names: str) -> Any:
    """A module of ``watersmeet.hardware``, which need not be there, nor have what is needed of it."""
    found = import_module(f"watersmeet.hardware.{part}")
    for name in names:
        if not hasattr(found, name):
            raise ImportError(f"{found.__name__} has no {name}")
    return found


def _absence(error: Exception) -> str:
    return f"there is none here, or another version ({error}); do: pip install 'watersmeet[hardware]', or run it in software"


def _queries(sql: str) -> dict[str, str]:
    """The queries that statements create; on hardware they are there from the first row on."""
    found: dict[str, str] = {}
    for command in parse_commands(sql):
        if command.verb != "create" or command.warm or command.emit is not None:
            raise OptionError(
                "statements for hardware must be CREATE QUERY name AS SELECT ...; got others; run it in software"
            )
        found[command.name] = command.sql
    return found


def _rows(streams: Streams) -> dict[str, pa.Table]:
    return {name: pa.Table.from_batches([batch]) for name, batch in next(streams.pushes(ROWS)).items()}


def _prepared(topology: Topology, streams: Streams, queries: Mapping[str, str]) -> Any:
    """The design, what goes in and how results are read (``watersmeet.hardware.prepared``): of OP-Blocks an FQP (thesis 4), of bricks an
    SSP (7).
    """
    fabric, rows, windows = Fabric(topology), _rows(streams), dict(streams.windows)
    if any(isinstance(one, OpBlock) for one in topology.components):
        tables = {name: table.to_pylist() for name, table in rows.items()}
        script: list[Any] = [f"CREATE QUERY {name} AS {query}" for name, query in queries.items()]
        script += [(name, values[k]) for k in range(ROWS) for name, values in tables.items()]
        running = _hardware("fqp.running", "prepared")
        return running.prepared(fabric, script, schemas=dict(streams.schemas), windows=windows)
    sizes = _hardware("ssp.sizes").Sizes(table=256, groups=256)
    return _hardware("ssp.running", "prepared").prepared(fabric, queries, rows, windows=windows, sizes=sizes)


class Simulated:
    """A design in Amaranth's simulator, with every wire of its fabric watched."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self._names = {f"wire{k}": name for k, name in enumerate(made.wires)}
        watch: dict[str, Any] = dict(getattr(made.design, "watch", {}))
        self._levels = list(watch)
        for key, name in self._names.items():
            watch[f"{key}_valid"], watch[f"{key}_ready"] = made.wires[name].valid, made.wires[name].ready
        made.design.watch = watch
        self._session = _hardware("simulate").Session(made.design, "python", watch=True)
        self._session.offer(made.entry, made.words)
        self._moved = dict.fromkeys(made.wires, 0)
        self._quiet, self._state = 0, "running"

    def step(self, cycles: int) -> dict[str, Any]:
        lately = dict.fromkeys(self._moved, 0)
        while cycles > 0 and self._state == "running":
            some = min(cycles, WORKS)
            cycles -= some
            self._session.step(some)
            watched = self._session.lines.watched
            for key, name in self._names.items():
                both = zip(watched[f"{key}_valid"][-some:], watched[f"{key}_ready"][-some:], strict=True)
                moved = sum(valid & ready for valid, ready in both)
                lately[name] += moved
            for values in watched.values():  # what was looked at need not be kept
                del values[:-WORKS]
            done = len(self._session.taken(self._made.entry)) == len(self._made.words)
            self._quiet = self._quiet + some if done and not any(lately.values()) else 0
            if self._quiet >= QUIET:
                self._state = "ended"
        for name, moved in lately.items():
            self._moved[name] += moved
        return self._seen(lately)

    def _seen(self, lately: Mapping[str, int]) -> dict[str, Any]:
        made = self._made
        given, taken = self._session.given(made.exit), len(self._session.taken(made.entry))
        results = made.composed(given)
        watched = self._session.watched()
        ended = self._state == "ended"
        return {
            "state": self._state,
            "cycle": self._session.cycle,
            "words": [taken, len(made.words)],
            "programming": made.programming,
            "results": {name: len(rows) for name, rows in results.items()},
            "expected": {name: len(rows) for name, rows in made.expected.items()},
            "agrees": _same(results, made.expected) if ended else None,
            "moved": dict(self._moved),
            "lately": dict(lately),
            "levels": {name: watched[name] for name in self._levels if name in watched},
        }

    def close(self) -> None:
        """Nothing runs between two steps."""


def _same(one: Results, other: Results) -> bool:
    """Whether hardware and engine have the same rows, as multisets."""
    return {name: sorted(map(repr, rows)) for name, rows in one.items()} == {
        name: sorted(map(repr, rows)) for name, rows in other.items()
    }
