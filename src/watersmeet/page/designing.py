"""What the designer asks: is this wired as it must be, where do the queries stand, run it. Each browser has one; answers are plain data.

Fabrics come as JSON and are checked by ``Fabric.from_json`` each time: the page itself knows no rule of wiring.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from watersmeet.errors import WatersmeetError
from watersmeet.fabric.fabric import Fabric
from watersmeet.page.catalog import catalog, example, shape
from watersmeet.page.hardware import verilog_of
from watersmeet.page.live import refused
from watersmeet.page.running import Run, processor_of, started
from watersmeet.page.streams import streams_of


class Designing:
    """A designer's table. It has at most one run."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self._does: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "catalog": lambda asked: catalog(),
            "example": lambda asked: self._checked(example(asked["name"], asked["parameters"])),
            "check": lambda asked: self._checked(asked["fabric"]),
            "assign": self._assigned,
            "run": self._started,
            "pace": self._paced,
            "stop": self._stopped,
            "verilog": self._verilog,
        }

    def does(self, verb: str) -> bool:
        return verb in self._does

    def answer(self, verb: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What a message is answered with; a refusal has its reason."""
        try:
            return {"ok": True, **self._does[verb](asked)}
        except WatersmeetError as error:
            return refused(error, asked.get("sql", ""))

    @staticmethod
    def _checked(data: Any) -> dict[str, Any]:
        fabric = Fabric.from_json(data)
        return {"fabric": json.loads(fabric.to_json()), "shape": shape(fabric.topology)}

    @staticmethod
    def _assigned(asked: Mapping[str, Any]) -> dict[str, Any]:
        with processor_of(
            Fabric.from_json(asked["fabric"]), streams_of(asked["streams"]), asked["sql"]
        ) as qp:
            assignment = qp.fabric_assignment()
            return {
                "assignment": json.loads(assignment.to_json()),
                "table": str(assignment),
                "words": [f"{word:020x}" for word in assignment.words()],
            }

    def _started(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        self.close()
        fabric, streams = Fabric.from_json(asked["fabric"]), streams_of(asked["streams"])
        self.run = started(asked["how"], fabric, streams, asked["sql"])
        return {}

    def _paced(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if self.run is not None:
            self.run.pace(asked["cycles"])
        return {}

    def _stopped(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        last = None if self.run is None else self.close()
        return {"run": last}

    @staticmethod
    def _verilog(asked: Mapping[str, Any]) -> dict[str, Any]:
        fabric = Fabric.from_json(asked["fabric"])
        return {"verilog": verilog_of(fabric.topology, streams_of(asked["streams"]), asked["sql"])}

    def close(self) -> dict[str, Any] | None:
        """End the run, if there is one; how it stood then."""
        run, self.run = self.run, None
        if run is None:
            return None
        run.stop()
        return run.digest()
