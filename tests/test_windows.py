"""What windows answer: how many rows, from which arrival number on, which column; and how they are written down."""

from datetime import timedelta

import numpy as np
import pytest

from watersmeet import OptionError, Range, Rows, StreamJoin, Unbounded
from watersmeet.streams.window import Window, window_from_json

RANGE = Range("15 min", time="at", lateness=timedelta(seconds=5))


@pytest.mark.parametrize(
    ("window", "rows", "timed", "time"),
    [(Rows(3), 3, False, None), (RANGE, None, True, "at"), (Unbounded(), None, False, None)],
)
def test_every_window_answers_the_same_questions(
    window: Window, rows: int | None, timed: bool, time: str | None
) -> None:
    assert isinstance(window, Window)
    assert (window.rows, window.timed, window.time) == (rows, timed, time)


def test_a_count_window_ends_n_rows_back_for_one_row_and_for_many() -> None:
    assert Rows(3).lowest(10) == 7
    assert Rows(3).lowest(np.array([2, 10])).tolist() == [-1, 7]


@pytest.mark.parametrize("window", [RANGE, Unbounded()])
def test_no_number_of_rows_bounds_other_windows(window: Window) -> None:
    assert window.lowest(10) == window.lowest(np.array([2, 10])) == 0


@pytest.mark.parametrize(
    ("window", "written"),
    [
        (Rows(3), {"rows": 3}),
        (RANGE, {"time": "at", "duration": "15 min", "lateness": {"microseconds": 5_000_000}}),
        (Range(1.5), {"time": "ts", "duration": 1.5, "lateness": 0}),
        (Unbounded(), {}),
    ],
)
def test_a_window_is_written_down_and_read_again(window: Window, written: dict[str, object]) -> None:
    assert window.to_json() == written
    assert window_from_json(written) == window


def test_more_rows_than_there_are_numbers_are_refused() -> None:
    with pytest.raises(
        OptionError, match=r"Rows\(n\) must be at most 4611686018427387904; .* say Unbounded\(\)"
    ):
        Rows(2**62 + 1)
    windows = {"r": Rows(2**62), "s": Rows(1)}
    join = StreamJoin("r.k = s.k", windows=windows)
    assert [join.push(r={"k": [1, 1]}, s={"k": [1]}).count for _ in range(3)] == [2, 6, 8]
