"""A local Spark session that is set as the join wants it, and the same check for a session made elsewhere.

What stays true: ``session`` only fills in what the caller left open; ``check_session`` refuses exactly what
would end in a failure or a wrong place later, each with the line to write, and returns the rest as advice.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark import __version__ as spark_version
from pyspark.sql import SparkSession

from watersmeet.errors import OptionError
from watersmeet.spark.session.java import use_java

OLDEST_SPARK = (4, 2)  # repartitionById (4.1), latestOffset(start, limit) of sources (4.2)
ARROW_ROWS = (
    65_536  # rows a batch on their way to Python: at 10,000, Spark's default, the way costs a tenth more
)
FEW_ARROW_ROWS = 5_000  # below this the way costs more than the join
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
ADAPTIVE = "spark.sql.adaptive.streaming.stateless.enabled"
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing"
DAEMON = "watersmeet.spark.session.daemon"  # imports once what each worker would import
LOGGING = Path(__file__).with_name("log4j2.properties")
ASK = "import importlib.util as u, sys; print(*sys.version_info[:2], *(u.find_spec(n) is not None for n in sys.argv[1:]))"


def session(
    app: str = "watersmeet",
    cores: int | None = None,
    *,
    checkpoint: str | Path | None = None,
    jars: Sequence[str | Path] = (),
    packages: Sequence[str] = (),
    **conf: Any,
) -> SparkSession:
    """A local session with the settings that ``stream_join`` wants.

    ``cores`` is how many of the machine's cores to use (all of them, unless given); ``checkpoint`` is the folder for the
    checkpoints, and so for the state, of queries that name none. ``jars`` are files that Spark is to load (``kafka_jars()``, say);
    ``packages``, written ``group:artifact:version``, are fetched by Spark from Maven's registry. Any Spark setting may follow and wins:
    ``session("trades", 4, **{"spark.driver.memory": "8g"})``. Java is looked for, and if the machine has none that fits, the one
    that comes with ``pip install 'watersmeet[spark]'`` is used.
    """
    cores = _checked(cores, conf)
    conf = {**_to_load(jars, packages), **conf}
    if SparkSession.getActiveSession() is None:  # else Java runs already
        use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {**_defaults(cores), **{name: _text(value) for name, value in conf.items()}}
    if checkpoint is not None:
        settings["spark.sql.streaming.checkpointLocation"] = str(Path(checkpoint).absolute())
    builder = SparkSession.builder.appName(app).master(settings.pop("spark.master", f"local[{cores}]"))
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def check_session(spark: Any) -> list[str]:
    """Raise OptionError for what must be set in ``spark`` before it can join; return what would make it faster.

    Called by ``stream_join``. Each message ends in the setting to write.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise OptionError(
            "stream_join must have a classic Spark session; got a Spark Connect session, whose client cannot ask the driver for cores, "
            "Python workers and plans; do: run the job on the driver, in a process of its own, with watersmeet.spark.session() or "
            'SparkSession.builder.config("spark.api.mode", "classic")'
        )
    if tuple(int(part) for part in spark_version.split(".")[:2]) < OLDEST_SPARK:
        needed = ".".join(map(str, OLDEST_SPARK))
        raise OptionError(
            f"pyspark must be {needed} or newer; got {spark_version}; do: pip install 'pyspark>={needed},<5'"
        )
    _check_python(spark)
    return _advice(spark)


def _defaults(cores: int) -> dict[str, str]:
    return {
        "spark.api.mode": "classic",  # or SPARK_API_MODE=connect would make a session that check_session refuses
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
        # Three settings that a small batch feels, together a third of its time:
        # - Over TCP the last rows of a task wait 40 ms for an acknowledgement; Unix sockets do not.
        UNIX_SOCKETS: "true",
        # - Adaptive execution makes two jobs of a batch and plans in between; a join's partitions are as they should be.
        ADAPTIVE: "false",
        # - On a local disk the other manager starts a process for every file, to ask for links and permissions.
        "spark.sql.streaming.checkpointFileManagerClass": f"{CHECKPOINTS}.FileSystemBasedCheckpointFileManager",
        "spark.python.daemon.module": DAEMON,
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Errors only, from the first line on; "spark.log.level" says otherwise.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
    }


