"""Jars from Maven's registry, fetched once into the user's cache: Spark's Kafka connector, and a broker to try it with.

What stays true: a cache folder is whole or not there, and its name says what is in it. Maven is asked through its own command, so mirrors
and proxies of ``~/.m2/settings.xml`` count.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from watersmeet.errors import DataError, OptionError
from watersmeet.spark.session.java import find_java

PATIENCE = 600  # seconds for a download
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>watersmeet</groupId> <artifactId>jars</artifactId> <version>1</version>
  <dependencies>{}</dependencies>
</project>
"""
ONE = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>".format
)
ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


@dataclass(frozen=True)
class Artifacts:
    """What to fetch: ``group:artifact:version`` of each, with all that they need or each alone."""

    coordinates: tuple[str, ...]
    with_dependencies: bool

    @property
    def pom(self) -> str:
        rest = "" if self.with_dependencies else ALONE
        return POM.format("".join(ONE(*name.split(":"), rest) for name in self.coordinates))


# The newest connector that there is works with pyspark 4.2 and 4.3. Each alone: the rest of what they ask for is in pyspark, and Maven's
# registry does not have every version of the token provider.
KAFKA = Artifacts(
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    with_dependencies=False,
)
BROKER = Artifacts(("org.apache.kafka:kafka_2.13:4.1.0", "org.slf4j:slf4j-simple:1.7.36"), True)


def kafka_jars() -> list[Path]:
    """The jars with which Spark reads and writes Kafka, for ``session(jars=kafka_jars())``.

    Fetched by Maven (``mvn`` on the PATH) the first time, then from the user's cache.
    """
    return fetch(KAFKA)


def fetch(wanted: Artifacts) -> list[Path]:
    """The jars of ``wanted``, from the cache or from Maven."""
    place = cache_folder() / hashlib.sha256(wanted.pom.encode()).hexdigest()[:12]
    if not place.exists():
        _download(wanted, place)
    return sorted(place.glob("*.jar"))


def cache_folder() -> Path:
    """Where jars are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "watersmeet" / "jars"


def _download(wanted: Artifacts, place: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise OptionError(
            f"jars must come from Maven; got no mvn on the PATH; do: install Maven, or fetch {', '.join(wanted.coordinates)} yourself "
            "and give session(jars=[...]), or let Spark fetch them with session(packages=[...])"
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as made:
        Path(made, "pom.xml").write_text(wanted.pom)
        into = ["-DincludeScope=runtime", f"-DoutputDirectory={made}/whole"]
        command = [maven, "-q", "-B", "-f", f"{made}/pom.xml", "dependency:copy-dependencies", *into]
        environment = {**os.environ, "JAVA_HOME": str(find_java())}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            raise DataError(
                f"Maven must fetch {wanted.coordinates[0]}; not done after {PATIENCE} s"
            ) from None
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()[:400]
            raise DataError(
                f"Maven must fetch {wanted.coordinates[0]}; it ended with code {done.returncode}: {said}"
            )
        if not place.exists():  # another process may have been faster
            os.rename(f"{made}/whole", place)
