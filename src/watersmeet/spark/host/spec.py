"""What the tasks of a host need to know: a small frozen value that travels with the functions."""

from dataclasses import dataclass

from watersmeet.spark.host.files import ControlFiles
from watersmeet.spark.host.program import Programs
from watersmeet.spark.host.setting import Setting


@dataclass(frozen=True)
class HostSpec:
    """One start of a host."""

    setting: Setting
    control: str
    state: str
    output: str
    name: str = "host"
    retain: int = 100  # batches that Spark may go back
    skip: tuple[int, ...] = ()  # statements whose queries are stopped
    instance: str = ""  # this very start
    most_results: int | None = None  # rows that a query may give in a batch on a core
    tasks: int = 0  # that share the cores; 0: one each

    def cores_of(self, task: int) -> range:
        """The cores that a task is."""
        return range(task, self.setting.cores, self.tasks or self.setting.cores)


_programs: dict[tuple[str, str], Programs] = {}


def programs_of(spec: HostSpec) -> Programs:
    """The programs of the host's log, kept for the next task of the same start."""
    key = spec.control, spec.instance
    if key not in _programs or not spec.instance:
        if len(_programs) >= 8:
            _programs.clear()
        _programs[key] = Programs(ControlFiles(spec.control))
    return _programs[key]
