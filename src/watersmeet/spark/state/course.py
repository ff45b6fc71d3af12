"""The course of a query: a short name for all rows that it has taken in, batch by batch.

Every map partition tells every core a sum over its rows that no order changes, so all cores give a batch the same name, and so does whoever
evaluates it again. A manifest whose course is another was made of other rows: of a course that was taken back since, or by somebody who
evaluated one batch's rows under another batch's number. Going on from it would be a wrong answer; it is refused.
"""

import hashlib
import json

from watersmeet.errors import StateError
from watersmeet.spark.shuffle.wire import BEGIN, Received
from watersmeet.spark.spec import JoinSpec
from watersmeet.spark.state.manifests import Manifest
from watersmeet.spark.task import Task


def course_after(received: Received, streams: int) -> str:
    """The name after a batch."""
    taken = []
    for k in range(streams):
        mine = [header for header in received.headers if header.stream == k]
        total = sum(header.content for header in mine) % 2**64
        taken.append([sum(header.rows for header in mine), received.latest(k), total])
    before = received.headers[0].course
    return hashlib.blake2b(json.dumps([before, taken]).encode(), digest_size=12).hexdigest()


def check_goes_on(received: Received, last: Manifest | None, core: int) -> None:
    """A core goes on from what the rows were sent for."""
    mine = BEGIN if last is None else last.course
    for header in received.headers:
        if header.course != mine:
            assert last is not None
            raise StateError(_other_rows(last.batch, core))


def check_one_course(manifest: Manifest, first: Manifest) -> None:
    """Cores whose rows are spread anew have all taken in the same."""
    if manifest.course != first.course:
        raise StateError(_other_rows(manifest.batch, manifest.core))


def _other_rows(batch: int, core: int) -> str:
    return (
        f"all cores must go on from the same rows; got a state of batch {batch} of core {core} that was made of other rows than that of "
        "core 0: the query was taken back, and then this batch was not evaluated on all cores. do: take the query back once more, to a "
        "batch before that one, or start with a new checkpoint"
    )


def check_same_rows(there: Manifest | None, course: str, spec: JoinSpec, task: Task, core: int) -> None:
    """A batch that this start of the query has evaluated before had the same rows then."""
    if there is None or there.course == course:
        return
    if there.run == task.run and there.instance == spec.instance:
        raise StateError(
            f"a batch must have the same rows each time it is evaluated; got other rows for batch {task.batch} of core {core} of join "
            f"{spec.name!r} than before. Either foreachBatch looks at a DataFrame that an earlier call was given, or something before the "
            "join gives another result each time (rand, uuid). do: look at each batch in its own call only, persist() what is needed "
            "later, and start the query again: it goes on after its last complete batch"
        )
