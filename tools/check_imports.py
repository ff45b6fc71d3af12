"""Imports point one way: this table is the layering of ``src/watersmeet``, and nothing may import against it.

A part is a top-level module or folder. It may import itself and whatever its row reaches, directly or
through others; inside the folders whose order is the pipeline's the same holds for their modules and folders, at any depth. A part that
is not in a table fails too: adding one means deciding where it stands.
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
    "contract": ("errors",),
    "kernels": ("errors",),
    "codes": ("kernels",),
    "sql": ("codes",),
    "index": ("kernels",),
    "streams": ("codes",),
    "join": ("sql", "streams", "index"),
    "aggregate": ("streams",),
    "flow": ("join",),
    "api": ("flow", "extras"),
    "fabric": ("looks",),
    "query": ("api", "aggregate", "fabric", "contract"),
    "workloads": ("errors",),
    "bench": ("api", "query", "workloads", "looks"),
    "spark": ("query", "workloads", "looks"),
    "page": ("query", "workloads", "looks", "spark", "demo_queries", "hardware"),
    "demo": ("api", "workloads", "looks"),
    "demo_queries": ("query", "workloads", "looks"),
    "hardware": ("query", "workloads", "looks", "fabric", "bench"),
    "cli": ("bench", "demo", "demo_queries", "spark", "query", "hardware", "page"),
    "__init__": ("query", "page"),
    "__main__": ("cli",),
}

# Inside a folder, where the order is the pipeline's. A folder in a folder is a part of it, and may have a table of its own.
INSIDE: dict[str, dict[str, tuple[str, ...]]] = {
    "aggregate": {
        "spec": (),
        "results": ("spec",),
        "values": (),
        "dictionary": ("values",),
        "rows": ("values",),
        "amounts": ("rows", "spec"),
        "slots": (),
        "table": ("slots",),
        "sums": ("table", "amounts"),
        "order": ("rows",),
        "bag": ("order", "table"),
        "extreme": ("order", "table"),
        "accumulators": ("results", "sums", "bag", "extreme", "dictionary"),
        "told": ("table",),
        "snapshot": ("accumulators", "told"),
        "aggregation": ("snapshot",),
        "numbering": ("accumulators",),
        "sliding": ("aggregation", "numbering"),
        "event_time": ("aggregation", "numbering"),
    },
    "streams": {
        "window": (),
        "schema": (),
        "exact": ("schema",),
        "columns": ("exact",),
        "batch": ("columns",),
        "gathering": (),
        "payload": ("gathering",),
        "clock": ("window",),
        "arrival": ("clock",),
        "history": ("clock",),
        "given": ("arrival",),
        "replay": ("arrival", "history"),
        "interleave": ("clock",),
        "moment": ("batch",),
    },
    "join": {
        "matches": (),
        "outcome": ("matches",),
        "memory": (),
        "pool": ("memory",),
        "chain": (),
        "flags": (),
        "moments": ("chain",),
        "drivers": (),
        "plan": ("drivers",),
        "coding": ("drivers",),
        "nearby": ("plan",),
        "learning": (),
        "orders": ("learning", "drivers"),
        "planner": ("orders", "plan"),
        "sights": (),
        "pair_test": ("chain",),
        "prepare": ("plan", "orders", "pair_test", "coding"),
        "probing": ("chain", "matches"),
        "outer": ("flags", "matches"),
        "binding": ("outer",),
        "stash": ("prepare",),
        "steps": ("stash", "probing", "sights"),
        "access": ("prepare", "steps", "outer", "pool"),
        "ledger": ("prepare", "outer", "outcome", "sights"),
        "planning": ("access", "planner", "nearby", "ledger", "moments"),
        "runs": ("chain",),
        "short_steps": ("runs", "steps"),
        "short": ("planning", "short_steps"),
        "engine": ("short",),
        "shared": ("engine",),
        "interface": ("planning",),
        "snapshot": ("interface",),
        "reading": ("engine", "snapshot"),
    },
    "flow": {
        "network": (),
        "order": (),
        "adaptive": ("order",),
        "collect": (),
        "options": ("adaptive", "collect"),
        "models": ("network", "options"),
        "catalog": ("models",),
        "runners": ("models",),
        "driver": ("catalog", "runners"),
    },
    "flow/models/multiway": {
        "load": (),
        "stage": ("load",),
        "circular": ("stage",),
        "linear": ("stage",),
        "parallel": ("stage",),
        "stashed": ("stage",),
    },
    "fabric": {
        "components": (),
        "topology": ("components",),
        "plain": ("topology",),
        "catalog": ("topology",),
        "operator": (),
        "floor": ("topology",),
        "rules": ("floor", "operator"),
        "search": ("rules",),
        "assignment": ("rules",),
        "folding": ("operator",),
        "refusal": ("assignment", "search"),
        "assign": ("refusal", "folding"),
        "routes": ("assignment",),
        "segments": ("assignment",),
        "program": ("routes", "segments"),
        "encoding": ("program",),
        "show": ("program",),
        "draw": ("topology",),
        "fabric": ("catalog", "plain", "encoding", "show", "draw"),
    },
    "hardware": {
        "ports": (),
        "encoded": (),
        "registry": (),
        "expected": (),
        "prepared": (),
        "blocks": (),
        "simulate": ("ports", "blocks"),
        "tools": ("simulate", "registry"),
        "joins": ("simulate", "tools", "registry", "expected"),
        "fqp": ("simulate", "tools", "registry", "expected", "encoded", "prepared"),
        "multiway": ("simulate", "tools", "registry", "expected"),
        "ssp": ("simulate", "tools", "registry", "expected", "encoded", "prepared"),
        "on_fabric": ("fqp", "ssp"),
        "catalog": ("joins", "multiway", "on_fabric"),
    },
    "hardware/blocks": {
        "buffer": (),
        "fifo": (),
        "shared": (),
        "queue": (),
        "fork": ("buffer",),
        "merge": ("buffer",),
    },
    "hardware/joins": {
        "rows": (),
        "operator": ("rows",),
        "nodes": ("rows",),
        "storage_core": ("operator",),
        "processing_core": ("operator",),
        "join_core": ("storage_core", "processing_core"),
        "split_join": ("join_core", "nodes"),
        "split_join_run": ("split_join",),
        "stamped": (),
        "intake": (),
        "merging": (),
        "driving": ("intake",),
        "handshake": ("stamped", "intake", "merging"),
        "handshake_figures": ("handshake", "driving"),
        "bi_flow": ("stamped", "intake"),
        "bi_flow_figures": ("bi_flow", "driving", "split_join_run"),
        "bi_sort": ("stamped", "intake", "merging", "driving"),
    },
    "hardware/joins/bi_sort": {
        "batch": (),
        "merger": (),
        "prober": ("merger",),
        "lister": (),
        "sub_window": ("prober", "lister"),
        "collector": ("batch", "sub_window"),
        "join": ("collector",),
        "mirror": (),
        "figures": ("join", "mirror"),
    },
    "hardware/tools": {
        "yowasp": (),
        "verilog": (),
        "structure": (),
        "draw": ("structure",),
        "strip": (),
        "formal": ("yowasp",),
        "synth": ("yowasp",),
    },
    "hardware/ssp": {
        "words": (),
        "murmur": (),
        "sizes": (),
        "codes": (),
        "join_plan": (),
        "lowered": (),
        "gather": ("words",),
        "reading": ("words",),
        "switches": ("gather", "reading"),
        "brick": ("switches",),
        "riders": ("gather", "reading"),
        "hash_window": ("words",),
        "prehash": ("murmur", "gather"),
        "join": ("hash_window", "prehash", "riders"),
        "steps": ("reading", "gather"),
        "aggregation": ("steps", "riders"),
        "order_by": ("riders",),
        "synchroniser": ("gather", "reading"),
        "processor": ("brick", "join", "aggregation", "order_by", "synchroniser", "sizes"),
        "layout": ("codes", "words"),
        "steps_plan": ("layout", "lowered"),
        "lowering": ("join", "join_plan", "steps_plan", "sizes"),
        "composing": ("layout", "lowered"),
        "running": ("lowering", "composing", "processor"),
        "designs": ("running",),
        "figures": ("designs",),
    },
    "hardware/simulate": {
        "trace": (),
        "watch": (),
        "lines": (),
        "model": ("lines",),
        "python": ("lines", "watch"),
        "compiled": ("lines", "watch"),
        "verilator": ("compiled",),
        "session": ("trace", "model", "python", "verilator"),
    },
    "hardware/simulate/compiled": {
        "ir": (),
        "cells": ("ir",),
        "memory": ("cells",),
        "body": ("memory",),
        "netlist": (),
        "machine": ("body", "netlist"),
        "loop": ("machine",),
        "program": ("loop",),
        "model": ("program",),
    },
    "hardware/multiway": {
        "layout": (),
        "ring": (),
        "order": (),
        "stage": ("layout", "ring", "order"),
        "circular": ("stage",),
        "linear": ("layout", "ring"),
        "stash": ("layout",),
        "second": ("layout", "ring"),
        "first": ("second", "stash"),
        "core": ("first",),
        "stashed": ("core",),
        "parallel": ("core",),
        "drive": ("layout",),
        "figures": ("drive", "circular", "stashed", "parallel"),
    },
    "api": {
        "options": (),
        "tally": (),
        "show": ("options",),
        "state": (),
        "equal_columns": (),
        "result": ("show", "equal_columns"),
        "describe": ("options", "tally"),
        "explain": (),
        "stream_join": ("result", "state", "describe", "explain"),
    },
    "query": {
        "statement": (),
        "strays": (),
        "aggregates": ("statement",),
        "parse": ("aggregates", "strays"),
        "instruction": (),
        "scope": ("statement", "instruction"),
        "setting": (),
        "groups": ("statement",),
        "event_time": ("groups", "scope", "setting"),
        "grouped": ("event_time",),
        "derived": ("event_time",),
        "bind": ("grouped", "derived"),
        "answer": ("bind",),
        "delta": ("instruction",),
        "rule": (),
        "block": ("delta", "rule"),
        "rules": ("block",),
        "sorting": ("instruction",),
        "relation": ("block",),
        "punctual": ("block",),
        "from_ranges": ("block",),
        "group_blocks": ("relation", "from_ranges"),
        "window_blocks": ("relation",),
        "row_blocks": ("group_blocks", "sorting"),
        "top": ("group_blocks", "sorting"),
        "turn": ("rules",),
        "feed": ("block",),
        "past": ("feed",),
        "join_of": ("block",),
        "graph": ("past", "punctual", "join_of", "window_blocks", "row_blocks", "top", "rules"),
        "catalog": ("parse", "answer", "graph"),
        "needs": ("instruction",),
        "placed": ("catalog", "needs"),
        "explain": ("catalog",),
        "waiting": ("catalog", "turn"),
        "rule_results": ("rules",),
        "idle": ("catalog", "turn", "rule_results"),
        "running": ("waiting", "idle", "placed"),
        "saving": ("running",),
        "tables": (),
        "stats": ("running",),
        "describe": ("explain", "running"),
        "processor": ("describe", "saving", "stats", "tables"),
        "watching": ("processor",),
    },
    "page": {
        "guard": (),
        "streams": (),
        "feeding": (),
        "live": ("feeding",),
        "catalog": ("streams",),
        "hardware": ("streams",),
        "running": ("live", "hardware"),
        "designing": ("catalog", "running"),
        "spark": (),
        "hub": ("live", "designing", "spark"),
        "server": ("guard", "hub"),
        "demo": ("feeding",),
        "show": ("server",),
        "bench": ("server", "demo"),
    },
    "spark": {
        "graph": (),
        "spec": ("graph",),
        "task": (),
        "shuffle": ("spec", "task"),
        "state": ("shuffle",),
        "work": ("state",),
        "session": (),
        "user": ("work", "session"),
        "host": ("user",),
        "sources": ("session",),
        "demo": ("user", "sources"),
        "bench": ("user", "sources"),
    },
    "spark/shuffle": {
        "wire": (),
        "shares": (),
        "layout": ("shares",),
        "spread": (),
        "planning": ("layout", "wire"),
        "packing": ("planning",),
    },
    "spark/state": {
        "location": (),
        "runs": ("location",),
        "core_state": ("runs",),
        "manifests": ("runs",),
        "course": ("manifests",),
        "saving": ("manifests", "core_state"),
        "tables": ("location",),
        "rebucket": ("saving", "course"),
        "garbage": ("manifests",),
        "command": ("garbage",),
    },
    "spark/work": {
        "arrivals": (),
        "live": ("arrivals",),
        "emit": ("live",),
        "pack": (),
        "operator": ("emit",),
    },
    "spark/host": {
        "files": (),
        "setting": ("files",),
        "grouped": (),
        "spread": ("grouped", "setting"),
        "program": ("spread",),
        "warm": ("spread",),
        "judge": ("program", "warm"),
        "control": ("judge",),
        "spec": ("program",),
        "manifests": ("spec",),
        "wire": ("manifests",),
        "pack": ("wire",),
        "came": ("wire",),
        "core": ("came", "judge"),
        "saving": ("core",),
        "tables": ("program",),
        "report": ("manifests",),
        "work": ("saving", "tables"),
        "source": ("judge",),
        "host": ("control", "pack", "source", "work"),
    },
    "spark/session": {
        "java": (),
        "maven": ("java",),
        "worker": (),
        "daemon": ("worker",),
        "local": ("java",),
    },
    "spark/demo": {
        "setting": (),
        "check": ("setting",),
        "show": ("setting",),
        "run": ("check", "show"),
    },
    "spark/user": {
        "chaining": (),
        "checks": (),
        "types": ("chaining",),
        "explain": ("chaining", "checks"),
        "join": ("types", "checks"),
    },
}

# library -> the only places (path prefixes in the package) that may import it
FENCED: dict[str, tuple[str, ...]] = {
    "sqlglot": ("sql/parse.py", "query/parse.py", "query/aggregates.py"),
    "numba": ("kernels/", "bench/"),
    "llvmlite": ("kernels/", "hardware/simulate/compiled/"),
    "typer": ("cli/",),
    "starlette": ("page/",),
    "uvicorn": ("page/",),
    "duckdb": ("bench/",),
    "polars": ("bench/", "api/result.py"),
    "pandas": ("bench/",),
    "pathway": ("bench/",),
    "matplotlib": ("bench/", "looks.py"),
    "pyspark": (
        "spark/task.py",
        "spark/user/",
        "spark/host/host.py",
        "spark/host/source.py",
        "spark/session/",
        "spark/sources/",
        "spark/demo/",
        "spark/bench/",
    ),
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
            module = [*base, *([node.module] if node.module else [])]
            yield from ((node.lineno, ".".join([*module, alias.name])) for alias in node.names)


def tables_over(path: list[str]) -> Iterator[tuple[list[str], dict[str, tuple[str, ...]]]]:
    """The tables that say where a file stands, outermost first, each with its folder."""
    yield [], MAY_IMPORT
    for depth in range(1, len(path)):
        table = INSIDE.get("/".join(path[:depth]))
        if table is not None:
            yield path[:depth], table


def complaints(source: Path, root: Path) -> Iterator[str]:
    """What is wrong with the imports of one file."""
    path = source.relative_to(root).as_posix()
    own = path.removesuffix(".py").split("/")
    tables = list(tables_over(own))
    for folder, table in tables:
        part = own[len(folder)]
        if part not in table and (part != "__init__" or not folder):
            where = f"{'/'.join(folder)}/" if folder else "the layering"
            yield f"{path}: part {part!r} has no place in {where}; give it a row in tools/check_imports.py"
            return
    told = set()
    for line, name in imported(ast.parse(source.read_text()), [PACKAGE, *own[:-1]]):
        top, *target = name.split(".")
        found = [
            _fenced(path, top),
            *(_against(path, own, target, *level) for level in tables if top == PACKAGE),
        ]
        for text in found:
            if text is not None and (line, text) not in told:  # once, however many names the line imports
                told.add((line, text))
                yield f"{path}:{line}: {text}"


def _fenced(path: str, library: str) -> str | None:
    if library not in FENCED or path.startswith(FENCED[library]):
        return None
    return f"{library} may be imported only in: {', '.join(FENCED[library])}"


def _against(
    path: str, own: list[str], target: list[str], folder: list[str], table: dict[str, tuple[str, ...]]
) -> str | None:
    """What is wrong, by one table, with importing ``target`` (its path in the package)."""
    depth = len(folder)
    if own[depth] not in table or target[:depth] != folder or len(target) == depth:
        return None
    part, other = own[depth], target[depth]
    allowed = reachable(part, table)
    if not folder and path.startswith(BENCHES):
        allowed |= reachable("bench", table)
    if other not in table or other in allowed:
        return None
    return f"{'/'.join(own[: depth + 1])} must not import {other}; it may import {', '.join(sorted(allowed))}"


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
