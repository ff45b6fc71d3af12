"""SQL expressions over streams: text to tree (`parse`, `bind`), tree to Arrow (`evaluate`), select lists."""

from watersmeet.expression.evaluate import evaluate
from watersmeet.expression.select import BoundSelect, Select
from watersmeet.expression.tree import Call, Column, Expr, Literal, columns_of, streams_of

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
