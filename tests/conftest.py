"""What every test relies on: a Numba cache that no other process writes to, and fixed seeds.

One Numba disk cache shared by several processes can crash them (numba issue 4807), so each test process (an
xdist worker, or a second pytest beside it) takes a numbered cache of its own and keeps it locked while it
lives. Numba looks only at the file of the function itself when it decides whether cached code is stale, so
the caches of older sources of the kernels are set aside.
"""

import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
CACHES = ROOT / ".cache" / "numba"
KERNELS = ROOT / "src" / "watersmeet" / "kernels"


def own_cache() -> tuple[Path, IO[str]]:
    """A cache directory for this process, and the lock that keeps it ours."""
    import fcntl

    sources = b"".join(path.read_bytes() for path in sorted(KERNELS.glob("*.py")))
    here = CACHES / hashlib.sha256(sources).hexdigest()[:12]
    here.mkdir(parents=True, exist_ok=True)
    slot = 0
    while True:
        lock = (here / f"{slot}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            slot += 1
        else:
            return here / str(slot), lock


def drop_old_caches(keep: int = 3) -> None:
    """Only the newest few states of the kernels keep their caches."""
    states = sorted(CACHES.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for state in states[keep:]:
        shutil.rmtree(state, ignore_errors=True)


assert "numba" not in sys.modules, "numba was imported before its cache was chosen"
_CACHE, _LOCK = own_cache()
os.environ["NUMBA_CACHE_DIR"] = str(_CACHE)
if "PYTEST_XDIST_WORKER" not in os.environ:
    drop_old_caches()

from hypothesis import HealthCheck, settings  # noqa: E402

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
# "ci": the same examples on every run. "random": new ones each time; a failure prints how to repeat it.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=40, suppress_health_check=_SLOW)
settings.register_profile(
    "random", deadline=None, max_examples=200, print_blob=True, suppress_health_check=_SLOW
)
# "no_jit": a few of the "ci" examples, for kernels that run as plain Python.
settings.register_profile("no_jit", settings.get_profile("ci"), max_examples=10)
settings.load_profile("ci")