def _checked(cores: int | None, conf: dict[str, Any]) -> int:
    if cores is None:
        cores = os.cpu_count() or 1
    if isinstance(cores, bool) or not isinstance(cores, int) or cores < 1:
        raise OptionError(f"cores= must be a whole number of at least 1; got {cores!r}")
    for name in conf:
        if not name.startswith("spark."):
            raise OptionError(
                f"a setting must be one of Spark's, such as **{{'spark.driver.memory': '8g'}}; got {name!r}; session() itself takes "
                "app, cores, checkpoint, jars and packages"
            )
    return cores


def _to_load(jars: Sequence[str | Path], packages: Sequence[str]) -> dict[str, str]:
    """The settings for ``jars=`` and ``packages=``, refused where Spark would find out late, or say nothing at all."""
    for name, given in (("jars", jars), ("packages", packages)):
        if isinstance(given, str | Path):
            raise OptionError(f"{name}= must be a list; got {given!r}; do: {name}=[{str(given)!r}]")
    missing = [str(jar) for jar in jars if "://" not in str(jar) and not Path(jar).is_file()]
    if missing:
        raise OptionError(f"jars= must be files that are there; got {', '.join(missing)}")
    wrong = [name for name in packages if name.count(":") != 2]
    if wrong:
        raise OptionError(f"packages= must be written group:artifact:version; got {', '.join(wrong)}")
    if (jars or packages) and SparkContext._gateway is not None:  # Java's class path is fixed as it starts
        raise OptionError(
            "jars= and packages= must be given as the first session of a process is made; got a process in which Spark's Java runs "
            "already; do: give them there, or start another process"
        )
    listed = {"spark.jars": [_place(jar) for jar in jars], "spark.jars.packages": list(packages)}
    return {name: ",".join(values) for name, values in listed.items() if values}


def _place(jar: str | Path) -> str:
    return str(jar) if "://" in str(jar) else str(Path(jar).absolute())


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_python(spark: SparkSession) -> None:
    """On one machine the workers' Python can be asked; on a cluster Spark itself compares the versions."""
    if not str(spark.sparkContext.master).startswith("local"):
        return
    named = str(spark.sparkContext.pythonExec)
    found = shutil.which(named)
    if found is not None and os.path.abspath(found) == os.path.abspath(sys.executable):
        return
    version, missing = (None, []) if found is None else _ask(found)
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if version == ours and not missing:
        return
    got = f"{named!r}, which is " + ("no Python that runs" if version is None else f"Python {version}")
    raise OptionError(
        f"Spark's Python workers must run Python {ours} with watersmeet installed; got {got}"
        f"{' without ' + ', '.join(missing) if missing else ''}; do, before the session is made: "
        "os.environ['PYSPARK_PYTHON'] = sys.executable"
    )


@cache
def _ask(python: str) -> tuple[str | None, list[str]]:
    """The version of that Python, and which of the packages that we need it does not have."""
    needed = ("watersmeet", "pyarrow", "numba")
    try:
        done = subprocess.run(
            [python, "-c", ASK, *needed], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None, []
    major, minor, *there = done.stdout.split()
    return f"{major}.{minor}", [name for name, has in zip(needed, there, strict=True) if has != "True"]


def _advice(spark: SparkSession) -> list[str]:
    advice = []
    rows = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    if rows is not None and 0 < int(rows) < FEW_ARROW_ROWS:
        advice.append(
            f"rows must travel to Python in large batches to be fast; got {rows} a batch; "
            f'do: spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", {ARROW_ROWS})'
        )
    if all(spark.conf.get(name, "true") == "true" for name in ("spark.sql.adaptive.enabled", ADAPTIVE)):
        advice.append(
            "adaptive execution must be off in streams for small batches to be fast; got it on; "
            f'do: spark.conf.set("{ADAPTIVE}", "false")'
        )
    fixed = spark.sparkContext.getConf()
    if fixed.get(UNIX_SOCKETS, "false") != "true":
        advice.append(
            "Spark must talk to its Python workers over Unix sockets for small batches to be fast; got TCP; "
            f'do, as the session is made: .config("{UNIX_SOCKETS}", "true")'
        )
    if fixed.get("spark.python.worker.reuse", "true") == "false":
        advice.append(
            "Python workers must be reused for state to stay in memory; got spark.python.worker.reuse=false; "
            "do: leave it out when the session is made"
        )
    return advice
