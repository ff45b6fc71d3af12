"""Imports point one way: this table is the layering of ``src/watersmeet``, and nothing may import against it.

A part is a top-level module or package. It may import itself and whatever its row reaches, directly or
through others. A part that is not in the table fails too: adding one means deciding where it stands.
Outside libraries that only one place should know (the SQL parser, the compiler, the benchmark peers) are
fenced the same way.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "watersmeet"

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "errors": (),
    "extras": ("errors",),
    "show": (),
    "kernels": ("errors",),
    # values and conditions
    "window": ("errors",),
    "schema": ("errors",),
    "exact": ("schema",),
    "columns": ("exact",),
    "batch": ("columns",),
    "codes": ("kernels",),
    "expression": ("codes",),
    "condition": ("expression",),
    "guess": ("errors",),
    # stored rows and their indexes
    "index": ("kernels",),
    "clock": ("codes", "window"),
    "arrival": ("clock",),
    "interleave": ("clock",),
    "chain": ("arrival", "index"),
    "payload": ("batch",),
    # one push
    "matches": (),
    "memory": (),
    "pool": ("index", "memory"),
    "plan": ("condition",),
    "prepare": ("plan", "chain"),
    "probing": ("chain", "matches"),
    "outer": ("chain", "matches"),
    "short": ("prepare", "matches", "outer", "payload"),
    "core": ("prepare", "probing", "outer", "payload", "pool", "short"),
    "flow": ("core",),
    # what users see
    "result": ("core", "extras", "show"),
    "state": ("core",),
    "snapshot": ("core",),
    "explain": ("core",),
    "tally": (),
    "binding": ("guess", "condition", "outer", "clock", "schema"),
    "join": ("flow", "binding", "interleave", "result", "state", "snapshot", "explain", "tally"),
    "bench": ("join", "extras"),
    "spark": ("bench",),
    "demo": ("bench",),
    "cli": ("bench", "demo", "spark"),
    "__init__": ("join",),
    "__main__": ("cli",),
}

# library -> the only places (path prefixes in the package) that may import it
FENCED: dict[str, tuple[str, ...]] = {
    "sqlglot": ("expression/parse.py",),
    "numba": ("kernels/", "bench/"),
    "typer": ("cli/",),
    "duckdb": ("bench/",),
    "polars": ("bench/", "result.py"),
    "pandas": ("bench/",),
    "pathway": ("bench/",),
    "matplotlib": ("bench/",),
    "pyspark": ("spark/",),
}


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
    part = path.split("/")[0].removesuffix(".py")
    if part not in MAY_IMPORT:
        yield f"{path}: part {part!r} has no place in the layering; give it a row in tools/check_imports.py"
        return
    allowed = reachable(part, MAY_IMPORT)
    package = [PACKAGE, *path.split("/")[:-1]]
    for line, name in imported(ast.parse(source.read_text()), package):
        top, _, rest = name.partition(".")
        target = rest.split(".")[0]
        if top == PACKAGE and target in MAY_IMPORT and target not in allowed:
            names = ", ".join(sorted(allowed))
            yield f"{path}:{line}: {part} must not import {target}; it may import {names}"
        if top in FENCED and not path.startswith(FENCED[top]):
            places = ", ".join(FENCED[top]) or "nowhere"
            yield f"{path}:{line}: {top} may be imported only in: {places}"


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
