"""The server of a page: static files from the package, and a WebSocket. It listens on loopback, unless it is told otherwise.

What stays true: the address is bound before anything is said of it; the token is made anew for each server; nothing is loaded from
elsewhere, and nothing but the files of the bundle is served.
"""

import ipaddress
import secrets
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from watersmeet.errors import OptionError
from watersmeet.extras import need
from watersmeet.page.guard import PUBLIC, Guard
from watersmeet.page.live import Live
from watersmeet.page.spark import SparkView

LOOPBACK, PORT = "127.0.0.1", 8765
BUNDLE = {"app.js": "text/javascript", "app.css": "text/css", "icon.svg": "image/svg+xml"}
MOST_MESSAGE = 1 << 20  # bytes
OPEN = (
    "host= must be a loopback address; got {!r}; on another one everybody on that network can reach the page: who has its address with the "
    "token sees all rows that queries give and can create and drop queries, and nothing of it is encrypted; if that is what you want, {}"
)


def need_page() -> None:
    """Refuse to start without the packages of the extra."""
    for module in ("starlette", "uvicorn", "websockets"):
        need("the page", module, "page")


def checked_host(host: str, anybody: bool, how: str) -> str:
    """An address to listen on; one that others can reach must be wanted so."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise OptionError(f"host= must be an IP address; got {host!r}; for instance {LOOPBACK}") from None
    if address.is_unspecified:
        raise OptionError(
            f"host= must be one address of this machine; got {host!r}, which is all of them; name the one"
        )
    if not address.is_loopback and not anybody:
        raise OptionError(OPEN.format(host, how))
    return str(address)


class Server:
    """Serves one page on a thread of its own, from when it is made until ``close``."""

    def __init__(
        self,
        shown: Live | SparkView,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        anybody: bool = False,
        token: str | None = None,
    ) -> None:
        """``port``: 0 takes a free one."""
        need_page()
        import uvicorn

        host = checked_host(host, anybody, "do: anybody=True, or --anybody-on-the-network")
        self._shown = shown
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        named = f"[{host}]" if ":" in host else host
        hosts = {f"{named}:{self.port}", *([f"localhost:{self.port}"] if host == LOOPBACK else [])}
        self._token = token or secrets.token_urlsafe(24)
        self.url = f"http://{named}:{self.port}/?token={self._token}"
        """The address to open, with the token."""
        config = uvicorn.Config(
            _guarded(shown, hosts, self._token),
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="websockets-sansio",
            ws_max_size=MOST_MESSAGE,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="watersmeet-page", daemon=True
        )
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._thread.join(0.01)

    def wait(self) -> None:
        """Until it ends, by ``close`` or Ctrl-C."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.5)
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Listen no more, and look no more."""
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()
        self._shown.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<page at {self.url}>"


def _bound(host: str, port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        found.close()
        raise OptionError(
            f"the page must have a free address; got {host}:{port}: {error}; give another port, or 0 for any"
        ) from error
    found.listen(64)
    return found


def _guarded(shown: Live | SparkView, hosts: set[str], token: str) -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route, WebSocketRoute

    from watersmeet.page.hub import Hub

    static = files("watersmeet.page") / "static"
    bundle = {name: (static / name).read_bytes() for name in BUNDLE}
    index = (static / "index.html").read_bytes()
    hub: list[Hub] = []

    async def page(request: Request) -> Response:
        return Response(index, media_type="text/html; charset=utf-8")

    async def part(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in bundle:
            return Response("there is no such file\n", 404, media_type="text/plain")
        return Response(bundle[name], media_type=f"{BUNDLE[name]}; charset=utf-8")

    async def live(socket: Any) -> None:
        await hub[0].connected(socket)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        hub.append(Hub(shown))
        await hub[0].start()
        yield
        await hub[0].stop()

    routes = [Route("/", page), Route(f"{PUBLIC}{{name}}", part), WebSocketRoute("/live", live)]
    return Guard(Starlette(routes=routes, lifespan=lifespan), hosts, token)
