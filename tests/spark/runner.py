"""The operator without Spark: pack, shuffle and join as Spark would call them, in this process."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from watersmeet.spark.spec import Binding, JoinSpec
from watersmeet.spark.task import Task
from watersmeet.spark.work import operator
from watersmeet.spark.work.operator import join
from watersmeet.spark.work.pack import pack


class Runner:
    """A query: batches in, result rows out."""

    def __init__(self, spec: JoinSpec, query: str = "query", seed: int = 0) -> None:
        self.spec, self.query, self.run = spec, query, "first"
        self.random = random.Random(seed)
        self.figures: list[dict[str, int]] = []

    def restart(self, **changes: Any) -> None:
        """As if all processes had been killed."""
        operator._waiting.clear()
        self.run = f"{self.run}+"
        self.spec = replace(self.spec, instance=f"{self.spec.instance}+", **changes)

    def packed(self, batch: int | None, parts: Sequence[Sequence[pa.RecordBatch]]) -> list[pa.RecordBatch]:
        """The records of all map partitions; ``parts``: of each stream, one batch a map partition."""
        found: list[pa.RecordBatch] = []
        for k, mine in enumerate(parts):
            for number, rows in enumerate(mine):
                task = Task(number, batch, self.query, self.run)
                pieces = [rows.slice(0, rows.num_rows // 2), rows.slice(rows.num_rows // 2)]
                found += pack(self.spec, k, pieces, lambda task=task: task)
        return found

    def evaluate(self, batch: int | None, core: int, records: Sequence[pa.RecordBatch]) -> pa.Table:
        """One core's task."""
        mine = []
        for rows in records:
            places = [i for i, to in enumerate(rows.column(0).to_pylist()) if to == core]
            mine += [rows.slice(i, 1) for i in places]
        self.random.shuffle(mine)  # shuffle blocks come in any order
        task = Task(core, batch, self.query, self.run)
        found = list(join(self.spec, mine, lambda: task))
        if not found:
            return pa.table({})
        return pa.Table.from_batches(found)

    def batch(self, number: int | None, parts: Sequence[Sequence[pa.RecordBatch]]) -> list[dict[str, Any]]:
        """A whole batch, cores in any order."""
        records = self.packed(number, parts)
        cores = list(range(Binding(self.spec).tasks))
        self.random.shuffle(cores)
        rows: list[dict[str, Any]] = []
        figures: dict[str, int] = {}
        for core in cores:
            for row in self.evaluate(number, core, records).to_pylist():
                metrics = row.pop("__watersmeet", None)
                if metrics is None:
                    rows.append(row)
                else:
                    for name, value in metrics:
                        figures[name] = figures.get(name, 0) + value
        self.figures.append(figures)
        return rows
