"""Results as they leave: for somebody who takes them while another thread pushes.

Who pushes blocks while the queues are full, so a slow consumer slows the producer. The consumer moves the gathering tree; whatever
both threads change is changed under the driver's lock.
"""

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from watersmeet.errors import CoreFailed, StateError
from watersmeet.flow.driver.pending import Gathered
from watersmeet.flow.models.message import Mark
from watersmeet.join.outcome import Outcome

if TYPE_CHECKING:
    from watersmeet.flow.driver.driver import FlowCore

WAIT = 0.1  # seconds between two looks at whether there is a network yet


def leaving(core: "FlowCore") -> Iterator[Outcome]:
    """Blocks of results, until the streams have ended. From now on ``push`` does not wait for results."""
    with core.pushing, core.lock:
        if core.streaming:
            raise StateError("results() must be iterated by one consumer at a time; got a second call")
        if core.closed or core.finished:
            raise StateError("the join must be open for its results to be taken; it was closed")
        core.streaming = True
        if core.running.runner is not None:
            core.running.runner.set_apart()
    return _blocks(core)


def _blocks(core: "FlowCore") -> Iterator[Outcome]:
    try:
        while True:
            core.consumer = threading.get_ident()
            runner = _network(core)
            if core.asides:
                yield core.asides.popleft()
                continue  # much may have changed meanwhile
            if core.closed:
                return
            if core.failed is not None:
                raise _heard_of(core)
            if runner is None and core.final_mark is None:
                continue
            if runner is None:  # the streams have ended before both schemas were known
                yield _farewell(core, core.nothing())
                return
            try:
                message = runner.take(core.intake.patience(WAIT))
            except (CoreFailed, StateError):
                if runner is core.running.runner:
                    raise
                continue  # the network was built anew, or is gone for good
            core.flush_if_due()
            if message is None:
                continue
            core.running.noted(message)
            block = _block(core, message)
            if isinstance(message, Mark) and message.number == core.final_mark:
                yield _farewell(core, block)
                return
            if block.matches.count or len(block.punctuations) or block.missing:
                yield block
    finally:
        core.streaming = False
        core.consumer = None
        if not core.finished:
            core.go_back()


def _heard_of(core: "FlowCore") -> Exception:
    """Why who pushes gave up, as an error of who takes."""
    error, core.failed = core.failed, None
    if isinstance(error, CoreFailed):
        again = CoreFailed(str(error), error.core)
        again.resume = error.resume
        return again
    return StateError(f"the producer must not fail while results are taken; it did: {error!r}")


def _network(core: "FlowCore") -> Any:
    """What runs the network; waits until there is one, or until there will be none."""
    with core.lock:
        while not (
            core.running.runner or core.failed or core.closed or core.asides or core.final_mark is not None
        ):
            core.changed.wait(WAIT)
        return core.running.runner


def _block(core: "FlowCore", message: Any) -> Outcome:
    with core.lock:
        gathered = Gathered(core.no_matches())
        if not isinstance(message, Mark):
            gathered.add(core.streams, message)
        outcome = core.outcome(gathered, {})
        outcome.missing = core.running.missing_rows()
        ended = isinstance(message, Mark) and core.pending and core.pending[0].mark == message.number
        if ended and not core.draining:
            core.end_of_push(core.pending.popleft(), message.oldest, outcome.matches)
        return outcome


def _farewell(core: "FlowCore", outcome: Outcome) -> Outcome:
    with core.lock:
        last = core.forget_all()
    outcome.matches.add_all(last.matches)
    return outcome
