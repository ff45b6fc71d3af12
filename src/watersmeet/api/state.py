"""A saved state on disk: one JSON file that names the others, with their sizes and checksums.

Saving writes new files first and then replaces ``state.json`` in one step: a crash leaves the old state or the new one, never a mixture.
Loading checks every file before anything is made of it; a missing or damaged one is refused by name.
"""

import base64
import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from watersmeet.errors import StateError

HEADER = "state.json"
FORMAT = 1
JOIN = "StreamJoin"  # whose state it is, if a header does not say


def write_state(
    directory: str | os.PathLike[str], header: Mapping[str, Any], tables: Mapping[str, pa.Table]
) -> None:
    """Write ``header`` and ``tables``; an older state in the directory is replaced."""
    folder = Path(directory)
    if folder.exists() and not folder.is_dir():
        raise StateError(f"a state must be saved to a directory; got the file {folder}; name another place")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"a state must be saved to a directory; {folder} cannot be made: {error}") from error
    if any(folder.iterdir()) and not (folder / HEADER).exists():
        raise StateError(
            f"a state must be saved to a new or empty directory, or over an older state; got {folder}, with other files"
        )
    files = {name: _write_table(folder, name, table) for name, table in tables.items()}
    body = {"format": FORMAT, "files": files, **header}
    text = json.dumps({"checksum": _digest(_canonical(body)), **body}, indent=1)
    fresh = folder / f"{uuid.uuid4().hex}.tmp"
    _write(fresh, text.encode())
    os.replace(fresh, folder / HEADER)
    kept = {entry["file"] for entry in files.values()} | {HEADER}
    for path in folder.iterdir():
        if path.name not in kept and path.suffix in (".arrow", ".tmp"):
            path.unlink()


def _write_table(folder: Path, name: str, table: pa.Table) -> dict[str, Any]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    file = f"{quote(name, safe='')[:80]}-{uuid.uuid4().hex[:12]}.arrow"  # a name may hold what a path may not
    _write(folder / file, data)
    return {"file": file, "bytes": data.size, "checksum": _digest(data)}


def _write(path: Path, data: Any) -> None:
    with open(path, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def read_state(
    directory: str | os.PathLike[str], kind: str = JOIN
) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Header and tables of a saved state, every checksum verified. ``kind``: whose state it must be."""
    folder = Path(directory)
    try:
        header = json.loads(_read(folder / HEADER))
        body = {name: value for name, value in header.items() if name != "checksum"}
        intact = header["checksum"] == _digest(_canonical(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{folder / HEADER} is damaged: {error}; restore it from a copy") from error
    if not intact:
        raise StateError(
            f"{folder / HEADER} is damaged: its checksum does not fit its text; restore it from a copy"
        )
    if header["format"] != FORMAT:
        raise StateError(
            f"{folder / HEADER} must have format {FORMAT}; got {header['format']!r}; load it with the version that saved it"
        )
    found = header.get("kind", JOIN)
    if found != kind:
        raise StateError(
            f"{folder} must hold the state of a {kind}; it holds that of a {found}; load it with {found}.load"
        )
    return header, {
        name: _read_table(folder / entry["file"], entry) for name, entry in header["files"].items()
    }


def _read_table(path: Path, entry: Mapping[str, Any]) -> pa.Table:
    data = _read(path)
    if len(data) != entry["bytes"] or _digest(data) != entry["checksum"]:
        raise StateError(
            f"{path} is damaged: it must have {entry['bytes']} bytes with checksum {entry['checksum'][:12]}...; got {len(data)} bytes "
            f"with {_digest(data)[:12]}...; restore it from a copy"
        )
    return pa.ipc.open_file(pa.BufferReader(data)).read_all()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StateError(f"{path} is missing: no complete state was saved there") from error


def _canonical(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True).encode()


def _digest(data: Any) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def schema_to_json(schema: pa.Schema | None) -> str | None:
    return None if schema is None else base64.b64encode(schema.serialize().to_pybytes()).decode()


def schema_from_json(data: str | None) -> pa.Schema | None:
    return None if data is None else pa.ipc.read_schema(pa.BufferReader(base64.b64decode(data)))
