"""Does a test notice when a piece of the code is taken away? A bounded search with fixed seeds, without shrinking."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st


def is_found_out(check: Callable[..., None], *drawn: st.SearchStrategy[Any], tries: int = 200) -> bool:
    """Whether ``check``, called with drawn values, fails by an assertion within ``tries`` examples."""

    @settings(
        max_examples=tries,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.tuples(*drawn))
    def search(values: tuple[Any, ...]) -> None:
        check(*values)

    try:
        search()
    except AssertionError:
        return True
    return False
