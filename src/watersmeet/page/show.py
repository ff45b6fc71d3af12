"""``watersmeet.page(processor)``: a processor of the user's own in a browser."""

from typing import TYPE_CHECKING

from watersmeet.errors import OptionError
from watersmeet.query.processor import Processor

if TYPE_CHECKING:
    from watersmeet.page.server import Server


def page(
    processor: Processor,
    *,
    title: str = "",
    host: str = "127.0.0.1",
    port: int = 0,
    anybody: bool = False,
    writable: bool = True,
) -> "Server":
    """Show a processor in a browser while it runs: ``with wm.page(qp) as page: print(page.url)``, then push as always.

    - ``host``, ``port``: where to listen. Default: this machine alone, at a free port.
    - ``anybody``: True, ``host`` may be an address that others can reach. Whoever has the page's address then sees all rows that queries
      give, and can create and drop queries; nothing is encrypted.
    - ``writable``: False, queries can be looked at, and not changed.

    The server has a thread of its own, until ``close()``. Needs ``watersmeet[page]``.
    """
    if not isinstance(processor, Processor):
        raise OptionError(f"page() shows a Processor; got {type(processor).__name__}")
    from watersmeet.page.live import Live
    from watersmeet.page.server import Server

    return Server(
        Live(processor, title or "Processor", None, writable), host=host, port=port, anybody=anybody
    )
