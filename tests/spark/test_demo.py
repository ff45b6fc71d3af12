"""The demo's own check is right: late rows and pairs as brute force finds them. And the demo runs."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from watersmeet.demo import run_demo
from watersmeet.spark.demo import check as demo


def test_pairs_are_those_of_brute_force() -> None:
    random = np.random.default_rng(3)
    n = 700

    def side(first: str, second: str) -> dict[str, np.ndarray]:
        return {
            "n": np.arange(n),
            "ts": random.integers(0, 12_000_000, n),
            first: random.integers(1, 120, n).astype(np.int32),
            second: random.uniform(1, 120, n).astype(np.float32),
        }

    r, s = side("x", "y"), side("a", "b")
    ten = np.float32(10)
    expected = [
        (i << 32) | j
        for i in range(n)
        for j in range(n)
        if abs(int(r["x"][i]) - int(s["a"][j])) <= 10
        and s["b"][j] - ten <= r["y"][i] <= s["b"][j] + ten
        and abs(int(r["ts"][i]) - int(s["ts"][j])) <= 5_000_000
    ]
    assert len(expected) > 1000
    assert demo.pairs(r, s).tolist() == expected


def test_late_is_what_lies_below_the_watermark_of_the_batches_before() -> None:
    second = 1_000_000
    times = [np.array([10, 3, 20, 8, 9]) * second, np.array([10, 2, 15, 14, 4]) * second]
    batches = [[(0, 2), (0, 2)], [(2, 4), (2, 3)], [(4, 5), (3, 5)]]
    # After the first batch the watermark is 10 - 1, after the second 15 - 1.
    late = demo.late_rows(times, batches)
    assert late[0].tolist() == [False, False, False, True, True]
    assert late[1].tolist() == [False, False, False, False, True]


def test_the_check_sees_a_missing_an_extra_and_a_doubled_pair() -> None:
    rows, batches = 4000, [{"spans": [(0, 4000), (0, 4000)]}]
    r, s = (demo.made(name, rows) for name in ("r", "s"))
    pairs = demo.pairs(r, s)
    found = pa.table({"r": pairs >> 32, "s": pairs & 0xFFFFFFFF})
    assert found.num_rows > 5
    assert demo.check(found, batches, rows)[0]
    doubled = pa.concat_tables([found, found.slice(0, 1)])
    changed = pa.concat_tables([found.slice(1), pa.table({"r": [1], "s": [1]})])
    for wrong in (found.slice(1), doubled, changed):
        assert not demo.check(wrong, batches, rows)[0]


def test_a_heading_has_a_line_of_its_own_where_the_output_is_no_terminal() -> None:
    out = io.StringIO()
    assert run_demo(0.2, console=Console(file=out, width=120))
    assert "Some results of the last push" in [line.strip() for line in out.getvalue().splitlines()]


@pytest.mark.slow
def test_the_demo_agrees_and_draws(tmp_path: Path) -> None:
    """In a process of its own, as it stops its session."""
    command = [Path(sys.executable).with_name("watersmeet"), "demo", "--seconds", "4"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Stream-stream join without equality predicate is not supported" in done.stdout
    assert "recomputed with NumPy: agrees" in done.stdout
    assert "Some results" in [line.strip() for line in done.stdout.splitlines()]
    assert "Traceback" not in done.stderr
    assert (tmp_path / "demo.png").stat().st_size > 10_000
