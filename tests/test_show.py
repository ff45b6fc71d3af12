"""What joins and results show of themselves, in a terminal, in a notebook and in help(); and what data frames they become."""

import inspect
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import watersmeet as wm
from watersmeet import extras
from watersmeet.errors import OptionError
from watersmeet.flow.options import MODELS, FlowModel, FlowOptions
from watersmeet.join.matches import Matches, RangeRecords


def joined(**options: Any) -> wm.StreamJoin:
    return wm.StreamJoin("r.x <= s.a", **{"r": wm.Rows(100), "s": wm.Unbounded(), **options})


class Cells(HTMLParser):
    """The texts of a table, and that every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {"th": [], "td": [], "div": [], "code": []}
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1], []).append(data)


def test_a_join_says_what_it_is_and_holds() -> None:
    join = joined(how="left", cores=2)
    join.push(r={"x": [1, 2, 3]}, s={"a": [2]})
    assert repr(join) == (
        "<StreamJoin left on 'r.x <= s.a': r=Rows(n=100) with 3 rows, s=Unbounded() with 1 row; 2 cores; 2 results>"
    )
    join.finish()
    assert repr(join).endswith("3 results; finished>")


def test_a_join_says_its_flow_and_order_and_that_it_is_closed() -> None:
    with joined(flow="split_join", order="outer", cores=2) as join:
        assert "; flow split_join; order outer; 2 cores; 0 results>" in repr(join)
    assert repr(join).endswith("; closed>")


def test_a_result_says_how_many_rows_it_has_and_which_are_late() -> None:
    window = wm.Range(5, time="ts")
    join = wm.StreamJoin("r.k = s.k", r=window, s=window)
    assert repr(join.push(r={"k": [1], "ts": [50]}, s={"k": [1], "ts": [50]})) == "<Result of 1 row>"
    late = join.push(s={"k": [1, 1], "ts": [1, 2]})
    assert repr(late) == "<Result of 0 rows; 2 late rows of s>"
    assert "2 late rows of s" in late._repr_html_()


def test_a_notebook_gets_the_first_rows_escaped() -> None:
    join = wm.StreamJoin("r.x = s.a", r=wm.Unbounded(), s=wm.Unbounded())
    rows = {"x": np.arange(25), "<b>&": ["<i>", None, *["v"] * 23]}
    cells = Cells(join.push(r=rows, s={"a": np.arange(25)})._repr_html_())
    assert cells.texts["th"] == ["x", "<b>&", "a"]
    assert cells.texts["td"] == [
        "0",
        "<i>",
        "0",
        "1",
        "NULL",
        "1",
        *(t for i in range(2, 10) for t in (str(i), "v", str(i))),
    ]
    assert " of 25 rows" in cells.texts["div"]
    assert "15 more" in cells.texts["div"]
    shown = Cells(join._repr_html_())
    assert shown.texts["td"] == ["r", "Unbounded()", "25", "25", "0", "s", "Unbounded()", "25", "25", "0"]
    assert shown.texts["code"] == ["r.x = s.a"]


def test_showing_a_result_gathers_only_what_is_shown() -> None:
    join = joined(r=wm.Unbounded(), result="ranges", index="bi_sort")
    join.push(r={"x": np.arange(100_000)})
    result = join.push(s={"a": np.arange(100_000)})  # five thousand million pairs: more than memory holds
    assert "5,000,049,990 more" in result._repr_html_()


def test_a_result_without_rows_to_show_says_why() -> None:
    assert (
        "result=&#x27;count&#x27; keeps no rows"
        in joined(result="count").push(r={"x": [1]}, s={"a": [1]})._repr_html_()
    )
    alone = joined(r=wm.Rows(1), how="left").push(r={"x": [1, 2]})
    assert "once the schema of &#x27;s&#x27; is known" in alone._repr_html_()


@pytest.mark.parametrize("limit", [0, 1, 4, 5, 6, 9, 100])
def test_the_first_matches_are_the_first_of_all(limit: int) -> None:
    def run(side: int, *ends: tuple[int, int]) -> RangeRecords:
        start, end = (np.array(part, np.int32) for part in zip(*ends, strict=True))
        return RangeRecords(side, np.arange(len(ends)), start, end, np.array([4, 2, 0, 1, 3], np.int32), 10)

    pairs = (np.array([7, 8, 9]), np.array([1, 2, 3]))
    matches = Matches([pairs], [run(0, (0, 0), (1, 3), (2, 2), (0, 5)), run(1, (4, 5))])
    whole, few = matches.columns(), matches.first(limit)
    for all_of_them, first in zip(whole, few, strict=True):
        np.testing.assert_array_equal(first, all_of_them[:limit])


def test_results_become_data_frames() -> None:
    result = joined().push(r={"x": [1, 5]}, s={"a": [2]})
    assert result.to_polars().equals(pl.DataFrame({"x": [1], "a": [2]}))
    pd.testing.assert_frame_equal(result.to_pandas(), pd.DataFrame({"x": [1], "a": [2]}))


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = joined().push(r={"x": [1, 5]}, s={"a": [2]})
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(OptionError) as error:
        getattr(result, f"to_{package}")()
    assert f"must have {package}" in str(error.value)
    assert f"pip install 'watersmeet[{package}]', or in a checkout: pip install '.[{package}]'" in str(
        error.value
    )


def test_help_explains_every_option() -> None:
    text = inspect.getdoc(wm.StreamJoin) or ""
    options = inspect.signature(wm.StreamJoin).parameters.values()
    named = [option.name for option in options if option.kind is option.KEYWORD_ONLY]
    assert [name for name in named if f"``{name}``" not in text.partition("The options:")[2]] == []


@pytest.mark.parametrize(
    "kind",
    [wm.StreamJoin, wm.Result, wm.Rows, wm.Range, wm.Unbounded, FlowModel, FlowOptions, *MODELS.values()],
)
def test_everything_public_has_a_docstring(kind: type) -> None:
    public = {name: member for name, member in vars(kind).items() if not name.startswith("_")}
    bare = [
        name
        for name, member in public.items()
        if (callable(member) or isinstance(member, property | classmethod)) and not inspect.getdoc(member)
    ]
    assert inspect.getdoc(kind)
    assert bare == []


def test_type_checkers_find_the_types() -> None:
    assert (resources.files("watersmeet") / "py.typed").is_file()
