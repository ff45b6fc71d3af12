"""Raises at every step of an operation in turn, and checks each time that the operation was undone or completed, never half done.

A *step* is a call that the calling thread makes within the package or at its boundary: of a Python function (``call``) or of a builtin one
(``c_call``). The steps are found by a run under ``sys.setprofile``; each is named by its place (who calls whom, in which line) and by how
often the place was passed before, so that a loop that waits for threads and turns more or less often moves no other step. The exception
is raised before the call is made. The interpreter unsets a profile function that raises: what undoes the operation runs undisturbed.
No steps are the release of a lock, which cannot fail and before which no signal is handled, and what the interpreter calls by itself when
an object goes away: what is raised there it does not pass on.

    every_step(make_join, operation, check)

``make_join()`` gives a join in the state that the operation starts from, ``operation(join)`` does it and returns what it gives, and
``check(join, given)`` says whether that is right and goes on with the join: further pushes and ``finish()`` must be the oracle's. After
an interruption the join must stand as before (``standing``), and the operation is done again before ``check``. A few steps follow one
another on one join before it is done again: most of the time goes into making joins and into what ``check`` goes on with.
"""

import gc
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import watersmeet as wm

PACKAGE = str(Path(wm.__file__).parent) + "/"
ERRORS: tuple[type[BaseException], ...] = (MemoryError, KeyboardInterrupt)

IN_A_ROW = 4  # steps on one join

NO_STEPS = {f"{kind}.{name}" for kind in ("RLock", "lock") for name in ("__exit__", "release")}


class Place(NamedTuple):
    """A call in the code: who calls whom, and where."""

    caller: str  # file and line
    callee: str

    def __str__(self) -> str:
        return f"the call of {self.callee} at {self.caller}"


class Step(NamedTuple):
    """A call as it is made: how often its place was passed before."""

    place: Place
    before: int


Strike = tuple[Step, type[BaseException]]
Watch = Callable[[Place], None]
Skip = Callable[[Place], bool]


def every_step(
    make_join: Callable[[], Any],
    operation: Callable[[Any], Any],
    check: Callable[[Any, Any], None],
    *,
    errors: Sequence[type[BaseException]] = ERRORS,
    at_most: int | None = None,
    standing: Callable[[Any], Any] | None = None,
    skip: Skip | None = None,
) -> int:
    """Interrupt ``operation`` at each of its steps; returns at how many it was.

    The errors take turns. ``at_most``: so many steps, other places before the same place again; None: each step. ``IN_A_ROW`` are on one
    join. Where each step is taken, which error is the first, and where rows of steps begin, is random: over cases and runs each place
    meets each error, and is the last one before the operation is done.
    ``skip``: places to leave out. ``standing``: what of a join must be as before; by default, of a StreamJoin, ``standing_of``.
    """
    standing = standing_of if standing is None else standing
    check(*_done(make_join, operation))  # also compiles what is to be compiled
    steps = [step for step in _steps(make_join, operation) if skip is None or not skip(step.place)]
    assert steps, "the operation makes no call within the package"
    for row in _chosen(steps, errors, at_most):
        strikes = row
        try:
            while strikes:
                strikes = strikes[_interrupt(make_join, operation, check, standing, strikes) :]
        except BaseException as failure:
            for step, error in strikes:
                place = f"{step.place}, pass {step.before}"
                failure.add_note(f"after {error.__name__} before {place} (one of {len(steps):,} steps)")
            raise
    return len(steps)


def _done(make_join: Callable[[], Any], operation: Callable[[Any], Any]) -> tuple[Any, Any]:
    join = make_join()
    return join, operation(join)


