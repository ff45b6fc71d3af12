"""The browsers that look on, and what they are sent: answers to what they ask, and digests at a pace that the processor does not feel.

A digest is made once for all browsers, on a worker thread, at most ten times a second; and so seldom that making it takes at most a
hundredth of the time (``SHARE``), and where the processor has no time to spare, of the CPU time that the process gets: a processor with
thousands of blocks, or on a machine that has more to do, is looked at less often. A browser that is slow misses digests, and never gets
old ones. Nobody looks: nothing is made.
"""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from watersmeet.contract import check_message
from watersmeet.errors import WatersmeetError
from watersmeet.page.designing import Designing
from watersmeet.page.live import Live, refused
from watersmeet.page.spark import SparkView

PACE = 0.1  # seconds between two digests, at least
SHARE = 0.008  # of the time that making digests may take; sending them takes a little more
LONGEST = 3.0  # seconds between two digests, whatever they take
MOST_BROWSERS = 32


class Browser:
    """One that looks on."""

    def __init__(self, socket: WebSocket) -> None:
        self.socket, self.designing = socket, Designing()
        self.query: str | None = None
        self.block: str | None = None
        self.answers: asyncio.Queue[str] = asyncio.Queue()
        self.latest: dict[str, str] = {}  # by type of message: only the newest counts
        self.news = asyncio.Event()

    def tell(self, text: str) -> None:
        """An answer, which must arrive."""
        self.answers.put_nowait(text)
        self.news.set()

    def show(self, kind: str, text: str) -> None:
        """A digest, which a newer one replaces."""
        self.latest[kind] = text
        self.news.set()

    async def sending(self) -> None:
        while True:
            await self.news.wait()
            self.news.clear()
            while not self.answers.empty():
                await self.socket.send_text(self.answers.get_nowait())
            latest, self.latest = self.latest, {}
            for text in latest.values():
                await self.socket.send_text(text)


class Hub:
    """All browsers of one server. ``shown``: a processor that runs, or a Spark query's files."""

    def __init__(self, shown: Live | SparkView) -> None:
        self.shown = shown
        self.browsers: set[Browser] = set()
        self._come = asyncio.Event()
        self.digests, self.spent = 0, 0.0  # how many, and the seconds that they took

    async def connected(self, socket: WebSocket) -> None:
        """A browser, until it goes."""
        await socket.accept()
        if len(self.browsers) >= MOST_BROWSERS:
            await socket.close(4429, f"at most {MOST_BROWSERS} browsers can look on")
            return
        browser = Browser(socket)
        self.browsers.add(browser)
        if isinstance(self.shown, Live):
            browser.show("plan", _text(await asyncio.to_thread(self.shown.plan, True)))
        self._come.set()
        tasks = [asyncio.create_task(browser.sending()), asyncio.create_task(self._designs(browser))]
        try:
            while True:
                await self._heard(browser, await socket.receive_text())
        except (WebSocketDisconnect, KeyError, RuntimeError):
            pass
        finally:
            self.browsers.discard(browser)
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task
            await asyncio.to_thread(browser.designing.close)
            if socket.client_state is WebSocketState.CONNECTED:
                with suppress(RuntimeError, WebSocketDisconnect):
                    await socket.close()

    async def _heard(self, browser: Browser, text: str) -> None:
        try:
            asked = json.loads(text)
            verb, number = check_message(asked)
        except (WatersmeetError, ValueError, RecursionError) as error:
            browser.tell(_text({"type": "answer", "id": None, **refused(error)}))
            return
        if verb == "look":
            browser.query, browser.block = asked["query"], asked["block"]
            answer: dict[str, Any] = {"ok": True}
        elif verb == "execute":
            if isinstance(self.shown, SparkView):
                answer = {
                    "ok": False,
                    "message": "a Spark query is only shown here; say it to its host",
                    "span": None,
                }
            else:
                answer = await asyncio.to_thread(self.shown.execute, asked["sql"])
        else:
            answer = await asyncio.to_thread(browser.designing.answer, verb, asked)
        browser.tell(_text({"type": "answer", "id": number, **answer}))

    async def _designs(self, browser: Browser) -> None:
        """Digests of the browser's own run."""
        ended = None
        while True:
            run = browser.designing.run
            if run is not None and run is not ended:
                digest = await asyncio.to_thread(run.digest)
                browser.show("run", _text(digest))
                if digest["state"] != "running":
                    ended = run
            await asyncio.sleep(PACE)

    async def digesting(self) -> None:
        """As long as the server runs."""
        while True:
            if not self.browsers:
                self._come.clear()
                await self._come.wait()
            before, taken = self._stand(), 0.0
            try:
                taken = await asyncio.to_thread(self._measured, self._digest)
            except Exception as error:  # said to who looks on; the next may do
                self._say_all("trouble", {"type": "trouble", "message": f"{type(error).__name__}: {error}"})
            self.digests, self.spent = self.digests + 1, self.spent + taken
            await asyncio.sleep(PACE)
            while not self._due(before, taken):
                await asyncio.sleep(PACE / 2)

    def _stand(self) -> tuple[float, float, float]:
        """Seconds by the clock, of CPU time, and of calls of the processor."""
        busy = 0.0 if isinstance(self.shown, SparkView) else self.shown.processor.seconds
        return time.monotonic(), time.process_time(), busy

    def _due(self, before: tuple[float, float, float], taken: float) -> bool:
        """Whether enough has passed since a digest that took so long."""
        clock, cpu, busy = (now - then for now, then in zip(self._stand(), before, strict=True))
        if clock >= LONGEST:
            return True
        pace = self.shown.pace if isinstance(self.shown, SparkView) else PACE
        spare = busy < clock / 2  # a processor that waits for rows has time for who looks on
        return clock >= max(pace, taken / SHARE) and (spare or cpu >= taken / SHARE)

    def _say_all(self, kind: str, data: dict[str, Any]) -> None:
        for browser in self.browsers:
            browser.show(kind, _text(data))

    @staticmethod
    def _measured(do: Callable[[], None]) -> float:
        """The seconds of work of this thread; waiting for the processor's turn is not among them."""
        before = time.thread_time()
        do()
        return time.thread_time() - before

    def _digest(self) -> None:
        browsers = list(self.browsers)
        if isinstance(self.shown, SparkView):
            text = _text(self.shown.read())
            for browser in browsers:
                self._loop.call_soon_threadsafe(browser.show, "spark", text)
            return
        plan = self.shown.plan(False)
        queries = {one.query for one in browsers if one.query is not None}
        blocks = {one.block for one in browsers if one.block is not None}
        text = _text(self.shown.digest(queries, blocks))
        for browser in browsers:
            if plan is not None:
                self._loop.call_soon_threadsafe(browser.show, "plan", _text(plan))
            self._loop.call_soon_threadsafe(browser.show, "digest", text)

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self.digesting())

    async def stop(self) -> None:
        """Every browser is told to go."""
        self._task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._task
        for browser in list(self.browsers):
            with suppress(Exception):
                await browser.socket.close(1001)


def _text(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), allow_nan=False)
