"""Simulated cores: the flows' own code under a made-up clock, from 2 cores to 512, with costs measured on this machine.

What stays true: every core has a sub-window of the same size, so that more cores mean larger windows, as in SplitJoin's analysis. The
windows are full from the start, as if rows had been coming for ever at the same rate, and rows come one by one, r and s in turn, at
the same rate for every flow and number of cores: a share of what the slowest of them could take (``common_rate``).
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.flow.catalog import FLOWS, make_flow
from watersmeet.flow.driver.engine import FlowEngine
from watersmeet.flow.models.base import Flow, Sending
from watersmeet.flow.models.load import Bounded, Cutter, Load
from watersmeet.flow.models.message import Found, Mark
from watersmeet.flow.models.work import Work
from watersmeet.flow.order import Order
from watersmeet.flow.runners.simulate import Costs, Meter, Simulation, TimedWork
from watersmeet.join.access import PairAccess, Sizing
from watersmeet.join.prepare import read_columns
from watersmeet.streams.arrival import Validity
from watersmeet.streams.clock import BOTTOM
from watersmeet.workloads.catalog import Source, workload
from watersmeet.workloads.feed import STREAMS

SIMULATED = ("split_join", "low_latency_handshake", "handshake")
HELD = 512  # rows of a stream in a core
LOAD = 0.5  # share of the slowest flow's capacity at which rows come
PLACED = 16  # rows a block in the windows that are full from the start


@dataclass(frozen=True)
class Setting:
    """One simulated run."""

    flow: str
    cores: int
    loads: int = 192
    rate: float = 0.0  # rows a second, both streams; 0: so few that nobody waits
    held: int = HELD  # rows of a stream in a core
    order: str = "none"
    fanout: int | None = None
    queue: int | None = None
    workload: str = "band-4"


@dataclass(frozen=True)
class Simulated:
    """What a simulated run gave: mean seconds, and what the busiest node needs for a row."""

    flow: str
    cores: int
    rate: float
    latency: dict[str, float]  # distribution, execution, gathering, end to end, visiting, processing
    pairs: int
    busiest: float
    busiest_node: str
    setting: dict[str, Any] = field(default_factory=dict)


def simulate(setting: Setting, costs: Costs) -> Simulated:
    """One run: ``loads`` rows into full windows."""
    window = setting.held * setting.cores
    rows = -(-setting.loads // 2)
    meter = Meter(costs)
    flow, shares, _ = prepared(setting, rows, meter)
    period = 1.0 / setting.rate if setting.rate else _long(costs, setting)
    entries = [(np.arange(window + rows) - window) * 2.0 * period + side * period for side in (0, 1)]
    loads: list[Load] = []
    simulation = Simulation(flow.network, meter)
    order = None if setting.order == "none" else Order(setting.order)
    left = simulation.run(arrivals(flow, shares, rows, period, loads, order))
    found = [(message, when) for message, when in left if isinstance(message, Found)]
    latency = _visiting(meter, entries)
    if flow.prompt:  # else a row is done with only when it leaves the window
        latency |= _stages(found) | {"processing": _processing(loads, found, meter)}
    name = max(simulation.busy, key=lambda node: simulation.busy[node])
    return Simulated(
        setting.flow,
        setting.cores,
        1.0 / period,
        latency,
        sum(when.size for _, _, when in meter.met),
        simulation.busy[name] / len(loads),
        name,
        asdict(setting),
    )


def common_rate(costs: Mapping[str, Costs], cores: Iterable[int] = (2, 8)) -> float:
    """Rows a second that leave the busiest node of the slowest flow idle for a share of the time."""
    busiest = [
        simulate(Setting(flow, k, loads=64), mine).busiest for flow, mine in costs.items() for k in cores
    ]
    return LOAD / max(busiest)


def available() -> tuple[str, ...]:
    """The flows that are simulated."""
    return tuple(flow for flow in SIMULATED if flow in FLOWS)


def prepared(
    setting: Setting, rows: int, meter: Meter | None = None
) -> tuple[Flow, tuple[Bounded, Bounded], FlowEngine]:
    """The flow with full windows, and the rows that are still to come. Without a meter the cores' own clocks go on."""
    from watersmeet.api.stream_join import StreamJoin
    from watersmeet.streams.window import Rows

    work = workload(setting.workload, setting.held * setting.cores)
    window, total = Rows(work.window), work.window + rows
    batches = [Source(work, stream).take(total) for stream in STREAMS]
    schemas = {stream: batch.schema for stream, batch in zip(STREAMS, batches, strict=True)}
    join = StreamJoin(
        work.condition, r=window, s=window, schemas=schemas, index="scan", cores=setting.cores,
        flow=setting.flow, order=setting.order, granularity=1, fanout=setting.fanout, queue=setting.queue,
    )  # fmt: skip
    core = join._engine
    assert isinstance(core, FlowEngine)
    flow = make_flow(_work(core, setting.cores, meter), core.options)
    turns = np.tile(np.array([0, 1], np.uint8), total)
    admission = core.ledger.arrivals.admit([total] * 2, [None, None], turns, (0, 1))
    if not flow.prompt:
        flow.place_between(_borders(setting.cores, setting.held))
    shares = []
    for side, batch in enumerate(batches):
        validity = admission.arrived[side].of(1 - side)
        stored = _share(core, side, batch.slice(0, work.window), 0, validity.part(0, work.window))
        for start in range(0, work.window, PLACED):
            flow.place(stored.part(start, min(start + PLACED, work.window), 0))
        shares.append(
            _share(core, side, batch.slice(work.window), work.window, validity.part(work.window, total))
        )
    join.close()
    return flow, (shares[0], shares[1]), core


