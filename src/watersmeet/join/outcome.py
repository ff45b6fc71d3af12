"""What a push, or the end of the streams, gave."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.join.matches import Matches
from watersmeet.streams.payload import Chunks


@dataclass(slots=True)
class Outcome:
    """What was found, who was late, and where the rows lie."""

    matches: Matches
    late: dict[int, pa.RecordBatch]
    chunks: Sequence[Chunks | None] = ()  # where the rows of the matches lie
    punctuations: Any = ()  # flows that keep an order: marks in the output
    missing: dict[int, np.ndarray] = field(default_factory=dict)  # rows lost with a core that has failed
