"""PanJoin: a manager keeps the topology and gives commands; workers keep sub-windows, do as told and report (panjoin.txt III.A).

The manager is who pushes: the driver has extracted and sorted the joining fields, once, and ``send`` turns each load into one message
for each worker that has something to do. Workers know nothing of each other, of windows or of expiry. As a link is a FIFO and one
message holds all commands of a load, a worker meets rows and probes in the order of arrival; the validity range decides the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from watersmeet.flow.models.base import Flow, Sending
from watersmeet.flow.models.core import Core
from watersmeet.flow.models.gather import united
from watersmeet.flow.models.load import Load, Part
from watersmeet.flow.models.manager import Ask, Command, Create, Insert, Manager, Plan, Seal, Status
from watersmeet.flow.models.message import Found, Mark
from watersmeet.flow.models.work import Work
from watersmeet.flow.network import Link, Message, Network, Node
from watersmeet.flow.order import merge
from watersmeet.join.chain import SubWindow
from watersmeet.join.matches import Matches
from watersmeet.streams.clock import BOTTOM

NOTHING = np.iinfo(np.int64).max


@dataclass(slots=True)
class Commands:
    """What one worker is to do for one load."""

    load: Load
    steps: list[Command]
    turn: int  # with an order: how many loads were sent before,
    marks: int  # and how many marks
    answers: int  # with an order: how many workers answer this load; 0: this one does not


@dataclass(slots=True)
class Answer(Found):
    """What was found, and the status that comes with it."""

    commands: Commands | None = None
    status: tuple[Status, ...] = ()


@dataclass(slots=True)
class Report(Mark):
    """A mark on its way out, and the status that comes with it."""

    status: tuple[Status, ...] = ()


class Worker(Core):
    """Sub-windows by number, of either stream; executes commands in order."""

    def __init__(self, work: Work, position: int, entry: Link, results: Link) -> None:
        super().__init__(work, position, [entry], [results])
        self.held: tuple[dict[int, SubWindow], dict[int, SubWindow]] = ({}, {})
        # Dropped by the message at hand: should its reply be lost, so are pairs of theirs.
        self._over: tuple[list[SubWindow], list[SubWindow]] = ([], [])
        self._news = Status(position)

    def receive(self, port: int, message: Message) -> None:
        if isinstance(message, Mark):
            self.report(message)
            return
        commands: Commands = message
        begun = self.clock()
        self._reply(commands, self.obey(commands.steps), begun)
        self._over = ([], [])

    def obey(self, steps: Sequence[Command]) -> list[tuple[Part, Matches]]:
        """Do what is commanded, in order; returns what the probes found."""
        found = []
        for step in steps:
            if isinstance(step, Ask):
                found.append((step.part, self._find(step)))
            elif isinstance(step, Insert):
                sub = self.held[step.side][step.id]
                sub.insert(step.block)
                self._news.rows[step.id] = sub.count
            elif isinstance(step, Create):
                self._create(step)
            elif isinstance(step, Seal):
                self._seal(step)
            else:
                self._over[step.side].extend(self.held[step.side].pop(id) for id in step.ids)
                self._news.dropped += step.ids
        return found

    def _create(self, step: Create) -> None:
        work, side = self.work, step.side
        index = work.access.index(side, 0, step.capacity, step.predecessor)
        checked, timed = len(work.plan.checks), work.timed[side]
        self.held[side][step.id] = SubWindow(step.base, step.capacity, index, checked, timed)

    def _seal(self, step: Seal) -> None:
        sub = self.held[step.side][step.id]
        sub.seal()
        assert sub.index is not None
        self._news.sealed.append((step.side, step.id, sub.index))

    def _find(self, step: Ask) -> Matches:
        part, matches = step.part, Matches()
        stored, lowest = self.held[1 - part.side], part.probe.validity.arrival_lo
        for id in step.ids:
            sub = stored[id]
            if isinstance(lowest, int):
                self._trim(sub, lowest, part.probe.rows)
            self.work.find(sub, part.probe, part.side, matches, self.buffer)
            run = sub.sorted_run() if self.work.access.ranges else None
            if run is not None:
                self._news.runs[id] = run.rows
        return matches

    def _trim(self, sub: SubWindow, lowest: int, probes: int) -> None:
        """Take rows that were pushed out of the window out of a sorted run: nobody sees them again. For ranges at once, where that costs
        less than to filter pairs one by one; else once they are half of the run."""
        sub.trim(lowest, 0.0 if self.work.access.ranges and probes > sub.count / 4 else 0.5)

    # ---- answers ----------------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """What has changed since it was last asked for."""
        news, self._news = self._news, Status(self.position)
        return news

    def _reply(self, commands: Commands, found: Sequence[tuple[Part, Matches]], begun: float) -> None:
        load = commands.load
        if not found and not commands.answers:
            return
        reply = self.finding(load, found, begun)
        if reply is not None:
            found_here = (reply.core, load, reply.matches, reply.arranged, reply.begun, reply.done)
            self.results.put(Answer(*found_here, commands, (self.status(),)))

    def report(self, mark: Mark) -> None:
        self.results.put(Report(mark.number, (self.oldest(0), self.oldest(1)), (self.status(),)))

    def subwindows(self, side: int) -> list[SubWindow]:
        return list(self.held[side].values())

    def oldest(self, side: int) -> int:
        return min((sub.oldest for sub in self.subwindows(side) if sub.count), default=NOTHING)

    # ---- faults -----------------------------------------------------------------------------------------------------

    def held_rows(self, side: int) -> np.ndarray:
        held = [np.arange(sub.oldest, sub.end) for sub in (*self.subwindows(side), *self._over[side])]
        return np.concatenate([np.empty(0, np.int64), *held])

    def stand_in(self, message: Message) -> None:
        """Nothing is found, and rows that are sent here are written down as missing."""
        assert self.missing is not None
        if isinstance(message, Mark):
            self.report(message)
            return
        commands: Commands = message
        for step in commands.steps:
            if isinstance(step, Insert):
                first = step.block.first
                self.missing[step.side].append(np.arange(first, first + step.block.count))
        self._reply(commands, [], self.clock())


class Reception(Node):
    """Takes what workers send. Without an order everything is passed on as it comes.

    With an order loads leave one after the other, each when all workers that were asked have answered: the commands say how many that
    are, so that workers with nothing to probe need not send a star for every load. A mark leaves after the loads that were sent before it
    and before those that were sent after it.
    """

    place = "gather"

    def __init__(self, inputs: Sequence[Link], results: Link) -> None:
        super().__init__("reception", inputs, [results])
        self._marks: dict[int, list[Report]] = {}  # by number; marks are sent in order
        self._answers: dict[int, list[Answer]] = {}  # by turn
        self._turn = self._passed = 0

    def receive(self, port: int, message: Message) -> None:
        if isinstance(message, Report):
            self._marks.setdefault(message.number, []).append(message)
        elif message.load.order is None:
            self.outputs[0].put(message)
            return
        else:
            self._answers.setdefault(message.commands.turn, []).append(message)
        while self._next_load() or self._next_mark():
            pass

    def _next_load(self) -> bool:
        answers = self._answers.get(self._turn)
        if not answers:
            return False
        commands = answers[0].commands
        assert commands is not None
        if len(answers) < commands.answers or commands.marks > self._passed:
            return False
        del self._answers[self._turn]
        self._turn += 1
        self.outputs[0].put(_in_order(answers))
        return True

    def _next_mark(self) -> bool:
        # All workers' answers to earlier loads stand before their marks: once all marks are here, those loads have left.
        reports = next(iter(self._marks.values()), [])
        if len(reports) < len(self.inputs):
            return False
        mark = united(reports)
        del self._marks[mark.number]
        self._passed += 1
        status = tuple(status for report in reports for status in report.status)
        self.outputs[0].put(Report(mark.number, mark.oldest, status))
        return True


def _in_order(answers: Sequence[Answer]) -> Answer:
    """What several workers found for one load."""
    load = answers[0].load
    assert load.order is not None
    arranged = merge(load.order, [answer.arranged for answer in answers if answer.arranged is not None])
    begun, done = min(answer.begun for answer in answers), max(answer.done for answer in answers)
    status = tuple(status for answer in answers for status in answer.status)
    return Answer(-1, load, Matches(), arranged, begun, done, answers[0].commands, status)


class PanJoinFlow(Flow):
    """One manager, many workers."""

    name: ClassVar[str] = "pan_join"
    # A load is merged into one sub-window, which costs by the rows that are there. Measured with bi_sort, a million rows a side: loads of
    # 32K rows are two to three times as fast as loads of 8K, on one core and on two.
    granularity: ClassVar[int] = 65_536

    def __init__(self, work: Work, queue: int) -> None:
        self.manager = Manager(work)
        self.entries = [Link(queue) for _ in range(work.cores)]
        answers, results = [Link(queue) for _ in range(work.cores)], Link(queue)
        self.workers = [
            Worker(work, i, *ends) for i, ends in enumerate(zip(self.entries, answers, strict=True))
        ]
        self.cores = list(self.workers)
        self.network = Network([*self.workers, Reception(answers, results)], results)
        self._turn = self._marks = 0

    def place(self, part: Part) -> None:
        plan: Plan = {i: [] for i in range(len(self.workers))}
        self.manager.store(part, BOTTOM, plan, in_turn=True)
        for i, steps in plan.items():
            self.workers[i].obey(steps)
            self.manager.learn(self.workers[i].status())

    def send(self, load: Load) -> Sending:
        plan = self.manager.plan(load)
        answering: list[int] = []
        if load.order is not None:
            # Somebody must say that the load is done, or no punctuation could follow it: if nobody is asked, who stores its rows.
            answering = [i for i, steps in plan.items() if any(isinstance(step, Ask) for step in steps)]
            answering = answering or list(plan)[:1]
        turn, self._turn = self._turn, self._turn + 1
        for i, steps in plan.items():
            answers = len(answering) if i in answering else 0
            yield self.entries[i], Commands(load, steps, turn, self._marks, answers)

    def send_mark(self, mark: Mark) -> Sending:
        self._marks += 1
        for entry in self.entries:
            yield entry, mark

    def note(self, message: Message) -> None:
        if isinstance(message, Answer | Report):
            for status in message.status:
                self.manager.learn(status)