def _chosen(
    steps: Sequence[Step], errors: Sequence[type[BaseException]], at_most: int | None
) -> list[list[Strike]]:
    """What each join is struck by."""
    if at_most is None:
        first, begin = random.randrange(len(errors)), random.randint(1, IN_A_ROW)
    else:
        first, begin = 0, IN_A_ROW
        # The first pass of every place, then the second, and so on; where not all can be had, evenly spread.
        rounds = sorted(steps, key=lambda step: step.before)
        firsts = sum(step.before == 0 for step in steps)
        if firsts > at_most:
            rounds = [rounds[i * firsts // at_most] for i in range(at_most)]
        steps = rounds[:at_most]
    strikes = [(step, errors[(first + i) % len(errors)]) for i, step in enumerate(steps)]
    ends = [0, *range(begin, len(steps), IN_A_ROW), len(steps)]
    return [strikes[low:high] for low, high in pairwise(ends)]


def _steps(make_join: Callable[[], Any], operation: Callable[[Any], Any]) -> list[Step]:
    """All steps of an operation, in order."""
    passed: Counter[Place] = Counter()
    steps: list[Step] = []

    def note(place: Place) -> None:
        steps.append(Step(place, passed[place]))
        passed[place] += 1

    join = make_join()
    with watched(note):
        operation(join)
    _end(join)
    return steps


def _interrupt(
    make_join: Callable[[], Any],
    operation: Callable[[Any], Any],
    check: Callable[[Any, Any], None],
    standing: Callable[[Any], Any],
    strikes: Sequence[Strike],
) -> int:
    """Returns how many of the strikes one join has met: what is done after an interruption may leave a step out, and is done then."""
    join = make_join()
    before = standing(join)
    done: list[Any] = []
    met = 0
    for step, error in strikes:
        done = _struck(join, operation, step, error("raised by the test"))
        if done:
            break
        met += 1
        after = standing(join)
        assert after == before, f"stands otherwise than before the operation: {after}; before: {before}"
    check(join, done[0] if done else operation(join))
    _end(join)
    return max(met, 1)


def _struck(join: Any, operation: Callable[[Any], Any], step: Step, raised: BaseException) -> list[Any]:
    """Do the operation and raise at a step; what it gives, if it was done all the same."""
    passed = 0

    def strike(place: Place) -> None:
        nonlocal passed
        if place == step.place:
            passed += 1
            if passed == step.before + 1:
                raise raised

    try:
        with _not_reported(raised), watched(strike):
            return [operation(join)]
    except BaseException as caught:
        if not _comes_from(caught, raised):
            raise
        # What the traceback holds on to must be free before the operation is repeated, as it is for who caught it.
        raised.__traceback__ = caught.__traceback__ = None
    return []


def _comes_from(caught: BaseException | None, raised: BaseException) -> bool:
    """Whether an exception is the one that was raised, or was made of it."""
    while caught is not None and caught is not raised:
        caught = caught.__cause__ or caught.__context__
    return caught is raised


def _end(join: Any) -> None:
    close = getattr(join, "close", None)
    if close is not None:
        with suppress(wm.WatersmeetError):
            close()


@contextmanager
def _not_reported(raised: BaseException) -> Iterator[None]:
    """The interpreter says nothing of an exception that it did not pass on, as a generator or a weak reference went away."""
    report = sys.unraisablehook

    def hook(found: Any) -> None:
        if found.exc_value is not raised:
            report(found)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = report


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Call ``watch`` with the place of each step of this thread, before the step is made; it may raise."""

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        caller: FrameType | None
        if event == "call":
            caller = frame.f_back
            if caller is None or not (_ours(frame.f_code) or _ours(caller.f_code)):
                return
            callee = frame.f_code.co_qualname
        elif event == "c_call":
            caller = frame
            if not _ours(frame.f_code):
                return
            callee = getattr(arg, "__qualname__", None) or repr(arg)
        else:
            return
        if callee not in NO_STEPS:
            watch(Place(_where(caller.f_code, caller.f_lineno), callee))

    collecting = gc.isenabled()
    gc.disable()  # a collection would make calls of its own, at any place
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        if collecting:
            gc.enable()


@cache
def _ours(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE)


@cache
def _where(code: CodeType, line: int) -> str:
    return f"{code.co_filename.removeprefix(PACKAGE)}:{line}"


def standing_of(join: wm.StreamJoin) -> dict[str, Any]:
    """What ``stats()`` says, but of structures that may be built anew from the rows."""
    stats = join.stats()
    kept = {name: stats[name] for name in ("results", "pushes", "watermark")}
    for name, stream in stats["streams"].items():
        kept[name] = {what: stream[what] for what in ("rows", "arrived", "late")}
    return kept