def _work(core: FlowEngine, cores: int, meter: Meter | None) -> Work:
    access = PairAccess(core.plan, core.streams, core.planning.habits, False, "pairs", None)
    sizing = Sizing(core.windows, core.planning.habits, None, cores)
    shared = (access, sizing, (False, False))
    return Work(*shared, time.perf_counter) if meter is None else TimedWork(*shared, meter.read, meter)


def _share(core: FlowEngine, side: int, batch: pa.RecordBatch, first: int, validity: Validity) -> Bounded:
    columns = read_columns(core.plan, STREAMS[side], batch, first, None)
    return Bounded(core.plan, STREAMS[side], side, columns, validity)


def _borders(cores: int, held: int) -> list[list[int]]:
    """A handshake as it stands when the windows are full: the newest r in the first core, the newest s in the last."""
    window = cores * held
    return [[window - (i + 1) * held, window - i * held, i * held, (i + 1) * held] for i in range(cores)]


def arrivals(
    flow: Flow,
    shares: tuple[Bounded, Bounded],
    rows: int,
    period: float,
    loads: list[Load],
    order: Order | None,
) -> Iterator[tuple[float, Sending]]:
    turns = np.tile(np.array([0, 1], np.uint8), rows)
    for number, load in enumerate(Cutter(1).interleaved(0, shares, turns, (BOTTOM, BOTTOM), order)):
        load.entered = number * period
        loads.append(load)
        yield load.entered, flow.send(load)
    yield len(loads) * period, flow.send_mark(Mark(1))


def _long(costs: Costs, setting: Setting) -> float:
    """A time after which a row has surely been done with."""
    longest = costs.link + 4 * costs.message + costs.feed + costs.gather + costs.control
    return 4 * setting.cores * longest + costs.probe + 2 * setting.held * costs.compare


def _stages(found: Sequence[tuple[Found, float]]) -> dict[str, float]:
    if not found:
        return {}
    stages = np.array(
        [(f.begun - f.load.entered, f.done - f.begun, at - f.done, at - f.load.entered) for f, at in found]
    )
    return dict(
        zip(("distribution", "execution", "gathering", "end to end"), stages.mean(0).tolist(), strict=True)
    )


def _visiting(meter: Meter, entries: Sequence[np.ndarray]) -> dict[str, float]:
    """The mean of T_match - max(t_r, t_s) over the pairs found, where rows that were there have come before time 0."""
    left, right, when = meter.visits()
    if not when.size:
        return {}
    return {"visiting": float(np.mean(when - np.maximum(entries[0][left], entries[1][right])))}


def _processing(loads: Sequence[Load], found: Sequence[tuple[Found, float]], meter: Meter) -> float:
    """The mean time until a row has been compared with the whole window and its results have left."""
    done = {
        load.number: meter.compared[part.side].get(part.first, load.entered)
        for load in loads
        for part in load.parts
    }
    for message, when in found:
        done[message.load.number] = max(done[message.load.number], when)
    return float(np.mean([done[load.number] - load.entered for load in loads]))
