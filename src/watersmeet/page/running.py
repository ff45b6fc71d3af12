"""A design on trial: its queries over generated rows, in software at full speed, or cycle by cycle as simulated hardware.

A run has a thread of its own, ends by ``stop`` or after ``MOST`` seconds, and is looked at by ``digest``.
"""

import threading
import time
from typing import Any

from watersmeet.errors import WatersmeetError
from watersmeet.fabric.fabric import Fabric
from watersmeet.page.hardware import Machine, machine_for
from watersmeet.page.live import table_of
from watersmeet.page.streams import Streams
from watersmeet.query.processor import Processor
from watersmeet.query.watching import first_rows

PUSH = 256  # rows of each stream in a push
MOST = 120.0  # seconds
SHOWN = 10  # rows of a result


def processor_of(fabric: Fabric, streams: Streams, sql: str) -> Processor:
    """A processor of some streams on a fabric, with the queries of some statements; what does not fit is refused."""
    qp = Processor(windows=dict(streams.windows), schemas=dict(streams.schemas), fabric=fabric)
    try:
        qp.execute(sql)
    except BaseException:
        qp.close()
        raise
    return qp


class SoftwareRun:
    """Rows through a processor, as fast as they go."""

    how = "software"

    def __init__(self, fabric: Fabric, streams: Streams, sql: str) -> None:
        self._qp, self._streams = processor_of(fabric, streams, sql), streams
        self._stop = threading.Event()
        self._begin, self._spent = time.monotonic(), 0.0
        self._rows, self._pushes = 0, 0
        self._results: dict[str, int] = dict.fromkeys(self._qp.queries(), 0)
        self._last: dict[str, Any] = {}
        self._state = "running"
        self._error: str | None = None
        self._thread = threading.Thread(target=self._run, name="watersmeet-design", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for push in self._streams.pushes(PUSH):
                if self._stop.is_set() or time.monotonic() - self._begin > MOST:
                    break
                before = time.perf_counter()
                given = self._qp.push(push)
                self._spent += time.perf_counter() - before
                self._pushes += 1
                self._rows += sum(batch.num_rows for batch in push.values())
                for name, result in given.items():
                    self._results[name] += result.count
                    if result.count:
                        self._last[name] = result
                for name, reason in given.stopped.items():
                    self._error = f"query {name} was stopped: {reason}"
            self._state = "stopped"
        except WatersmeetError as error:
            self._state, self._error = "failed", str(error)
        finally:
            self._qp.close()

    def pace(self, cycles: int) -> None:
        """Software has no cycles."""

    def digest(self) -> dict[str, Any]:
        last = {
            name: table_of(first_rows(result, SHOWN), result.count)
            for name, result in list(self._last.items())
        }
        return {
            "type": "run",
            "how": self.how,
            "state": self._state,
            "error": self._error,
            "seconds": round(time.monotonic() - self._begin, 3),
            "busy": round(self._spent, 4),
            "rows": self._rows,
            "pushes": self._pushes,
            "results": dict(self._results),
            "last": last,
        }

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)


class HardwareRun:
    """A machine that goes on at a pace: so many cycles a second, or as they come where that is too many."""

    how = "hardware"
    TICK = 0.05  # seconds between two steps
    AT_ONCE = 64  # cycles of a step at most, so that a slow machine is still looked at

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._stop = threading.Event()
        self._cycles = 10  # a second
        self._begin = time.monotonic()
        self._state = "running"
        self._error: str | None = None
        self._seen: dict[str, Any] = machine.step(0)
        self._unseen: dict[str, int] = {}  # by wire, words since the last digest
        self._thread = threading.Thread(target=self._run, name="watersmeet-cycles", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        owed = 0.0
        try:
            while not self._stop.wait(self.TICK) and time.monotonic() - self._begin < 10 * MOST:
                owed = min(owed + self._cycles * self.TICK, float(max(1, self._cycles)))
                if owed >= 1:
                    before = time.perf_counter()
                    seen = self._machine.step(min(int(owed), self.AT_ONCE))
                    seen["lately"] = {
                        name: n + self._unseen.get(name, 0) for name, n in seen["lately"].items()
                    }
                    self._unseen, self._seen = seen["lately"], seen
                    owed -= int(owed)
                    if seen["state"] == "ended":
                        break
                    if (
                        time.perf_counter() - before > self.TICK
                    ):  # it cannot keep up: the pace is what is possible
                        owed = 0.0
            self._state = "ended" if self._seen["state"] == "ended" else "stopped"
        except Exception as error:
            self._state, self._error = "failed", f"{type(error).__name__}: {error}"
        finally:
            self._machine.close()

    def pace(self, cycles: int) -> None:
        """So many cycles a second; 0: time stands still."""
        self._cycles = cycles

    def digest(self) -> dict[str, Any]:
        seen, self._unseen = self._seen, {}
        return {
            **seen,
            "type": "run",
            "how": self.how,
            "state": self._state,
            "error": self._error,
            "seconds": round(time.monotonic() - self._begin, 3),
        }

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)


Run = SoftwareRun | HardwareRun


def started(how: str, fabric: Fabric, streams: Streams, sql: str) -> Run:
    """A run of a design; what cannot run is refused."""
    if how == "hardware":
        return HardwareRun(machine_for(fabric.topology, streams, sql))
    return SoftwareRun(fabric, streams, sql)
