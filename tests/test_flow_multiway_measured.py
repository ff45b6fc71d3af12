"""The multiway flows under measurement: Parallel-MJ as it is printed, and all of them under the simulation's clock."""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from multiway_flows import FLOWS
from watersmeet.flow.driver.engine import FlowEngine
from watersmeet.flow.driver.loading import StepLoading
from watersmeet.flow.models.message import Found, Mark
from watersmeet.flow.models.multiway.parallel import PrintedParallelMJFlow
from watersmeet.flow.runners.simulate import Costs, Meter, Simulation, TimedMultiWork
from watersmeet.join.steps import Walk


def keyed(rng: np.random.Generator, rows: int, keys: int) -> dict[str, np.ndarray]:
    return {"k": rng.integers(0, keys, rows)}


def loading(join: wm.StreamJoin) -> tuple[FlowEngine, StepLoading]:
    core = join._engine
    assert isinstance(core, FlowEngine)
    assert isinstance(core.loading, StepLoading)
    return core, core.loading


# ---- Parallel-MJ as it is printed ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("streams", "cores"), [(3, 2), (3, 4), (4, 2)])
def test_the_printed_parallel_mj_finds_a_share_of_the_results(streams: int, cores: int) -> None:
    """A combination is found if its stored rows, all but the last, lie on one core: 1 / P^(N - 2) of them do."""
    rng, names = np.random.default_rng(streams * cores), "abcd"[:streams]
    text = " AND ".join(f"a.k = {name}.k" for name in names[1:])
    windows = {name: wm.Rows(400) for name in names}
    plain = wm.StreamJoin(text, windows=windows, result="count")
    printed = wm.StreamJoin(
        text, windows=windows, result="count", flow=wm.ParallelMJ(cores=cores, granularity=4)
    )
    loading(printed)[1].make_flow = lambda work, model, busiest: PrintedParallelMJFlow(work, 16, 4)
    found = wanted = 0
    with printed:
        for _ in range(40):
            rows = {name: keyed(rng, 40, 60) for name in names}
            wanted += plain.push(rows).count
            found += printed.push(rows).count
    assert wanted > 20_000
    assert found / wanted == pytest.approx(1 / cores ** (streams - 2), rel=0.15)


# ---- the simulation ------------------------------------------------------------------------------------------------

# As the thesis has it: nothing but comparisons costs.
COSTS = Costs(link=0.0, message=0.0, feed=0.0, gather=0.0, control=0.0, probe=0.0, compare=1e-6)
ROWS, KEYS = 96, 40


def simulated(flow: str, **options: Any) -> tuple[int, dict[str, float], float]:
    """Results of some rows that all come at once, how long each node was busy, and when all was done."""
    rng, meter = np.random.default_rng(3), Meter(COSTS)
    schema = pa.schema([("k", pa.int64())])
    join = wm.StreamJoin(
        "a.k = b.k AND b.k = c.k",
        windows={name: wm.Rows(64) for name in "abc"},
        schemas=dict.fromkeys("abc", schema),
        **{"flow": flow, "granularity": 4, "queue": 4, **options},
    )
    core, load = loading(join)
    load.make_work = partial(TimedMultiWork, meter=meter)
    ledger = core.ledger
    flowing = load.build(ledger, core.planning, None, core.running.cores)
    sent = []
    for _ in range(ROWS // 8):
        batches = [pa.record_batch(keyed(rng, 8, KEYS), schema) for _ in "abc"]
        admission = ledger.admit(batches, None, (0, 1, 2))
        pushed = ledger.judged(batches, admission)
        loads = load.prepare(ledger, core.planning, pushed, admission)
        ledger.enter(pushed, admission)
        sent += [(0.0, flowing.send(one)) for one in loads]
    sent.append((0.0, flowing.send_mark(Mark(1))))
    simulation = Simulation(flowing.network, meter)
    left = simulation.run(sent)
    last, when = left[-1]
    assert isinstance(last, Mark)
    found = sum(message.matches.count for message, _ in left if isinstance(message, Found))
    return found, simulation.busy, when


def wanted() -> int:
    rng, plain = (
        np.random.default_rng(3),
        wm.StreamJoin("a.k = b.k AND b.k = c.k", windows={name: wm.Rows(64) for name in "abc"}),
    )
    return sum(plain.push({name: keyed(rng, 8, KEYS) for name in "abc"}).count for _ in range(ROWS // 8))


@pytest.mark.parametrize("flow", FLOWS)
def test_a_simulated_flow_finds_the_same_and_keeps_all_its_cores_busy(flow: str) -> None:
    found, busy, _ = simulated(flow)
    assert found == wanted() > 0
    cores = [seconds for name, seconds in busy.items() if name.startswith("stage")]
    assert min(cores) > 0


def test_a_ring_does_side_by_side_what_one_core_does_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thesis 6.1: every stage compares with its own window only, and all do so at the same time."""
    # A core that has all windows looks each key up once for all partial results of a row; a stage of a ring cannot.
    monkeypatch.setattr(Walk, "_many", lambda walk, place: False)
    _, alone, time_alone = simulated("parallel_mj")
    _, ring, time_on_ring = simulated("circular_mj")
    assert sum(ring.values()) == pytest.approx(sum(alone.values()), rel=0.2)
    assert time_on_ring < 0.5 * time_alone


def test_cores_share_the_work_of_the_dealt_stream() -> None:
    times = [simulated("parallel_mj", cores=cores)[2] for cores in (1, 2, 4)]
    assert times[1] < 0.9 * times[0]
    assert times[2] < times[1]
