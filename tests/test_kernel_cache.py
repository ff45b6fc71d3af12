"""A Spark worker's cache of compiled kernels is its own, and begins with what others have compiled."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from watersmeet.kernels.cache import sources, take_slot


@pytest.fixture(autouse=True)
def no_cache_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)


def test_two_at_a_time_have_two_folders_and_a_folder_is_used_again(tmp_path: Path) -> None:
    first, lock = take_slot(tmp_path)
    second, other = take_slot(tmp_path)
    assert [first.name, second.name] == ["0", "1"]
    assert first.parent.name == sources()
    lock.close()
    again, third = take_slot(tmp_path)
    assert again == first
    other.close()
    third.close()


def test_a_folder_begins_with_what_others_have_compiled(tmp_path: Path) -> None:
    first, lock = take_slot(tmp_path)
    (first / "kernels_1").mkdir()
    for name in ("sort.pack-1.py311.nbi", "sort.pack-1.py311.1.nbc", "sort.pack-1.py311.2.nbc"):
        (first / "kernels_1" / name).write_text(name)
    second, other = take_slot(tmp_path)
    assert sorted(path.name for path in second.rglob("*.nb?")) == [
        "sort.pack-1.py311.1.nbc", "sort.pack-1.py311.2.nbc", "sort.pack-1.py311.nbi",
    ]  # fmt: skip
    (second / "kernels_1" / "sort.pack-1.py311.1.nbc").write_text("mine")
    lock.close()
    other.close()
    take_slot(tmp_path)[1].close()
    assert (second / "kernels_1" / "sort.pack-1.py311.1.nbc").read_text() == "mine"


@pytest.mark.parametrize("copies", [0, 1, 2])
def test_a_worker_that_is_killed_while_it_copies_leaves_no_half_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: int
) -> None:
    first, lock = take_slot(tmp_path)
    (first / "kernels_1").mkdir()
    names = ("sort.pack-1.py311.nbi", "sort.pack-1.py311.1.nbc", "sort.pack-1.py311.2.nbc")
    for name in names:
        (first / "kernels_1" / name).write_text(name)
    copy, left = shutil.copy, [copies]

    def killed(source: Path, target: Path) -> None:
        if not left[0]:
            target.write_text("")  # as a copy begins
            raise KeyboardInterrupt
        left[0] -= 1
        copy(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copy", killed)
        with pytest.raises(KeyboardInterrupt):
            take_slot(tmp_path)
    second, other = take_slot(tmp_path)
    assert second != first
    assert [(second / "kernels_1" / name).read_text() for name in names] == list(names)
    lock.close()
    other.close()


def test_a_folder_begins_with_what_the_driver_has_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "driver" / "kernels_1").mkdir(parents=True)
    for name in ("sort.pack-1.py311.nbi", "sort.pack-1.py311.1.nbc"):
        (tmp_path / "driver" / "kernels_1" / name).write_text(name)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "driver"))
    slot, lock = take_slot(tmp_path / "workers")
    assert len(list((slot / "kernels_1").iterdir())) == 2
    lock.close()


def test_only_spark_workers_take_one(tmp_path: Path) -> None:
    program = "import numba; import watersmeet.kernels.jit; print(numba.config.CACHE_DIR)"
    as_worker = (
        "import sys, types; sys.modules['__main__'].__spec__ = types.SimpleNamespace(name='pyspark.worker'); "
    )
    assert printed_by(program, tmp_path) == ""
    assert printed_by(as_worker + program, tmp_path) == str(
        tmp_path / "watersmeet" / "numba" / sources() / "0"
    )


def printed_by(program: str, cache: Path) -> str:
    """In the environment of the tests: PYTHONPATH may say whose sources these are."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


FORKS = """
import os, sys
from watersmeet.kernels import cache, sort
if sys.argv[1] == "settled":
    cache._take()  # as in a process that is a worker itself
for _ in range(2):
    to_parent, from_child = os.pipe()
    if os.fork() == 0:
        cache.settle_anew()
        print(*sorted({os.path.dirname(kernel._cache._cache_path) for kernel in cache._defined}), flush=True)
        os.write(from_child, b".")
        sys.stdin.read()  # until the parent is done: its folder is taken meanwhile
        os._exit(0)
    os.read(to_parent, 1)
"""


@pytest.mark.parametrize("parent", ["settled", "plain"])
def test_forks_of_a_process_with_kernels_have_folders_of_their_own(tmp_path: Path, parent: str) -> None:
    """Each, all of its kernels; the parent keeps its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", FORKS, parent],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = [Path(process.stdout.readline().strip()).name for _ in range(2)]
    process.communicate("")
    assert found == (["1", "2"] if parent == "settled" else ["0", "1"])
