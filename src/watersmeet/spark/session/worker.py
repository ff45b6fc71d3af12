"""What a Python worker of Spark's does at the end of a task.

After each task Spark's daemon lets the worker collect its garbage, all of it, while the next task may already be waiting for that
worker. With Numba and its kernels loaded this takes 80 ms, more than a small batch; and nothing that has been loaded is ever
garbage.

Spark closes the socket of a worker that has had no task for a minute. pyspark's worker takes that for an error and writes it to the socket,
which nobody reads: over TCP nobody notices, over a Unix socket the terminal shows the traceback of a BrokenPipeError. So a worker that has
run our code looks first whether there will be another task.
"""

import gc
import socket
import sys
from collections.abc import Callable

from watersmeet.kernels.cache import in_worker

FEW = 4  # tasks after which a worker has loaded what it needs

_done = 0


def task_is_over() -> None:
    """What a worker holds after one of its first tasks, the collector need not look at again.

    Only cycles are lost to it: what goes away later is freed as it is let go of, and a join core has no cycles.
    """
    global _done
    end_quietly()
    if _done < FEW and in_worker():
        _done += 1
        gc.collect()
        gc.freeze()


Worker = Callable[[socket.socket, bool], int]


def end_quietly() -> None:
    """In a process that Spark's daemon has forked, which calls its ``worker`` once a task: from the next task on."""
    main = sys.modules.get("__main__")
    if getattr(getattr(main, "__spec__", None), "name", "") == "pyspark.daemon":
        worker = main.worker  # type: ignore[union-attr]
        if worker.__module__ != __name__:
            main.worker = while_connected(worker)  # type: ignore[union-attr]


def while_connected(worker: Worker) -> Worker:
    """The same worker, which ends when nobody is at the other end any more."""

    def next_task(sock: socket.socket, authenticated: bool) -> int:
        try:
            more = bool(sock.recv(1, socket.MSG_PEEK))  # waits until there is something, or never will be
        except ConnectionError:
            more = False
        return worker(sock, authenticated) if more else 1

    return next_task
