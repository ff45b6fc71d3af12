"""Kernels are plain Python too: with ``NUMBA_DISABLE_JIT=1`` they give the same answers, on small inputs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
SMALL = {
    "semantics": ["test_semantics.py"],
    "every index": ["test_join_properties.py", "-k", "every_index or without_partner"],
    "kernels": [*sorted(path.name for path in TESTS.glob("test_kernel*.py"))],
}


@pytest.mark.parametrize("part", [name for name, files in SMALL.items() if files])
def test_everything_holds_without_the_compiler(part: str) -> None:
    """The same tests in a process of their own, where Numba compiles nothing."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--hypothesis-profile=no_jit",
            *SMALL[part],
        ],
        cwd=TESTS,
        env={**outside, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
