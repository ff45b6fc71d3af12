"""A text that is refused is refused alike by ``create`` and ``alter``, and changes nothing."""

from typing import Any

import pytest

import watersmeet as wm


def refused_alike(
    qp: wm.Processor, kept: str, sql: str, error: type[wm.WatersmeetError] = wm.ConditionError, **options: Any
) -> str:
    """What is said of a text, beside a query that is there and stays as it is."""
    there = qp.create("kept", kept)
    before, said = qp.explain(), set[str]()
    for call in (lambda: qp.create("new", sql, **options), lambda: there.alter(sql, **options)):
        with pytest.raises(error) as caught:
            call()
        said.add(str(caught.value))
        assert qp.explain() == before
    (text,) = said
    return text


def place_of(text: str) -> tuple[str, str]:
    """The message of an error, and what it underlines."""
    message, line, carets = text.rsplit("\n", 2)
    start = carets.index("^")
    assert set(carets[start:]) == {"^"}
    return message, line[start : len(carets)]
