"""The simulation runs the flows' own code: same pairs, exact times, bounded links; and latencies grow as the papers say."""

import math
from dataclasses import replace

import numpy as np
import pytest

from watersmeet.bench.flow_model import depth, processing, visiting
from watersmeet.bench.flow_simulation import (
    SIMULATED,
    Setting,
    arrivals,
    common_rate,
    prepared,
    simulate,
)
from watersmeet.errors import StateError
from watersmeet.flow.catalog import FLOWS
from watersmeet.flow.models.load import Load
from watersmeet.flow.network import Link, Message, Network, Node
from watersmeet.flow.runners.simulate import Costs, Meter, Simulation

COSTS = Costs(link=10e-6, message=1e-7, feed=1e-6, gather=1e-6, control=3e-6, probe=30e-6, compare=1e-9)
HELD = 32


class Relay(Node):
    """Passes on what comes, after a while."""

    def __init__(
        self, name: str, inputs: list[Link], outputs: list[Link], meter: Meter, extra: float
    ) -> None:
        super().__init__(name, inputs, outputs)
        self._meter, self._extra, self.seen, self.fullest = meter, extra, [], 0

    def receive(self, port: int, message: Message) -> None:
        self.seen.append((message, self.clock()))
        self._meter.now += self._extra
        self.outputs[0].put(message)


def chain(meter: Meter, extras: list[float], capacity: int) -> tuple[Network, list[Link], list[Relay]]:
    links = [Link(capacity) for _ in range(len(extras) + 1)]
    nodes = [Relay(f"relay {i}", [links[i]], [links[i + 1]], meter, extra) for i, extra in enumerate(extras)]
    return Network(nodes, links[-1]), links, nodes


UNITS = Costs(link=10.0, message=1.0, feed=0.0, gather=0.0, control=2.0, probe=0.0, compare=0.0)


def test_a_message_takes_what_its_steps_and_links_cost() -> None:
    meter = Meter(UNITS)
    network, links, nodes = chain(meter, [100.0, 5.0], 4)
    left = Simulation(network, meter).run([(7.0, iter([(links[0], "a")]))])
    # put 1, link 10; take 1, step 2; work 100; put 1, link 10; take 1, step 2; work 5; put 1, link 10
    assert nodes[0].seen == [("a", 7 + 11 + 3)]
    assert nodes[1].seen == [("a", 7 + 11 + 3 + 100 + 11 + 3)]
    assert left == [("a", 7 + 11 + 3 + 100 + 11 + 3 + 5 + 11)]


def test_a_node_takes_the_next_message_when_it_is_free() -> None:
    meter = Meter(UNITS)
    network, links, nodes = chain(meter, [100.0], 8)
    simulation = Simulation(network, meter)
    simulation.run([(0.0, iter([(links[0], number)])) for number in range(3)])
    begun = [when for _, when in nodes[0].seen]
    assert np.diff(begun).tolist() == [104.0, 104.0]  # take, step, work, put
    assert simulation.busy == {"relay 0": 3 * 104.0}


@pytest.mark.parametrize("capacity", [1, 3])
def test_full_links_push_back(capacity: int) -> None:
    meter = Meter(UNITS)
    network, links, nodes = chain(meter, [0.0, 1000.0], capacity)
    left = Simulation(network, meter).run([(0.0, iter([(links[0], number)])) for number in range(20)])
    assert [message for message, _ in left] == list(range(20))
    first, second = ([when for _, when in node.seen] for node in nodes)
    # The slow one is at message i - capacity - 1 at the earliest when the quick one takes message i.
    for i in range(capacity + 1, 20):
        assert first[i] >= second[i - capacity - 1]
    assert first[19] > 1000 * (19 - capacity - 1)
    assert all(link.capacity == capacity for link in links)


def test_a_network_that_gets_stuck_says_so() -> None:
    class Idle(Node):
        def choices(self) -> list[int]:
            return []

    meter, link, end = Meter(UNITS), Link(2), Link(2)
    network = Network([Idle("idle", [link], [end])], end)
    with pytest.raises(StateError, match="nobody takes, before: idle"):
        Simulation(network, meter).run([(0.0, iter([(link, "a")]))])


