"""The page's server without a browser: who may speak to it, what it takes, what it sends, and that it knows the contract alone."""

import asyncio
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.contract import FABRIC, PLAN, STATS, check
from watersmeet.page.feeding import Feeding
from watersmeet.page.live import Live, plain, refused
from watersmeet.page.server import Server

websockets = pytest.importorskip("websockets")
ROOT = Path(__file__).parent.parent
SCHEMAS = {
    "r": {"k": pa.int64(), "x": pa.float64(), "y": pa.float64()},
    "s": {"k": pa.int64(), "a": pa.float64(), "b": pa.float64()},
}


def processor() -> wm.Processor:
    qp = wm.Processor(r=wm.Rows(100), s=wm.Rows(100), schemas=SCHEMAS)
    qp.create(
        "near",
        "SELECT r.k, s.k AS other FROM r JOIN s ON r.x BETWEEN s.a - 0.1 AND s.a + 0.1 AND r.y BETWEEN s.b - 1 AND s.b + 1",
    )
    qp.create("all", "SELECT k FROM r")
    return qp


def batch(rows: int, seed: int = 1) -> dict[str, pa.RecordBatch]:
    random = np.random.default_rng(seed)
    return {
        name: pa.RecordBatch.from_pydict(
            {
                column: random.integers(0, 9, rows) if column == "k" else random.random(rows)
                for column in columns
            },
            schema=pa.schema(columns),
        )
        for name, columns in SCHEMAS.items()
    }


@pytest.fixture
def served() -> Iterator[tuple[wm.Processor, Server]]:
    qp = processor()
    with wm.page(qp, title="test") as page:
        yield qp, page


def get(
    page: Server, path: str = "/", method: str = "GET", **headers: str
) -> tuple[int, str, dict[str, str]]:
    """A request with just these headers."""
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in {"Host": f"127.0.0.1:{page.port}", **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()}


def token_of(page: Server) -> str:
    return urlsplit(page.url).query


@asynccontextmanager
async def talking(page: Server, origin: str | None = None, query: str | None = None) -> AsyncIterator[Any]:
    own = page.url.partition("/?")[0]
    where = f"{own.replace('http', 'ws')}/live?{token_of(page) if query is None else query}"
    async with websockets.connect(where, origin=own if origin is None else origin, max_size=2**24) as talk:
        yield talk


async def heard(talk: Any, kind: str, number: int | None = None) -> dict[str, Any]:
    while True:
        message: dict[str, Any] = json.loads(await asyncio.wait_for(talk.recv(), 20))
        if message["type"] == kind and (number is None or message["id"] == number):
            return message


async def asked(talk: Any, verb: str, number: int = 7, **fields: Any) -> dict[str, Any]:
    await talk.send(json.dumps({"do": verb, "id": number, **fields}))
    return await heard(talk, "answer", number)


# ---- who may speak --------------------------------------------------------------------------------------------------


def test_only_the_printed_address_is_answered(served: tuple[wm.Processor, Server]) -> None:
    _, page = served
    good = f"/?{token_of(page)}"
    status, body, headers = get(page, good)
    assert (status, '<script type="module" src="/static/app.js">' in body) == (200, True)
    assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert (headers["referrer-policy"], headers["x-content-type-options"]) == ("no-referrer", "nosniff")
    assert get(page, "/")[0] == 403
    assert "token" in get(page, "/")[1]
    assert get(page, "/?token=wrong")[0] == 403
    assert get(page, f"{good}&{token_of(page)}")[0] == 403
    for host in ("evil.example", f"evil.example:{page.port}", "127.0.0.1", f"127.0.0.1:{page.port + 1}", ""):
        status, body, _ = get(page, good, Host=host)
        assert (status, "Host must be the address that was printed" in body) == (403, True), host
    assert get(page, good, Host=f"localhost:{page.port}")[0] == 200
    assert get(page, good, Origin="http://evil.example")[0] == 403
    assert get(page, good, method="POST")[0] == 403


def test_nothing_but_the_bundle_is_served(served: tuple[wm.Processor, Server]) -> None:
    _, page = served
    assert get(page, "/static/app.js")[0] == 200
    for path in (
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/",
        "/static/x.js",
        "/etc/passwd",
    ):
        assert get(page, path)[0] in (403, 404), path
        assert "import" not in get(page, path)[1]


