"""Watersmeet in Spark: streaming joins on any condition, as ordinary DataFrames, exactly once."""

from importlib.util import find_spec

from watersmeet.extras import install_command

if find_spec("pyspark") is None:
    raise ImportError(f"watersmeet.spark must have pyspark; got none; do: {install_command('spark')}")

from watersmeet.spark.host.control import Control, HostedQuery
from watersmeet.spark.host.host import QueryHost
from watersmeet.spark.session.local import check_session, session
from watersmeet.spark.session.maven import kafka_jars
from watersmeet.spark.user.explain import explain
from watersmeet.spark.user.join import stream_join

__all__ = [
    "Control",
    "HostedQuery",
    "QueryHost",
    "check_session",
    "explain",
    "kafka_jars",
    "session",
    "stream_join",
]
