"""The page in a real browser: Debian's chromium, driven by Playwright. Where there is none, these tests say so and are skipped.

Every test ends with the same check: no error in the console, and no request to anywhere but the page's own server.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.page.demo import market_demo
from watersmeet.page.live import Live
from watersmeet.page.server import Server

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
CHROMIUM = which("chromium") or which("chromium-browser")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here; do: apt-get install chromium"),
]
PATIENCE = 30_000  # milliseconds
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def demo() -> Iterator[Server]:
    """A market at a tenth of its pace, so that a busy machine keeps up."""
    qp, feeding = market_demo(rate=2500.0, step=0.02)
    with Server(Live(qp, "Demo", feeding.start())) as server, qp:
        yield server


@contextmanager
def opened(
    browser: Any, url: str, hash: str = "", errors_expected: bool = False, **how: Any
) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 860}, accept_downloads=True, **how)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    errors: list[str] = []
    foreign: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda message: errors.append(message.text) if message.type in ("error", "warning") else None,
    )
    own = url.partition("/?")[0]
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((own, "blob:", "data:")) else foreign.append(request.url)
        ),
    )
    page.on(
        "websocket",
        lambda one: None if one.url.startswith(own.replace("http", "ws")) else foreign.append(one.url),
    )
    page.goto(url + hash)
    yield page
    context.close()
    assert errors_expected or errors == []
    assert foreign == []


def number(text: str) -> float:
    scale = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text.split()[-1], 1.0) if " " in text else 1.0
    return float(text.split()[0].replace(",", "")) * scale


def write(page: Any, sql: str) -> None:
    page.get_by_label("SQL statements").fill(sql)
    page.get_by_role("button", name="Run", exact=True).click()


def test_rows_flow_and_whatever_is_clicked_is_shown(browser: Any, demo: Server) -> None:
    with opened(browser, demo.url) as page:
        expect(page.get_by_test_id("link")).to_have_text("connected")
        expect(page.get_by_test_id("node-s:trades")).to_be_visible()
        expect(page.get_by_test_id("pushed")).to_contain_text("k/s")
        expect(page.locator(".edges text", has_text="/s").first).to_be_visible()
        page.locator(".node.kind-join").click()
        detail = page.get_by_test_id("detail")
        expect(detail).to_contain_text("inner join")
        expect(detail).to_contain_text("bi_sort")
        expect(detail).to_contain_text("sub-windows")
        expect(page.get_by_test_id("picture")).to_contain_text("a sample")
        expect(page.locator(".picture .pair").first).to_be_attached()
        page.get_by_test_id("node-q:top").click()
        expect(detail).to_contain_text("Query top")
        expect(detail.locator("tbody tr")).to_have_count(10)
        before = detail.locator(".table").inner_text()
        expect(detail.locator(".table")).not_to_have_text(before)
        page.get_by_test_id("node-s:quotes").click()
        expect(detail).to_contain_text("watermark")


def test_a_query_is_created_altered_and_dropped_and_the_graph_follows(browser: Any, demo: Server) -> None:
    with opened(browser, demo.url) as page, opened(browser, demo.url) as other:
        node, seen = page.get_by_test_id("node-q:cheap"), other.get_by_test_id("node-q:cheap")
        expect(page.get_by_test_id("node-q:top")).to_be_visible()
        write(page, "CREATE QUERY cheap AS SELECT sym, price FROM trades WHERE price < 50")
        expect(page.get_by_test_id("said")).to_have_text("cheap: running")
        expect(node).to_be_visible()
        expect(seen).to_be_visible()  # in the other browser too
        node.click()
        expect(page.get_by_test_id("detail").locator("tbody tr").first).to_be_visible()
        page.get_by_role("button", name="Alter").click()
        expect(page.get_by_label("SQL statements")).to_have_value(
            "ALTER QUERY cheap AS\nSELECT sym, price FROM trades WHERE price < 50"
        )
        write(page, "ALTER QUERY cheap AS SELECT sym, price, size FROM trades WHERE price < 40")
        expect(page.get_by_test_id("detail").locator("thead")).to_contain_text("size")
        page.get_by_role("button", name="Drop").click()
        expect(node).to_have_count(0)
        expect(seen).to_have_count(0)


def test_an_error_is_underlined_at_its_place(browser: Any, demo: Server) -> None:
    with opened(browser, demo.url) as page:
        expect(page.get_by_test_id("node-q:top")).to_be_visible()
        write(page, "CREATE QUERY wrong AS\nSELECT sym, prize FROM trades")
        expect(page.get_by_test_id("said")).to_contain_text("got 'prize'; did you mean trades.price?")
        expect(page.locator(".editor mark")).to_have_text("prize")
        page.get_by_label("SQL statements").press("End")
        page.keyboard.type(" ")
        expect(page.locator(".editor mark")).to_have_count(0)


def test_by_keyboard_alone(browser: Any, demo: Server) -> None:
    with opened(browser, demo.url) as page:
        expect(page.get_by_test_id("node-q:top")).to_be_visible()
        page.get_by_test_id("node-q:large").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_test_id("detail")).to_contain_text("Query large")
        page.get_by_label("SQL statements").focus()
        page.keyboard.press("Control+A")
        page.keyboard.type("CREATE QUERY typed AS SELECT sym FROM trades WHERE size > 9000")
        page.keyboard.press("Control+Enter")
        expect(page.get_by_test_id("node-q:typed")).to_be_visible()
        write(page, "DROP QUERY typed")
        expect(page.get_by_test_id("node-q:typed")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("hash", ["#live", "#design"])
def test_from_800_pixels_on_nothing_is_cut_off_in_light_and_dark(
    browser: Any, demo: Server, scheme: str, hash: str
) -> None:
    with opened(browser, demo.url, hash, color_scheme=scheme) as page:
        page.set_viewport_size({"width": 800, "height": 640})
        expect(page.get_by_test_id("link")).to_have_text("connected")
        page.wait_for_timeout(600)
        wide = page.evaluate(
            "[document.documentElement.scrollWidth,"
            " ...[...document.querySelectorAll('aside.panel')].map((one) => one.scrollWidth - one.clientWidth)]"
        )
        assert wide[0] <= 800
        assert all(more <= 1 for more in wide[1:])
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (dark == "rgb(15, 22, 28)") == (scheme == "dark")


def test_reload_in_the_middle(browser: Any, demo: Server) -> None:
    with opened(browser, demo.url) as page:
        page.get_by_label("SQL statements").fill("CREATE QUERY half AS SELECT")
        page.reload()
        expect(page.get_by_test_id("node-q:top")).to_be_visible()
        expect(page.get_by_label("SQL statements")).to_have_value("CREATE QUERY half AS SELECT")
        expect(page.get_by_test_id("pushed")).to_contain_text("k/s")


def test_the_server_goes_and_comes_back(browser: Any) -> None:
    qp = wm.Processor(r=wm.Rows(10), schemas={"r": {"k": pa.int64()}})
    qp.create("a", "SELECT k FROM r")
    first = Server(Live(qp, "first"), token="the-same-token")
    port = first.port
    with opened(
        browser, first.url, errors_expected=True
    ) as page:  # the browser itself logs that a connection was refused
        expect(page.get_by_test_id("node-q:a")).to_be_visible()
        first.close()
        expect(page.get_by_test_id("link")).to_have_text("server gone, trying again")
        qp.create("b", "SELECT k + 1 AS k FROM r")
        with Server(Live(qp, "second"), port=port, token="the-same-token"):
            expect(page.get_by_test_id("link")).to_have_text("connected")
            expect(page.get_by_test_id("node-q:b")).to_be_visible()
            qp.push(r={"k": [1, 2, 3]})
            page.get_by_test_id("node-q:b").click()
            expect(page.get_by_test_id("detail").locator("tbody td").first).to_have_text("2")


# ---- the designer ---------------------------------------------------------------------------------------------------


def test_the_third_query_is_assigned_and_run_in_software(browser: Any, demo: Server) -> None:
    with opened(browser, demo.url, "#design") as page:
        expect(page.get_by_test_id("part-brick1_1")).to_be_visible()
        page.get_by_role("button", name="Assign").click()
        for slot in ("brick1_1.selection1", "brick2_1.join", "brick3_1.aggregation", "brick4_1.order_by"):
            expect(page.get_by_test_id(f"slot-{slot}")).to_have_class("unit used q0")
        expect(page.get_by_test_id("assignment")).to_contain_text("6 blocks in use")
        expect(page.locator(".instructions tbody tr")).to_have_count(37)
        page.get_by_role("button", name="Run in software").click()
        expect(page.get_by_test_id("run")).to_contain_text("last results of q3")
        first = number(page.get_by_test_id("run-rows").inner_text())
        page.wait_for_timeout(1500)
        assert number(page.get_by_test_id("run-rows").inner_text()) > first
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_test_id("run")).to_contain_text("stopped")


def test_the_third_query_cycle_by_cycle_or_the_reason_why_not(browser: Any, demo: Server) -> None:
    with opened(browser, demo.url, "#design") as page:
        expect(page.get_by_test_id("part-brick1_1")).to_be_visible()
        page.get_by_role("button", name="Cycle by cycle").click()
        if find_spec("watersmeet.hardware") is None or find_spec("watersmeet.hardware.ssp") is None:
            expect(page.get_by_test_id("design-said")).to_contain_text(
                "must have the simulated hardware; there is none here"
            )
            return
        expect(page.get_by_test_id("run-cycles")).to_be_visible(timeout=120_000)
        page.get_by_label("cycles a second").fill("16")
        expect(page.locator(".moved").first).to_be_visible()
        expect(page.get_by_test_id("agrees")).to_have_text(
            "The results are those of the engine.", timeout=240_000
        )


def test_components_are_dropped_wired_moved_undone_saved_and_opened(
    browser: Any, demo: Server, tmp_path: Path
) -> None:
    with opened(browser, demo.url, "#design") as page:
        expect(page.get_by_test_id("part-brick1_1")).to_be_visible()
        page.get_by_role("button", name="Clear").click()
        expect(page.locator(".part")).to_have_count(0)
        canvas = page.locator(".canvas")
        page.get_by_test_id("tool-entry").drag_to(canvas, target_position={"x": 220, "y": 120})
        page.get_by_test_id("tool-brick").drag_to(canvas, target_position={"x": 220, "y": 330})
        page.get_by_test_id("tool-exit").drag_to(canvas, target_position={"x": 220, "y": 560})
        expect(page.locator(".part")).to_have_count(3)
        # wired by dragging from port to port
        drag(page, "port-entry1.out", "port-brick1.in")
        expect(page.get_by_test_id("wire-entry1.out>brick1.in")).to_be_attached()
        # by keyboard: Enter at one port, Enter at the other
        page.get_by_test_id("port-brick1.out").focus()
        page.keyboard.press("Enter")
        page.get_by_test_id("port-exit1.in").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_test_id("wire-brick1.out>exit1.in")).to_be_attached()
        # an impossible wire: two ways out
        drag(page, "port-entry1.out", "port-brick1.out")
        expect(page.get_by_test_id("refusal")).to_contain_text("a wire must go from a way out to a way in")
        expect(page.locator(".wires g")).to_have_count(2)
        # moved
        brick = page.get_by_test_id("part-brick1")
        before = brick.bounding_box()
        page.mouse.move(before["x"] + 30, before["y"] + 10)
        page.mouse.down()
        page.mouse.move(before["x"] + 150, before["y"] + 40, steps=6)
        page.mouse.up()
        assert brick.bounding_box()["x"] - before["x"] > 60
        # parameters by form: the unit becomes a join, its window is too large, then right
        page.get_by_label("kind of unit1").select_option("join")
        expect(page.get_by_test_id("slot-brick1.unit1")).to_contain_text("join")
        page.locator("#unit-1-window").fill("99999999999")
        page.locator("#unit-1-window").press("Tab")
        expect(page.get_by_test_id("refusal")).to_contain_text("must be a whole number from 0 to 16777216")
        page.locator("#unit-1-window").fill("64")
        page.locator("#unit-1-window").press("Tab")
        expect(page.get_by_test_id("slot-brick1.unit1")).to_contain_text("join 64")
        # undo and redo
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_test_id("slot-brick1.unit1")).not_to_contain_text("64")
        canvas.focus()
        page.keyboard.press("Control+y")
        expect(page.get_by_test_id("slot-brick1.unit1")).to_contain_text("join 64")
        # saved as the Fabric's JSON, cleared, opened again
        with page.expect_download() as download:
            page.get_by_role("button", name="Save").click()
        file = tmp_path / "saved.json"
        download.value.save_as(file)
        fabric = wm.Fabric.from_json(file.read_text())
        assert [one.name for one in fabric.topology.components] == ["entry1", "brick1", "exit1"]
        page.get_by_role("button", name="Clear").click()
        page.get_by_test_id("open").set_input_files(str(file))
        expect(page.get_by_test_id("wire-brick1.out>exit1.in")).to_be_attached()
        # a reload keeps the design
        page.reload()
        expect(page.get_by_test_id("wire-brick1.out>exit1.in")).to_be_attached()
        # a file that is no fabric is refused with the reason
        wrong = tmp_path / "wrong.json"
        wrong.write_text(
            json.dumps(
                {**json.loads(file.read_text()), "links": [{"from": "entry1.out", "to": "nowhere.in"}]}
            )
        )
        page.get_by_test_id("open").set_input_files(str(wrong))
        expect(page.get_by_test_id("refusal")).to_contain_text("there is no 'nowhere'")


def drag(page: Any, source: str, target: str) -> None:
    a, b = (page.get_by_test_id(one).bounding_box() for one in (source, target))
    page.mouse.move(a["x"] + a["width"] / 2, a["y"] + a["height"] / 2)
    page.mouse.down()
    page.mouse.move(b["x"] + b["width"] / 2, b["y"] + b["height"] / 2, steps=10)
    page.mouse.up()


def test_what_does_not_fit_the_design_says_why(browser: Any, demo: Server) -> None:
    with opened(browser, demo.url, "#design") as page:
        expect(page.get_by_test_id("part-brick1_1")).to_be_visible()
        page.get_by_label("Start from").select_option("op_chain")
        page.get_by_label("blocks").fill("2")
        page.get_by_role("button", name="Take it").click()
        expect(page.get_by_test_id("part-block2")).to_be_visible()
        page.get_by_role("button", name="Assign").click()
        expect(page.get_by_test_id("design-said")).to_contain_text("query 'women' must fit the fabric")
        page.get_by_label("blocks").fill("8")
        page.get_by_role("button", name="Take it").click()
        expect(page.get_by_test_id("part-block8")).to_be_visible()
        page.get_by_role("button", name="Assign").click()
        expect(page.get_by_test_id("assignment")).to_contain_text("blocks in use")
        expect(page.locator(".part.used").first).to_be_visible()
