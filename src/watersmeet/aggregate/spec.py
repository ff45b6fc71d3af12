"""What is asked for: group columns and aggregates, as frozen values, checked when they are made."""

from dataclasses import dataclass

from watersmeet.errors import OptionError, listed

FUNCTIONS = (
    "count",
    "count_distinct",
    "sum",
    "avg",
    "min",
    "max",
    "var_samp",
    "var_pop",
    "stddev_samp",
    "stddev_pop",
    "first",
    "last",
)
PICKS = ("first", "last")


@dataclass(frozen=True)
class Aggregate:
    """One aggregate: ``function`` of ``column`` (None: COUNT(*)), called ``name``; FIRST and LAST go by the column ``by``.

    >>> Aggregate("sum", "price", "total")
    Aggregate(function='sum', column='price', name='total', by=None)
    """

    function: str
    column: str | None
    name: str
    by: str | None = None

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise OptionError(f"an aggregate must be one of {listed(FUNCTIONS)}; got {self.function!r}")
        if self.column is None and self.function != "count":
            raise OptionError(f"{self.function} must have a column; got none; only count goes without")
        if (self.by is not None) != (self.function in PICKS):
            raise OptionError(
                f"first and last must have a column by= that says which row is first, others none; got {self.function} by {self.by!r}"
            )


@dataclass(frozen=True)
class Grouping:
    """The columns to group by (none: all rows are one group, which is always there) and what is computed of each group."""

    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def columns(self) -> list[str]:
        """All columns that are read, each once."""
        read = [name for one in self.aggregates for name in (one.column, one.by) if name is not None]
        return list(dict.fromkeys([*self.keys, *read]))

    def __post_init__(self) -> None:
        names = [*self.keys, *(aggregate.name for aggregate in self.aggregates)]
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise OptionError(
                f"names of keys and aggregates must be unique; got {listed(double)} more than once"
            )
        if not names:
            raise OptionError("a grouping must have a key or an aggregate; got neither")
