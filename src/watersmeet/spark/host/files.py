"""The control folder: what clients and the host say to each other, as files that are written whole and never changed.

- ``inbox/<id>.json``: a statement. Clients write, the host takes it away once it is judged.
- ``log/<number>.json``: the statements that count, from 1 on. The host alone writes.
- ``answers/<id>.json``: what became of a statement, for the client that waits.
- ``status.json``: how far the host has come. ``host.json``: what it was made with.
"""

import json
import time
import uuid
from typing import Any

from watersmeet.errors import OptionError, StateError
from watersmeet.spark.state.location import StateLocation, absolute, open_location


class ControlFiles:
    """The folder, opened."""

    def __init__(self, location: str) -> None:
        if not isinstance(location, str) or not location:
            raise OptionError(f"the control folder must be named by a text; got {location!r}")
        self.location = absolute(location)
        self.place: StateLocation = open_location(self.location)

    def read(self, *parts: str) -> Any:
        """The JSON in a file; None if there is none."""
        data = self.place.read(self.place.path(*parts))
        if data is None:
            return None
        try:
            return json.loads(data.to_pybytes())
        except ValueError as error:
            raise StateError(
                f"{self.place.path(*parts)} must be JSON that the host has written; got {error}; do: restore it from a copy"
            ) from error

    def write(self, body: Any, *parts: str) -> None:
        self.place.write(self.place.path(*parts), [json.dumps(body).encode()])

    # ---- statements ---------------------------------------------------------------------------------------------

    def ask(self, statement: dict[str, Any]) -> str:
        """Put a statement into the inbox; returns its id. Ids are in the order of time, as clocks have it."""
        name = f"{time.time_ns():020d}-{uuid.uuid4().hex}"
        self.write({"id": name, **statement}, "inbox", f"{name}.json")
        return name

    def asked(self) -> list[str]:
        """The ids of what lies in the inbox, in order."""
        names = self.place.names(self.place.path("inbox"))
        return [name.removesuffix(".json") for name in names if name.endswith(".json")]

    def statement(self, name: str) -> Any:
        """A statement of the inbox: whatever a client has put there; None if it is gone."""
        data = self.place.read(self.place.path("inbox", f"{name}.json"))
        if data is None:
            return None
        try:
            return json.loads(data.to_pybytes())
        except ValueError:
            return data.to_pybytes()[:100].decode(errors="replace")

    def taken(self, name: str) -> None:
        self.place.delete(self.place.path("inbox", f"{name}.json"))

    def answer(self, name: str, body: dict[str, Any]) -> None:
        self.write(body, "answers", f"{name}.json")

    def answered(self, name: str) -> Any:
        return self.read("answers", f"{name}.json")

    def heard(self, name: str) -> None:
        self.place.delete(self.place.path("answers", f"{name}.json"))

    # ---- the log ------------------------------------------------------------------------------------------------

    def last(self) -> int:
        """The number of the newest statement in the log."""
        names = self.place.names(self.place.path("log"))
        return max(
            (int(name[:-5]) for name in names if name[:-5].isdigit() and name.endswith(".json")), default=0
        )

    def entry(self, number: int) -> dict[str, Any]:
        """A statement of the log."""
        found: dict[str, Any] | None = self.read("log", _entry_name(number))
        if found is None:
            raise StateError(
                f"the log of statements must be whole: statement {number} is missing in {self.place.path('log')}; do: restore "
                "the file from a copy, "
                "or start with a new control folder, checkpoint and output"
            )
        return found

    def enter(self, entry: dict[str, Any]) -> None:
        """The next statement of the log."""
        name = _entry_name(entry["number"])
        if self.place.size(self.place.path("log", name)) is not None:
            raise StateError(
                f"a control folder must have one host; got statement {entry['number']} in {self.place.path('log')} from another "
                "one; do: stop one of "
                "them, and start this one again from its checkpoint"
            )
        self.write(entry, "log", name)


def _entry_name(number: int) -> str:
    return f"{number:012d}.json"
