"""The layering of the package holds, and importing it is light."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from check_imports import INSIDE, MAY_IMPORT, check, reachable  # noqa: E402


def test_imports_point_one_way() -> None:
    assert check(ROOT / "src" / "watersmeet") == []


def test_layering_has_no_cycle() -> None:
    for table in (MAY_IMPORT, *INSIDE.values()):
        for part, below in table.items():
            assert all(part not in reachable(name, table) for name in below), part


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("kernels/probe.py", "from watersmeet.join.chain import Chain", "kernels must not import join"),
        ("kernels/probe.py", "from ..join.chain import Chain", "kernels must not import join"),
        ("kernels/probe.py", "from watersmeet import streams", "kernels must not import streams"),
        (
            "kernels/probe.py",
            "def f():\n    import watersmeet.api.stream_join",
            "kernels must not import api",
        ),
        (
            "join/chain.py",
            "from watersmeet.join.engine import JoinEngine",
            "join/chain must not import engine",
        ),
        ("join/chain.py", "import sqlglot", "only in: sql/parse.py"),
        ("join/chain.py", "from watersmeet.join import engine", "join/chain must not import engine"),
        ("spark/user/join.py", "import watersmeet.bench.plots", "spark must not import bench"),
        (
            "spark/state/saving.py",
            "from watersmeet.spark.work.live import LiveCore",
            "spark/state must not import work",
        ),
        ("spark/state/saving.py", "from ..work import live", "spark/state must not import work"),
        ("spark/spec.py", "from watersmeet.spark import user", "spark/spec must not import user"),
        (
            "spark/state/runs.py",
            "from watersmeet.spark.state.manifests import Manifest, read_manifest",
            "spark/state/runs must not import manifests",
        ),
        ("spark/shuffle/wire.py", "from pyspark.sql import DataFrame", "only in: spark/task.py"),
        ("elsewhere.py", "", "no place in the layering"),
        ("join/elsewhere.py", "", "no place in join/"),
        ("spark/elsewhere/module.py", "", "no place in spark/"),
        ("spark/state/elsewhere.py", "", "no place in spark/state/"),
    ],
)
def test_an_import_against_the_layering_is_found(
    tmp_path: Path, path: str, text: str, complaint: str
) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    (found,) = check(tmp_path)
    assert complaint in found


def test_importing_the_package_does_not_import_the_peers() -> None:
    heavy = "{'pyspark', 'pathway', 'duckdb', 'polars', 'pandas', 'matplotlib', 'hypothesis'}"
    program = f"import sys, watersmeet; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
