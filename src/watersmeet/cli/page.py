"""``watersmeet page``: a processor at work, and a designer of fabrics, in a browser."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from watersmeet.cli import options
from watersmeet.cli.csv_options import csv_of
from watersmeet.cli.job import Job, open_job, statements_of
from watersmeet.cli.outputs import STDOUT
from watersmeet.cli.terminal import say, warn
from watersmeet.errors import OptionError

PUSH = 4096  # rows of a stream
JOB, SPARK, PLACE = options.JOB, "A Spark query", "Where"


def page(
    job: Annotated[
        str | None,
        typer.Argument(
            help="A file of CREATE QUERY statements, or statements, over the streams of --stream; without it, a demo."
        ),
    ] = None,
    stream: Annotated[
        list[str] | None, typer.Option(help="NAME=FILE: a stream; once a stream.", rich_help_panel=JOB)
    ] = None,
    window: options.JobWindows = None,
    table: options.Tables = None,
    types: options.Types = None,
    order: Annotated[
        str | None,
        typer.Option(help="Time column, in all files, to merge the arrivals by.", rich_help_panel=JOB),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most rows of a stream in one push; without it 4,096, and with --rate as many as come in a tenth of a second.",
            rich_help_panel=JOB,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=1.0, help="Rows a second, of all streams; without it as fast as they come; the demo: 25,000."
        ),
    ] = None,
    cores: options.Cores = 1,
    spark: Annotated[
        str | None,
        typer.Option(
            help="The checkpoint of a Spark query, or the state= of a join or host: shown from its files, read-only.",
            rich_help_panel=SPARK,
        ),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(help="The control folder of a QueryHost, for --spark.", rich_help_panel=SPARK),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="The port to listen on; 0 takes a free one.", rich_help_panel=PLACE
        ),
    ] = 8765,
    host: Annotated[
        str,
        typer.Option(help="The address to listen on; this machine alone by default.", rich_help_panel=PLACE),
    ] = "127.0.0.1",
    anybody: Annotated[
        bool,
        typer.Option(
            "--anybody-on-the-network",
            help="Let --host be an address that others can reach: who has the page's address sees all rows that queries give, and can "
            "create and drop queries. Nothing is encrypted.",
            rich_help_panel=PLACE,
        ),
    ] = False,
) -> None:
    """Show a processor at work in a browser, write its queries there, and design fabrics for them.

    Without arguments: a demo on generated market streams. The address that is printed has a token; open it as it is.
    """
    from watersmeet.page.server import Server, checked_host, need_page

    need_page()
    checked_host(host, anybody, "do: add --anybody-on-the-network")
    job_options = {
        "--stream": stream,
        "--window": window,
        "--table": table,
        "--types": types,
        "--order": order,
    }
    if spark is not None:
        _refuse({"a job": job, "--rate": rate, **job_options}, "--spark")
        from watersmeet.page.spark import SparkView

        shown: Any = SparkView(spark, control)
    elif control is not None:
        raise OptionError(
            "--control must go with --spark; got it alone; name the checkpoint or state of the query too"
        )
    elif job is None:
        _refuse(job_options, "no job")
        shown = _demo(cores, rate)
    else:
        if not stream:
            raise OptionError("a job must have streams; got none; give --stream NAME=FILE once a stream")
        csv, rows = csv_of(",", []), batch or smooth(rate, len(stream))
        shown = _job(
            Job(job, stream, window or [], table or [], types or [], STDOUT, None, None, csv, order, rows, cores, None), rate
        )  # fmt: skip
    with Server(shown, host=host, port=port, anybody=anybody) as server:
        if anybody:
            warn(
                "others on this network can reach the page; who has its address can see results and change queries"
            )
        say("The page is at")
        print(server.url, flush=True)
        say("Ctrl-C ends it.")
        if getattr(shown, "feeding", None) is not None:
            shown.feeding.start()
        server.wait()


def smooth(rate: float | None, streams: int) -> int:
    """Rows of a stream in a push: those of a tenth of a second. Between larger pushes the page would stand still."""
    return PUSH if rate is None else min(PUSH, max(1, int(rate / (10 * streams))))


def _refuse(given: Mapping[str, Any], got: str) -> None:
    for option, value in given.items():
        if value:
            raise OptionError(
                f"{option} must go with a job of queries over files; got it with {got}; leave it out"
            )


def _demo(cores: int, rate: float | None) -> Any:
    from watersmeet.page.demo import RATE, market_demo
    from watersmeet.page.live import Live

    say("A demo on generated market streams. The very first run compiles ...")
    processor, feeding = market_demo(cores, rate or RATE)
    return Live(processor, "Demo: a market of trades and quotes", feeding)


def _job(job: Job, rate: float | None) -> Any:
    from watersmeet.page.feeding import Feeding
    from watersmeet.page.live import Live

    statements = statements_of(job)
    opened = open_job(job, keeps_windows=True)
    processor = opened.processor
    processor.execute(statements)

    def push(rows: Mapping[str, Any]) -> None:
        results = processor.push(rows, order=job.order if len(rows) > 1 else None)
        for name, reason in results.stopped.items():
            warn(f"query {name} was stopped: {reason}")

    def finish() -> None:
        processor.finish()
        say("The streams have ended; the page stays.")

    return Live(
        processor,
        job.text if len(job.text) < 80 else "Job",
        Feeding(filter(None, opened.pushes), push, rate, finish),
    )
