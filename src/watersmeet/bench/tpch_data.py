"""TPC-H's customer, orders and lineitem: made by tpchgen-cli into a cache, read as Arrow, dealt out as pushes in four orders of arrival.

What stays true: in every order each row comes exactly once; a push has ``batch`` rows of all streams together, but for the last one; a
cache folder is whole or not there.
"""

import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from watersmeet.errors import DataError, OptionError
from watersmeet.extras import install_command

Tables = dict[str, pa.Table]
Push = dict[str, pa.RecordBatch]

# What the queries read; DuckDB's tables have the same columns.
COLUMNS = {
    "customer": ("c_custkey", "c_mktsegment"),
    "orders": ("o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"),
    "lineitem": (
        "l_orderkey",
        "l_quantity",
        "l_extendedprice",
        "l_discount",
        "l_tax",
        "l_returnflag",
        "l_linestatus",
        "l_shipdate",
    ),
}
DATES = {"orders": "o_orderdate", "lineitem": "l_shipdate"}


def generator() -> str | None:
    """The command of tpchgen-cli, beside this Python or on the path; None if it is not installed."""
    return shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")


def cache_folder() -> Path:
    """Where tables are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "watersmeet" / "tpch"


def tables(sf: float, folder: Path) -> Tables:
    """The three tables of a scale factor, made into ``folder`` unless they are there; texts as ``string``."""
    place = folder / f"sf{sf:g}"
    if not place.exists():
        _generate(sf, place)
    return {name: _read(place / f"{name}.parquet", columns) for name, columns in COLUMNS.items()}


def _generate(sf: float, place: Path) -> None:
    command = generator()
    if command is None:
        raise OptionError(f"TPC-H's rows must have tpchgen-cli; got none; do: {install_command('bench')}")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as made:
        wanted = ["-s", f"{sf:g}", "-T", ",".join(COLUMNS), "-o", f"{made}/whole", "-q"]
        done = subprocess.run([command, "parquet", *wanted], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DataError(
                f"tpchgen-cli must make the rows of scale factor {sf:g}; it ended with code {done.returncode}: {done.stderr.strip()[-400:]}"
            )
        if not place.exists():  # another process may have been faster
            os.rename(f"{made}/whole", place)


def _read(path: Path, columns: tuple[str, ...]) -> pa.Table:
    table = pq.read_table(path, columns=list(columns))
    plain = [
        pa.field(field.name, pa.string() if pa.types.is_string_view(field.type) else field.type)
        for field in table.schema
    ]
    return table.cast(pa.schema(plain)).combine_chunks()


# An order says when each row of a stream comes; rows of one moment come stream by stream.
Moments = Mapping[str, np.ndarray]


def _evenly(found: Tables) -> Moments:
    return {name: (np.arange(len(table)) + 0.5) / max(len(table), 1) for name, table in found.items()}


def _one_by_one(*names: str) -> Callable[[Tables], Moments]:
    return lambda found: {name: np.full(len(found[name]), names.index(name)) for name in found}


def _by_date(found: Tables) -> Moments:
    """Orders on their own date, lines on the day of shipping, customers evenly from the first of these days to the last."""
    days = {
        name: pc.cast(found[name][column], pa.int32()).to_numpy().astype(float)
        for name, column in DATES.items()
    }
    first, last = min(map(np.min, days.values())), max(map(np.max, days.values()))
    return {**days, "customer": np.linspace(first, last, len(found["customer"]))}


ORDERS: dict[str, Callable[[Tables], Moments]] = {
    "mixed evenly": _evenly,
    "customers first": _one_by_one("customer", "orders", "lineitem"),
    "lines first": _one_by_one("lineitem", "orders", "customer"),
    "by date": _by_date,
}


def pushes(found: Tables, order: str, batch: int) -> Iterator[Push]:
    """All rows, in an order of ``ORDERS``."""
    moments = ORDERS[order](found)
    ranked = {name: np.argsort(moments[name], kind="stable") for name in found}
    rows = {name: _taken(table, ranked[name]) for name, table in found.items()}
    whose = np.repeat(np.arange(len(rows)), [len(table) for table in rows.values()])
    when = np.concatenate([moments[name][ranked[name]] for name in rows])
    whose = whose[np.argsort(when, kind="stable")]
    starts = dict.fromkeys(rows, 0)
    for at in range(0, whose.size, batch):
        counts = np.bincount(whose[at : at + batch], minlength=len(rows))
        push = {}
        for name, count in zip(rows, counts.tolist(), strict=True):
            if count:
                push[name] = rows[name].slice(starts[name], count)
                starts[name] += count
        yield push


def _taken(table: pa.Table, ranks: np.ndarray) -> pa.RecordBatch:
    sorted_ = table if np.array_equal(ranks, np.arange(ranks.size)) else table.take(pa.array(ranks))
    return sorted_.combine_chunks().to_batches()[0]
