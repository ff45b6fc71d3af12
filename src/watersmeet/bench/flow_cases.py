"""The cases of ``watersmeet bench flows``: the papers' figures, one group each, and what the issue wants to be reached.

What stays true: a case is a few words of JSON for a process of its own (``flow_case``); every flow in the catalog is measured, on one
core up to as many as the machine has. The papers send tuple by tuple, so granularity is 1 unless the case is about granularity.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from watersmeet.bench.cases import short
from watersmeet.bench.flow_engine import FlowSetting
from watersmeet.bench.flow_simulation import Setting, available
from watersmeet.flow.catalog import FLOWS
from watersmeet.flow.options import MODELS

MILLION = 1 << 20
GROUPS = {
    "time": "Figure 12: time windows, two-dimensional band, scan, tuple by tuple",
    "count": "Figure 16: count windows, two-dimensional band, scan, tuple by tuple",
    "stages": "Figures 15 and 18: stages, strict outer order",
    "selectivity": "Figure 17: matches a row",
    "precision": "Figure 19: ordering precision",
    "sustained": "Handshake join, figure 8: rate per stream that is kept up with",
    "granularity": "Rows a message",
    "single": "One band, count windows, scan, tuple by tuple",
    "speed-up": "One core and all cores, side by side",
    "order": "Strict outer order beside none, granularity 1024",
    "real": "Real cores with the simulation's windows",
    "simulation": "Simulated cores",
}


@dataclass(frozen=True)
class FlowPlan:
    """How much is measured."""

    quick: bool
    cores: int
    seconds: float
    simulated: tuple[int, ...]
    loads: int
    windows: tuple[int, ...]

    @classmethod
    def of(cls, quick: bool, cores: int) -> "FlowPlan":
        """The quick plan (under two minutes) or the full one (under twelve)."""
        if quick:
            return cls(True, cores, 0.25, (2, 8, 32, 128), 64, (1 << 17,))
        return cls(False, cores, 0.5, tuple(1 << i for i in range(1, 10)), 128, (1 << 13, 1 << 15, 1 << 17))

    @property
    def budget(self) -> dict[str, float]:
        return {"seconds": self.seconds, "warm_up": self.seconds / 2, "pushes": 2}

    def loads_for(self, cores: int) -> int:
        """Rows that come in a simulation: fewer where a row means very many steps."""
        return min(self.loads, max(48, 16_384 // cores))

    def cores_of(self, flow: str) -> tuple[int, ...]:
        """1, 2, 4 and so on, up to all."""
        if flow == "three_step":
            return (1,)
        return tuple(sorted({1, self.cores} | {1 << i for i in range(10) if 1 << i < self.cores}))


@dataclass
class FlowOutcome:
    """All that a run has measured: what each case gave, with its group."""

    found: list[dict[str, Any]] = field(default_factory=list)
    costs: dict[str, dict[str, float]] = field(default_factory=dict)  # by flow
    rate: float = 0.0  # rows a second that come in the simulation
    problems: list[str] = field(default_factory=list)

    def of(self, group: str) -> list[dict[str, Any]]:
        """What the cases of one group gave, in order."""
        return [found for found in self.found if found["group"] == group]


@dataclass(frozen=True)
class FlowCase:
    """One line of the run."""

    group: str
    title: str
    wanted: dict[str, Any]
    timeout: float = 120.0


def flow_cases(plan: FlowPlan) -> Iterator[FlowCase]:
    """All cases, in order. The simulation's are in ``simulations``: they need the measured costs."""
    yield from _speed_ups(plan)
    yield from _orders(plan)
    yield from _throughput(plan)
    yield from _stages(plan)
    yield from _selectivity(plan)
    yield from _precision(plan)
    yield from _sustained(plan)
    yield from _granularity(plan)


def calibration() -> FlowCase:
    """Measures the costs."""
    return FlowCase(
        "simulation", "costs of steps, links and comparisons", {"kind": "calibrate", "flows": available()}
    )


def simulations(plan: FlowPlan, outcome: FlowOutcome) -> Iterator[FlowCase]:
    """Every flow that the papers analyse, with more and more cores."""
    if not outcome.costs:
        return
    for flow in outcome.costs:
        settings = [
            asdict(Setting(flow, cores, loads=plan.loads_for(cores), rate=outcome.rate))
            for cores in plan.simulated
        ]
        wanted = {"kind": "simulate", "settings": settings, "costs": outcome.costs[flow]}
        cores_text = f"{min(plan.simulated)} to {max(plan.simulated)} simulated cores"
        yield FlowCase("simulation", f"{flow}, {cores_text}", wanted, 300.0)
    for flow in available():  # the same windows on the real cores that there are
        for cores in plan.cores_of(flow):
            real = FlowSetting(flow, cores, "band-4", Setting(flow, cores).held * cores, granularity=1)
            yield _point(plan, "real", real)


def _point(plan: FlowPlan, group: str, setting: FlowSetting, latencies: bool = True) -> FlowCase:
    kind = "time" if setting.timed else "count"
    title = f"{setting.title} · {kind} window {short(setting.window)}"
    wanted = {"kind": "point", "setting": asdict(setting), "budget": plan.budget, "latencies": latencies}
    return FlowCase(group, title, wanted)


def _versus(plan: FlowPlan, group: str, title: str, settings: list[FlowSetting], seconds: float) -> FlowCase:
    budget = {**plan.budget, "seconds": seconds, "pushes": 3}
    return FlowCase(
        group, title, {"kind": "versus", "settings": [asdict(s) for s in settings], "budget": budget}, 240.0
    )


