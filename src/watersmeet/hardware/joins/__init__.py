"""Joins of two streams."""

from watersmeet.hardware.joins import bi_flow_figures, bi_sort, handshake_figures
from watersmeet.hardware.registry import Design, Figure

DESIGNS: tuple[Design, ...] = (*handshake_figures.DESIGNS, *bi_flow_figures.DESIGNS, *bi_sort.DESIGNS)
FIGURES: tuple[Figure, ...] = (*handshake_figures.FIGURES, *bi_flow_figures.FIGURES, *bi_sort.FIGURES)
