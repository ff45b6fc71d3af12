"""Plans that group rows, and by which plain columns: rows that agree in those may lie on one core, and others elsewhere.

A core then has whole groups, and says of them what one core alone would say. That holds for aggregates over all rows so far, for windows of
event time once they are final (all cores move one watermark), and for DISTINCT. What is told of several groups together (an order, the
first few, DISTINCT over aggregates) does not stay within a core; nor does an answer that changes as time passes: what rows change in it and
what the time changes would be told apart.
"""

from dataclasses import dataclass

from watersmeet.join.outer import join_type
from watersmeet.query.graph import joins_of
from watersmeet.query.instruction import (
    Distinct,
    Filter,
    Groups,
    Instruction,
    Join,
    Project,
    Punctual,
    Scan,
    Top,
    Windows,
)
from watersmeet.sql.tree import Column


@dataclass(frozen=True)
class Grouped:
    """The rows below the groups, and the columns, by leaf and name, that rows of one group have in common."""

    rows: Instruction
    columns: frozenset[tuple[str, str]]


def grouped(plan: Instruction) -> Grouped | None:
    """How a plan groups; None if it does not, or not so that cores could do it apart."""
    below = _groups(plan)
    if below is None or not isinstance(below.input, Project):
        return None
    rows = below.input
    names = rows.names if isinstance(below, Distinct) else below.grouping.keys
    exprs = [expr for name, expr in zip(rows.names, rows.exprs, strict=True) if name in names]
    columns = frozenset((expr.stream, expr.name) for expr in exprs if isinstance(expr, Column))
    if not columns or not _rows_that_come(rows):
        return None
    return Grouped(rows, columns)


def _groups(plan: Instruction) -> Groups | Windows | Distinct | None:
    if isinstance(plan, Top):
        alone = not plan.distinct and not plan.order and plan.limit is None
        below = plan.input
        return below if alone and isinstance(below, Groups) and below.sliding is None else None
    if isinstance(plan, Project | Filter):
        return _groups(plan.input)
    return plan if isinstance(plan, Windows | Distinct) else None


def _rows_that_come(plan: Instruction) -> bool:
    """Whether rows come with those that cause them, and none as time passes, as the unmatched rows of outer joins do."""
    if isinstance(plan, Punctual):
        return _rows_that_come(plan.input)
    inner = all(join_type(join.how).name == "inner" for join in joins_of(plan))
    return (
        inner and isinstance(plan, Scan | Join | Filter | Project) and all(map(_rows_that_come, plan.inputs))
    )
