"""What an engine is to its outside: ``JoinEngine`` and the flows' ``FlowEngine`` are two. The type checker holds them to it."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.join.ledger import Ledger
from watersmeet.join.outcome import Outcome
from watersmeet.join.planning import Planning
from watersmeet.join.pool import Pool
from watersmeet.sql.condition import BoundCondition
from watersmeet.streams.clock import TimeAxis


class Saved(Protocol):
    """What is needed of an engine to write its state down, and to take it back."""

    @property
    def ledger(self) -> Ledger: ...

    @property
    def planning(self) -> Planning: ...

    def make_plan(self, shares: dict[str, float]) -> None: ...

    def extra_numbers(self) -> dict[str, Any]: ...

    def extra_columns(self, k: int, start: int, stop: int) -> dict[str, np.ndarray]: ...

    def restore_extra(self, numbers: dict[str, Any]) -> None: ...

    def restore_columns(self, k: int, first: int, columns: dict[str, np.ndarray]) -> None: ...


class Engine(Saved, Protocol):
    """Streams in, results out; all or nothing. ``JoinEngine`` says what each method does."""

    @property
    def lock(self) -> Any:
        """Held while something is written down; who only looks, or closes, need wait for no more. None: while anything is done."""

    @property
    def pool(self) -> Pool | None:
        """Threads that help to gather results; None: there are none to spare."""

    def begin(self) -> None: ...

    def open(self, schemas: Sequence[pa.Schema | None], axis: TimeAxis | None) -> None: ...

    def bind(
        self, condition: BoundCondition, columns: Sequence[Sequence[str]], index: str | None = None
    ) -> None: ...

    def arrive(
        self, batches: Sequence[pa.RecordBatch | None], order: np.ndarray | None, turns: Sequence[int]
    ) -> Outcome: ...

    def advance(self, latest: Sequence[int | None]) -> Outcome: ...

    def finish(self) -> Outcome: ...

    def commit(self) -> None: ...

    def take_back(self) -> None: ...

    def close(self) -> None: ...

    def settled(self) -> None: ...

    def still(self) -> AbstractContextManager[Any]: ...

    def held_back(self) -> Any: ...

    def hold_back(self, pushes: Any) -> None: ...

    def leaving(self) -> Iterator[Outcome]: ...

    def indexes(self, k: int) -> list[str]: ...

    def index_bytes(self, k: int) -> int: ...

    def describe_flow(self) -> dict[str, Any] | None: ...
