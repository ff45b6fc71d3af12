"""BI-Sort in hardware, from the insertion buffer to the whole join."""

from watersmeet.hardware.joins.bi_sort.join import BiSortJoin

__all__ = ["BiSortJoin"]
