"""SplitJoin's analysis (splitjoin.txt section 6, equations 1 to 6) with the costs measured on this machine.

What stays true: the equations are the paper's. T_CL is a link, a message put and taken, and the step of who takes it; T_P is a
comparison. The paper's cores cost nothing but comparisons; ours have a fixed cost for each row, which is added to w x T_P. T_ML is
taken as zero, as in the paper. For the original handshake join, of which the paper gives the order of growth only, rows must wait until
new ones have pushed both along what is between them, k-1 sub-windows at most, on average half of that, either stream half of the way.
"""

from watersmeet.flow.catalog import FANOUT
from watersmeet.flow.runners.simulate import Costs


def depth(cores: int, fanout: int = FANOUT) -> int:
    """Levels of a tree over the cores; at least one.

    >>> [depth(k) for k in (1, 2, 4, 5, 16, 17)]
    [1, 1, 1, 2, 2, 3]
    """
    levels = 1
    while fanout**levels < cores:
        levels += 1
    return levels


def visiting(
    flow: str, cores: int, rows: int, rate: float, costs: Costs, fanout: int = FANOUT
) -> float | None:
    """The mean visiting latency in seconds. ``rows``: of a sub-window; ``rate``: rows a second, both streams."""
    compared = costs.probe + rows / 2 * costs.compare
    if flow == "split_join":  # equation 6
        return _down(costs, fanout) * depth(cores, fanout) + _hop(costs) + compared
    if flow == "low_latency_handshake":  # equation 2
        return _hop(costs) + (cores - 1) // 2 * _hop(costs) + compared
    if flow == "handshake":
        return _hop(costs) + (cores - 1) * rows / (2 * rate) + compared if rate else None
    return None


def processing(flow: str, cores: int, rows: int, costs: Costs, fanout: int = FANOUT) -> float | None:
    """The mean processing latency in seconds."""
    compared = costs.probe + rows * costs.compare
    collected = _up(costs) * depth(cores, fanout) + costs.link
    if flow == "split_join":  # equation 5
        return _down(costs, fanout) * depth(cores, fanout) + _hop(costs) + compared + collected
    if flow == "low_latency_handshake":  # equation 1
        return _hop(costs) + (cores - 1) * _hop(costs) + compared + collected
    return None


def _hop(costs: Costs) -> float:
    """T_CL between two cores, or into one."""
    return costs.link + 2 * costs.message + costs.control


def _down(costs: Costs, fanout: int) -> float:
    """T_CL of a level of the distribution tree; a node's children get the row one after the other."""
    return costs.link + costs.feed + (1 + (fanout + 1) / 2) * costs.message


def _up(costs: Costs) -> float:
    """T_CL of a level of the gathering tree."""
    return costs.link + costs.gather + 2 * costs.message
