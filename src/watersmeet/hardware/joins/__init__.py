"""Joins of two streams."""

from watersmeet.hardware.joins import bi_flow_figures, bi_sort, handshake_figures, split_join_run
from watersmeet.hardware.registry import Design, Figure

DESIGNS: tuple[Design, ...] = (
    split_join_run.DESIGN,
    *handshake_figures.DESIGNS,
    *bi_flow_figures.DESIGNS,
    *bi_sort.DESIGNS,
)
FIGURES: tuple[Figure, ...] = (
    *split_join_run.FIGURES,
    *handshake_figures.FIGURES,
    *bi_flow_figures.FIGURES,
    *bi_sort.FIGURES,
)
