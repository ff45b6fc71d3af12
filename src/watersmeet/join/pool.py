"""A few threads for kernels that release the GIL. The caller works too, so that one core needs no thread at all."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from watersmeet.index.base import PairBuffer
from watersmeet.join.memory import keep_freed_memory

Task = Callable[[PairBuffer], None]


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
        queue = deque(tasks)
        helpers: list[Future[None]] = [
            self._threads.submit(self._drain, queue) for _ in range(min(self.cores, len(tasks)) - 1)
        ]
        try:
            self._drain(queue)
        finally:
            queue.clear()
            errors = [error for helper in helpers if (error := helper.exception()) is not None]
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
