"""Range buckets and grids from the data seen: where the borders are, how large the dimensions, and when they change.

Nobody coordinates. Each map partition sends every core a few of its keys, so every core knows the same of batch b - 1 and works
out the same layout for batch b; it is written in each manifest of b - 1, and the tasks of b read it there. All arithmetic is on
whole numbers: no two machines can come to different borders.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.spark.shuffle.layout import Layout, first_layouts, key_hashes, touching
from watersmeet.spark.shuffle.shares import fullest, grid
from watersmeet.spark.shuffle.wire import Header
from watersmeet.spark.spec import Binding, JoinSpec, Section, binding
from watersmeet.spark.task import Task, current_task

POINTS = 64  # keys that a map partition sends, for each share of rows that it packs
SKETCH = 512  # keys that are remembered of a stream
SETTLED = 8  # batches that a layout is kept at least, unless it is the first one
SEEN = 3  # times that a key must be among the points of a sketch to count as heavy
WORTH = (4, 3)  # the busiest core must have so much more to do than it would have in the best layout

Sketch = list[tuple[int, int]]  # (key code, weight), ascending


@dataclass(frozen=True)
class Outlook:
    """What a batch leaves for the next one: keys seen, and the layouts to spread by."""

    keys: tuple[Sketch, ...]  # by stream; of grids, by stream and dimension: see ``places``
    layouts: tuple[Layout, ...]
    age: int  # batches that the layouts have been in use

    @classmethod
    def from_json(cls, keys: list[Any], layouts: list[Any], age: int) -> "Outlook":
        sketches = tuple([(code, weight) for code, weight in sketch] for sketch in keys)
        return cls(sketches, tuple(Layout.from_json(data) for data in layouts), age)

    def keys_json(self) -> list[Any]:
        return [list(map(list, sketch)) for sketch in self.keys]

    def layouts_json(self) -> list[Any]:
        return [layout.to_json() for layout in self.layouts]


def layouts_of(bound: Binding, left: Outlook | None) -> tuple[Layout, ...]:
    """The layouts that the rows of a batch are spread by; ``left``: by the batch before, if there was one."""
    spec = bound.spec
    if spec.layouts:
        return spec.layouts
    if not learns(bound) or left is None:
        return first_layouts(bound)
    return outlook_of(bound, left).layouts


def learns(bound: Binding) -> bool:
    """Whether layouts follow the data."""
    grown = bound.many and bound.spec.spread != "counted"
    return bound.spec.cores > 1 and (bound.spec.spread == "range" or grown)


Place = tuple[int, int | None]
"""Keys of a stream, in one dimension of a grid; None: the only keys that it has for spreading, or none."""


def places(bound: Binding) -> list[Place]:
    """What sketches are kept of."""
    if not bound.many or bound.spec.spread == "range":
        return [(k, None) for k in bound.stream_numbers]
    found: list[Place] = []
    for k in bound.stream_numbers:
        mine = [i for i, dimension in enumerate(bound.dimensions) if dimension.bands.get(k)]
        found += [(k, place) for place in mine] or [(k, None)]
    return found


def outlook_of(bound: Binding, left: Outlook | None) -> Outlook:
    """As the batch before left it. Another number of cores or way of spreading makes new layouts of the same keys."""
    if left is None:
        return Outlook(tuple([] for _ in places(bound)), first_layouts(bound), 0)
    kept, fresh = left.layouts, first_layouts(bound)
    if len(kept) == len(fresh) and all(
        old == new or (learns(bound) and old.like(new)) for old, new in zip(kept, fresh, strict=True)
    ):
        return left
    if len(left.keys) != len(places(bound)):  # keys of another way of spreading
        return Outlook(tuple([] for _ in places(bound)), fresh, 0)
    if learns(bound):
        fresh = tuple(best_layout(bound, section, left.keys) for section in bound.sections)
    return Outlook(left.keys, fresh, 0)


def next_outlook(bound: Binding, now: Outlook, headers: Sequence[Header]) -> Outlook:
    """After a batch: the keys that it showed, and whether other layouts would pay."""
    if not learns(bound):
        return now
    keys = tuple(
        merged(sketch, headers, *place) for place, sketch in zip(places(bound), now.keys, strict=True)
    )
    young = now.age < SETTLED and now.layouts != first_layouts(bound)
    if young or not any(keys):
        return Outlook(keys, now.layouts, now.age + 1)
    sections = zip(bound.sections, now.layouts, strict=True)
    chosen = tuple(_better(bound, section, old, keys) for section, old in sections)
    return Outlook(keys, chosen, now.age + 1 if chosen == now.layouts else 0)


def _better(bound: Binding, section: Section, old: Layout, keys: Sequence[Sketch]) -> Layout:
    """Another layout if it is worth it, else the old one."""
    busy = busiest(bound, old, keys) * WORTH[1]
    total = sum(_weights(bound, keys)[0]) if bound.many else sum(weight for one in keys for _, weight in one)
    equal = total // bound.spec.cores
    if busy <= equal * WORTH[0]:  # no layout could be better by so much
        return old
    best = best_layout(bound, section, keys)
    return best if busy > busiest(bound, best, keys) * WORTH[0] else old


def sampled(
    spec: JoinSpec, k: int, batches: Iterable[pa.RecordBatch], task: Callable[[], Task] = current_task
) -> Iterator[pa.RecordBatch]:
    """One row: how many rows of stream k a partition has, and a few of their keys. For range buckets."""
    bound, rows, keys = binding(spec), 0, list[int]()
    for batch in batches:
        rows += batch.num_rows
        keys += key_points(bound, k, batch.cast(spec.schemas[k]))
    step = max(1, len(keys) // SKETCH)
    points = sorted(keys)[::step]
    yield pa.RecordBatch.from_pydict(
        {
            "part": pa.array([task().partition], pa.int32()),
            "rows": pa.array([rows]),
            "keys": pa.array([points], pa.list_(pa.int64())),
        }
    )


def batch_layouts(
    bound: Binding, samples: Sequence[Sequence[tuple[int, int, Sequence[int]]]]
) -> tuple[Layout, ...]:
    """Layouts for a batch join, from what ``sampled`` gave of both streams: (part, rows, keys)."""
    keys = []
    for k, rows in enumerate(samples):
        headers = [Header(k, part, 0, count, None, tuple(points)) for part, count, points in sorted(rows)]
        keys.append(merged([], headers, k))
    return tuple(best_layout(bound, section, keys) for section in bound.sections)


def key_points(bound: Binding, k: int, batch: pa.RecordBatch) -> list[Any]:
    """A few keys of a batch, evenly spaced in their order; of a grid, each after its dimension."""
    if not learns(bound):
        return []
    stream = bound.spec.streams[k]
    if bound.spec.spread == "range":
        if bound.tree is None or k not in bound.tree.bands:
            return [0] if bound.many and batch.num_rows else []
        codes, valid = bound.tree.bands[k].keys(stream, batch)
        return _points(codes if valid is None else codes[valid])
    found: list[Any] = []
    for stream_number, place in places(bound):
        if stream_number == k and place is None:
            found += [[None, 0]] if batch.num_rows else []
        elif stream_number == k and place is not None:
            hashes = key_hashes(bound.dimensions[place].bands[k], stream, batch)
            found += [[place, code] for code in _points(hashes.view(np.int64))]
    return found


def _points(codes: np.ndarray) -> list[int]:
    codes = np.sort(codes)
    spaced = np.arange(min(POINTS, codes.size)) * codes.size // max(min(POINTS, codes.size), 1)
    return [int(code) for code in codes[spaced]]


def merged(old: Sketch, headers: Sequence[Header], k: int, place: int | None = None) -> Sketch:
    """Keys seen lately count most: the weight of older ones shrinks by an eighth a batch."""
    fresh: Sketch = []
    for header in headers:
        if header.stream == k:
            codes = [key[1] if isinstance(key, list) else key for key in header.keys if _of(key, place)]
            fresh += [(code, max(header.rows // len(codes), 1)) for code in codes]
    if not fresh:
        return old
    points = sorted([*((code, weight * 7 // 8) for code, weight in old if weight > 1), *fresh])
    if len(points) <= SKETCH:
        return points
    ends = np.cumsum([weight for _, weight in points])
    total = int(ends[-1])
    picks = np.searchsorted(ends, [(2 * i + 1) * total // (2 * SKETCH) for i in range(SKETCH)], "right")
    return [(points[pick][0], max(total // SKETCH, 1)) for pick in picks]


def _of(key: Any, place: int | None) -> bool:
    return not isinstance(key, list) or key[0] == place


def best_layout(bound: Binding, section: Section, keys: Sequence[Sketch]) -> Layout:
    """Buckets that are equally busy, or fewer, shared ones, with whichever stream may be at home; or a grid: what leaves the busiest core
    least to do."""
    cores = bound.spec.cores
    if bound.spec.spread != "range":
        return Layout(
            "shares", cores, (), (), section.home, grid(bound.dimensions, cores, *_weights(bound, keys))
        )
    found = []
    for home in section.homes:
        buckets = cores
        while buckets:
            found.append(cut(keys[home], buckets, cores, home))
            buckets //= 2
        found.append(balanced(bound, keys, cores, home))
    return min(found, key=lambda layout: busiest(bound, layout, keys))


def cut(sketch: Sketch, buckets: int, cores: int, home: int = 0) -> Layout:
    """Buckets of equal weight. Where one key weighs more than a bucket should, borders fall together: its cores share the bucket."""
    ends = np.cumsum([weight for _, weight in sketch]) if sketch else np.zeros(0, np.int64)
    borders: list[int] = []
    groups: list[tuple[int, int]] = []
    first = 0
    for i in range(1, buckets):
        if not sketch:
            break
        place = int(np.searchsorted(ends, int(ends[-1]) * i // buckets, "right"))
        border, stop = sketch[min(place, len(sketch) - 1)][0], cores * i // buckets
        if border > (borders[-1] if borders else sketch[0][0]) and stop > first:
            borders.append(border)
            groups.append((first, stop))
            first = stop
    return Layout("buckets", cores, tuple(borders), (*groups, (first, cores)), home)


def balanced(bound: Binding, keys: Sequence[Sketch], cores: int, home: int) -> Layout:
    """Buckets in which the rows of all streams are as many as in any other; a key too heavy for a core is a bucket of its own, shared."""
    assert bound.tree is not None
    codes, weights = _arrays(keys[home])
    near = [(k, *_arrays(keys[k])) for k in bound.tree.bands if k != home]
    begins = [
        bound.tree.bounds(k, home, others)[0][0] for k, others, _ in near
    ]  # where the band of each begins
    points, where = np.unique(np.concatenate([codes, *begins]), return_inverse=True)
    work = np.zeros((2, points.size), np.int64)  # rows dealt out, rows copied
    np.add.at(work[0], where[: codes.size], weights)
    np.add.at(work[1], where[codes.size :], np.concatenate([copied for _, _, copied in near]))
    ends = [0, *np.cumsum(work.sum(axis=0)).tolist()]
    low, high = ends[-1] // cores, ends[-1]
    while low < high:  # the least that the busiest core can have
        most = (low + high) // 2
        low, high = (low, most) if _parts(work, ends, cores, most) else (most + 1, high)
    found = _parts(work, ends, cores, high) or [(0, cores)]
    sizes = [size for _, size in found]
    sizes[int(np.argmax(sizes))] += cores - sum(sizes)
    stops = np.cumsum(sizes).tolist()
    borders = tuple(int(points[first]) for first, _ in found[1:])
    return Layout("buckets", cores, borders, tuple(zip([0, *stops], stops, strict=False)), home)


def _parts(work: np.ndarray, ends: list[int], cores: int, most: int) -> list[tuple[int, int]]:
    """Buckets, as (first point, cores), in which no core has more than ``most`` rows; none, if that takes more cores than there are."""
    found, first = [], 0
    while first < len(ends) - 1:
        stop, size = bisect_right(ends, ends[first] + most) - 1, 1
        if stop == first:
            dealt, copied = (int(rows) for rows in work[:, first])
            stop, size = first + 1, -(-dealt // (most - copied)) if copied < most else cores + 1
        found.append((first, size))
        cores -= size
        if cores < 0:
            return []
        first = stop
    return found


def busiest(bound: Binding, layout: Layout, keys: Sequence[Sketch]) -> int:
    """Rows that the busiest core would get."""
    if layout.kind == "shares":
        return fullest(bound.dimensions, layout.sizes, *_weights(bound, keys))
    assert bound.tree is not None
    busy = np.zeros(len(layout.groups), np.int64)
    codes, weights = _arrays(keys[layout.home])
    np.add.at(busy, np.searchsorted(layout.borders, codes, "right"), weights)
    busy = np.array([rows // (stop - first) for rows, (first, stop) in zip(busy, layout.groups, strict=True)])
    for k in bound.stream_numbers:
        codes, weights = _arrays(keys[k])
        if k not in bound.tree.bands:
            busy += int(weights.sum())
        elif k != layout.home:
            for j, reaching in enumerate(touching(bound.tree.bounds(k, layout.home, codes), None, layout)):
                busy[j] += int(weights[reaching].sum())
    return int(busy.max())


def _weights(
    bound: Binding, keys: Sequence[Sketch]
) -> tuple[list[int], dict[tuple[int, int], tuple[int, int]]]:
    """Rows of each stream, and the heaviest key of each in each dimension. A key that was hardly seen is not heavy."""
    rows, heavy = [0 for _ in bound.stream_numbers], {}
    for (k, place), sketch in zip(places(bound), keys, strict=True):
        total = sum(weight for _, weight in sketch)
        rows[k] = max(rows[k], total)
        seen: dict[int, list[int]] = {}
        for code, weight in sketch:
            seen.setdefault(code, []).append(weight)
        most = max((sum(weights) for weights in seen.values() if len(weights) >= SEEN), default=0)
        if place is not None:
            heavy[k, place] = (most, total)
    return rows, heavy


def _arrays(sketch: Sketch) -> tuple[np.ndarray, np.ndarray]:
    return np.array([code for code, _ in sketch], np.int64), np.array(
        [weight for _, weight in sketch], np.int64
    )
