"""A few threads for kernels that release the GIL. The caller works too, so that one core needs no thread at all."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from watersmeet.index.base import PairBuffer
from watersmeet.join.memory import keep_freed_memory

Task = Callable[[PairBuffer], None]
Made = TypeVar("Made")


keep_freed_memory()


class Pool:
    """Runs tasks on ``cores`` threads, the calling one among them. Threads start on first use and end with ``close``."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._threads: ThreadPoolExecutor | None = None
        self._local = threading.local()

    def buffer(self) -> PairBuffer:
        """The calling thread's own pair buffer."""
        buffer = getattr(self._local, "buffer", None)
        if buffer is None:
            buffer = self._local.buffer = PairBuffer()
        return buffer

    def run(self, tasks: Sequence[Task], parallel: bool) -> None:
        """Run all tasks to their end, then raise the first error, if there was one. Order of execution: none is promised."""
        if not parallel or self.cores == 1 or len(tasks) < 2:
            buffer = self.buffer()
            for task in tasks:
                task(buffer)
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.cores - 1, thread_name_prefix="watersmeet")
        self._share(deque(tasks), min(self.cores, len(tasks)) - 1, self._threads)

    def all_of(self, calls: Sequence[Callable[[], Made]]) -> list[Made]:
        """What each call returns. Threads that are there help; none is started: who asks may do so long after ``close``."""
        threads, helpers = self._threads, min(self.cores, len(calls)) - 1
        if threads is None or helpers < 1:
            return [call() for call in calls]
        found: dict[int, Made] = {}

        def one(i: int, buffer: PairBuffer) -> None:
            found[i] = calls[i]()

        self._share(deque(partial(one, i) for i in range(len(calls))), helpers, threads)
        return [found[i] for i in range(len(calls))]

    def _share(self, queue: deque[Task], wanted: int, threads: ThreadPoolExecutor) -> None:
        """Do what is in the queue, with so many others, as far as they have time."""
        helpers: list[Future[None]] = []
        try:
            with suppress(RuntimeError):  # closed by another thread meanwhile: nobody helps
                helpers += [threads.submit(self._drain, queue) for _ in range(wanted)]
            self._drain(queue)
        finally:
            queue.clear()
            # One that has not begun, as another thread keeps it busy, need not be waited for.
            begun = [helper for helper in helpers if not helper.cancel()]
            errors = [error for helper in begun if (error := helper.exception()) is not None]
        if errors:
            raise errors[0]

    def _drain(self, queue: deque[Task]) -> None:
        buffer = self.buffer()
        while True:
            try:
                task = queue.popleft()
            except IndexError:
                return
            task(buffer)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
