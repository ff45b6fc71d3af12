"""Imports point one way: this table is the layering of ``src/watersmeet``, and nothing may import against it.

A part is a top-level module or folder. It may import itself and whatever its row reaches, directly or
through others; inside the folders whose order is the pipeline's the same holds for their modules. A part that is not in a
table fails too: adding one means deciding where it stands.
Outside libraries that only one place should know (the SQL parser, the compiler, the benchmark peers) are
fenced the same way.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "watersmeet"

# Between folders (and the few modules beside them).
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "errors": (),
    "extras": ("errors",),
    "looks": ("extras",),
    "kernels": ("errors",),
    "codes": ("kernels",),
    "sql": ("codes",),
    "index": ("kernels",),
    "streams": ("codes",),
    "join": ("sql", "streams", "index"),
    "flow": ("join",),
    "api": ("flow", "extras"),
    "workloads": ("errors",),
    "bench": ("api", "workloads", "looks"),
    "spark": ("api", "workloads", "looks"),
    "demo": ("api", "workloads", "looks"),
    "cli": ("bench", "demo", "spark"),
    "__init__": ("api",),
    "__main__": ("cli",),
}

# Inside a folder, where the order is the pipeline's.
INSIDE: dict[str, dict[str, tuple[str, ...]]] = {
    "streams": {
        "window": (),
        "schema": (),
        "exact": ("schema",),
        "columns": ("exact",),
        "batch": ("columns",),
        "payload": ("batch",),
        "clock": ("window",),
        "arrival": ("clock",),
        "interleave": ("clock",),
    },
    "join": {
        "matches": (),
        "memory": (),
        "pool": ("memory",),
        "chain": (),
        "flags": (),
        "plan": (),
        "prepare": ("plan", "chain"),
        "probing": ("chain", "matches"),
        "outer": ("flags", "matches"),
        "binding": ("outer",),
        "access": ("plan", "probing", "outer"),
        "short": ("prepare", "outer"),
        "core": ("access", "pool", "short"),
        "snapshot": ("core",),
    },
    "api": {
        "tally": (),
        "show": (),
        "state": (),
        "result": ("show",),
        "explain": (),
        "stream_join": ("result", "state", "explain", "tally"),
    },
}

# library -> the only places (path prefixes in the package) that may import it
FENCED: dict[str, tuple[str, ...]] = {
    "sqlglot": ("sql/parse.py",),
    "numba": ("kernels/", "bench/"),
    "typer": ("cli/",),
    "duckdb": ("bench/",),
    "polars": ("bench/", "api/result.py"),
    "pandas": ("bench/",),
    "pathway": ("bench/",),
    "matplotlib": ("bench/", "looks.py"),
    "pyspark": ("spark/",),
}

# The benchmarks of a folder measure; what is measured with does not belong to the product.
BENCHES = ("spark/bench/",)


def reachable(part: str, table: dict[str, tuple[str, ...]]) -> set[str]:
    """``part`` and everything its row reaches."""
    found: set[str] = set()
    waiting = [part]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(table.get(name, ()))
    return found


def imported(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything imported, also inside functions; ``package`` is the file's own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            names = [".".join([*base, *([node.module] if node.module else [])])]
            if names[0] == PACKAGE:  # from watersmeet import chain
                names = [f"{PACKAGE}.{alias.name}" for alias in node.names]
            yield from ((node.lineno, name) for name in names)


def complaints(source: Path, root: Path) -> Iterator[str]:
    """What is wrong with the imports of one file."""
    path = source.relative_to(root).as_posix()
    folder, _, inner = path.removesuffix(".py").partition("/")
    inside = INSIDE.get(folder, {})
    if folder not in MAY_IMPORT:
        yield f"{path}: part {folder!r} has no place in the layering; give it a row in tools/check_imports.py"
        return
    if inside and inner != "__init__" and inner not in inside:
        yield f"{path}: module {inner!r} has no place in {folder}/; give it a row in tools/check_imports.py"
        return
    allowed = reachable(folder, MAY_IMPORT) | (
        reachable("bench", MAY_IMPORT) if path.startswith(BENCHES) else set()
    )
    package = [PACKAGE, *path.split("/")[:-1]]
    for line, name in imported(ast.parse(source.read_text()), package):
        top, _, rest = name.partition(".")
        target, _, module = rest.partition(".")
        if top in FENCED and not path.startswith(FENCED[top]):
            places = ", ".join(FENCED[top]) or "nowhere"
            yield f"{path}:{line}: {top} may be imported only in: {places}"
        if top != PACKAGE or target not in MAY_IMPORT:
            continue
        if target not in allowed:
            names = ", ".join(sorted(allowed))
            yield f"{path}:{line}: {folder} must not import {target}; it may import {names}"
        elif (
            target == folder
            and inside
            and inner in inside
            and module
            and module not in reachable(inner, inside)
        ):
            names = ", ".join(sorted(reachable(inner, inside)))
            yield f"{path}:{line}: {folder}/{inner} must not import {module}; it may import {names}"


def check(root: Path) -> list[str]:
    """All complaints about the package at ``root``, in order of file and line."""
    return [text for source in sorted(root.rglob("*.py")) for text in complaints(source, root)]


def main() -> int:
    """Print the complaints; exit code 1 if there are any."""
    found = check(Path(__file__).resolve().parent.parent / "src" / PACKAGE)
    print("\n".join(found) if found else "imports: all point one way")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
