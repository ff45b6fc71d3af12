"""A text is bound while the type of a column is still open: as NULL, or as any type with which the text makes sense.

Every value of an open column is NULL, and NULL of one type gives what NULL of another does. So it does not matter which
type is taken; it matters that rows give their results at once, and that a text which no type can mend is refused at once.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice, product
from typing import TypeVar

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import ConditionError

Bound = TypeVar("Bound")
Schemas = Mapping[str, pa.Schema]

TRIES = 500  # a text is bound in well under a millisecond
_USUAL = (
    pa.int64(), pa.large_string(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.duration("us"), pa.bool_(),
    pa.time64("us"), pa.large_binary(),
)  # fmt: skip


def bind_open(bind: Callable[[Schemas], Bound], schemas: Schemas, names: set[str]) -> Bound:
    """``bind(schemas)``, where columns may be open. ``names``: the columns that the text names, in lower case."""
    try:
        return bind(schemas)
    except ConditionError:
        for guess in islice(_guesses(schemas, names), TRIES):
            try:
                return bind(guess)
            except ConditionError:
                continue
        raise


def _guesses(schemas: Schemas, names: set[str]) -> Iterator[Schemas]:
    """The schemas with types in place of null: the same for all open columns first, then each its own."""
    fields = [(stream, field) for stream, schema in schemas.items() for field in schema]
    unknown = [
        (stream, field.name)
        for stream, field in fields
        if pt.is_null(field.type) and field.name.lower() in names
    ]
    if not unknown:
        return
    known = [field.type for _, field in fields if not pt.is_nested(field.type) and not pt.is_null(field.type)]
    kinds = []
    for kind in (*known, *_USUAL):  # not a set: an extension type need not have a hash
        if kind not in kinds:
            kinds.append(kind)
    same = ([kind] * len(unknown) for kind in kinds)
    for chosen in chain(same, product(kinds, repeat=len(unknown))):
        types = dict(zip(unknown, chosen, strict=True))
        yield {
            stream: pa.schema([(field.name, types.get((stream, field.name), field.type)) for field in schema])
            for stream, schema in schemas.items()
        }
