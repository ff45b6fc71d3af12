"""Who may speak to the server: requests to the address that it has printed, from the page that it has served, with its token.

What stays true: a name that somebody has made lead to this machine (DNS rebinding) is refused by Host, a page from elsewhere by Origin, and
another user or program of this machine by the token. The bundle itself is public, and is served without one.
"""

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from secrets import compare_digest
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
PUBLIC = "/static/"


class Guard:
    """In front of an application: what is not meant for it never reaches it."""

    def __init__(self, app: App, hosts: Collection[str], token: str) -> None:
        self._app, self._hosts, self._token = app, frozenset(hosts), token

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self.refusal(scope)
        if scope["type"] == "websocket":
            if refusal is None:
                await self._app(scope, receive, send)
            else:
                await receive()
                await send({"type": "websocket.close", "code": 4403, "reason": refusal})
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        if refusal is None:
            await self._app(scope, receive, with_headers)
            return
        body = f"{refusal}\n".encode()
        head = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
        await with_headers({"type": "http.response.start", "status": 403, "headers": head})
        await send({"type": "http.response.body", "body": body})

    def refusal(self, scope: Scope) -> str | None:
        """Why a request is refused; None: it is not."""
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value.decode("latin-1"))
        hosts, origins = headers.get(b"host", []), headers.get(b"origin", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return f"Host must be the address that was printed; got {', '.join(hosts) or 'none'}"
        socket = scope["type"] == "websocket"
        if (socket or origins) and origins != [f"http://{hosts[0]}"]:
            return f"Origin must be the page itself; got {', '.join(origins) or 'none'}"
        if not socket and scope["method"] not in ("GET", "HEAD"):
            return f"the method must be GET; got {scope['method']}"
        if not socket and scope["path"].startswith(PUBLIC):
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if len(given) != 1 or not compare_digest(given[0].encode(), self._token.encode()):
            return "the address must have the token that was printed; open the whole address, from http:// to its end"
        return None
