"""The examples in README and docs run, and give what the page says. Those that are marked ``python kafka``: spark/test_kafka.py."""

import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, kind: str = "python") -> list[tuple[str, str | None]]:
    """The blocks of a kind, each with the plain block right behind it: its output."""
    found = re.findall(rf"```{kind}\n(.*?)```(?:\n\n```\n(.*?)```)?", page.read_text(), re.DOTALL)
    return [(code, output or None) for code, output in found]


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary folders go where pytest cleans up, and the Spark session that tests share is left as it was."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    if "pyspark" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.conf.unset("spark.sql.streaming.checkpointLocation")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_runs_and_prints_what_the_page_shows(page: Path) -> None:
    names: dict[str, object] = {}
    for code, output in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page.name, "exec"), names)
        if output is not None:
            assert printed.getvalue() == output
