"""Joins of two streams."""

from watersmeet.hardware.joins import split_join_run
from watersmeet.hardware.registry import Design, Figure

DESIGNS: tuple[Design, ...] = (split_join_run.DESIGN,)
FIGURES: tuple[Figure, ...] = (*split_join_run.FIGURES,)
