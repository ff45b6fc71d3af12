"""Live streams made up on the spot, for tests, demos and benchmarks: as Spark data sources that yield Arrow.

>>> register_sources(spark)                                                       # doctest: +SKIP
>>> quotes = (spark.readStream.format("watersmeet_market").option("stream", "quotes")
...           .option("rate", 20_000).option("disorder", "40 ms").load())         # doctest: +SKIP

The formats are ``watersmeet_workload`` (streams r and s of a benchmark workload), ``watersmeet_market`` (trades and quotes)
and ``watersmeet_tpch`` (orders and lineitem); ``options.py`` has the options.
"""

from typing import TYPE_CHECKING

from watersmeet.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_sources"]


def register_sources(spark: "SparkSession") -> None:
    """Make the formats known to ``spark``; once more does no harm."""
    try:
        from watersmeet.spark.sources.reading import SOURCES
    except ImportError as error:
        from pyspark import __version__ as version

        raise OptionError(
            f"the generated sources must have pyspark 4.2 or newer; got {version}; do: pip install 'pyspark>=4.2,<5'"
        ) from error
    for source in SOURCES:
        spark.dataSource.register(source)
