"""The options of the generated sources, read from what ``.option(...)`` gave, and checked.

What stays true: an option that is not known, or not of its kind, is refused with the list of those that are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from watersmeet.errors import OptionError
from watersmeet.streams.window import nanoseconds


@dataclass(frozen=True)
class Options:
    """What a generated stream is like. Times are microseconds."""

    stream: str = ""  # which of the format's streams; its first, if not given
    workload: str = "splitjoin"  # which of workloads/catalog.py; only the format watersmeet_workload has it
    window: int = 1_000_000  # rows a side for which the workload states its selectivity
    rate: float = 10_000.0  # rows a second of event time; also of real time, unless rowsPerBatch is given
    rows_per_batch: tuple[
        int, ...
    ] = ()  # rows of the first micro-batches, the last for all others: as fast as Spark can
    limit: int = 0  # the stream ends after so many rows; 0: it does not end
    skew: float = 0.0  # exponent of the keys' power law; 0 is uniform, 1 is Zipf's law
    disorder: int = 0  # a row's time may be so much older than its place says
    lateness: int = 0  # stragglers are this much older still
    stragglers: float = 0.001  # share of rows that are stragglers, where lateness is not 0
    seed: int = 1
    num_partitions: int = 1  # tasks that make the rows of one micro-batch
    start: int = 1_767_604_200_000_000  # event time of the first row: 2026-01-05 09:10 UTC


def options_of(given: Mapping[str, str], streams: tuple[str, ...], extra: tuple[str, ...] = ()) -> Options:
    """The options in ``given``, whose names Spark may have put in lower case; ``streams`` are those of the format."""
    known = {name.replace("_", ""): name for name in (f.name for f in fields(Options))}
    for name in ("workload", "window"):
        if name not in extra:
            del known[name]
    found: dict[str, Any] = {"stream": streams[0]}
    for name, text in given.items():
        field = known.get(name.lower())
        if field is None:
            raise OptionError(
                f"an option must be one of {', '.join(map(_shown, known.values()))}; got {name!r}"
            )
        found[field] = _read(field, text)
    if found["stream"] not in streams:
        raise OptionError(f"option stream must be one of {', '.join(streams)}; got {found['stream']!r}")
    return Options(**found)


def _shown(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _read(field: str, text: str) -> Any:
    read, wanted, fits = READERS.get(field, WHOLE)
    try:
        value = read(str(text))
    except (ValueError, OptionError):
        value = None
    if value is None or not fits(value):
        raise OptionError(f"option {_shown(field)} must be {wanted}; got {text!r}")
    return value


def _micros(text: str) -> int:
    return int(nanoseconds(text) // 1000)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _moment(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000_000)


Reader = tuple[Callable[[str], Any], str, Callable[[Any], bool]]
WHOLE: Reader = (int, "a whole number of at least 0", lambda value: value >= 0)
POSITIVE: Reader = (int, "a whole number of at least 1", lambda value: value >= 1)
DURATION: Reader = (_micros, "a duration such as '50 ms'", lambda value: value >= 0)
ANY_TEXT: Reader = (str, "a text", lambda value: True)
READERS: dict[str, Reader] = {
    "stream": ANY_TEXT,
    "workload": ANY_TEXT,
    "window": POSITIVE,
    "rate": (float, "rows a second, more than 0", lambda value: value > 0),
    "rows_per_batch": (_sizes, "rows, or several as in '5000,5000,100'", lambda value: min(value) >= 1),
    "skew": (float, "an exponent of at least 0", lambda value: 0 <= value < 100),
    "disorder": DURATION,
    "lateness": DURATION,
    "stragglers": (float, "a share from 0 to 1", lambda value: 0 <= value <= 1),
    "num_partitions": POSITIVE,
    "start": (_moment, "a time such as '2026-01-05T09:10:00'", lambda value: True),
}
