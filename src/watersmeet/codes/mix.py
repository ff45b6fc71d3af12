"""Several equality keys as one: a hash of the codes of all columns."""

from collections.abc import Sequence

import numpy as np

from watersmeet.kernels.code import mix_into


def mix(columns: Sequence[np.ndarray]) -> np.ndarray:
    """One int64 hash a row of the codes of all columns: equal rows have equal hashes, others may."""
    hashes = np.zeros(columns[0].size, np.uint64)
    for codes in columns:
        mix_into(hashes, codes.view(np.uint64))
    return hashes.view(np.int64)
