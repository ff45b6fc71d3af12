"""Ctrl-C while a kernel is compiled, or loaded from the cache, waits until it has been.

Numba and LLVM do not expect an exception in their middle: it can be swallowed, leave a kernel half made, or free memory twice.
"""

import signal
import threading
from typing import Any


def compile_whole(kernel: Any) -> None:
    """Let this dispatcher's compiler run to its end, whoever presses Ctrl-C."""
    compiler = kernel._compile_for_args  # asked for by name with every call that needs it

    def compiled(*args: Any) -> Any:
        handler = signal.getsignal(signal.SIGINT)
        # Python runs handlers in the main thread alone.
        if not callable(handler) or threading.current_thread() is not threading.main_thread():
            return compiler(*args)
        came: list[tuple[Any, ...]] = []
        signal.signal(signal.SIGINT, lambda *call: came.append(call))
        try:
            return compiler(*args)
        finally:
            signal.signal(signal.SIGINT, handler)
            if came:
                handler(*came[0])

    kernel._compile_for_args = compiled
