"""The simplex stream processor."""

from watersmeet.hardware.registry import Design, Figure

DESIGNS: tuple[Design, ...] = ()
FIGURES: tuple[Figure, ...] = ()
