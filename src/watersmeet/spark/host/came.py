"""What has come of the streams since the host's first batch: how many rows, and their largest time. The same on all cores, whoever got the
rows: so what is decided by it is decided alike."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.query.block import JoinBlock
from watersmeet.spark.host.setting import Setting
from watersmeet.spark.host.wire import Received, read_time, told_time
from watersmeet.streams.clock import BOTTOM, TOP


@dataclass(frozen=True)
class Came:
    """By stream, rows so far; and the largest time, of those that have times, as ``told_time`` writes it."""

    rows: Mapping[str, int] = field(default_factory=dict)
    latest: Mapping[str, str] = field(default_factory=dict)

    def after(self, received: Received, setting: Setting) -> "Came":
        """The same once a batch more has come."""
        rows, latest = dict(self.rows), dict(self.latest)
        for k, (name, time) in enumerate(times_of(received, setting).items()):
            rows[name] = rows.get(name, 0) + received.arrived(k)
            if time is not None:
                before = self.time(name, setting)
                known = time if before is None else pa.concat_arrays([time, before])
                latest[name] = told_time(pa.array([pc.max(known)], time.type))
        return Came(rows, latest)

    def any_of(self, streams: Any) -> bool:
        """Whether rows of any of the streams have come."""
        return any(self.rows.get(name, 0) for name in streams)

    def time(self, stream: str, setting: Setting) -> pa.Array | None:
        """The largest time of a stream, alone in an array; None: it has none, or nothing has come."""
        text, column = self.latest.get(stream), setting.windows[stream].time
        if text is None or column is None:
            return None
        return read_time(text, setting.schemas[stream].field(column).type)

    def unknown_to(self, block: JoinBlock, setting: Setting) -> tuple[list[int], list[int]]:
        """What a join that begins now does not know, as ``JoinBlock.lacks`` takes it: whether there is anything, and its largest time.

        A core's own numbers would tell only of its share; another core, with another share, must find the same.
        """
        firsts, newest = [], []
        for k, (name, window) in enumerate(block.windows):
            time = self.time(name, setting)
            firsts.append(min(1, self.rows.get(name, 0)))
            if block.axis is None or window.time is None:
                newest.append(BOTTOM)
            elif time is None or window.time != setting.windows[name].time:
                newest.append(TOP if firsts[-1] else BOTTOM)
            else:
                newest.append(int(block.axis.column_codes(k, time)[0]))
        return firsts, newest

    def to_json(self) -> list[Any]:
        return [dict(self.rows), dict(self.latest)]


def times_of(received: Received, setting: Setting) -> dict[str, pa.Array | None]:
    """By stream, the largest time that a batch has brought to any core; None: the stream has no time, or nothing has come."""
    found = {}
    for k, name in enumerate(setting.streams):
        column = setting.windows[name].time
        kind = None if column is None else setting.schemas[name].field(column).type
        found[name] = None if kind is None else received.latest(k, kind)
    return found
