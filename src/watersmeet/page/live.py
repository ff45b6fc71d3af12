"""What the page shows of a running processor: the plan when it changes, and digests of numbers, results and a join's pairs.

Everything here is called on a thread of its own, and takes the processor's lock for the time of ``stats()``, ``describe()`` or a statement.
"""

import time
from collections.abc import Collection
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from watersmeet.errors import ConditionError, OptionError, WatersmeetError
from watersmeet.page.feeding import Feeding
from watersmeet.query.processor import Processor
from watersmeet.query.watching import Watching, first_rows

SHOWN = 50  # rows of a result
LONGEST = 200  # characters of a value
_EXACT = 2**53  # whole numbers beyond are not exact in a browser


class Live:
    """A processor, and whoever feeds it."""

    def __init__(
        self, processor: Processor, title: str, feeding: Feeding | None = None, writable: bool = True
    ) -> None:
        self.processor, self.title, self.feeding, self.writable = processor, title, feeding, writable
        self.watching = Watching(processor)
        self._begin = time.monotonic()
        self._plan: tuple[tuple[object, ...], dict[str, Any]] | None = None

    def plan(self, always: bool) -> dict[str, Any] | None:
        """The plan, if it is another than before, or ``always``."""
        revision = self.watching.revision
        known = self._plan
        if known is None or any(one is not other for one, other in zip(known[0], revision, strict=True)):
            self._plan = known = revision, self.processor.describe()
        elif not always:
            return None
        return {"type": "plan", "title": self.title, "writable": self.writable, "plan": known[1]}

    def digest(self, queries: Collection[str], blocks: Collection[str]) -> dict[str, Any]:
        """Numbers as of now; of the queries and joins that are looked at, rows and pairs."""
        self.watching.look_at(queries, blocks)
        results = {name: self._rows(name) for name in queries}
        pictures = {one: self.watching.picture(one) for one in blocks}
        return {
            "type": "digest",
            "at": round(time.monotonic() - self._begin, 4),
            "stats": self.processor.stats(),
            "source": None if self.feeding is None else self.feeding.status(),
            "results": {name: rows for name, rows in results.items() if rows is not None},
            "pictures": {one: found for one, found in pictures.items() if found is not None},
        }

    def _rows(self, query: str) -> dict[str, Any] | None:
        result = self.watching.last_result(query)
        if result is None:
            return None
        return table_of(first_rows(result, SHOWN), result.count)

    def execute(self, sql: str) -> dict[str, Any]:
        """Statements; what became of them, or what is wrong and where."""
        try:
            if not self.writable:
                raise OptionError(
                    "queries can be changed where the page is of a processor; got statements for one that is only shown"
                )
            changed = self.processor.execute(sql)
        except WatersmeetError as error:
            return refused(error, sql)
        states = {name: {"state": query.state, "reason": query.reason} for name, query in changed.items()}
        return {"ok": True, "queries": states}

    def close(self) -> None:
        """Look no more; end what feeds the processor."""
        self.watching.close()
        if self.feeding is not None:
            self.feeding.stop()


def refused(error: Exception, text: str = "") -> dict[str, Any]:
    """What is wrong, and where in the text, in units of UTF-16 as a browser counts."""
    span = error.span if isinstance(error, ConditionError) else None
    place = None if span is None else [len(text[:at].encode("utf-16-le")) // 2 for at in span]
    message = str(error).partition("\n    ")[0] if span is not None else str(error)
    return {"ok": False, "message": message, "span": place}


def table_of(rows: Any, count: int) -> dict[str, Any]:
    """A record batch for a table."""
    return {
        "columns": rows.schema.names,
        "types": [str(kind) for kind in rows.schema.types],
        "rows": [
            [plain(value) for value in row]
            for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)
        ],
        "count": count,
    }


def plain(value: Any) -> Any:
    """A value as JSON, shortened."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_EXACT < value < _EXACT else str(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    text = str(value) if isinstance(value, str | Decimal | timedelta) else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
