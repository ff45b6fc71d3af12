"""Spark's Python daemon, with everything imported that a join's workers need: ``spark.python.daemon.module``.

Spark's own daemon forks first, and every worker imports for itself: two seconds of a core before its first row. Here that is done once, and
a worker is a fork. pyspark leaves it at that because libraries may start threads as they are imported, and of those a fork has none.
What is imported here takes it: Arrow makes its thread pools anew in a child, OpenBLAS ends its threads before a fork, kernels start none.

What stays true: a worker has a kernel cache of its own (``kernels/cache.py``), as a folder has one writer; what the daemon has loaded is
left out of the workers' collections, so its pages stay shared.
"""

import gc
import socket

import pyarrow.compute  # noqa: F401 - as everything here: so that no worker has to
import pyspark.sql.pandas.types
import pyspark.worker  # noqa: F401
from pyspark import daemon

import watersmeet.spark  # noqa: F401
from watersmeet.kernels.cache import settle_anew
from watersmeet.spark.session.worker import Worker, while_connected


def in_fork(worker: Worker) -> Worker:
    """The same worker, which settles as its first task comes, and ends when nobody is at the other end any more."""
    settled = False
    connected = while_connected(worker)

    def next_task(sock: socket.socket, authenticated: bool) -> int:
        nonlocal settled
        if not settled:
            settled = True
            settle_anew()
        return connected(sock, authenticated)

    return next_task


def main() -> None:
    """``python -m watersmeet.spark.session.daemon pyspark.worker``, as Spark calls it."""
    daemon.worker = in_fork(daemon.worker)  # type: ignore[assignment]
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
