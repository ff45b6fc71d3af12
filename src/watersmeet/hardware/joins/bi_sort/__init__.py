"""BI-Sort in hardware, from the insertion buffer to the whole join."""

from watersmeet.hardware.joins.bi_sort.figures import BI_SORT, DESIGNS, FIGURES
from watersmeet.hardware.joins.bi_sort.join import BiSortJoin

__all__ = ["BI_SORT", "DESIGNS", "FIGURES", "BiSortJoin"]
