"""Where compiled kernels are cached in a process that is one of many: a Spark worker.

What stays true: a cache folder has one writer. Several processes that compile into one Numba cache can overwrite each
other's code and crash (numba issue 4807), and Spark's workers all start at once. So each takes the first numbered folder
that no living process holds, keeps its lock while it lives, and begins by copying what others have compiled and it has not:
a function's index first, so that code which is not there yet is compiled again. Numba looks only at the file of the
function itself when it decides whether cached code is stale, so the sources of all kernels name the folder above.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

KEPT_STATES = 3  # of the kernels' sources, the newest
DAEMONS = ("pyspark.daemon", "watersmeet.spark.session.daemon")  # workers are forks of one of them
_held: list[IO[str]] = []  # open for as long as the process lives
_defined: list[Any] = []  # every kernel


def defined(kernel: Any) -> None:
    """A kernel that caches what it compiles, wherever ``settle`` has said."""
    _defined.append(kernel)


def settle() -> None:
    """In a Spark worker: a cache folder of its own, before any kernel is defined. Elsewhere: nothing."""
    if in_worker() and not _held:
        _take()


def settle_anew() -> None:
    """In a fork, which has all kernels and the folder of the process that it was: a folder of its own."""
    for lock in _held:
        lock.close()  # the other process still holds it
    _held.clear()
    _take()
    for kernel in _defined:
        kernel.enable_caching()


def _take() -> None:
    import numba

    for base in _bases():
        try:
            slot, lock = take_slot(base)
        except OSError:
            continue
        _held.append(lock)
        numba.config.CACHE_DIR = str(slot)  # type: ignore[attr-defined]  # made as numba is imported
        return


def take_slot(base: Path) -> tuple[Path, IO[str]]:
    """The first folder under ``base`` that nobody holds, with all that is known, and the lock that makes it ours."""
    state = base / sources()
    state.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        lock = (state / f"{number}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            number += 1
            continue
        slot = state / str(number)
        if not slot.exists():
            slot.mkdir()
            _drop_old(base)
        _learn(slot, state)
        return slot, lock


def in_worker() -> bool:
    """Not in Spark's planners and sources, which never call a kernel."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    name = main.name if main is not None else ""
    return name == "pyspark.worker" or (name in DAEMONS and sys.argv[1:2] in ([], ["pyspark.worker"]))


def sources() -> str:
    """A name for the kernels as they are now, and for the Python that compiles them."""
    found = hashlib.sha256(sys.version.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def _bases() -> list[Path]:
    named = os.environ.get("NUMBA_CACHE_DIR")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "watersmeet"
    last = Path(tempfile.gettempdir()) / f"watersmeet-{os.getuid()}"
    return [Path(name) / "workers" for name in ([named] if named else [])] + [home / "numba", last / "numba"]


def _learn(slot: Path, state: Path) -> None:
    driver = os.environ.get("NUMBA_CACHE_DIR")  # what the process that started Spark compiles into
    for index in [*state.glob("*/*/*.nbi"), *(Path(driver).glob("*/*.nbi") if driver else [])]:
        mine = slot / index.parent.name / index.name
        if mine.exists():
            continue
        mine.parent.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):  # a file that its owner has just replaced
            # The index last, each file whole or not at all: Spark kills workers, and an index without its code breaks whoever comes next.
            for code in index.parent.glob(f"{index.stem}.*.nbc"):
                _copy(code, mine.parent / code.name)
            _copy(index, mine)


def _copy(source: Path, target: Path) -> None:
    part = target.with_name(f"{target.name}.part")
    shutil.copy(source, part)
    part.replace(target)


def _drop_old(base: Path) -> None:
    states = sorted(base.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for state in states[KEPT_STATES:]:
        shutil.rmtree(state, ignore_errors=True)
