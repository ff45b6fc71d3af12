"""Statements to a job while it runs, through a Unix socket of the user's own.

A message is a text, and the answer two: whether it was done, and what to show. The socket has mode 0600 from the moment it is
there, so that only the user can speak to the job; it goes when the job ends.
"""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from watersmeet.errors import OptionError, StateError, WatersmeetError

MOST = 1 << 20  # bytes of a message
PATIENCE = 30.0  # seconds for the other side to speak
DONE, REFUSED = "done", "refused"
Answer = Callable[[str], str]


class Listener:
    """Listens at a path while the block runs. ``answer``: what is done with a text, on another thread; a WatersmeetError refuses it."""

    def __init__(self, path: str, answer: Answer) -> None:
        self._path, self._answer = path, answer
        _make_free(path)
        self._socket = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)  # nobody else may connect, not for a moment
        try:
            self._socket.bind(path)
        except OSError as error:
            self._socket.close()
            raise OptionError(
                f"--socket must be a place for a socket; got {path!r}: {error}; choose another"
            ) from error
        finally:
            os.umask(before)
        self._socket.listen()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> "Listener":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._socket.close()
        Path(self._path).unlink(missing_ok=True)
        self._thread.join(PATIENCE)

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            with connection:
                try:
                    connection.settimeout(PATIENCE)
                    connection.sendall(self._answered(_received(connection)).encode())
                except OSError:  # who has asked is gone
                    continue

    def _answered(self, text: str) -> str:
        try:
            return f"{DONE}\n{self._answer(text)}"
        except WatersmeetError as error:
            return f"{REFUSED}\n{error}"


def _make_free(path: str) -> None:
    """A socket that nobody listens at is left over, and goes; anything else stays."""
    place = Path(path)
    if not place.exists():
        return
    if place.is_socket():
        with socket.socket(socket.AF_UNIX) as other:
            try:
                other.connect(path)
            except ConnectionRefusedError:
                place.unlink()
                return
            except OSError as error:
                raise OptionError(f"--socket must be a place of your own; got {path!r}: {error}") from error
    raise OptionError(f"--socket must be a free place; got {path!r}, which is there; choose another")


def _received(connection: socket.socket) -> str:
    data = b""
    while part := connection.recv(65_536):
        data += part
        if len(data) > MOST:
            raise OptionError(
                f"a message must have at most {MOST:,} bytes; got more; send the statements one by one"
            )
    return data.decode(errors="replace")


def tell(path: str, text: str) -> str:
    """Send a text to a job; what it answers. A refusal is raised."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10 * PATIENCE)  # a push may be on its way
        try:
            connection.connect(path)
            connection.sendall(text.encode())
            connection.shutdown(socket.SHUT_WR)
            answer = _received(connection)
        except OSError as error:
            raise OptionError(
                f"a socket must be one that a job listens at; got {path!r}: {error}; start one with: watersmeet run job.sql "
                "--stream ... --socket PATH"
            ) from error
    done, _, said = answer.partition("\n")
    if done == REFUSED:
        raise StateError(said)
    if done != DONE:
        raise OptionError(f"a job must answer; got nothing from {path!r}: it may have ended")
    return said
