"""The queries of a processor in its fabric: the assignment is made anew from the one before whenever queries come, change or go.

Without a fabric everything fits. An assignment is a value: whoever takes a change back has the one from before.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from watersmeet.errors import FabricError, OptionError
from watersmeet.fabric.assign import assign, placed_from_plain, placed_to_plain
from watersmeet.fabric.assignment import Assignment, empty
from watersmeet.fabric.fabric import Fabric
from watersmeet.fabric.operator import Need
from watersmeet.fabric.plain import to_plain
from watersmeet.query.catalog import Entry
from watersmeet.query.needs import need_of


class Placing:
    """Assigns queries to a fabric, if there is one. ``sizes``: the rows of static tables, which a join holds whole."""

    def __init__(self, fabric: Fabric | None, sizes: Mapping[str, int] | None = None) -> None:
        if fabric is not None and not isinstance(fabric, Fabric):
            raise OptionError(f"fabric= must be a Fabric, such as Fabric.op_chain(8); got {fabric!r}")
        self.fabric = fabric
        self._sizes = {name: max(1, rows) for name, rows in (sizes or {}).items()}
        self._needs: dict[
            str, tuple[Entry, Need]
        ] = {}  # of the last assignment: most queries stay as they are

    def start(self) -> Assignment | None:
        """No queries."""
        return None if self.fabric is None else empty(self.fabric.topology)

    def assigned(self, before: Assignment | None, entries: Mapping[str, Entry]) -> Assignment | None:
        """The queries that run, in the fabric; refused whole if they do not fit."""
        if self.fabric is None or before is None:
            return None
        known = {name: self._need(entry) for name, entry in entries.items() if entry.bound is not None}
        self._needs = known
        return assign(before, [need for _, need in known.values()])

    def fitting(
        self, before: Assignment | None, entries: Mapping[str, Entry], stopped: dict[str, str]
    ) -> dict[str, Entry]:
        """The same queries; those that do not fit are stopped, the latest first to go."""
        kept: dict[str, Entry] = {}
        for name, entry in entries.items():
            try:
                if entry.bound is not None and entry.root is None:
                    self.assigned(before, {**kept, name: entry, **_running(entries)})
            except FabricError as error:
                stopped[name] = str(error)
                entry = entry.because(str(error))
            kept[name] = entry
        return kept

    # ---- saved and loaded ---------------------------------------------------------------------------------------

    def to_json(self, assigned: Assignment) -> dict[str, Any]:
        """The fabric, and where the queries stand in it."""
        return {"topology": to_plain(assigned.topology), "placed": placed_to_plain(assigned)}

    @staticmethod
    def from_json(data: Mapping[str, Any] | None, sizes: Mapping[str, int]) -> "Placing":
        """Of the fabric that was saved, if there was one."""
        return Placing(None if data is None else Fabric.from_json(data["topology"]), sizes)

    def as_saved(self, data: Mapping[str, Any] | None, entries: Sequence[Entry]) -> Assignment | None:
        """The queries that run, where they stood."""
        if self.fabric is None or data is None:
            return None
        self._needs = {entry.name: self._need(entry) for entry in entries if entry.bound is not None}
        return placed_from_plain(
            self.fabric.topology, [need for _, need in self._needs.values()], data["placed"]
        )

    def _need(self, entry: Entry) -> tuple[Entry, Need]:
        known = self._needs.get(entry.name)
        if known is not None and known[0].bound is entry.bound and known[0].starts is entry.starts:
            return known
        assert entry.bound is not None
        assert self.fabric is not None
        return entry, need_of(
            entry.name, entry.bound.plan, entry.starts, {**self._sizes, **dict(self.fabric.topology.holds)}
        )


def _running(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    return {name: entry for name, entry in entries.items() if entry.root is not None}