@pytest.mark.parametrize(
    ("origin", "query"), [("http://evil.example", None), (None, "token=wrong"), (None, ""), ("null", None)]
)
def test_a_socket_of_another_page_or_without_the_token_is_refused(
    served: tuple[wm.Processor, Server], origin: str | None, query: str | None
) -> None:
    async def go() -> None:
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with talking(served[1], origin, query):
                pass
        assert refused.value.response.status_code == 403

    asyncio.run(go())


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("0.0.0.0", "host= must be one address of this machine; got '0.0.0.0', which is all of them"),
        ("example.com", "host= must be an IP address; got 'example.com'"),
        (
            "192.0.2.1",
            "everybody on that network can reach the page: who has its address with the token sees all rows",
        ),
    ],
)
def test_another_address_must_be_wanted(host: str, said: str) -> None:
    with processor() as qp, pytest.raises(wm.OptionError, match=said.replace("(", r"\(")):
        wm.page(qp, host=host)


def test_a_taken_port_is_refused_by_name() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            processor() as qp,
            pytest.raises(wm.OptionError, match=f"must have a free address; got 127.0.0.1:{port}"),
        ):
            wm.page(qp, port=port)


def test_page_is_of_a_processor() -> None:
    with pytest.raises(wm.OptionError, match="page\\(\\) shows a Processor; got dict"):
        wm.page({})  # type: ignore[arg-type]


# ---- what is sent ---------------------------------------------------------------------------------------------------


def test_plan_digests_results_and_a_picture(served: tuple[wm.Processor, Server]) -> None:
    qp, page = served

    async def go() -> None:
        async with talking(page) as talk:
            plan = await heard(talk, "plan")
            check(plan["plan"], PLAN)
            assert plan["title"] == "test"
            join = next(block["id"] for block in plan["plan"]["blocks"] if block["kind"] == "join")
            assert (await asked(talk, "look", query="near", block=join))["ok"]
            await heard(talk, "digest")  # it is looked at from here on
            await heard(talk, "digest")
            await asyncio.to_thread(qp.push, batch(60))
            while True:
                digest = await heard(talk, "digest")
                check(digest["stats"], STATS)
                if digest["stats"]["pushes"] and digest["pictures"]:
                    break
            found = digest["results"]["near"]
            assert found["columns"] == ["k", "other"]
            assert found["count"] == digest["stats"]["queries"]["near"]["rows"] > 0
            picture = digest["pictures"][join]
            assert picture["found"] == found["count"]
            assert picture["axes"] == ["r.x · s.a", "r.y · s.b"]
            left, right = (side["points"] for side in picture["sides"])
            assert 0 < len(picture["pairs"]) <= 120
            for a, b in picture["pairs"]:  # every pair that is drawn is one
                assert abs(left[a][0] - right[b][0]) <= 0.1 + 1e-9
                assert abs(left[a][1] - right[b][1]) <= 1

    asyncio.run(go())


def test_digests_come_at_most_ten_times_a_second_and_only_while_somebody_looks(
    served: tuple[wm.Processor, Server],
) -> None:
    qp, page = served

    async def go() -> int:
        async with talking(page) as talk:
            await heard(talk, "digest")
            begin, found = time.monotonic(), 0
            while time.monotonic() - begin < 1.5:
                await heard(talk, "digest")
                found += 1
            return found

    assert 1 <= asyncio.run(go()) <= 17
    time.sleep(0.4)
    seen: list[int] = []
    stats = qp.stats
    qp.stats = lambda: seen.append(1) or stats()  # type: ignore[func-returns-value,method-assign,assignment]
    time.sleep(0.5)
    assert seen == []


