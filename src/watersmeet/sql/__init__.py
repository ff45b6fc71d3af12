"""SQL expressions over streams: text to tree (`parse`, `bind`), tree to Arrow (`evaluate`), select lists."""

from watersmeet.sql.evaluate import evaluate
from watersmeet.sql.select import BoundSelect, Select
from watersmeet.sql.tree import Call, Column, Expr, Literal, columns_of, streams_of

__all__ = [
    "BoundSelect",
    "Call",
    "Column",
    "Expr",
    "Literal",
    "Select",
    "columns_of",
    "evaluate",
    "streams_of",
]
