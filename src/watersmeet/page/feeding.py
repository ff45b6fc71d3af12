"""A thread that pushes rows into a processor at a pace: the demo's market, or the files of a job."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from watersmeet.errors import WatersmeetError

Pushes = Iterator[Mapping[str, Any]]


class Feeding:
    """Pushes what an iterator gives. ``rate``: rows a second; None: as fast as they come. It ends with the rows, or by ``stop``."""

    def __init__(
        self,
        pushes: Pushes,
        push: Callable[[Mapping[str, Any]], None],
        rate: float | None,
        finish: Callable[[], None],
    ) -> None:
        """``push``: takes one; ``finish``: called once the rows have ended."""
        self._pushes, self._push, self._rate, self._finish = pushes, push, rate, finish
        self._stop = threading.Event()
        self._rows, self._behind, self._state = 0, 0.0, "running"
        self._error: str | None = None
        self._thread = threading.Thread(target=self._run, name="watersmeet-feeding", daemon=True)

    def start(self) -> "Feeding":
        self._thread.start()
        return self

    def _run(self) -> None:
        begin = time.monotonic()
        try:
            for push in self._pushes:
                if self._stop.is_set():
                    break
                self._push(push)
                self._rows += sum(rows.num_rows for rows in push.values())
                if self._rate is not None:
                    ahead = begin + self._rows / self._rate - time.monotonic()
                    self._behind = max(0.0, -ahead)
                    if self._behind > 1.0:  # it will not be caught up with: the pace is what is possible
                        begin += self._behind
                    elif ahead > 0:
                        self._stop.wait(ahead)
            else:
                self._finish()
                self._state = "ended"
                return
            self._state = "stopped"
        except WatersmeetError as error:
            self._state, self._error = "failed", str(error)
        except Exception as error:
            self._state, self._error = "failed", f"{type(error).__name__}: {error}"

    def status(self) -> dict[str, Any]:
        """How far it is."""
        return {
            "state": self._state,
            "rows": self._rows,
            "behind": round(self._behind, 3),
            "error": self._error,
        }

    def stop(self) -> None:
        """Push no more; returns when the last push is over."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(30)

    def join(self, seconds: float | None = None) -> None:
        """Wait for its end."""
        self._thread.join(seconds)