def test_statements_from_the_page(served: tuple[wm.Processor, Server]) -> None:
    qp, page = served

    async def go() -> None:
        async with talking(page) as talk, talking(page) as other:
            await heard(other, "plan")
            answer = await asked(talk, "execute", sql="CREATE QUERY few AS SELECT k FROM r WHERE k < 3")
            assert answer["queries"] == {"few": {"state": "running", "reason": None}}
            while "few" not in {query["name"] for query in (await heard(other, "plan"))["plan"]["queries"]}:
                pass  # who looks on sees it too
            text = "CREATE QUERY 𝔵 AS SELECT k FROM r; ALTER QUERY few AS SELECT q FROM r"
            answer = await asked(talk, "execute", 8, sql=text)
            assert not answer["ok"]
            start, end = answer["span"]
            assert text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le") == "q"
            assert answer["message"].startswith("a column must be one of r.k, r.x, r.y; got 'q'")
            assert "^" not in answer["message"]
            assert (await asked(talk, "execute", 9, sql="DROP QUERY few"))["ok"]
            answer = await asked(talk, "execute", 10, sql="DROP QUERY few")
            assert answer["message"].startswith("drop must name a query that is there")
            answer = await asked(talk, "execute", 11, sql="import os")
            assert "a statement must be CREATE QUERY" in answer["message"]

    asyncio.run(go())
    assert set(qp.queries()) == {"near", "all"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        "null",
        '{"do":"eval","id":1}',
        '{"do":"execute","id":1,"sql":{"a":1}}',
        "[" * 5000,
        '{"do":"stop","id":1e400}',
    ],
)
def test_a_message_that_is_none_is_refused_and_the_next_is_heard(
    served: tuple[wm.Processor, Server], text: str
) -> None:
    async def go() -> None:
        async with talking(served[1]) as talk:
            await talk.send(text)
            while (answer := await heard(talk, "answer"))["id"] is not None:
                pass
            assert not answer["ok"]
            assert (await asked(talk, "stop", 2))["ok"]

    asyncio.run(go())


def test_a_page_that_only_shows_takes_no_statements() -> None:
    async def go(page: Server) -> None:
        async with talking(page) as talk:
            answer = await asked(talk, "execute", sql="DROP QUERY all")
            assert answer["message"].startswith("queries can be changed where the page is of a processor")

    with processor() as qp:
        with wm.page(qp, writable=False) as page:
            asyncio.run(go(page))
        assert "all" in qp.queries()


def test_the_processor_goes_on_when_the_page_is_closed() -> None:
    with processor() as qp:
        with wm.page(qp):
            qp.push(batch(5))
        assert qp._watchers == ()
        qp.push(batch(5, 2))
        assert qp.stats()["pushes"] == 2


def test_a_feeding_keeps_its_pace_ends_and_says_why_it_failed() -> None:
    pushed: list[int] = []
    ended = threading.Event()
    rows = [{"r": batch(50)["r"]} for _ in range(4)]
    feeding = Feeding(iter(rows), lambda push: pushed.append(push["r"].num_rows), 400, ended.set)
    begin = time.monotonic()
    feeding.start().join(10)
    assert 0.3 < time.monotonic() - begin < 5
    assert (pushed, ended.is_set(), feeding.status()["state"]) == ([50] * 4, True, "ended")

    def fails(push: object) -> None:
        raise wm.DataError("row 3 has no time")

    failing = Feeding(iter(rows), fails, None, ended.set)
    failing.start().join(10)
    assert failing.status() == {"state": "failed", "rows": 0, "behind": 0.0, "error": "row 3 has no time"}


def test_values_of_every_kind_are_plain() -> None:
    assert [plain(value) for value in (None, True, 2**60, 1.5, float("nan"), b"x", "a" * 300)] == [
        None, True, str(2**60), 1.5, "nan", "b'x'", "a" * 200 + "…",
    ]  # fmt: skip
    assert refused(ValueError("x")) == {"ok": False, "message": "x", "span": None}


# ---- the designer ---------------------------------------------------------------------------------------------------


def test_the_designer_checks_assigns_and_runs_the_thesis_third_query(
    served: tuple[wm.Processor, Server],
) -> None:
    async def go() -> None:
        async with talking(served[1]) as talk:
            catalog = await asked(talk, "catalog")
            assert {one["kind"] for one in catalog["components"]} >= {
                "brick",
                "op_block",
                "gswitch_l",
                "decomposer",
                "composer",
            }
            sql = next(one["sql"] for one in catalog["streams"] if one["name"] == "tpch")
            found = await asked(talk, "example", name="tpch_q3", parameters={"window": 1024})
            fabric = found["fabric"]
            check(fabric, FABRIC)
            assert wm.Fabric.from_json(fabric) == wm.Fabric.tpch_q3()
            assert found["shape"]["components"]["brick1_1"] == {
                "inputs": {"in": "data"},
                "outputs": {"out": "data"},
            }
            answer = await asked(talk, "assign", fabric=fabric, streams="tpch", sql=sql)
            slots = {slot for one in answer["assignment"]["operators"] for slot in one["slots"]}
            assert slots == {
                "brick1_1.selection1", "brick1_1.selection2", "brick1_1.selection3", "brick2_1.join",
                "brick3_1.aggregation", "brick4_1.order_by",
            }  # fmt: skip
            assert (await asked(talk, "run", fabric=fabric, streams="tpch", sql=sql, how="software"))["ok"]
            while not (run := await heard(talk, "run"))["results"]["q3"] or not run["last"]:
                assert run["error"] is None
            assert run["last"]["q3"]["columns"] == ["l_orderkey", "revenue", "o_orderdate"]
            stopped = (await asked(talk, "stop", 9))["run"]
            assert (stopped["state"], stopped["rows"] >= run["rows"]) == ("stopped", True)

    asyncio.run(go())


