"""Pictures of a run of ``bench queries``: rates over the number of queries, rules, matches and groups; bytes; statements.

What stays true: a picture shows only points of the run it belongs to; nothing is smoothed. Wrong counts are not drawn.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from watersmeet.bench.plots import COLOURS, draw_all
from watersmeet.bench.queries_bands import AGGREGATE, LISTING
from watersmeet.bench.queries_many import MANY, ONE, PolarsRules
from watersmeet.bench.queries_plan import QueriesOutcome
from watersmeet.bench.queries_targets import STATEMENT

LINES = {
    AGGREGATE: "#222222", ONE: "#222222", MANY: "#c23b54", LISTING: "#1b7fbd", PolarsRules.name: COLOURS["Polars"], **COLOURS,
}  # fmt: skip


def write_queries_plots(outcome: QueriesOutcome, folder: Path) -> list[Path]:
    """Draw what the run has measured; return the files."""
    pictures: dict[str, Callable[[QueriesOutcome, Any], bool]] = {
        "queries-many.png": partial(_over, group="queries", title="Queries over the same two streams", below="queries"),
        "queries-bytes.png": _bytes,
        "queries-rules.png": partial(_over, group="rules", title="Rules on one stream", below="rules"),
        "queries-bands.png": partial(_over, group="bands", title="Count and sum over a band join", below="matches a row"),
        "queries-groups.png": _groups,
        "queries-statements.png": _statements,
    }  # fmt: skip
    return draw_all(pictures, outcome, folder)


def _over(outcome: QueriesOutcome, axes: Any, group: str, title: str, below: str) -> bool:
    """Rates over the number in the workload's name, a line a joiner."""
    points = [p for p in outcome.points if p.group == group and p.verified is not False]
    for joiner in dict.fromkeys(point.joiner for point in points):
        found = sorted((_number(p.workload), p.rate) for p in points if p.joiner == joiner)
        axes.plot(*zip(*found, strict=True), "o-", color=LINES.get(joiner), label=joiner)
    axes.set(title=title, xlabel=below)
    return _finish(axes, bool(points))


def _groups(outcome: QueriesOutcome, axes: Any) -> bool:
    points = [p for p in outcome.points if p.group == "groups" and p.verified is not False]
    marks = {"ours": "o-", "DuckDB": "s", "Pathway": "^"}
    colours = dict(zip(dict.fromkeys(_kind(p.workload) for p in points), COLOURS.values(), strict=False))
    for kind, joiner in dict.fromkeys((_kind(p.workload), p.joiner) for p in points):
        mine = [p for p in points if (_kind(p.workload), p.joiner) == (kind, joiner)]
        found = sorted((_number(p.workload), p.rate) for p in mine)
        axes.plot(*zip(*found, strict=True), marks[joiner], color=colours[kind], label=f"{kind}, {joiner}")
    axes.set(title="Aggregates in windows of a second", xlabel="groups")
    return _finish(axes, bool(points))


def _bytes(outcome: QueriesOutcome, axes: Any) -> bool:
    held = [run for run in outcome.held if run["group"] == "queries"]
    for joiner in dict.fromkeys(run["joiner"] for run in held):
        for part, line in (("payload_bytes", "o-"), ("index_bytes", "o--")):
            mine = sorted((run["queries"], run[part] / 1e6) for run in held if run["joiner"] == joiner)
            label = f"{joiner}, {'rows' if part == 'payload_bytes' else 'indexes'}"
            axes.plot(*zip(*mine, strict=True), line, color=LINES[joiner], label=label)
    axes.set(title="Bytes stored for the same two streams", xlabel="queries")
    return _finish(axes, bool(held), "MB")


def _statements(outcome: QueriesOutcome, axes: Any) -> bool:
    kinds = [told.kind for told in outcome.told]
    for told in outcome.told:
        axes.plot(told.spent, [told.kind] * len(told.spent), "o", color=COLOURS["bi_sort"], alpha=0.4)
    axes.plot([median(told.spent) for told in outcome.told], kinds, "|", color="black", markersize=16)
    axes.axvline(STATEMENT, color="black", linestyle="--", linewidth=1)
    if outcome.restarts:
        axes.axvline(median(outcome.restarts), color=LINES[MANY], linestyle=":", label="restart")
        axes.legend(fontsize=8)
    axes.invert_yaxis()
    axes.set(title="Statements under load (|: median; line: to reach)", xlabel="ms", xscale="log")
    return bool(kinds)


def _number(workload: str) -> int:
    return int(workload.rsplit("-", 1)[1])


def _kind(workload: str) -> str:
    return workload.rsplit("-", 1)[0]


def _finish(axes: Any, drawn: bool, ylabel: str = "rows a second, all streams") -> bool:
    if drawn:
        axes.set(xscale="log", yscale="log", ylabel=ylabel)
        axes.legend(fontsize=8)
    return drawn
