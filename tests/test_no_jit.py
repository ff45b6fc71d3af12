"""Kernels are plain Python too: with ``NUMBA_DISABLE_JIT=1`` they give the same answers, on small inputs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
SMALL = {  # the tests of single kernels do the same for themselves
    "joins by hand": ["test_semantics.py"],
    "properties": ["test_join_properties.py"],
    "types": ["test_duckdb.py", "-k", "each_type"],
    "state": ["test_state.py"],
    "products": ["test_multiway_products.py"],
    "texts": ["test_interning.py", "-k", "turns or told_apart or come_and_go or for_ever or kept"],
    "decimals": ["test_whole.py"],
    "rules": ["test_processor_rules.py", "-k", "alone or looked_up"],
    "aggregates": [
        "test_aggregate.py",
        "test_aggregate_windows.py",
        "-k",
        "not nobody_holds and not let_go and not few_chunks",
    ],
}
OPTIONS = ["-q", "-p", "no:cacheprovider", "--hypothesis-profile=no_jit", "-W", "error::RuntimeWarning"]


@pytest.mark.parametrize("part", SMALL)
def test_everything_holds_without_the_compiler(part: str) -> None:
    """The same tests in a process of their own, where Numba compiles nothing and a number that wraps is an error."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, *SMALL[part]],
        cwd=TESTS,
        env={**outside, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
