"""Joins of two streams."""

from watersmeet.hardware.registry import Design, Figure

DESIGNS: tuple[Design, ...] = ()
FIGURES: tuple[Figure, ...] = ()
