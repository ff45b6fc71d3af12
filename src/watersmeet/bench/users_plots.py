"""Pictures of a run of ``bench users``: rows a second over the rows a push, a picture a workload; and what was measured in turns.

What stays true: a picture shows only points of the run it belongs to; nothing is smoothed. Wrong counts are not drawn.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

from watersmeet.bench.plots import COLOURS, draw_all
from watersmeet.bench.users_cases import UsersOutcome, compared
from watersmeet.bench.users_targets import SHARES, pair_points
from watersmeet.workloads.users import UserWorkload

LINES = {"ours": "#222222", **COLOURS}


def write_users_plots(outcome: UsersOutcome, folder: Path) -> list[Path]:
    """Draw what the run has measured; return the files."""
    names = dict.fromkeys(p.workload for p in outcome.points if p.group == "users" and p.joiner != "Pathway")
    pictures: dict[str, Callable[[UsersOutcome, Any], bool]] = {
        f"users-{name}.png": partial(_over_push, work=outcome.works[name]) for name in names
    }
    return draw_all({**pictures, "users-shares.png": _shares}, outcome, folder)


def _over_push(outcome: UsersOutcome, axes: Any, work: UserWorkload) -> bool:
    points = [p for p in outcome.points if p.group == "users" and p.verified is not False]
    mine = [p for p in points if p.workload == work.name]
    mine += [p for p in points if p.joiner == "Pathway" and outcome.works[p.workload].kind == work.kind]
    for joiner in dict.fromkeys(point.joiner for point in mine):
        found = sorted((p.batch, p.rate) for p in mine if p.joiner == joiner)
        label = "Pathway, smaller window" if joiner == "Pathway" else joiner
        axes.plot(*zip(*found, strict=True), "o-", color=LINES.get(joiner), label=label)
    axes.set(
        title=work.title,
        xlabel="rows of each stream a push",
        ylabel="rows a second, both streams",
        xscale="log",
        yscale="log",
    )
    if mine:
        axes.legend(fontsize=8)
    return bool(mine)


def _shares(outcome: UsersOutcome, axes: Any) -> bool:
    bars: list[tuple[str, float]] = []
    for group, pairs in compared(outcome.plan).items():
        least, what = SHARES[group]
        for work, other in pairs:
            points = pair_points(outcome, group, work, other)
            if points is not None and all(point.verified for point in points):
                title = fill(work.title, 44)
                bars.append((f"{title}\nbeside {what}", points[0].rate / points[1].rate))
                axes.plot(
                    [least, least], [len(bars) - 1.4, len(bars) - 0.6], "--", color="black", linewidth=1
                )
    axes.barh([label for label, _ in bars], [share for _, share in bars], color=COLOURS["bi_sort"])
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=7)
    axes.set(title="In turns (line: to reach)", xlabel="share of the other's rate", xlim=(0, None))
    return bool(bars)
