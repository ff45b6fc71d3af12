"""What a Python worker of Spark's does at the end of a task.

After each task Spark's daemon lets the worker collect its garbage, all of it, while the next task may already be waiting for that
worker. With Numba and its kernels loaded this takes 80 ms, more than a small batch; and nothing that has been loaded is ever
garbage.
"""

import gc

from watersmeet.kernels.cache import in_worker

FEW = 4  # tasks after which a worker has loaded what it needs

_done = 0


def task_is_over() -> None:
    """What a worker holds after one of its first tasks, the collector need not look at again.

    Only cycles are lost to it: what goes away later is freed as it is let go of, and a join core has no cycles.
    """
    global _done
    if _done < FEW and in_worker():
        _done += 1
        gc.collect()
        gc.freeze()
