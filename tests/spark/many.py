"""Joins of many streams in micro-batches: the oracle with Spark's clock, and a run of the operator beside it, without a session."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness import window
from multiway import Run, batch
from oracle import Combination, Event, MultiwayOracle, MultiwayPredicate, Window
from spark.runner import Runner
from watersmeet.errors import OptionError
from watersmeet.spark.shuffle.spread import choose_spread, possible
from watersmeet.spark.spec import JoinSpec
from watersmeet.spark.state.tables import written
from watersmeet.sql.condition import Condition


class ManyOracle(MultiwayOracle):
    """Rows are judged by the watermark of the batches before, and nothing waits within a batch."""

    def __init__(self, condition: MultiwayPredicate, windows: Mapping[str, Window]) -> None:
        super().__init__(condition, windows)
        self.frozen: float | None = None

    def watermark(self) -> float:
        return super().watermark() if self.frozen is None else self.frozen

    def batch(self, events: Sequence[Event]) -> tuple[list[Combination], list[Event]]:
        """The ids of the rows of each result, and who is late: also whoever should have a time and has none."""
        timeless = [event for event in events if self.timed(event[0]) and self.time(*event) is None]
        self.frozen = super().watermark()
        steps = [(event, self.arrive(*event)) for event in events if event not in timeless]
        self.frozen = None
        found = [self.ids(one) for _, step in steps for one in step or ()]
        return sorted(found), timeless + [event for event, step in steps if step is None]

    def ids(self, numbers: Combination) -> Combination:
        rows = zip(self.windows, numbers, strict=True)
        return tuple(self.stored[name][number].row["id"] for name, number in rows)


def arranged(events: Sequence[Event], names: Sequence[str], order: bool) -> list[Event]:
    """A batch's rows as they arrive: stream by stream, or merged by time, each stream in its own order."""
    waiting = {name: [event for event in events if event[0] == name] for name in names}
    if not order:
        return [event for mine in waiting.values() for event in mine]
    found: list[Event] = []
    while any(waiting.values()):
        first = min((name for name in names if waiting[name]), key=lambda name: waiting[name][0][1]["ts"])
        found.append(waiting[first].pop(0))
    return found


def spec_of(run: Run, spread: str, order: str | None, static: Sequence[str] = (), **options: Any) -> JoinSpec:
    """``spread``: as a user asks for it; what the condition does not allow is ``auto``. ``static``: streams that are tables."""
    tables = [k for k, name in enumerate(run.names) if name in static]
    schemas = {name: run.schema(name) for name in run.names}
    windows = tuple(window(spec, run.unit) for spec in run.windows.values())
    bound = Condition(run.condition.text).bind(schemas)
    asked = spread if spread in possible(bound) else "auto"
    try:
        chosen = choose_spread(asked, bound, windows, order, "inner", tables)
    except OptionError:
        chosen = choose_spread("auto", bound, windows, order, "inner", tables)
    select = ", ".join(f"{name}.id AS {name}_id" for name in run.names)
    fixed = {"late": "late", "retain": 3, "select": select}
    return JoinSpec(
        run.condition.text, run.names, windows, tuple(schemas.values()), order=order, spread=chosen, **{**fixed, **options}
    )  # fmt: skip


class Many:
    """A join of many streams, batch by batch, against the oracle."""

    def __init__(
        self, run: Run, folder: Path, spread: str = "auto", order: str | None = None, cores: int = 2, static: Sequence[str] = ()
    ) -> None:  # fmt: skip
        self.run, self.number, self.static = run, 0, static
        self.oracle = ManyOracle(run.condition.predicate, run.windows)
        tables = {name: [row for stream, row in run.events if stream == name] for name in static}
        self.oracle.batch([(name, row) for name in run.names if name in static for row in tables[name]])
        files = tuple(
            written(str(folder), batch(tables[name], run, name), run.columns(name))
            if name in static
            else None
            for name in run.names
        )
        options = {"cores": cores, "state": str(folder), "instance": str(folder)}
        self.runner = Runner(spec_of(run, spread, order, static, tables=files if static else (), **options))

    def batch(self, events: Sequence[Event], partitions: int = 2) -> list[Combination]:
        """One batch: results and late rows must be the oracle's."""
        run, spec = self.run, self.runner.spec
        events = [event for event in events if event[0] not in self.static]
        wanted, late = self.oracle.batch(arranged(events, run.names, spec.order is not None))
        rows = {name: [row for stream, row in events if stream == name] for name in run.names}
        given = [
            [] if name in self.static else self.parts(rows[name], name, partitions) for name in run.names
        ]
        found = self.runner.batch(self.number, given)
        where = f"batch {self.number}, {spec.spread} over {spec.cores} cores"
        got = sorted(tuple(row[f"{name}_id"] for name in run.names) for row in found if row["late"] is None)
        assert got == wanted, f"{where}: missing {_less(wanted, got)}, extra {_less(got, wanted)}"
        refused = sorted((row["late"], row[f"{row['late']}_id"]) for row in found if row["late"] is not None)
        assert refused == sorted((stream, row["id"]) for stream, row in late), f"{where}: late rows"
        self.number += 1
        return got

    def parts(self, rows: list[Any], name: str, count: int) -> list[pa.RecordBatch]:
        size = len(rows)
        return [
            batch(rows[size * i // count : size * (i + 1) // count], self.run, name) for i in range(count)
        ]

    def restart(self, spread: str | None = None, **changes: Any) -> None:
        """Everybody is killed; the join goes on with another number of cores, or spread another way."""
        spec = self.runner.spec
        if spread is not None:
            changes["spread"] = spec_of(self.run, spread, spec.order, self.static).spread
        self.runner.restart(**changes)


def _less(some: list[Combination], others: list[Combination]) -> list[Combination]:
    left = list(others)
    return [one for one in some if one not in left or left.remove(one)]  # type: ignore[func-returns-value]