def test_what_cannot_be_is_refused_with_the_reason(served: tuple[wm.Processor, Server]) -> None:
    async def go() -> None:
        async with talking(served[1]) as talk:
            fabric = (await asked(talk, "example", name="op_chain", parameters={"blocks": 2}))["fabric"]
            wired = {**fabric, "links": [*fabric["links"], {"from": "block1.result", "to": "block2.s_in"}]}
            answer = await asked(talk, "check", fabric=wired)
            assert answer["message"].startswith(
                "a wire must join ports of one sort; got block1.result -> block2.s_in"
            )
            catalog = await asked(talk, "catalog")
            sql = next(one["sql"] for one in catalog["streams"] if one["name"] == "shop")
            answer = await asked(talk, "assign", fabric=fabric, streams="shop", sql=sql)
            assert "query 'women' must fit the fabric" in answer["message"]
            answer = await asked(
                talk, "assign", fabric=fabric, streams="shop", sql="CREATE QUERY a AS SELECT z FROM customers"
            )
            assert answer["span"] == [25, 26]
            answer = await asked(talk, "example", name="op_chain", parameters={"blocks": 1000})
            assert answer["message"] == "blocks of op_chain must be from 1 to 64; got 1,000"
            answer = await asked(talk, "assign", fabric=fabric, streams="nothing", sql=sql)
            assert answer["message"].startswith("streams must be one of tpch, shop, pairs; got 'nothing'")

    asyncio.run(go())


@pytest.mark.parametrize("name", ["tpch_q3", "op_chain", "parallel_fqp", "split_join"])
def test_every_example_takes_the_queries_that_come_with_it(name: str) -> None:
    from watersmeet.page.catalog import EXAMPLES, example
    from watersmeet.page.running import processor_of
    from watersmeet.page.streams import STREAMS

    streams = STREAMS[EXAMPLES[name].streams]
    with processor_of(wm.Fabric.from_json(example(name, {})), streams, streams.sql) as qp:
        results = dict.fromkeys(qp.queries(), 0)
        pushes = streams.pushes(256)
        for _ in range(4):
            for query, result in qp.push(next(pushes)).items():
                results[query] += result.count
        assert all(results.values())


HAS_HARDWARE = (
    find_spec("watersmeet.hardware") is not None and find_spec("watersmeet.hardware.ssp") is not None
)


@pytest.mark.skipif(HAS_HARDWARE, reason="there is simulated hardware here")
def test_without_hardware_a_run_cycle_by_cycle_is_refused_and_nothing_is_made_up(
    served: tuple[wm.Processor, Server],
) -> None:
    async def go() -> None:
        async with talking(served[1]) as talk:
            fabric = (await asked(talk, "example", name="tpch_q3", parameters={}))["fabric"]
            sql = next(
                one["sql"] for one in (await asked(talk, "catalog"))["streams"] if one["name"] == "tpch"
            )
            asks = {"fabric": fabric, "streams": "tpch", "sql": sql}
            answer = await asked(talk, "run", how="hardware", **asks)
            assert answer["message"].startswith(
                "a run cycle by cycle must have the simulated hardware; there is none here"
            )
            answer = await asked(talk, "verilog", **asks)
            assert answer["message"].startswith(
                "Verilog must have the simulated hardware; there is none here"
            )

    asyncio.run(go())


