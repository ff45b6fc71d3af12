"""Windows, durations, columns and types as they are written on the command line."""

import re
from typing import TYPE_CHECKING, Any

from watersmeet.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

WINDOWS = "rows:N, range:DURATION:COLUMN, range:DURATION:COLUMN:LATENESS or unbounded"


def window_of(text: str) -> Any:
    """``rows:1000``, ``range:15 min:ts:5 s`` or ``unbounded`` as a window."""
    from watersmeet.streams.window import Range, Rows, Unbounded

    kind, *parts = (part.strip() for part in text.split(":"))
    if kind == "unbounded" and not parts:
        return Unbounded()
    if kind == "rows" and len(parts) == 1 and re.fullmatch(r"\d+(_\d+)*", parts[0]):
        return Rows(int(parts[0]))
    if kind == "range" and len(parts) in (2, 3):
        lateness = parts[2] if len(parts) == 3 else "0"
        return Range(_duration(parts[0]), time=parts[1], lateness=_duration(lateness))
    raise OptionError(
        f"a window must be {WINDOWS}; got {text!r}; for instance rows:1000 or 'range:15 min:ts:5 s'"
    )


def _duration(text: str) -> str | int | float:
    """A bare number is in units of a numeric time column; anything else is a duration with a unit."""
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def schema_of(text: str) -> "pa.Schema":
    """``x:int64,ts:timestamp[us],price:decimal(10,2)`` as an Arrow schema."""
    import pyarrow as pa

    fields = []
    for part in re.split(r",(?![^(\[]*[)\]])", text):
        name, colon, kind = (piece.strip() for piece in part.partition(":"))
        if not (name and colon and kind):
            raise OptionError(
                f"a column must be NAME:TYPE; got {part!r}; for instance x:int64 or ts:timestamp[us]"
            )
        fields.append(pa.field(name, _arrow_type(kind)))
    return pa.schema(fields)


def _arrow_type(kind: str) -> "pa.DataType":
    import pyarrow as pa

    decimal = re.fullmatch(r"decimal(?:128)?\((\d+),\s*(\d+)\)", kind)
    stamp = re.fullmatch(r"timestamp\[(s|ms|us|ns),\s*(?:tz=)?([\w/+:-]+)\]", kind)
    try:
        if decimal:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        return pa.timestamp(stamp[1], stamp[2]) if stamp else pa.type_for_alias(kind)
    except ValueError as error:
        known = "int64, float64, string, bool, date32, timestamp[us], timestamp[us, UTC], decimal(10,2)"
        raise OptionError(f"a type must be an Arrow type; got {kind!r}; for instance {known}") from error
