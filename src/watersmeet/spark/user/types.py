"""Spark's types and Arrow's: what goes in comes out as the same Spark type."""

from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from watersmeet.errors import SchemaError
from watersmeet.spark.spec import Binding
from watersmeet.spark.user.chaining import metadata
from watersmeet.spark.work.emit import METRICS
from watersmeet.sql.tree import Column


def arrow_schema(schema: StructType, stream: str) -> pa.Schema:
    """A DataFrame's columns as the engine sees them."""
    double = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if double:
        raise SchemaError(
            f"column names of stream {stream!r} must be unique; got {', '.join(double)} more than once; rename them with withColumnRenamed"
        )
    return pa.schema([_field(field, stream) for field in schema.fields])


def _field(field: StructField, stream: str) -> pa.Field:
    try:
        found = to_arrow_schema(StructType([field]), timezone="UTC").field(0)
    except (PySparkException, TypeError, NotImplementedError) as error:
        raise SchemaError(
            f"column {field.name!r} of stream {stream!r} must have a type that Spark hands to Python as Arrow; got "
            f"{field.dataType.simpleString()}; cast it, or drop it before the join"
        ) from error
    return found.with_nullable(True)


def output_type(bound: Binding, schemas: list[StructType]) -> StructType:
    """The Spark type of the join's rows."""
    by_stream = dict(zip(bound.spec.streams, schemas, strict=True))
    fields = []
    for field, expr in zip(bound.select.schema, bound.select.expressions, strict=True):
        kind: Any = from_arrow_type(field.type, prefer_timestamp_ntz=True)
        if isinstance(expr, Column):
            kind = by_stream[expr.stream][expr.name].dataType
        fields.append(StructField(field.name, kind, True, metadata(bound, expr)))
    if bound.spec.late is not None:
        fields.append(StructField(bound.spec.late, StringType(), True))
    if bound.spec.streaming:
        fields.append(StructField(METRICS, MapType(StringType(), LongType(), True), True))
    return StructType(fields)
