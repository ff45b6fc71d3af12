"""Memory that is freed stays with the process for a while, so that the next push need not fault it in again.

A push makes arrays of a megabyte or so and soon lets go of them. glibc hands such blocks back to the system at once, and every
page is then mapped and cleared anew: with two threads a third of the time of a large push went there. Two settings of the
allocator change that, for the whole process; WATERSMEET_MALLOC=default leaves them alone.
"""

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
KEPT = 256 << 20  # bytes at the end of the heap that are not given back
MAPPED_FROM = 64 << 20  # blocks of at least this size still get, and return, a mapping of their own


def keep_freed_memory() -> bool:
    """Set the allocator; True if that was possible. Only glibc has these settings."""
    if not sys.platform.startswith("linux") or os.environ.get("WATERSMEET_MALLOC") == "default":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT))
