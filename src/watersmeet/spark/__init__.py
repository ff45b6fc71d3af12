"""Watersmeet in Spark: streaming joins on any condition, as ordinary DataFrames, exactly once."""

from importlib.util import find_spec

if find_spec("pyspark") is None:
    raise ImportError("watersmeet.spark must have pyspark; got none; do: pip install 'watersmeet[spark]'")

from watersmeet.spark.explain import explain
from watersmeet.spark.join import stream_join
from watersmeet.spark.session import check_session, session

__all__ = ["check_session", "explain", "session", "stream_join"]
