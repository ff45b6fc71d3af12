"""What a host is made with: its streams, their windows and schemas, its cores. The same for as long as its control folder is used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from watersmeet.api.state import schema_from_json, schema_to_json
from watersmeet.errors import OptionError, StateError
from watersmeet.query.feed import Feed
from watersmeet.query.placed import Placing
from watersmeet.query.running import Running
from watersmeet.spark.host.files import ControlFiles
from watersmeet.streams.clock import TimeAxis
from watersmeet.streams.window import Window, window_from_json

HOST = "host.json"


@dataclass(frozen=True)
class Setting:
    """The streams of a host, in the order in which the rows of a batch arrive."""

    windows: Mapping[str, Window]
    schemas: Mapping[str, pa.Schema] = field(compare=False)
    cores: int  # that queries are spread over: parts of the state, which the tasks of a start share

    @property
    def streams(self) -> list[str]:
        return list(self.windows)

    def axis(self, stream: str) -> TimeAxis | None:
        """The stream's own time; None: its window has none."""
        window = self.windows[stream]
        return None if window.time is None else TimeAxis((stream,), (window,), (self.schemas[stream],))

    def running(self) -> Running:
        """A processor's inside without queries: rows are kept only while queries see them; watermarks move once after each push."""
        return Running(Feed(dict(self.windows), self.schemas, 1, False, (), True), Placing(None, {}))

    def to_json(self) -> dict[str, Any]:
        return {
            "windows": {name: window.to_json() for name, window in self.windows.items()},
            "schemas": {name: schema_to_json(schema) for name, schema in self.schemas.items()},
            "cores": self.cores,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Setting":
        windows = {name: window_from_json(window) for name, window in data["windows"].items()}
        schemas = {name: schema_from_json(schema) for name, schema in data["schemas"].items()}
        return cls(
            windows, {name: schema for name, schema in schemas.items() if schema is not None}, data["cores"]
        )

    def agree(self, control: ControlFiles) -> None:
        """Write it down, or check that it is as before: stored rows and numbered statements mean something only with it."""
        before = control.read(HOST)
        if before is None:
            control.write(self.to_json(), HOST)
            return
        was = Setting.from_json(before)
        changed = []
        if was.streams != self.streams:
            changed.append(f"the streams were {', '.join(was.streams)} and are now {', '.join(self.streams)}")
        else:
            for name in self.streams:
                if was.windows[name] != self.windows[name]:
                    changed.append(
                        f"the window of {name} was {was.windows[name]} and is now {self.windows[name]}"
                    )
                if was.schemas[name] != self.schemas[name]:
                    changed.append(
                        f"the columns of {name} were {_columns(was.schemas[name])} and are now {_columns(self.schemas[name])}"
                    )
        if was.cores != self.cores:
            changed.append(f"most_cores= was {was.cores} and is now {self.cores}")
        if changed:
            raise StateError(
                f"a host must be as it was when its control folder was first used; got a change: {'; '.join(changed)}; do: "
                "change it back, or start "
                f"with a new control folder, checkpoint and output ({control.location})"
            )


def most_cores_of(control: ControlFiles) -> int | None:
    """How many cores the host of a control folder was made for; None if there was none yet."""
    before = control.read(HOST)
    return None if before is None else int(before["cores"])


def read_setting(control: ControlFiles) -> Setting:
    """The setting of the host that has this control folder."""
    found = control.read(HOST)
    if found is None:
        raise OptionError(
            f"a control folder must be that of a QueryHost that was started; got {control.location}, which has no {HOST}; do: "
            "name the folder that "
            "QueryHost(control=...) has, and start it first"
        )
    return Setting.from_json(found)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
