"""Making the orders of a join of many streams.

What an order costs is estimated by the partial results that it makes, from samples first and then from what was seen. The result is the
same in every order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from watersmeet.errors import OptionError
from watersmeet.index.dense import Dense
from watersmeet.join.drivers import Cells, Reach
from watersmeet.join.learning import Edge
from watersmeet.join.orders import Arrangement, Comparison, Orders, Source, StashPlan, Step
from watersmeet.join.plan import (
    COMPOSITE_CANDIDATES,
    COMPOSITE_SHARE,
    FOR_COMPOSITES,
    GRID_CANDIDATES,
    UNKNOWN,
    Measured,
    cut_of,
    kinds_for,
    share_of,
)
from watersmeet.sql.condition import Band, BoundCondition, Residual

MUCH = 1.25  # how many times the partial results an order must save to be worth new indexes


def column_name(band: Band, stream: str) -> tuple[object, ...]:
    """Sides of bands with the same name have the same codes."""
    side = band.left if band.streams[0] == stream else band.right
    return side, type(band.domain).__name__, band.domain.name, band.domain.ordered, band.null_safe


class Planner:
    """Makes orders from what is known of streams and bands."""

    def __init__(
        self,
        condition: BoundCondition,
        streams: Sequence[str],
        index: str,
        known: Sequence[tuple[Reach, Measured]] = (),
        nearby: Sequence[Band] = (),
        large: Sequence[int] = (),
    ) -> None:
        """``known``: bands that may follow equalities in a key, and have been measured; ``nearby``: as ``make_plan`` has it; ``large``:
        streams that keep all their rows, and get many at a time."""
        self.condition, self.streams, self.index = condition, tuple(streams), index
        self._nearby = tuple(nearby) if index in FOR_COMPOSITES else ()
        self._large = frozenset(large)
        self._bands = (*condition.bands, *self._nearby)
        self._measured = {reach.bands[0]: facts for reach, facts in known}
        self._shifts: dict[tuple[int, tuple[int, ...]], int] = {}  # in use, by stream and columns
        self._columns: list[dict[tuple[object, ...], int]] = [{} for _ in streams]
        self._of_band: list[list[tuple[Band, str]]] = [[] for _ in streams]
        for band in self._bands:
            for name in band.streams:
                k = self.streams.index(name)
                identity = column_name(band, name)
                if identity not in self._columns[k]:
                    self._columns[k][identity] = len(self._of_band[k])
                    self._of_band[k].append((band, name))
        self._arrangements: list[list[Arrangement]] = [[] for _ in streams]
        self._comparisons = self._all_comparisons()
        self._planes: dict[tuple[Band, Band], Cells] = {}
        self._check_index()

    def _check_index(self) -> None:
        bands = self.condition.bands
        needs = {"hash": "an equality between streams whose types compare exactly"}
        serves = [band for band in bands if band.hashable] if self.index == "hash" else bands
        if self.index == "grid":
            serves = [band for pair in combinations(bands, 2) if _plane(pair) for band in pair]
            needs["grid"] = "two bands with both ends between the same two streams"
        if self.index not in ("auto", "scan") and not serves and not self.condition.impossible:
            needed = needs.get(self.index, "an equality, inequality or band between streams")
            raise OptionError(
                f"index={self.index!r} needs {needed}; got the condition {self.condition.text!r}; use index='auto' or 'scan'"
            )

    def orders(
        self,
        rows: Sequence[float],
        shares: Mapping[str, float],
        fanouts: Mapping[Edge, float],
        fixed: Mapping[int, Sequence[int]],
        now: "Orders | None" = None,
        hot: int | None = None,
    ) -> Orders:
        """``rows``: about how many of each stream are stored; ``shares``: of pairs that each band lets through, by its text, where known;
        ``fanouts``: of steps, as measured; ``fixed``: orders that the user wants, by arriving stream; ``now``: those that are in use, and
        stay unless others are much better, as new indexes cost a pass over the windows; ``hot``: the stream that gets a stash, if
        one can be made.
        """
        self._arrangements = [[] for _ in self.streams]
        self._shifts = {
            (k, one.columns): one.shift
            for k, mine in enumerate(() if now is None else now.arrangements)
            for one in mine
            if one.shift is not None
        }
        estimate = Estimate(self, rows, shares, fanouts)
        chosen = []
        pair = None if hot is None else self._pair_for(hot, estimate, fixed)
        for k in range(len(self.streams)):
            order = list(fixed.get(k) or estimate.order(k))
            if pair is not None and k in pair:  # its pairs with the other are found first, and kept
                other = pair[1 - pair.index(k)]
                chosen.append(order if k in fixed else [other, *estimate.order(k, [other])])
                continue
            old = order if now is None else [step.stream for step in now.steps[k]]
            chosen.append(
                old if k not in fixed and estimate.cost(k, old) < MUCH * estimate.cost(k, order) else order
            )
        steps = tuple(
            self._steps([k], order, shares, rows, pair is not None and k in pair)
            for k, order in enumerate(chosen)
        )
        stash = None if hot is None or pair is None else self._stash(hot, pair, estimate, shares, rows)
        expected = tuple(estimate.fanouts(k, order) for k, order in enumerate(chosen))
        columns = tuple(tuple(of_stream) for of_stream in self._of_band)
        arrangements = tuple(tuple(of_stream) or (_EVERY_ROW,) for of_stream in self._arrangements)
        few = all(self._finds_few(step, shares, rows) for of_stream in steps for step in of_stream)
        return Orders(self.condition, columns, arrangements, steps, dict(shares), expected, stash, few)

    def comparisons(self, there: Sequence[int], stream: int, anchor: int | None = None) -> list[Comparison]:
        """What is compared between streams that are there and one that is looked for.

        Of columns that are all equal one is enough, as those that are there are equal already: that of ``anchor``, if it has one.
        """
        found, same = [], set()
        for other in sorted(there, key=lambda k: (k != anchor, k)):
            for comparison in self._comparisons.get((other, stream), ()):
                if comparison.same is None or comparison.same not in same:
                    found.append(comparison)
                    same.add(comparison.same)
        return found

    def _all_comparisons(self) -> dict[tuple[int, int], list[Comparison]]:
        """By pair (there, looked for), as planning asks for them often. What equalities imply is among them: a = b and b = c, so a = c."""
        comparisons: dict[tuple[int, int], list[Comparison]] = {}
        classes = self._equal_columns()
        number = {column: place for place, columns in enumerate(classes) for column in columns}
        for band in self._bands:
            for name, other in (band.streams, band.streams[::-1]):
                source, target = self._column(band, other), self._column(band, name)
                same = number.get(source) if _equates(band) else None
                comparison = Comparison(band, other, source, target[1], band.text, same)
                comparisons.setdefault((source[0], target[0]), []).append(comparison)
                if (
                    same is not None
                ):  # a band compares codes of its column with those of any other column that equals its own
                    for also in classes[same]:
                        if also[0] != target[0] and also != source:
                            text = f"{self._text(also)} = {self._text(target)}"
                            implied = Comparison(band, other, also, target[1], text, same)
                            comparisons.setdefault((also[0], target[0]), []).append(implied)
        return {
            pair: sorted(several, key=lambda comparison: comparison.text != comparison.band.text)
            for pair, several in comparisons.items()
        }

    def _column(self, band: Band, name: str) -> Source:
        k = self.streams.index(name)
        return k, self._columns[k][column_name(band, name)]

    def _text(self, column: Source) -> str:
        return str(_side(*self._of_band[column[0]][column[1]]))

    def _equal_columns(self) -> list[list[Source]]:
        """Columns that equalities make equal, all of them. Not where one stream has two of them: nobody compares these with each other."""
        classes: list[set[Source]] = []
        for band in self.condition.bands:
            if _equates(band):
                ends = {self._column(band, name) for name in band.streams}
                touched = [one for one in classes if one & ends]
                classes = [one for one in classes if one not in touched] + [ends.union(*touched)]
        return [sorted(one) for one in classes if len({stream for stream, _ in one}) == len(one)]

    def _complete(self, there: Sequence[int], stream: int) -> tuple[Residual, ...]:
        """The residuals that can be evaluated once a stream has come to those that are there, and not before."""
        name, now = self.streams[stream], {self.streams[other] for other in (*there, stream)}
        return tuple(
            residual
            for residual in self.condition.residuals
            if name in residual.streams and now.issuperset(residual.streams)
        )

    def edge(self, there: Sequence[int], stream: int) -> Edge:
        texts = [comparison.band.text for comparison in self.comparisons(there, stream)]
        return stream, frozenset(
            [*texts, *(str(residual.expr) for residual in self._complete(there, stream))]
        )

    def _pair_for(
        self, hot: int, estimate: "Estimate", fixed: Mapping[int, Sequence[int]]
    ) -> tuple[int, int] | None:
        """The two streams whose pairs are kept for the hot one: linked with each other and with it, and with the fewest pairs."""
        others = [k for k in range(len(self.streams)) if k != hot]
        found = []
        for x, y in combinations(others, 2):
            free = all(fixed.get(one, [other])[0] == other for one, other in ((x, y), (y, x)))
            if free and self.comparisons([x], y) and self.comparisons([x, y], hot):
                found.append((estimate.pairs(x, y), (x, y)))
        return min(found)[1] if found else None

    def _stash(
        self,
        hot: int,
        pair: tuple[int, int],
        estimate: "Estimate",
        shares: Mapping[str, float],
        rows: Sequence[float],
    ) -> StashPlan:
        others = [k for k in range(len(self.streams)) if k not in pair]
        columns = tuple(
            sorted({comparison.source for other in others for comparison in self.comparisons(pair, other)})
        )
        comparisons, same = [], set()
        for stream in pair:
            for comparison in self.comparisons([hot], stream):
                if (
                    comparison.same is None or comparison.same not in same
                ):  # of columns that are equal an entry keeps the first
                    comparisons.append(replace(comparison, target=columns.index((stream, comparison.target))))
                    same.add(comparison.same)
        comparisons.sort(key=lambda comparison: share_of(comparison.band, shares))
        drivers = self._drivers(comparisons)
        checks = tuple(
            comparison
            for comparison in self._compared(comparisons)
            if len(drivers) > 1 or comparison not in drivers
        )
        names = {self.streams[k] for k in (hot, *pair)}
        residuals = tuple(
            residual
            for residual in self.condition.residuals
            if self.streams[hot] in residual.streams and names.issuperset(residual.streams)
        )
        steps = self._steps([hot, *pair], estimate.order(hot, list(pair)), shares, rows)
        kept = tuple(
            sorted(
                {
                    comparison.source
                    for step in steps
                    for comparison in (*step.drivers, *step.checks)
                    if comparison.source[0] == hot
                }
            )
        )
        targets = tuple(comparison.target for comparison in drivers)
        text = " and ".join(self._text(columns[target]) for target in targets)
        hashable = all(comparison.band.hashable for comparison in drivers)
        kinds = ("bi_sort", "hash") if hashable else ("bi_sort",)
        if self.index not in ("auto", "grid"):
            kinds = (self.index,)
        arrangement = Arrangement(targets, kinds if drivers else ("scan",), text)
        expected = estimate.pairs(*pair)
        return StashPlan(hot, pair, columns, arrangement, drivers, checks, residuals, kept, steps, expected)

    def _steps(
        self,
        there: list[int],
        order: Sequence[int],
        shares: Mapping[str, float],
        rows: Sequence[float],
        kept_pairs: bool = False,
    ) -> tuple[Step, ...]:
        """``kept_pairs``: whether the first step's pairs go into a stash, which keeps the same columns whichever stream comes first."""
        begun, there, steps = tuple(there), list(there), []
        anchor = None if kept_pairs else begun[0]
        needed = {
            (stream, comparison.source)
            for place, stream in enumerate(order)
            for comparison in self.comparisons([*begun, *order[:place]], stream, anchor)
        }
        for place, stream in enumerate(order):
            comparisons = sorted(
                self.comparisons(there, stream, anchor),
                key=lambda comparison: share_of(comparison.band, shares),
            )
            drivers, cells = self._drivers(comparisons), None
            plane = self._cells(comparisons, shares, rows[stream])
            shift = None
            composite = self._composite(stream, comparisons, shares, rows[stream])
            if composite is not None:
                drivers, shift = composite
            elif plane is not None:
                drivers, cells = plane
            # Several equalities are mixed into one key, which others may have too: they are compared again.
            checks = tuple(
                comparison
                for comparison in self._compared(comparisons)
                if (len(drivers) > 1 and cells is None) or comparison not in drivers
            )
            residuals = self._complete(there, stream)
            exact = not checks and not residuals
            later = {source for other, source in needed if other in order[place + 1 :]}
            carried = tuple(sorted(column for owner, column in later if owner == stream))
            kept = tuple(sorted(source for source in later if source[0] in there))
            steps.append(
                Step(
                    stream,
                    self._arranged(stream, drivers, cells, shift),
                    drivers,
                    checks,
                    residuals,
                    carried,
                    kept,
                    exact,
                    self.edge(there, stream),
                    cells,
                    shift,
                )
            )
            there.append(stream)
        return tuple(steps)

    def _finds_few(self, step: Step, shares: Mapping[str, float], rows: Sequence[float]) -> bool:
        bands = [comparison.band for comparison in step.drivers]
        share = min((share_of(band, shares) for band in bands), default=1.0)
        in_time = any(band in self._nearby for band in bands)
        return in_time or share * self._held(rows[step.stream]) <= COMPOSITE_CANDIDATES

    def _held(self, rows: float) -> float:
        """How many rows of a stream to reckon with: lateness keeps more than have come when a join is planned."""
        return max(rows, UNKNOWN) if self._nearby else rows

    def _compared(self, comparisons: Sequence[Comparison]) -> list[Comparison]:
        """Those of the condition: whether rows may see each other is looked up in any case."""
        return [comparison for comparison in comparisons if comparison.band not in self._nearby]

    def _composite(
        self, stream: int, comparisons: Sequence[Comparison], shares: Mapping[str, float], rows: float
    ) -> tuple[tuple[Comparison, ...], int] | None:
        """All equalities, then the band that lets least through, where one alone leaves many candidates; and how the band is cut."""
        useful = [
            comparison
            for comparison in comparisons
            if comparison.band in self._measured and self._measured[comparison.band].share <= COMPOSITE_SHARE
        ]
        equalities = _equalities(comparisons)
        if self.index not in FOR_COMPOSITES or not useful or not equalities:
            return None
        if share_of(comparisons[0].band, shares) * self._held(rows) <= COMPOSITE_CANDIDATES:
            return None
        band = min(useful, key=lambda comparison: self._measured[comparison.band].share)
        together = (*equalities, band)
        columns = tuple(comparison.target for comparison in together)
        return together, self._shifts.setdefault((stream, columns), cut_of(self._measured[band.band].width))

    def _cells(
        self, comparisons: Sequence[Comparison], shares: Mapping[str, float], rows: float
    ) -> tuple[tuple[Comparison, ...], Cells] | None:
        """Two bands between the same two streams that are better looked for together, as cells of a plane."""
        for pair in combinations(comparisons, 2):
            first, second = (comparison.band for comparison in pair)
            if not _plane((first, second)) or pair[0].target == pair[1].target:
                continue
            pays = pair[0] is comparisons[0] and share_of(first, shares) * rows > GRID_CANDIDATES
            if self.index == "grid" or (self.index == "auto" and pays):
                return pair, self._planes.setdefault((first, second), Cells(first, second))
        return None

    def _drivers(self, comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
        """What drives a step: all equalities as one key, if one of them is the most selective; else that band alone."""
        together = self.index == "hash" or (
            self.index == "auto" and bool(comparisons) and comparisons[0].band.hashable
        )
        return _equalities(comparisons) if together else tuple(comparisons[:1])

    def _arranged(
        self, stream: int, drivers: Sequence[Comparison], cells: Cells | None, shift: int | None
    ) -> int:
        columns = tuple(comparison.target for comparison in drivers)
        arrangement = self._arrangement(stream, columns, drivers, cells, shift)
        mine = self._arrangements[stream]
        for place, other in enumerate(mine):
            if (other.columns, other.kinds, other.bands, other.shift) == (
                columns,
                arrangement.kinds,
                arrangement.bands,
                shift,
            ):
                return place
        mine.append(arrangement)
        return len(mine) - 1

    def _arrangement(
        self,
        stream: int,
        columns: tuple[int, ...],
        drivers: Sequence[Comparison],
        cells: Cells | None,
        shift: int | None,
    ) -> Arrangement:
        if not drivers:
            return _EVERY_ROW
        text = " and ".join(self._text((stream, column)) for column in columns)
        bands = tuple(comparison.band for comparison in drivers)
        if cells is not None:
            return Arrangement(columns, ("grid",), text, bands, cells)
        if shift is not None:
            return Arrangement(columns, FOR_COMPOSITES[self.index], text, shift=shift)
        if self.index not in ("auto", "grid"):
            return Arrangement(columns, (self.index,), text)
        dense = self.index == "auto" and stream in self._large and len(columns) == 1
        if dense and all(band.hashable and band.whole for band in bands):
            return Arrangement(columns, (Dense.name,), text)
        return Arrangement(columns, kinds_for(bands), text)


def _equalities(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Those of them that can be hashed, one a column."""
    by_column: dict[int, Comparison] = {}
    for comparison in comparisons:
        if comparison.band.hashable:
            by_column.setdefault(comparison.target, comparison)
    return tuple(by_column[column] for column in sorted(by_column))


def _equates(band: Band) -> bool:
    """Whether equal codes are what the band asks for."""
    return band.hashable and not band.null_safe


def _plane(pair: tuple[Band, Band]) -> bool:
    """Whether two bands make a plane that a grid can divide into cells."""
    same = set(pair[0].streams) == set(pair[1].streams)
    return same and all(band.width is not None and band.domain.ordered and not band.equality for band in pair)


_EVERY_ROW = Arrangement((), ("scan",), "every row")


def _side(band: Band, stream: str) -> object:
    return band.left if band.streams[0] == stream else band.right


class Estimate:
    """How many partial results a step makes of one."""

    def __init__(
        self,
        planner: Planner,
        rows: Sequence[float],
        shares: Mapping[str, float],
        measured: Mapping[Edge, float],
    ) -> None:
        self._planner, self._rows, self._shares, self._measured = planner, rows, shares, measured

    def fanout(self, there: Sequence[int], stream: int) -> float:
        if self._measured:
            edge = self._planner.edge(there, stream)
            if edge in self._measured:
                return self._measured[edge]
        share = 1.0
        for comparison in self._planner.comparisons(there, stream):
            share *= share_of(comparison.band, self._shares)
        return share * self._rows[stream]

    def fanouts(self, k: int, order: Sequence[int]) -> tuple[float, ...]:
        return tuple(self.fanout([k, *order[:place]], stream) for place, stream in enumerate(order))

    def cost(self, k: int, order: Sequence[int]) -> float:
        """Partial results that one row makes on its way."""
        cost, each = 0.0, 1.0
        for fanout in self.fanouts(k, order):
            each *= fanout
            cost += 1.0 + each
        return cost

    def pairs(self, x: int, y: int) -> float:
        """How many pairs two streams have in their windows."""
        return self._rows[x] * self.fanout([x], y)

    def order(self, k: int, then: Sequence[int] = ()) -> list[int]:
        """Always the stream that makes the fewest partial results next; of two that make as many, the one that is bound by a band.

        ``then``: streams that come first, and are left out.
        """
        there = [k, *then]
        left = [j for j in range(len(self._rows)) if j not in there]
        while left:
            best = min(
                left, key=lambda j: (self.fanout(there, j), not self._planner.comparisons(there, j), j)
            )
            there.append(best)
            left.remove(best)
        return there[1 + len(then) :]


def checked_orders(orders: object, streams: Sequence[str]) -> dict[int, list[int]]:
    """The option ``probe_order=``: by arriving stream, the others in the order in which they are probed."""
    if orders is None:
        return {}
    if not isinstance(orders, Mapping):
        raise OptionError(
            f"probe_order= must be a dict from a stream to the others in order, such as {{{streams[0]!r}: {list(streams[1:])!r}}}; got "
            f"{orders!r}"
        )
    places = {name: k for k, name in enumerate(streams)}
    found = {}
    for name, others in orders.items():
        if name not in places:
            raise OptionError(
                f"probe_order= must name the streams {', '.join(map(repr, streams))}; got {name!r}"
            )
        wanted = [other for other in streams if other != name]
        if not isinstance(others, list | tuple) or sorted(map(str, others)) != sorted(wanted):
            raise OptionError(
                f"probe_order= of stream {name!r} must name each of {', '.join(map(repr, wanted))} once; got {others!r}"
            )
        found[places[name]] = [places[other] for other in others]
    return found
