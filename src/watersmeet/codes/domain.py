"""A domain: how values of two SQL types are compared as int64 codes.

What every domain keeps true: code order is SQL order (or, unordered, equal values have equal codes);
``bounds`` names exactly the codes that satisfy an interval, or, where ``exact`` is False, at least all of
them; sorted keys give sorted bounds.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from watersmeet.codes.column import number_type, plain_column, raw, validity
from watersmeet.codes.interval import Interval, Side

NULL_CODE = (
    -0x2B992DDFA23249D6
)  # of a NULL that needs a code (for <=>); a value may share it, so candidates are re-checked

Encoder = Callable[[pa.Array], np.ndarray]
Bounder = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Domain(ABC):
    """How values of two SQL types are compared as int64 codes.

    ``exact``: codes and bounds decide the comparison; if False, candidates must be re-checked. ``ordered``:
    codes are in SQL order; if False they are hashes, good for equality only. ``unit`` is what an offset
    counts: "s", "ms", "us", "ns", "day" or None for plain numbers.
    """

    def __init__(self, name: str, *, exact: bool, ordered: bool, unit: str | None = None) -> None:
        self.name = name
        self.exact = exact
        self.ordered = ordered
        self.unit = unit
        self._encoders: list[tuple[pa.DataType, Encoder]] = []
        self._bounders: dict[tuple[Interval, Side], Bounder] = {}

    def __repr__(self) -> str:
        return f"<Domain {self.name}>"

    def codes(self, column: pa.Array, *, null_code: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        """The column's int64 codes, contiguous, and a mask, True where there is a value (None: everywhere).

        Codes of nulls are arbitrary, unless ``null_code`` asks for one fixed code, which a value may share:
        then the mask is None. The codes may be the column's own memory: do not write to them.
        """
        for type, encode in self._encoders:
            if type == column.type:
                codes, mask = encode(column), validity(column)
                break
        else:
            codes, mask = self._first_codes(plain_column(column))
        if mask is None or not null_code:
            return codes, mask
        return np.where(mask, codes, NULL_CODE), None

    def _first_codes(self, column: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
        """Codes of a column whose type has not been met before, or whose layout needs a step more."""
        if pa.types.is_dictionary(column.type):
            return self._dictionary_codes(column)
        encode = self._encoder(column.type)
        self._encoders.append((column.type, encode))
        return encode(column), validity(column)

    def _dictionary_codes(self, column: pa.DictionaryArray) -> tuple[np.ndarray, np.ndarray | None]:
        values, valid = self.codes(column.dictionary)
        mask = validity(column)
        if not values.size:
            return np.zeros(len(column), np.int64), mask
        positions = raw(column.indices, number_type(column.indices.type))
        if mask is not None:
            positions = np.where(mask, positions, 0)
        if valid is not None:  # a null may also be an entry of the dictionary
            mask = valid[positions] if mask is None else mask & valid[positions]
        return values[positions], mask

    @property
    def floating(self) -> bool:
        """Whether codes are those of floats, which are not proportional to the values."""
        return False

    def proportional(self, codes: np.ndarray, factor: float) -> np.ndarray:
        """Codes of floats as whole numbers in the same order, that are the values times ``factor``, cut off: several may share one."""
        raise NotImplementedError

    def bounds(self, keys: np.ndarray, interval: Interval, probing: Side) -> tuple[np.ndarray, np.ndarray]:
        """Inclusive bounds [lo, hi] on the opposite stream's codes for each key of the ``probing`` stream.

        Sorted keys give sorted bounds, and lo <= hi + 1 always; lo = hi + 1 matches nothing. One exception,
        since int64 has no room below its least and above its largest number: keys whose bounds would lie
        there come out empty but not in order. Of sorted keys they are the first or the last few, so that
        looking at both ends tells whether any must be left out. The arrays are the caller's own.
        """
        bounder = self._bounders.get((interval, probing))
        if bounder is None:
            bounder = self._bounders[(interval, probing)] = self.bounder(interval, probing)
        return bounder(keys)

    @abstractmethod
    def bounder(self, interval: Interval, probing: Side) -> Bounder:
        """``bounds`` for one interval and side; all that does not depend on the keys is worked out here."""

    @abstractmethod
    def values(self, codes: np.ndarray) -> np.ndarray:
        """The codes as finite float64, in the units of offsets; they never decrease where codes increase."""

    @abstractmethod
    def _encoder(self, type: pa.DataType) -> Encoder:
        """How a column of this plain type becomes codes; it may leave anything in the slots of nulls."""
