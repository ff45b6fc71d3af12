"""How CSV is read: what is NULL, what lies between fields, and times with or without a zone.

What stays true: what the command writes as CSV it reads back as it was. A field with nothing in it is NULL; ``""`` is the
empty text; ``nan`` is a number, ``NA`` a text.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from watersmeet.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

ZONED = r"[ T]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"  # a time of day, then an offset: the day of a date is none


@dataclass(frozen=True)
class Csv:
    """``delimiter``: between fields. ``nulls``: texts that are NULL beside the empty field, where they are not quoted."""

    delimiter: str = ","
    nulls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.delimiter.encode()) != 1 or self.delimiter in '"\r\n':
            raise OptionError(
                f"--delimiter must be one ASCII character, no quote and no line's end; got {self.delimiter!r}; "
                r"for instance ';' or '\t'"
            )

    def parsed(self) -> Any:
        """Arrow's options for cutting lines into fields."""
        from pyarrow import csv

        return csv.ParseOptions(delimiter=self.delimiter)

    def converted(self, types: "pa.Schema | None") -> Any:
        """Arrow's options for making values of fields."""
        from pyarrow import csv

        return csv.ConvertOptions(
            column_types=_as_texts(types),
            null_values=["", *self.nulls],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )


def csv_of(delimiter: str, nulls: list[str]) -> Csv:
    """From the options of the command; a shell cannot easily pass a tab, so that its name will do."""
    return Csv("\t" if delimiter == r"\t" else delimiter, tuple(nulls))


def typed_schema(schema: "pa.Schema", types: "pa.Schema | None") -> "pa.Schema":
    """The schema of :func:`typed`."""
    for field in _times(schema, types):
        schema = schema.set(schema.get_field_index(field.name), field)
    return schema


def typed(batch: "pa.RecordBatch", types: "pa.Schema | None") -> "pa.RecordBatch":
    """The times of ``types`` made of their texts."""
    import pyarrow as pa

    for field in _times(batch.schema, types):
        place = batch.schema.get_field_index(field.name)
        try:
            batch = batch.set_column(place, field, _instants(batch.column(place), field.type))
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"in column {field.name!r}: {error}") from error
    return batch


def _instants(texts: "pa.Array", kind: "pa.DataType") -> "pa.Array":
    """Arrow refuses a zone where the type has none, and the other way round. Here both are times in UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing = pa.scalar(None, pa.string())
    zoned = pc.match_substring_regex(texts, ZONED)
    with_zone = pc.if_else(zoned, texts, nothing).cast(pa.timestamp(kind.unit, "UTC")).cast(kind)
    without = pc.if_else(zoned, nothing, texts).cast(pa.timestamp(kind.unit)).cast(kind)
    return pc.coalesce(with_zone, without)


def _as_texts(types: "pa.Schema | None") -> "pa.Schema | None":
    import pyarrow as pa

    if types is None:
        return None
    return pa.schema([field.with_type(pa.string()) if _is_utc(field.type) else field for field in types])


def _times(schema: "pa.Schema", types: "pa.Schema | None") -> "list[pa.Field]":
    return [field for field in types or () if field.name in schema.names and _is_utc(field.type)]


def _is_utc(kind: "pa.DataType") -> bool:
    """A text without a zone cannot be told to be in another one: such types are left to Arrow."""
    import pyarrow as pa

    return pa.types.is_timestamp(kind) and kind.tz in (None, "UTC")
