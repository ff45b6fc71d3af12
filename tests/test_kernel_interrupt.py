"""Ctrl-C while a kernel is compiled comes when it has been, and the kernel is whole."""

import signal
import threading
from collections.abc import Iterator
from typing import Any

import numba
import pytest
from numba.core import event

from watersmeet.kernels.interrupt import compile_whole


class CtrlC(event.Listener):
    """Struck in the middle of the compiler's work, once."""

    def __init__(self) -> None:
        self.struck = 0

    def on_start(self, event: Any) -> None:
        if not self.struck:
            self.struck = 1
            signal.raise_signal(signal.SIGINT)

    def on_end(self, event: Any) -> None:
        """Nothing is done."""


@pytest.fixture
def ctrl_c() -> Iterator[CtrlC]:
    struck = CtrlC()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with event.install_listener("numba:compiler_lock", struck):
            yield struck
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def made() -> Any:
    kernel = numba.njit(lambda x: x + 1)
    compile_whole(kernel)
    return kernel


def test_the_kernel_is_compiled_before_ctrl_c_is_told(ctrl_c: CtrlC) -> None:
    kernel = made()
    with pytest.raises(KeyboardInterrupt):
        kernel(1)
    assert ctrl_c.struck
    assert len(kernel.signatures) == 1
    assert kernel(1) == 2


def test_without_it_the_compiler_is_broken_off(ctrl_c: CtrlC) -> None:
    kernel = numba.njit(lambda x: x + 1)
    with pytest.raises(KeyboardInterrupt):
        kernel(1)
    assert not kernel.signatures


def test_who_does_something_else_on_ctrl_c_goes_on(ctrl_c: CtrlC) -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: told.append(number))
    try:
        assert made()(1) == 2
    finally:
        signal.signal(signal.SIGINT, before)
    assert told == [signal.SIGINT]


def test_other_threads_compile_as_they_did() -> None:
    kernel, found = made(), []
    thread = threading.Thread(target=lambda: found.append(kernel(1)))
    thread.start()
    thread.join()
    assert found == [2]
