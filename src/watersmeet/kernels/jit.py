"""The decorators of all kernels.

Rules: only functions; contiguous arrays and scalars in, caller-allocated arrays out; count then fill, or capacity and
resume; no Python objects; the GIL is released; every kernel gives the same answer with ``NUMBA_DISABLE_JIT=1``.
Compiled code is cached on disk, so only the first run on a machine pays for compilation;
``cache.py`` gives Spark workers caches of their own.
"""

from collections.abc import Callable
from typing import Any

import numba

from watersmeet.kernels.cache import defined, settle
from watersmeet.kernels.interrupt import compile_whole

settle()  # before the first kernel is defined


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``function`` in nopython mode, without the GIL, cached on disk."""
    return _compiled(function, counted=True)


def uncounted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel without Numba's count of who holds an array: one that makes no array (``on_stack`` may do) and returns none.

    Numba counts wherever an array is handed to a function that it inlines, also in the innermost loop, and a count is an atomic step, for
    which two threads that read one array wait for each other. LLVM leaves most of them out, but not all: a text of 36 bytes is compared
    in 3 ns in place of 20. Numba refuses to compile what makes an array; one that is returned would be freed under its holder.
    """
    return _compiled(function, counted=False)


def _compiled(function: Callable[..., Any], counted: bool) -> Callable[..., Any]:
    options: dict[str, Any] = {"nogil": True, "cache": True, "boundscheck": False, "error_model": "numpy"}
    if not counted:
        options["_nrt"] = False  # the one name that Numba has for it
    compiled: Callable[..., Any] = numba.njit(**options)(function)
    if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        defined(compiled)
        compile_whole(compiled)
    return compiled


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """For a small function inside the hottest loops: copied into each kernel that calls it, which LLVM does not always do by itself."""
    compiled: Callable[..., Any] = numba.njit(inline="always", boundscheck=False, error_model="numpy")(
        function
    )
    return compiled