@pytest.mark.slow
@pytest.mark.skipif(not HAS_HARDWARE, reason="there is no simulated hardware here")
@pytest.mark.parametrize("name", ["tpch_q3", "op_chain", "split_join"])
def test_a_design_runs_cycle_by_cycle_to_the_engines_results(name: str) -> None:
    from watersmeet.page.catalog import EXAMPLES, example
    from watersmeet.page.hardware import machine_for
    from watersmeet.page.streams import STREAMS

    streams = STREAMS[EXAMPLES[name].streams]
    machine = machine_for(wm.Fabric.from_json(example(name, {})).topology, streams, streams.sql)
    seen = machine.step(0)
    assert (seen["cycle"], seen["words"][0], sum(seen["moved"].values())) == (0, 0, 0)
    for _ in range(400):
        seen = machine.step(64)
        if seen["state"] == "ended":
            break
    assert (seen["state"], seen["agrees"]) == ("ended", True)
    assert seen["results"] == seen["expected"]
    assert any(seen["results"].values())
    assert seen["words"][0] == seen["words"][1]
    assert any(seen["moved"].values())


# ---- the command, and the bundle ------------------------------------------------------------------------------------


def test_a_job_of_files_is_shown_to_its_end(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"k": list(range(1000)), "x": [0.5] * 1000}), tmp_path / "r.parquet")
    command = [sys.executable, "-m", "watersmeet", "page", "CREATE QUERY a AS SELECT k FROM r WHERE k >= 500", "--stream",
               f"r={tmp_path / 'r.parquet'}", "--port", "0", "--rate", "2000"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        url = running.stdout.readline().strip()

        async def go() -> dict[str, Any]:
            own = url.partition("/?")[0]
            async with websockets.connect(
                url.replace("http", "ws").replace("/?", "/live?"), origin=own
            ) as talk:
                while True:
                    digest = await heard(talk, "digest")
                    if digest["source"]["state"] == "ended":
                        return digest

        digest = asyncio.run(go())
        running.terminate()
    assert digest["stats"]["streams"]["r"]["arrived"] == 1000
    assert digest["stats"]["queries"]["a"]["rows"] == 500
    assert digest["stats"]["pushes"] == 5  # a tenth of a second each


def test_at_a_rate_pushes_are_so_small_that_the_page_does_not_stand_still() -> None:
    from watersmeet.cli.page import PUSH, smooth

    assert smooth(None, 2) == PUSH
    assert smooth(300.0, 2) == 15
    assert smooth(1.0, 3) == 1
    assert smooth(1e9, 1) == PUSH


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "192.0.2.1"], "add --anybody-on-the-network"),
        (["--stream", "r=x.csv"], "--stream must go with a job of queries over files; got it with no job"),
        (["job.sql"], "a job must have streams; got none"),
        (["--control", "x"], "--control must go with --spark; got it alone"),
        (
            ["--spark", "x", "--rate", "5"],
            "--rate must go with a job of queries over files; got it with --spark",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(options: list[str], said: str) -> None:
    from typer.testing import CliRunner

    from watersmeet.cli import app

    result = CliRunner().invoke(app, ["page", *options])
    assert isinstance(result.exception, wm.OptionError)
    assert said in str(result.exception)


def test_the_bundle_is_what_the_sources_give() -> None:
    web = ROOT / "web"
    if which("node") is None or not (web / "node_modules" / "esbuild").is_dir():
        pytest.skip("the bundle cannot be made again without node and node_modules; do: cd web && npm ci")
    made = subprocess.run(
        ["node", "build.mjs", "--check"], cwd=web, capture_output=True, text=True, timeout=120, check=False
    )
    assert made.returncode == 0, made.stderr


def test_the_lock_file_and_the_bundle_name_no_other_host() -> None:
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text())
    assert all("resolved" not in one for one in lock["packages"].values())
    static = ROOT / "src" / "watersmeet" / "page" / "static"
    for name in ("app.js", "app.css", "index.html"):
        text = (static / name).read_text().replace("http://www.w3.org/", "")
        assert "http://" not in text, name
        assert "https://" not in text, name


def test_a_live_view_of_a_processor_that_has_ended() -> None:
    qp = processor()
    live = Live(qp, "x")
    qp.push(batch(5))
    qp.finish()
    found = live.plan(True)
    assert found is not None
    assert found["plan"]["ended"] == "finished"
    assert live.execute("DROP QUERY all")["message"].startswith("the processor must be open")
    live.close()
