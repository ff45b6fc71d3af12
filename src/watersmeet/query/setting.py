"""What a query is bound to."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.streams.window import Window


@dataclass(frozen=True)
class Setting:
    """The streams' schemas and windows, and the windows that the query was given itself, by name in FROM."""

    schemas: Mapping[str, pa.Schema]
    windows: Mapping[str, Window]
    own: Mapping[str, Window]
    emit: str | None = None
    tables: Collection[str] = ()  # which of the streams are tables

    @property
    def times(self) -> dict[str, str]:
        """The time columns of the streams whose own window is of time."""
        return {name: window.time for name, window in self.windows.items() if window.time is not None}
