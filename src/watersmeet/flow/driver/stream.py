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
    from watersmeet.flow.driver.engine import FlowEngine

WAIT = 0.1  # seconds between two looks at whether there is a network yet


def leaving(engine: "FlowEngine") -> Iterator[Outcome]:
    """Blocks of results, until the streams have ended. From now on ``push`` does not wait for results."""
    with engine.pushing, engine.lock:
        if engine.streaming:
            raise StateError("results() must be iterated by one consumer at a time; got a second call")
        if engine.closed or engine.finished:
            raise StateError("the join must be open for its results to be taken; it was closed")
        engine.streaming = True
        if engine.running.runner is not None:
            engine.running.runner.set_apart()
    return _blocks(engine)


def _blocks(engine: "FlowEngine") -> Iterator[Outcome]:
    try:
        while True:
            engine.consumer = threading.get_ident()
            runner = _network(engine)
            if engine.asides:
                yield engine.asides.popleft()
                continue  # much may have changed meanwhile
            if engine.closed:
                return
            if engine.failed is not None:
                raise _heard_of(engine)
            if runner is None and engine.final_mark is None:
                continue
            if runner is None:  # the streams have ended before both schemas were known
                yield _farewell(engine, engine.nothing())
                return
            try:
                message = runner.take(engine.intake.patience(WAIT))
            except (CoreFailed, StateError):
                if runner is engine.running.runner:
                    raise
                continue  # the network was built anew, or is gone for good
            engine.flush_if_due()
            if message is None:
                continue
            engine.running.noted(message)
            block = _block(engine, message)
            if isinstance(message, Mark) and message.number == engine.final_mark:
                yield _farewell(engine, block)
                return
            if block.matches.count or len(block.punctuations) or block.missing:
                yield block
    finally:
        engine.streaming = False
        engine.consumer = None
        if not engine.finished:
            engine.go_back()


def _heard_of(engine: "FlowEngine") -> Exception:
    """Why who pushes gave up, as an error of who takes."""
    error, engine.failed = engine.failed, None
    if isinstance(error, CoreFailed):
        again = CoreFailed(str(error), error.core)
        again.resume = error.resume
        return again
    return StateError(f"the producer must not fail while results are taken; it did: {error!r}")


def _network(engine: "FlowEngine") -> Any:
    """What runs the network; waits until there is one, or until there will be none."""
    with engine.lock:
        while not (
            engine.running.runner
            or engine.failed
            or engine.closed
            or engine.asides
            or engine.final_mark is not None
        ):
            engine.changed.wait(WAIT)
        return engine.running.runner


def _block(engine: "FlowEngine", message: Any) -> Outcome:
    with engine.lock:
        gathered = Gathered(engine.no_matches())
        if not isinstance(message, Mark):
            gathered.add(engine.streams, message)
        outcome = engine.outcome(gathered, {})
        outcome.missing = engine.running.missing_rows()
        ended = isinstance(message, Mark) and engine.pending and engine.pending[0].mark == message.number
        if ended and not engine.draining:
            engine.end_of_push(engine.pending.popleft(), message.oldest, outcome.matches)
        return outcome


def _farewell(engine: "FlowEngine", outcome: Outcome) -> Outcome:
    with engine.lock:
        last = engine.forget_all()
    outcome.matches.add_all(last.matches)
    return outcome
