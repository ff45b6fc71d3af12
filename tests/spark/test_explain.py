"""``explain`` says how rows are spread, by what or why, and which stream is at home."""

from types import SimpleNamespace
from typing import Any

import pytest

import watersmeet as wm
from spark import simple
from watersmeet.errors import OptionError
from watersmeet.spark import explain
from watersmeet.spark.spec import Binding

BAND = "r.x BETWEEN s.x - 1 AND s.x + 2"


def explained(condition: str, **options: Any) -> list[str]:
    return explain(
        SimpleNamespace(_watersmeet=Binding(simple.spec("/state", condition, **options)))
    ).splitlines()


@pytest.mark.parametrize(
    ("condition", "options", "expected"),
    [
        (
            "r.x = s.x AND r.id < s.id",
            {"how": "full"},
            ["spread     hash: a row goes to the one core that its key names", "spread by  r.x = s.x"],
        ),
        (
            BAND,
            {},
            [
                "spread     range: buckets of keys; a row is copied to the buckets that its band touches",
                "spread by  r.x between s.x - 1 and s.x + 2",
                "home       r or s, whichever the keys seen make cheaper",
            ],
        ),
        (BAND, {"how": "right"}, ["home       s (right)"]),
        (BAND, {"how": "full"}, ["home       r (left) and s (right_anti)"]),
        (
            "r.x < s.x",
            {},
            [
                "spread     broadcast: every core sees every row and stores its share",
                "because of the condition, which has neither an equality nor a band with two ends",
            ],
        ),
        (
            "r.x < s.x",
            {"how": "left"},
            [
                "spread     broadcast: every core sees every row of one stream, and its share of the home stream",
                "because of the condition, which has neither an equality nor a band with two ends",
                "home       r (left)",
            ],
        ),
        (BAND, {"spread": "broadcast"}, ["because of spread='broadcast'"]),
        (
            BAND,
            {"window": wm.Rows(5), "how": "right_semi", "select": "s.id"},
            [
                "spread     broadcast: every core sees every row and stores its share",
                "because of a Rows window, which is counted over all cores",
                "home       s (right_semi)",
            ],
        ),
    ],
)
def test_the_way_is_shown_with_its_reason(
    condition: str, options: dict[str, Any], expected: list[str]
) -> None:
    shown = [line.strip() for line in explained(condition, **options)]
    start = shown.index(expected[0])
    assert shown[start : start + len(expected)] == expected


def test_no_stream_is_at_home_where_rows_have_one_place() -> None:
    for condition, options in (("r.x = s.x", {"how": "left"}), ("r.x < s.x", {})):
        assert not [line for line in explained(condition, **options) if line.startswith("  home")]


def test_only_the_result_of_a_stream_join_can_be_explained() -> None:
    with pytest.raises(OptionError, match="must get what stream_join returned"):
        explain(SimpleNamespace())


def test_it_says_how_late_the_results_times_come() -> None:
    """For whoever sets a watermark on them: windows of 20, a lateness of 5."""
    shown = explained("r.x = s.x", how="left", select="r.ts, s.ts AS other, GREATEST(r.ts, s.ts) AS last")
    assert "  time ts    comes at most 45 behind the largest so far" in shown
    assert "  time other which is NULL in rows of 'r' that have found nobody" in shown
    assert "  time last  comes at most 45 behind the largest so far" in shown
