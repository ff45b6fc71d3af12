"""How large a grid of cores is in each dimension: the *shares* of Afrati and Ullman, in whole numbers.

A row is copied to all places of the dimensions that its stream is not in. Sizes are chosen so that the busiest cell gets the fewest
rows. A dimension of equal keys divides a stream's rows but for those of one heavy key, which lie at one place; a stream dealt out is
divided evenly. So where a key is too heavy for a core, dealing out one of its streams becomes the cheaper dimension: cores share the key.

The search is greedy, a prime factor of the number of cells at a time. All arithmetic is on whole numbers: no two machines can come to
different sizes.
"""

from collections.abc import Mapping, Sequence

from watersmeet.spark.graph import Dimension

SOME = 1 << 20  # rows of each stream, before any have been seen
TRIED = 8  # numbers of cells: all cores, or a few less, if that many have better factors

Heavy = Mapping[tuple[int, int], tuple[int, int]]
"""By stream and dimension: how much of how much weight the heaviest key has."""


def grid(dimensions: Sequence[Dimension], cores: int, rows: Sequence[int], heavy: Heavy) -> tuple[int, ...]:
    """The sizes that leave the busiest cell the fewest rows; ``rows``: of each stream."""
    tried = TRIED if len(dimensions) <= TRIED else 1  # each costs the square of the dimensions
    counts = range(cores, max(cores * 3 // 4, cores - tried, 0), -1)
    found = [_grid(dimensions, cells, rows, heavy) for cells in counts]
    return min(found, key=lambda sizes: fullest(dimensions, sizes, rows, heavy))


def _grid(dimensions: Sequence[Dimension], cells: int, rows: Sequence[int], heavy: Heavy) -> tuple[int, ...]:
    sizes = [1 for _ in dimensions]
    for factor in reversed(_primes(cells)):
        tried = [[*sizes[:i], size * factor, *sizes[i + 1 :]] for i, size in enumerate(sizes)]
        sizes = min(tried, key=lambda one: fullest(dimensions, one, rows, heavy))
    return tuple(sizes)


def _primes(number: int) -> list[int]:
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found


def fullest(dimensions: Sequence[Dimension], sizes: Sequence[int], rows: Sequence[int], heavy: Heavy) -> int:
    """About how many rows the busiest cell gets."""
    found = 0
    for k, mine in enumerate(rows):
        for place, (dimension, size) in enumerate(zip(dimensions, sizes, strict=True)):
            if size > 1 and k in dimension.bands:
                weight, total = heavy.get((k, place), (0, 1))
                alone = mine * weight // max(total, 1)
                mine = alone - (alone - mine) // size  # the rest is rounded up
        found += mine
    return found