def pairs(flow: str, cores: int, rows: int, window: int) -> list[tuple[int, int]]:
    """What a simulated run finds; the rows depend on the window only."""
    setting = Setting(flow, cores, held=window // cores, workload="band-4")
    meter = Meter(COSTS)
    made, shares, _ = prepared(setting, rows, meter)
    loads: list[Load] = []
    Simulation(made.network, meter).run(arrivals(made, shares, rows, 1e-5, loads, None))
    left, right, when = meter.visits()
    assert when.size == left.size
    assert (when > 0).all()
    return sorted(zip(left.tolist(), right.tolist(), strict=True))


@pytest.mark.parametrize("cores", [2, 8])
@pytest.mark.parametrize("flow", ["split_join", "low_latency_handshake"])
def test_simulated_cores_find_what_one_core_finds(flow: str, cores: int) -> None:
    found = pairs(flow, cores, 40, 256)
    assert found == pairs("three_step", 1, 40, 256)
    assert len(found) > 100


def test_the_same_run_twice() -> None:
    setting = Setting("low_latency_handshake", 8, loads=40, held=HELD, rate=10_000.0)
    assert simulate(setting, COSTS) == simulate(setting, COSTS)


@pytest.mark.parametrize("flow", sorted(set(FLOWS) - {"three_step"}))
def test_every_flow_can_be_simulated(flow: str) -> None:
    found = simulate(Setting(flow, 4, loads=40, held=HELD, rate=5_000.0), COSTS)
    assert found.pairs > 0
    assert found.latency["visiting"] > 0
    assert found.busiest > 0
    if FLOWS[flow].prompt:
        stages = [found.latency[name] for name in ("distribution", "execution", "gathering")]
        assert min(stages) > 0
        assert sum(stages) == pytest.approx(found.latency["end to end"])
        assert found.latency["visiting"] < found.latency["processing"]


def test_an_order_makes_every_core_answer() -> None:
    found = simulate(Setting("split_join", 16, loads=40, held=HELD, rate=5_000.0, order="outer"), COSTS)
    plain = simulate(Setting("split_join", 16, loads=40, held=HELD, rate=5_000.0), COSTS)
    assert found.pairs == plain.pairs
    assert found.latency["gathering"] > 0


def test_flows_are_in_the_papers_order_and_grow_as_it_says() -> None:
    rate = common_rate(dict.fromkeys(SIMULATED, COSTS), (8,))
    found = {
        (flow, cores): simulate(Setting(flow, cores, loads=48, held=HELD, rate=rate), COSTS).latency[
            "visiting"
        ]
        for flow in SIMULATED
        for cores in (8, 16, 64)
    }
    for cores in (8, 16, 64):
        quick, low, slow = (found[flow, cores] for flow in SIMULATED)
        assert quick < low < slow
    # What the way adds to the core's own work: as the depth of the tree, and as the length of the chain.
    own = COSTS.probe + HELD / 2 * COSTS.compare
    split = (found["split_join", 64] - own) / (found["split_join", 8] - own)
    assert split < math.log2(64) / math.log2(8) + 0.2
    low = (found["low_latency_handshake", 64] - own) / (found["low_latency_handshake", 8] - own)
    assert 0.5 * 8 < low < 1.5 * 8
    slow = found["handshake", 64] / found["handshake", 8]
    assert 0.5 * 8 < slow < 1.5 * 8


@pytest.mark.parametrize("cores", [2, 16, 64])
def test_the_model_says_what_the_simulation_shows(cores: int) -> None:
    quiet = Setting("split_join", cores, loads=48, held=HELD)
    found = simulate(quiet, COSTS)
    assert found.latency["visiting"] == pytest.approx(visiting("split_join", cores, HELD, 0, COSTS), rel=0.05)
    assert found.latency["processing"] == pytest.approx(
        processing("split_join", cores, HELD, COSTS), rel=0.05
    )
    found = simulate(replace(quiet, flow="low_latency_handshake"), COSTS)
    for name, model in (
        ("visiting", visiting("low_latency_handshake", cores, HELD, 0, COSTS)),
        ("processing", processing("low_latency_handshake", cores, HELD, COSTS)),
    ):
        assert found.latency[name] == pytest.approx(model, rel=0.35)  # acknowledgements are in the way
    rate = 5_000.0
    found = simulate(Setting("handshake", cores, loads=192, held=HELD, rate=rate), COSTS)
    assert found.latency["visiting"] == pytest.approx(
        visiting("handshake", cores, HELD, rate, COSTS), rel=0.35
    )


def test_the_depth_of_the_trees_is_that_of_the_model() -> None:
    for cores in (2, 4, 5, 16, 17, 64):
        flow, _, _ = prepared(Setting("split_join", cores, held=4), 2)
        links, levels = {id(flow.entry): flow.entry}, 0
        while True:
            nodes = [
                node for node in flow.network.at("feed") if any(id(link) in links for link in node.inputs)
            ]
            if not nodes:
                break
            links = {id(link): link for node in nodes for link in node.outputs}
            levels += 1
        assert levels == depth(cores), cores


def test_forwarding_does_not_wait_for_the_comparison() -> None:
    slow = replace(COSTS, compare=1e-4)  # 3 ms a core, if it had to be done first
    found = simulate(Setting("low_latency_handshake", 8, loads=24, held=HELD), slow)
    assert found.latency["processing"] < 2 * HELD * slow.compare
