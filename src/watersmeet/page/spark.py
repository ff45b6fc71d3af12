"""A Spark query from its files, read-only: batches over time, cores and skew, hosted queries. No session is needed, and none is touched.

What is read: the manifests that cores write after each batch (they have rows, bytes, late rows and the watermark), the offsets and commits
of the checkpoint (they say when a batch began and was over), and the control folder of a host. Manifests never change: each is read once.
A file that goes while it is looked at is left out. ``contract.SPARK`` has the form.
"""

import json
import os
from typing import Any

from watersmeet.errors import OptionError, StateError
from watersmeet.extras import need

PACE = 1.0  # seconds between two looks
MOST_BATCHES = 600  # of a core, the newest
DEPTH = 5  # folders below the location
SETS = {"of-": "join", "host-": "host"}  # folders of a set of cores
Found = dict[str, Any]


class SparkView:
    """The files of a query, or of all queries of a checkpoint location. ``control``: the control folder of a host."""

    pace = PACE

    def __init__(self, location: str, control: str | None = None) -> None:
        need("a Spark query's state", "pyspark", "spark")
        from watersmeet.spark.state.command import query_of, state_of
        from watersmeet.spark.state.location import open_location

        self.location, self.control = location, control
        self._place = open_location(location)
        query = query_of(self._place)
        self._checkpoints: dict[str, str] = {}
        if query is not None:
            self._checkpoints[query] = self._place.root
            self._place = state_of(self._place, query, location)
        self._manifests: dict[str, Found] = {}
        self._times: dict[str, Found] = {}
        if not self._sets():
            raise OptionError(
                f"--spark must name a query's checkpoint, or the state= of a join or host; got {location}, in which there is no folder "
                "like <query>/<name>/of-0002/core-0000; name another, or wait for the first batch"
            )
        self._find_checkpoints()

    def read(self) -> Found:
        """How everything stands now."""
        return {
            "type": "spark",
            "location": self.location,
            "operators": self._operators(),
            "queries": self._hosted(),
        }

    def close(self) -> None:
        """Nothing is held."""

    # ---- where things are -------------------------------------------------------------------------------------------

    def _sets(self) -> list[tuple[str, str, str, str, int]]:
        """(folder, kind, query, name, cores) of each set of cores."""
        found, waiting = [], [(self._place.root, 0)]
        while waiting:
            folder, depth = waiting.pop(0)
            base = folder.rpartition("/")[2]
            kind = next((prefix for prefix in SETS if base.startswith(prefix)), None)
            if kind is not None and base.removeprefix(kind).isdigit():
                query, name = ["", "", *folder.split("/")][-3:-1]
                found.append((folder, SETS[kind], query, name, int(base.removeprefix(kind))))
            elif depth < DEPTH:
                waiting += [(f"{folder}/{name}", depth + 1) for name in self._place.folders(folder)]
        return found

    def _find_checkpoints(self) -> None:
        """Checkpoints near by: folders with a metadata file that names a query."""
        from watersmeet.spark.state.command import query_of
        from watersmeet.spark.state.location import StateLocation

        root = self._place.root
        for base in (root, root.rpartition("/")[0], root.rpartition("/")[0].rpartition("/")[0]):
            if len(base) < 2:
                continue
            for name in self._place.folders(base)[:200]:
                place = StateLocation(self._place.files, f"{base}/{name}")
                query = query_of(place)
                if query is not None:
                    self._checkpoints.setdefault(query, place.root)

    # ---- what they say ----------------------------------------------------------------------------------------------

    def _operators(self) -> list[Found]:
        found: dict[tuple[str, str, str], Found] = {}
        for folder, kind, query, name, cores in self._sets():
            one = self._operator(folder, kind, query, name, cores)
            known = found.get((kind, query, name))
            if (
                known is None or one["last"] > known["last"]
            ):  # a set of another number of cores is kept for a restart only
                found[kind, query, name] = one
        return list(found.values())

    def _operator(self, folder: str, kind: str, query: str, name: str, cores: int) -> Found:
        by_core = [self._core(f"{folder}/core-{number:04d}") for number in range(cores)]
        batches = sorted({batch for core in by_core for batch in core})
        newest = [core[max(core)] if core else None for core in by_core]
        known = next((one for one in newest if one is not None), None)
        streams = [] if known is None else list(known.get("join", {}).get("streams", []))
        return {
            "kind": kind,
            "query": query,
            "name": name,
            "condition": None if known is None else known.get("join", {}).get("condition"),
            "streams": streams,
            "last": batches[-1] if batches else -1,
            "cores": [_core_now(number, one) for number, one in enumerate(newest)],
            "batches": [
                self._batch(query, batch, [core[batch] for core in by_core if batch in core], streams)
                for batch in batches[-MOST_BATCHES:]
            ],
        }

    def _core(self, folder: str) -> dict[int, Found]:
        """The manifests of a core, by batch."""
        found = {}
        for file in [name for name in self._place.names(folder) if name.endswith(".json")][-MOST_BATCHES:]:
            path = f"{folder}/{file}"
            if path not in self._manifests:
                data = self._place.read(path)
                if data is None:
                    continue
                try:
                    self._manifests[path] = _short(json.loads(data.to_pybytes().partition(b"\n")[2]))
                except (ValueError, KeyError, TypeError) as error:
                    raise StateError(
                        f"{path} must be a manifest that a core has written; got {error}; do: watersmeet state"
                    ) from error
            found[self._manifests[path]["batch"]] = self._manifests[path]
        return found

    def _batch(self, query: str, batch: int, cores: list[Found], streams: list[str]) -> Found:
        counts = [one["counts"] for one in cores if one["counts"]]
        same = len(counts) > 1 and all(one == counts[0] for one in counts)  # each counts the rows of all
        arrived = (
            [] if not counts else counts[0] if same else [sum(column) for column in zip(*counts, strict=True)]
        )
        return {
            "batch": batch,
            **self._when(query, batch),
            "arrived": dict(zip(streams, arrived, strict=False)),
            "rows": sum(one["rows"] for one in cores),
            "bytes": sum(one["bytes"] for one in cores),
            "late": sum(one["late"] for one in cores),
            "watermark": next((one["watermark"] for one in cores if one["watermark"]), None),
            "skew": _skew([one["rows"] for one in cores]),
        }

    def _when(self, query: str, batch: int) -> Found:
        """When a batch began, and how long it took, by the checkpoint; None: it does not say."""
        key = f"{query}/{batch}"
        if key in self._times:
            return self._times[key]
        root, begun, seconds = self._checkpoints.get(query), None, None
        if root is not None:
            data = self._place.read(f"{root}/offsets/{batch}")
            if data is not None:
                try:
                    begun = json.loads(data.to_pybytes().split(b"\n")[1])["batchTimestampMs"] / 1000
                except (ValueError, KeyError, IndexError, TypeError):
                    begun = None
            info = self._place.files.get_file_info(f"{root}/commits/{batch}")
            if begun is not None and info.mtime is not None:
                seconds = round(info.mtime.timestamp() - begun, 3)
        found = {"begun": begun, "seconds": seconds}
        if seconds is not None:
            self._times[key] = found
        return found

    def _hosted(self) -> list[Found]:
        """The queries of a host, by its control folder."""
        if self.control is None:
            return []
        from watersmeet.spark.host.control import Control

        return [
            {
                "name": one.name,
                "sql": one.sql,
                "state": one.state,
                "reason": one.reason,
                "spread": one.spread,
                "generation": one.generation,
            }
            for one in Control(os.fspath(self.control)).queries().values()
        ]


def _short(manifest: Found) -> Found:
    """What is shown of a manifest; the rest is not kept."""
    streams = manifest.get("streams", [])
    return {
        "batch": int(manifest["batch"]),
        "core": int(manifest["core"]),
        "join": {key: manifest["join"][key] for key in ("streams", "condition", "how")}
        if "join" in manifest
        else {},
        "rows": sum(one["rows"] for one in streams) if streams else int(manifest["rows"]),
        "bytes": sum(one["bytes"] for one in streams) if streams else int(manifest["bytes"]),
        "counts": list(manifest.get("counts", [])),
        "late": sum(manifest.get("late", [])),
        "watermark": manifest.get("watermark"),
    }


def _core_now(number: int, one: Found | None) -> Found:
    if one is None:
        return {"core": number, "batch": None, "rows": 0, "bytes": 0, "late": 0, "watermark": None}
    return {"core": number, **{key: one[key] for key in ("batch", "rows", "bytes", "late", "watermark")}}


def _skew(rows: list[int]) -> float | None:
    """The fullest core beside the mean; 1: all the same."""
    total = sum(rows)
    return round(max(rows) * len(rows) / total, 3) if total else None
