"""What windows answer: how many rows, from which arrival number on, which column; and how they are written down."""

from datetime import timedelta

import numpy as np
import pytest

from watersmeet import Range, Rows, Unbounded
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
