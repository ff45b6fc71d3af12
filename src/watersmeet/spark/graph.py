"""The join graph, as spreading looks at it: which values all rows of a result share, and which lie near each other.

A *node* is an expression over one stream with the codes that a band gives it. Equalities join nodes to classes: in every result the rows of
a class's streams have one code. Bands with two ends join nodes to trees: the code of one stream's row bounds those of all others.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.join.planner import column_name
from watersmeet.kernels.code import INT_MAX, INT_MIN
from watersmeet.sql.condition import Band, BoundCondition, Bounds

Node = tuple[int, Hashable]  # a stream, and what its rows' codes are of


@dataclass(frozen=True)
class EqualityClass:
    """Expressions of several streams that are equal in every result."""

    bands: Mapping[int, Band]  # by stream: one that has its codes
    text: str


def equality_classes(condition: BoundCondition) -> tuple[EqualityClass, ...]:
    """All of them. Of two streams each equality is one by itself: stored rows of two-way joins lie so."""
    bands = [band for band in condition.bands if band.hashable]
    if len(condition.streams) == 2:
        return tuple(EqualityClass({0: band, 1: band}, band.text) for band in bands)
    classes: list[dict[Node, Band]] = []
    for band in bands:
        ends = dict.fromkeys(_nodes(condition, band), band)
        touched = [one for one in classes if one.keys() & ends.keys()]
        classes = [one for one in classes if one not in touched]
        for one in reversed(touched):
            ends = {**one, **{node: had for node, had in ends.items() if node not in one}}
        classes.append(ends)
    return tuple(_class(condition, one) for one in classes)


def _class(condition: BoundCondition, nodes: Mapping[Node, Band]) -> EqualityClass:
    """Of a stream that has two expressions in it, one is enough: rows where they differ match nobody."""
    found: dict[int, Band] = {}
    for (k, _), band in sorted(nodes.items(), key=lambda item: item[0][0]):
        found.setdefault(k, band)
    return EqualityClass(found, " = ".join(side(band, condition.streams[k]) for k, band in found.items()))


def side(band: Band, stream: str) -> str:
    """What a band compares of a stream."""
    return str(band.left if band.streams[0] == stream else band.right)


def _nodes(condition: BoundCondition, band: Band) -> tuple[Node, Node]:
    left, right = ((condition.streams.index(name), column_name(band, name)) for name in band.streams)
    return left, right


@dataclass(frozen=True)
class BandTree:
    """Streams whose keys lie near each other, linked by bands with two ends; each stream has one key in it."""

    streams: tuple[str, ...]  # of the join
    links: Mapping[
        int, Mapping[int, Band]
    ]  # by stream of the tree: the streams beside it, and the band between
    bands: Mapping[int, Band]  # by stream of the tree: one that has its codes

    @property
    def text(self) -> str:
        """The bands, each once."""
        return " AND ".join(
            dict.fromkeys(band.text for beside in self.links.values() for band in beside.values())
        )

    def bounds(self, k: int, home: int, codes: np.ndarray) -> Bounds:
        """Inclusive bounds on the codes of stream ``home`` for keys of stream k: those of the one band between the two, or what
        the bands on the way let through in all."""
        (at, band), *others = self._way(k, home)
        found = band.bounds(self.streams[at], np.ascontiguousarray(codes))
        for at, band in others:
            found = [_through(band, self.streams[at], found)]
        return found

    def _way(self, k: int, home: int, before: int = -1) -> list[tuple[int, Band]]:
        """The bands from k to home, each with the stream that it is looked at from; none if home is not that way."""
        for other, band in self.links[k].items():
            if other == home:
                return [(k, band)]
            further = self._way(other, home, k) if other != before else []
            if further:
                return [(k, band), *further]
        return []


def _through(band: Band, stream: str, found: Bounds) -> tuple[np.ndarray, np.ndarray]:
    """What a band lets through of keys within bounds: one range that has all of it. Bounds never decrease where keys grow, but
    for those beyond int64, which come out empty: there the range has no end."""
    some = np.logical_or.reduce([lo <= hi for lo, hi in found])
    low = np.min([np.where(lo <= hi, lo, INT_MAX) for lo, hi in found], axis=0)
    high = np.max([np.where(lo <= hi, hi, INT_MIN) for lo, hi in found], axis=0)
    low, high = np.where(some, low, 0), np.where(some, high, 0)
    first = np.min([np.where(lo <= hi, lo, INT_MIN) for lo, hi in band.bounds(stream, low)], axis=0)
    last = np.max([np.where(lo <= hi, hi, INT_MAX) for lo, hi in band.bounds(stream, high)], axis=0)
    return np.where(some, first, 1), np.where(some, last, 0)


def band_tree(condition: BoundCondition) -> BandTree | None:
    """The tree with the most streams; None if no band has two ends: then no row touches only values near its own."""
    narrow = [band for band in condition.bands if band.width is not None and band.domain.ordered]
    roots = list(dict.fromkeys(node for band in narrow for node in _nodes(condition, band)))
    trees = [_grown(condition, root, narrow) for root in roots]
    return max(trees, key=lambda tree: len(tree.bands), default=None)


def _grown(condition: BoundCondition, root: Node, narrow: Sequence[Band]) -> BandTree:
    """All streams that can be reached from a node, each by the key at which it is reached first."""
    keys: dict[int, Node] = {root[0]: root}
    links: dict[int, dict[int, Band]] = {root[0]: {}}
    waiting = [root[0]]
    while waiting:
        at = waiting.pop(0)
        for band in narrow:
            nodes = _nodes(condition, band)
            if keys[at] not in nodes:
                continue
            other = nodes[1 - nodes.index(keys[at])]
            if other[0] not in keys:
                keys[other[0]] = other
                links[at][other[0]], links[other[0]] = band, {at: band}
                waiting.append(other[0])
    bands = {k: next(iter(beside.values())) for k, beside in sorted(links.items())}
    return BandTree(tuple(condition.streams), links, bands)


@dataclass(frozen=True)
class Dimension:
    """One dimension of a grid of cores. Rows of its streams have one place in it: by the codes of their keys or, where no class gives any
    and the one stream is dealt out, by their content. Rows of other streams are at all places."""

    bands: Mapping[int, Sequence[Band]]  # by stream; none: by content
    text: str


def dimensions(condition: BoundCondition, spread: str) -> tuple[Dimension, ...]:
    """Of a join of more than two streams: equality classes, as the way of spreading wants them, and each stream dealt out."""
    streams, found = range(len(condition.streams)), []
    classes = equality_classes(condition)
    if spread == "hash":
        spanning = [one for one in classes if len(one.bands) == len(streams)]
        found = [
            Dimension(
                {k: [one.bands[k] for one in spanning] for k in streams},
                " AND ".join(one.text for one in spanning),
            )
        ]
    elif spread == "shares":
        found = [Dimension({k: [band] for k, band in one.bands.items()}, one.text) for one in classes]
    dealt = [Dimension({k: []}, f"{name} dealt out") for k, name in enumerate(condition.streams)]
    return (*found, *dealt)
