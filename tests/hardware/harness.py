"""What the tests of all designs share: random lines and stalls, runs in two simulators, pairs of the engine.

``stalls(rng)`` and ``offers(rng, n)`` give handshakes that hurry, dawdle or do both; ``both`` runs one stimulus in two simulators
and compares every cycle; ``expected`` is what the engine gives for rows in one order of arrival.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from watersmeet.hardware.expected import expected
from watersmeet.hardware.simulate import Trace, simulate

__all__ = ["both", "expected", "offers", "same_multiset", "stalls"]


def stalls(rng: Random, most: int = 24) -> list[bool]:
    """A pattern of a stalling output: never, often, in long pauses; never always."""
    kind = rng.choice(["never", "some", "often", "pauses"])
    length = rng.randint(1, most)
    if kind == "never":
        return [False]
    if kind == "pauses":
        return [True] * length + [False] * rng.randint(1, most)
    share = 0.3 if kind == "some" else 0.8
    return [*(rng.random() < share for _ in range(length)), False]


def offers(rng: Random, n: int, most: int = 12) -> list[int]:
    """Earliest cycles of ``n`` payloads: at once, evenly, or in bursts."""
    kind = rng.choice(["at once", "apart", "bursts"])
    if kind == "at once":
        return [0] * n
    step = rng.randint(1, most)
    if kind == "apart":
        return [rng.randint(0, step) + step * k for k in range(n)]
    return [step * 4 * (k // step) for k in range(n)]


def both(make: Callable[[], Any], simulators: Sequence[str], **stimulus: Any) -> Trace:
    """The stimulus in each of the simulators, which must agree in every transfer; the first one's trace."""
    first, *rest = [simulate(make(), simulator=name, **stimulus) for name in simulators]
    for other in rest:
        assert first.taken == other.taken, f"{first.simulator} and {other.simulator} take differently"
        assert first.given == other.given, f"{first.simulator} and {other.simulator} give differently"
        assert first.watched == other.watched, f"{first.simulator} and {other.simulator} watch differently"
        assert (first.cycles, first.simulated) == (other.cycles, other.simulated)
    return first


def same_multiset(found: Iterable[Any], expected: Iterable[Any]) -> None:
    """Fails with what is missing and what is too much."""
    have, want = Counter(found), Counter(expected)
    missing, extra = want - have, have - want
    assert have == want, f"missing {sorted(missing.items())[:8]}; too much {sorted(extra.items())[:8]}"
