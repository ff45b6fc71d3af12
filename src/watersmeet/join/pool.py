"""A few threads for kernels that release the GIL. The caller works too, so that one core needs no thread at all.

What stays true: whoever has had tasks run, and is interrupted, can take back what they did at once. Nobody works at them any more, also
if Ctrl-C comes while the caller waits for the others.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from watersmeet.index.base import PairBuffer
from watersmeet.join.memory import keep_freed_memory

Task = Callable[[PairBuffer], None]
Made = TypeVar("Made")


keep_freed_memory()


class Work:
    """Tasks that threads do together. Helpers say themselves that they have begun: one that nobody knows of yet finds that all is over."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = deque(tasks)
        self._lock = threading.Lock()
        self._helpers, self._over = 0, False
        self._alone = threading.Event()  # set while no helper is at work
        self._alone.set()
        self.ended = False
        self.errors: list[BaseException] = []  # of helpers

    def drain(self, buffer: PairBuffer) -> None:
        """Take tasks until there are none."""
        while True:
            try:
                task = self._tasks.popleft()
            except IndexError:
                return
            task(buffer)

    def enter(self) -> bool:
        """A helper begins; False: there is nothing left to do."""
        with self._lock:
            if not self._over:
                self._helpers += 1
                self._alone.clear()
            return not self._over

    def leave(self) -> None:
        """A helper ends."""
        with self._lock:
            self._helpers -= 1
            if not self._helpers:
                self._alone.set()

    def end(self) -> None:
        """Nobody begins another task, and those that are at work have ended. May be interrupted, and done again."""
        with self._lock:
            self._over = True
        self._tasks.clear()
        self._alone.wait()
        self.ended = True


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
        self._share(Work(tasks), min(self.cores, len(tasks)) - 1, self._threads)

    def all_of(self, calls: Sequence[Callable[[], Made]]) -> list[Made]:
        """What each call returns. Threads that are there help; none is started: who asks may do so long after ``close``."""
        threads, helpers = self._threads, min(self.cores, len(calls)) - 1
        if threads is None or helpers < 1:
            return [call() for call in calls]
        found: dict[int, Made] = {}

        def one(i: int, buffer: PairBuffer) -> None:
            found[i] = calls[i]()

        self._share(Work([partial(one, i) for i in range(len(calls))]), helpers, threads)
        return [found[i] for i in range(len(calls))]

    def _share(self, work: "Work", wanted: int, threads: ThreadPoolExecutor) -> None:
        """Do all tasks, with so many others, as far as they have time."""
        struck: BaseException | None = None
        try:
            with suppress(RuntimeError):  # closed by another thread meanwhile: nobody helps
                for _ in range(wanted):
                    threads.submit(self._help, work)
            work.drain(self.buffer())
        finally:
            while not work.ended:  # whatever is raised here meanwhile
                try:
                    work.end()
                except BaseException as error:
                    struck = error
        if struck is not None:
            raise struck
        if work.errors:
            raise work.errors[0]

    def _help(self, work: "Work") -> None:
        if work.enter():
            try:
                work.drain(self.buffer())
            except BaseException as error:
                work.errors.append(error)
            finally:
                work.leave()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
