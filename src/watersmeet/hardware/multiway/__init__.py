"""Joins of many streams."""

from watersmeet.hardware.registry import Design, Figure

DESIGNS: tuple[Design, ...] = ()
FIGURES: tuple[Figure, ...] = ()
