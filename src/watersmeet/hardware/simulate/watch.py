"""The signals that a component lets the outside watch: ``design.watch``, by short names, as unsigned numbers."""

from typing import Any

from amaranth.hdl import Value


def watch_of(design: Any) -> dict[str, Any]:
    """Empty if the design has none; asked after elaboration, which may fill it."""
    return {name: Value.cast(signal).as_unsigned() for name, signal in getattr(design, "watch", {}).items()}
