"""One case of ``watersmeet bench flows`` in a process of its own: its threads, its memory, its warm-up. Prints one line of JSON.

What stays true: windows are full before anything is timed; rates are rows of both streams a second; and what a push finds is checked
against a recount wherever that is possible.
"""

import json
import sys
import threading
import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from watersmeet.bench.flow_calibrate import calibrate
from watersmeet.bench.flow_engine import FlowSetting, OurFlow
from watersmeet.bench.flow_latency import Latencies
from watersmeet.bench.flow_simulation import Setting, common_rate, simulate
from watersmeet.bench.measure import Budget, check, run
from watersmeet.flow.runners.simulate import Costs

QUEUE = 16  # loads a link holds while latencies are measured under load: a row that enters waits for all that are before it
ALONE = 200  # pushes of one load each, to see latencies without queues


def point(setting: FlowSetting, budget: Budget, latencies: bool = True) -> dict[str, Any]:
    """Throughput, then the latencies under the same load, then those of single loads."""
    engine = OurFlow(setting)
    try:
        timing = run(engine, engine.feed, setting.batch, budget)
        rate = timing.rows / timing.seconds
        found: dict[str, Any] = {
            "setting": asdict(setting),
            "rate": rate,
            "rows": timing.rows,
            "seconds": timing.seconds,
            "results": timing.results,
            "verified": check(engine, engine.feed, setting.batch) if engine.exact else None,
        }
        if latencies:
            rows = min(setting.batch, engine.core.cutter.granularity)
            found["alone"] = _alone(engine, rate, rows, budget.seconds / 2)
        engine.close()
        if latencies and setting.index == "scan":
            found["loaded"] = _loaded(OurFlow(replace(setting, queue=QUEUE)), rate, budget.seconds)
        return found
    finally:
        engine.close()


def _alone(engine: OurFlow, rate: float, batch: int, seconds: float) -> dict[str, dict[str, float]]:
    """One load a push, which waits for the results: nobody is in a load's way."""
    latencies = Latencies(engine.core)
    pushes = engine.feed.single_rows(ALONE) if batch == 1 else engine.feed.pushes(batch, 8)
    end = time.perf_counter() + seconds
    with latencies.listening():
        for push in pushes:
            engine.push(push)
            if time.perf_counter() > end:
                break
    return latencies.summary(rate)


def _loaded(engine: OurFlow, rate: float, seconds: float) -> dict[str, dict[str, float]]:
    """As many rows as the flow takes, while another thread takes the results."""
    latencies = Latencies(engine.core)
    consumer = threading.Thread(target=_consume, args=(engine.join,), name="watersmeet consumer", daemon=True)
    consumer.start()
    while not engine.core.streaming and consumer.is_alive():
        time.sleep(0.001)
    try:
        _push_for(engine, seconds / 4)
        with latencies.listening():
            _push_for(engine, seconds)
            engine.core.wait_until_idle()
    finally:
        engine.close()
        consumer.join()
    return latencies.summary(rate)


def _push_for(engine: OurFlow, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for push in engine.feed.pushes(engine.setting.batch, 1):
            engine.join.push(**push)


def _consume(join: Any) -> None:
    for _ in join.results():
        pass


def versus(settings: list[FlowSetting], budget: Budget) -> dict[str, Any]:
    """Several joins side by side, a push of each in turn, so that all see the same machine; the median push counts."""
    engines = [OurFlow(setting) for setting in settings]
    try:
        spent: list[list[float]] = [[] for _ in engines]
        begin, rounds = time.perf_counter(), -2
        while rounds < budget.pushes or time.perf_counter() - begin < budget.seconds * len(engines):
            for engine, times in zip(engines, spent, strict=True):
                (push,) = engine.feed.pushes(engine.setting.batch, 1)
                start = time.perf_counter()
                engine.push(push)
                if rounds >= 0:  # the first ones warm up
                    times.append(time.perf_counter() - start)
            rounds += 1
        rates = [
            2 * engine.setting.batch / float(np.median(times))
            for engine, times in zip(engines, spent, strict=True)
        ]
        verified = [check(e, e.feed, e.setting.batch) if e.exact else None for e in engines]
        return {
            "settings": [asdict(s) for s in settings],
            "rates": rates,
            "rounds": rounds,
            "verified": verified,
        }
    finally:
        for engine in engines:
            engine.close()


def sustained(setting: FlowSetting, minutes: float, budget: Budget) -> dict[str, Any]:
    """The rate per stream at which a window of so many minutes can be kept up with (the handshake paper's figure 8).

    Twice the rate is what the join must do a second, and the rate times the minutes is what its windows hold. Two small windows give
    the cost of a row and of a comparison, hence a guess; the guess is then measured with windows of that many rows.
    """
    seconds = minutes * 60
    sizes = (1 << 13, 1 << 16)
    costs = [1 / point(replace(setting, window=size), budget, False)["rate"] for size in sizes]
    slope = max(1e-13, (costs[1] - costs[0]) / (sizes[1] - sizes[0]))
    fixed = max(1e-9, costs[0] - slope * sizes[0])
    guess = _balance(fixed, slope, seconds)
    window = max(1024, int(guess * seconds))
    measured = point(replace(setting, window=window), budget, False)
    # What a row cost beyond the fixed part at that size, as the slope; solved again.
    slope = max(1e-13, (1 / measured["rate"] - fixed) / window)
    return {
        "setting": asdict(setting),
        "minutes": minutes,
        "per_stream": _balance(fixed, slope, seconds),
        "guess": guess,
        "window": window,
        "rate": measured["rate"],
    }


def _balance(fixed: float, slope: float, seconds: float) -> float:
    """The rate x with 2 x (fixed + slope x seconds) = 1."""
    a, b = 2 * slope * seconds, 2 * fixed
    return float((-b + np.sqrt(b * b + 4 * a)) / (2 * a))


def main() -> None:
    """``python -m watersmeet.bench.flow_case JSON``: what to measure, and how."""
    wanted = json.loads(sys.argv[1])
    budget = Budget(**wanted.get("budget", {}))
    kind = wanted["kind"]
    result: dict[str, Any]
    if kind == "point":
        result = point(FlowSetting(**wanted["setting"]), budget, wanted.get("latencies", True))
    elif kind == "versus":
        result = versus([FlowSetting(**setting) for setting in wanted["settings"]], budget)
    elif kind == "sustained":
        result = sustained(FlowSetting(**wanted["setting"]), wanted["minutes"], budget)
    elif kind == "calibrate":
        measured = calibrate(wanted["flows"])
        result = {
            "costs": {flow: asdict(costs) for flow, costs in measured.items()},
            "rate": common_rate(measured),
        }
    else:
        costs = Costs(**wanted["costs"])
        result = {"runs": [asdict(simulate(Setting(**setting), costs)) for setting in wanted["settings"]]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
