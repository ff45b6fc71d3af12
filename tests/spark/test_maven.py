"""Jars come from Maven once, whole or not at all; a machine without Maven is told what to do."""

import os
import stat
from pathlib import Path

import pytest

from watersmeet.errors import DataError, OptionError
from watersmeet.spark.session import maven

FAKE = """#!/bin/sh
echo "$*" >> "{log}"
for word do case "$word" in -DoutputDirectory=*) into="${{word#*=}}";; esac; done
mkdir -p "$into"; echo jar > "$into/one.jar"
exit {code}
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ``mvn`` that makes one jar; returns its log."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(maven, "find_java", lambda: tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    write(tmp_path, 0)
    return tmp_path / "log"


def write(folder: Path, code: int) -> None:
    script = folder / "bin" / "mvn"
    script.parent.mkdir(exist_ok=True)
    script.write_text(FAKE.format(log=folder / "log", code=code))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)


def test_jars_are_fetched_once(fake: Path) -> None:
    first = maven.kafka_jars()
    assert [path.name for path in first] == ["one.jar"]
    assert maven.kafka_jars() == first
    assert len(fake.read_text().splitlines()) == 1
    assert maven.fetch(maven.BROKER) != first


def test_a_failed_download_leaves_nothing_behind(fake: Path) -> None:
    write(fake.parent, 3)
    with pytest.raises(DataError, match=r"Maven must fetch org.apache.spark:.*; it ended with code 3"):
        maven.kafka_jars()
    assert list(maven.cache_folder().iterdir()) == []
    write(fake.parent, 0)
    assert maven.kafka_jars()


def test_without_maven_one_is_told_what_to_do(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OptionError, match=r"jars must come from Maven; got no mvn .*; do: .*packages="):
        maven.kafka_jars()


def test_the_connector_comes_alone_and_the_broker_with_all_that_it_needs() -> None:
    assert maven.KAFKA.pom.count("<exclusion>") == len(maven.KAFKA.coordinates) == 4
    assert "<exclusion>" not in maven.BROKER.pom
