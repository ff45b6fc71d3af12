"""One module for all equal instances: what repeats is elaborated, compiled and synthesised once.

Amaranth elaborates every instance anew and moves constants into it, so that equal cores do not stay equal. An instance behind
``Shared`` is elaborated once for each class and parameters when a ``Library`` is the platform (compiled simulation,
synthesis), and in place otherwise (Amaranth's own simulator). What differs between instances must be a port.
"""

from collections.abc import Callable
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal
from amaranth.lib import wiring


class Library:
    """A platform that collects shared modules: their text by name."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._names: dict[tuple[str, ...], str] = {}

    def name(self, key: tuple[str, ...]) -> tuple[str, bool]:
        """The module's name, and whether it is new."""
        new = key not in self._names
        if new:
            self._names[key] = f"shared_{len(self._names)}_{key[1].lower()}"
        return self._names[key], new

    def text(self) -> str:
        """All shared modules as RTLIL."""
        return "".join(self.texts.values())


class Shared(wiring.Component):
    """``Shared(JoinCore, 16)`` has the ports of ``JoinCore(16)``, which is ``it``."""

    def __init__(self, make: Callable[..., Any], *args: Any, **named: Any) -> None:
        self.it = make(*args, **named)
        self.it._MustUse__used = True  # elaborated once for all that are equal
        self.key = (make.__module__, make.__qualname__, repr(args), repr(sorted(named.items())))
        super().__init__(self.it.signature)
        self.watch = getattr(self.it, "watch", {})

    def elaborate(self, platform: Any) -> Module | Instance:
        if not isinstance(platform, Library):
            return self._in_place()
        name, new = platform.name(self.key)
        if new:
            text = rtlil.convert(self.it, name=name, platform=platform)
            platform.texts[name] = text.replace("attribute \\top 1\n", "")
        ports = {}
        for path, member, value in self.signature.flatten(self):
            ports[("o_" if member.flow is wiring.Out else "i_") + "__".join(map(str, path))] = value
        return Instance(name, i_clk=ClockSignal(), i_rst=ResetSignal(), **ports)

    def _in_place(self) -> Module:
        m = Module()
        m.submodules.it = self.it
        inner = {path: value for path, _, value in self.it.signature.flatten(self.it)}
        for path, member, value in self.signature.flatten(self):
            m.d.comb += value.eq(inner[path]) if member.flow is wiring.Out else inner[path].eq(value)
        return m
