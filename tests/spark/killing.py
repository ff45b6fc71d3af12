"""Jobs that tests start, and kill with all that these have started: nobody else's processes are touched.

How often they are killed: once around with `make test-all`, at moments that differ from run to run; four times with `make test-kills`.
"""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROUNDS = 4 if os.environ.get("WATERSMEET_KILLS") == "many" else 1


def session_processes(leader: int) -> dict[int, str]:
    """The processes that the job has started, by their session: pid -> command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
            if session == leader:
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, ValueError, IndexError):
            continue
    return found


KINDS = {
    "driver": lambda pid, text, leader: pid == leader,
    "executor": lambda pid, text, leader: "CoarseGrainedExecutorBackend" in text,
    "worker": lambda pid, text, leader: "pyspark.worker" in text,
    "source": lambda pid, text, leader: "python_streaming_source_runner" in text,
}


class Job:
    """A script of this folder as a process with a session of its own, alive or not."""

    def __init__(self, script: str, folder: Path, *arguments: str) -> None:
        self.command = [sys.executable, str(HERE / script), str(folder), *arguments]
        self.log = folder / f"{script}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.leaders: list[int] = []

    def start(self) -> None:
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        paths = [
            str(HERE.parent),
            *filter(None, [os.environ.get("PYTHONPATH")]),
        ]  # scripts may import from tests
        environment["JAVA_TOOL_OPTIONS"] = (
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # starts in half the time
        )
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        self.leaders.append(self.process.pid)

    def ended(self) -> bool:
        """Whether it has to be started."""
        return self.process is None or self.process.poll() is not None

    def kill_all(self) -> bool:
        """The process, and all that it has started."""
        if self.process is None:
            return False
        self.end()
        self.process.wait()
        return True

    def kill_one(self, kind: str, rng: random.Random) -> bool:
        assert self.process is not None
        leader = self.process.pid
        pids = [pid for pid, text in session_processes(leader).items() if KINDS[kind](pid, text, leader)]
        if kind == "driver":  # python and the Java that it started
            pids = [
                pid
                for pid, text in session_processes(leader).items()
                if pid == leader or "SparkSubmit" in text
            ]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            self.process.wait()
            return bool(pids)
        if not pids:
            return False
        try:
            os.kill(rng.choice(pids), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def end(self) -> None:
        for leader in self.leaders:
            for pid in session_processes(leader):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