def _speed_ups(plan: FlowPlan) -> Iterator[FlowCase]:
    if plan.cores < 2:
        return
    several = [flow for flow in FLOWS if flow != "three_step"]
    for flow in several:
        both = [FlowSetting(flow, k, granularity=1024, batch=2048) for k in (1, 2)]
        yield _versus(plan, "speed-up", f"{flow} · scan · window 128K, 1 and 2 cores", both, 2 * plan.seconds)
    window = MILLION if plan.quick else 8 * MILLION
    for flow in ("split_join", "pan_join") if plan.quick else several:
        if flow in FLOWS:
            both = [FlowSetting(flow, k, "band-1", window, "bi_sort", None, 32_768) for k in (1, 2)]
            title = f"{flow} · bi_sort · window {short(window)}, 1 and 2 cores"
            yield _versus(plan, "speed-up", title, both, 2 * plan.seconds)


def _orders(plan: FlowPlan) -> Iterator[FlowCase]:
    for work, window, index, batch in (
        ("splitjoin", 1 << 17, "scan", 2048),
        ("band-1", MILLION, "bi_sort", 32_768),
    ):
        both = [
            FlowSetting("split_join", plan.cores, work, window, index, 1024, batch, order)
            for order in ("none", "outer")
        ]
        yield _versus(plan, "order", f"split_join · {index} · order none and outer", both, 4 * plan.seconds)


def _throughput(plan: FlowPlan) -> Iterator[FlowCase]:
    for timed, windows in ((False, plan.windows), (True, plan.windows[-2:])):
        for window in windows:
            for flow in FLOWS:
                for cores in plan.cores_of(flow):
                    if plan.quick and timed and cores != plan.cores_of(flow)[-1]:
                        continue
                    setting = FlowSetting(flow, cores, window=window, granularity=1, timed=timed)
                    yield _point(plan, "time" if timed else "count", setting)


def _stages(plan: FlowPlan) -> Iterator[FlowCase]:
    flows = [flow for flow in FLOWS if MODELS[flow].takes("order")]
    if plan.quick:
        flows = ["split_join"]
    for timed in (False,) if plan.quick else (True, False):
        for window in plan.windows[-2:]:
            for flow in flows:
                for cores in plan.cores_of(flow)[-1:] if plan.quick else plan.cores_of(flow):
                    setting = FlowSetting(
                        flow, cores, window=window, granularity=1, order="outer", timed=timed
                    )
                    yield _point(plan, "stages", setting)


def _selectivity(plan: FlowPlan) -> Iterator[FlowCase]:
    window = plan.cores << 15
    for work in ("band-1", "band-1000") if plan.quick else ("band-1", "band-4", "band-64", "band-1000"):
        setting = FlowSetting("split_join", plan.cores, work, window, granularity=1, order="outer")
        yield _point(plan, "selectivity", setting, latencies=not plan.quick)


def _precision(plan: FlowPlan) -> Iterator[FlowCase]:
    for held in (1 << 15,) if plan.quick else (1 << 12, 1 << 15):
        ladder = (1, held) if plan.quick else (1, 16, 256, 4096, held)
        orders: list[tuple[str, int | None]] = [("none", None), ("outer", 1)]
        orders += [("inner", n) for n in dict.fromkeys(ladder)]
        for order, precision in orders:
            setting = FlowSetting(
                "split_join",
                plan.cores,
                "band-64",
                held * plan.cores,
                granularity=1,
                order=order,
                precision=precision,
            )
            yield _point(plan, "precision", setting, latencies=False)


def _sustained(plan: FlowPlan) -> Iterator[FlowCase]:
    flows = [flow for flow in ("handshake", "low_latency_handshake", "split_join") if flow in FLOWS]
    for flow in ("handshake",) if plan.quick else flows:
        for minutes in (10,) if plan.quick or flow != "handshake" else (5, 10, 15):
            for cores in plan.cores_of(flow)[-1:] if plan.quick else plan.cores_of(flow):
                setting = FlowSetting(flow, cores, granularity=1, timed=True)
                wanted = {
                    "kind": "sustained",
                    "setting": asdict(setting),
                    "minutes": minutes,
                    "budget": plan.budget,
                }
                yield FlowCase("sustained", f"{setting.title} · {minutes} min", wanted, 240.0)


def _granularity(plan: FlowPlan) -> Iterator[FlowCase]:
    sizes = (64, 8192) if plan.quick else (1, 16, 64, 256, 1024, 8192)
    for granularity in sizes:
        batch = max(64, min(4096, 16 * granularity))
        setting = FlowSetting("split_join", plan.cores, granularity=granularity, batch=min(batch, 2048))
        if granularity <= setting.batch:
            yield _point(plan, "granularity", setting, latencies=False)
    for cores in plan.cores_of("split_join"):
        one_band = FlowSetting("split_join", cores, "band-1", 1 << 17, granularity=1)
        yield _point(plan, "single", one_band, latencies=False)
    for flow in ("split_join",) if plan.quick else FLOWS:
        for granularity in sizes if flow == "split_join" else (1, 64, 1024, 8192):
            batch = max(64, min(32_768, 16 * granularity))
            setting = FlowSetting(
                flow, plan.cores_of(flow)[-1], "band-1", MILLION, "bi_sort", granularity, batch
            )
            yield _point(plan, "granularity", setting, latencies=False)
