"""``watersmeet bench page``: what it costs a processor to be watched.

The demo's queries get the market's rows at full speed, in rounds of the same number of pushes that take turns: nobody looks on, then a
browser's part is played by another process, which looks at a query and at a join. What is compared is the CPU time of this whole process,
the server's thread included, for the same rows; and beside it the time by the clock, which a busy machine disturbs more.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from watersmeet.looks import wide_console
from watersmeet.page.demo import STEP, market_demo
from watersmeet.page.live import Live
from watersmeet.page.server import Server, need_page
from watersmeet.query.processor import Processor
from watersmeet.workloads.market import Market

GOAL = 0.02
# Connects when it is told "on", until "off"; says how many digests came.
LOOKER = """
import asyncio, json, sys
import websockets
url, origin, query, block = sys.argv[1:]
async def look(stop):
    found = 0
    async with websockets.connect(url, origin=origin, max_size=2**24) as talk:
        await talk.send(json.dumps({"do": "look", "id": 1, "query": query, "block": block}))
        print("looking", flush=True)
        while not stop.is_set():
            try:
                found += json.loads(await asyncio.wait_for(talk.recv(), 0.05))["type"] == "digest"
            except asyncio.TimeoutError:
                pass
    return found
async def main():
    loop = asyncio.get_running_loop()
    while (await loop.run_in_executor(None, sys.stdin.readline)).strip() == "on":
        stop = asyncio.Event()
        task = asyncio.create_task(look(stop))
        await loop.run_in_executor(None, sys.stdin.readline)
        stop.set()
        print(await task, flush=True)
asyncio.run(main())
"""


@dataclass(frozen=True)
class Round:
    """One stretch of pushes."""

    watched: bool
    rows: int
    seconds: float
    cpu: float
    digests: int


def bench_page(*, quick: bool, json_to: Path | None = None, console: Console | None = None) -> bool:
    """Measure; True iff being watched costs less than ``GOAL`` of the CPU time."""
    need_page()
    console = console or wide_console()
    rounds = measured(6 if quick else 20, 60 if quick else 150)
    cost = {kind: overhead(rounds, kind) for kind in ("cpu", "seconds")}
    table = Table("", title="A processor on the market's rows, at full speed")
    for title in ("rows/s of CPU time", "rows/s by the clock", "digests/s"):
        table.add_column(title, justify="right")
    for watched in (False, True):
        mine = [one for one in rounds if one.watched is watched]
        table.add_row(
            "watched" if watched else "alone",
            f"{median(one.rows / one.cpu for one in mine):,.0f}",
            f"{median(one.rows / one.seconds for one in mine):,.0f}",
            f"{sum(one.digests for one in mine) / sum(one.seconds for one in mine):.1f}",
        )
    console.print(table)
    fine = cost["cpu"] < GOAL
    mark = "[green]reached[/]" if fine else "[bold red]MISSED[/]"
    console.print(
        f"being watched costs {cost['cpu']:.2%} of the CPU time ({cost['seconds']:.2%} by the clock), median of {len(rounds) // 2} "
        f"pairs of rounds; the goal is less than {GOAL:.0%}: {mark}",
        soft_wrap=True,
    )
    if json_to is not None:
        json_to.write_text(
            json.dumps({"overhead": cost, "goal": GOAL, "rounds": [asdict(one) for one in rounds]}, indent=1)
        )
    return fine


def overhead(rounds: Sequence[Round], kind: str) -> float:
    """What a watched round takes beyond the one alone beside it, as a share: the median over all pairs."""
    pairs = [(alone, watched) for alone, watched in zip(rounds[::2], rounds[1::2], strict=True)]
    return median(getattr(watched, kind) / getattr(alone, kind) - 1 for alone, watched in pairs)


def measured(pairs: int, pushes: int) -> list[Round]:
    """Rounds that take turns: alone, watched, alone, ..."""
    processor, _ = market_demo(rate=None)
    source = Market()
    _push(processor, source, 40)  # compiled, and windows full
    live = Live(processor, "bench")
    join = next(block["id"] for block in processor.describe()["blocks"] if block["kind"] == "join")
    found: list[Round] = []
    with Server(live) as server, processor:
        own = server.url.partition("/?")[0]
        address = server.url.replace("http", "ws").replace("/?", "/live?")
        command = [sys.executable, "-c", LOOKER, address, own, "hits", join]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as looker:
            assert looker.stdin is not None
            assert looker.stdout is not None
            for _ in range(pairs):
                found.append(_round(processor, source, pushes, None, 0))
                print("on", file=looker.stdin, flush=True)
                looker.stdout.readline()
                found.append(_round(processor, source, pushes, looker, 0))
            looker.stdin.close()
    return found


def _round(
    processor: Processor, source: Market, pushes: int, looker: "subprocess.Popen[str] | None", digests: int
) -> Round:
    batches = [source.take(STEP) for _ in range(pushes)]
    source.pushed.clear()
    rows = sum(batch.num_rows for push in batches for batch in push.values())
    begin, cpu = time.perf_counter(), time.process_time()
    for push in batches:
        processor.push(push)
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - begin
    if looker is not None:
        assert looker.stdin is not None
        assert looker.stdout is not None
        print("off", file=looker.stdin, flush=True)
        digests = int(looker.stdout.readline())
        time.sleep(0.2)  # the server sees that nobody looks any more
    return Round(looker is not None, rows, seconds, cpu, digests)


def _push(processor: Processor, source: Market, times: int) -> None:
    for _ in range(times):
        processor.push(source.take(STEP))
    source.pushed.clear()
