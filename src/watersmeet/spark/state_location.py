"""Where state lives: a folder on any ``pyarrow.fs`` file system. Files are written whole, in one step, and never changed.

On a local disk (and HDFS) a file is written beside its place and renamed; an object store shows an object only when it is
complete. So a reader sees a whole file or none.
"""

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import fs

from watersmeet.errors import OptionError, StateError

_OBJECT_STORES = ("s3", "gcs", "abfs", "az")


class StateLocation:
    """A folder, opened."""

    def __init__(self, files: fs.FileSystem, root: str) -> None:
        self.files, self.root = files, root.rstrip("/")
        self.local = isinstance(files, fs.LocalFileSystem)
        self._made: set[str] = set()

    def path(self, *parts: str) -> str:
        return "/".join([self.root, *parts])

    def read(self, path: str) -> pa.Buffer | None:
        """The whole file; of a local one, its pages as they are needed. None if there is no such file."""
        try:
            if self.local:
                if os.path.getsize(path) == 0:
                    return pa.py_buffer(b"")
                with pa.memory_map(path) as file:
                    return file.read_buffer()
            with self.files.open_input_file(path) as file:
                return file.read_buffer()
        except FileNotFoundError:
            return None

    def write(self, path: str, parts: Sequence[Any]) -> None:
        """Write a file that is the parts one after the other."""
        try:
            self._make_folder(path.rpartition("/")[0])
            if self.local:
                self._write_local(path, parts)
            else:
                self._write_remote(path, parts)
        except OSError as error:
            raise StateError(
                f"the state of a join must be writable; got {error} for {path}; do: make room or give access there, and start the "
                "query again from its checkpoint: it goes on after its last complete batch"
            ) from error

    def _write_local(self, path: str, parts: Sequence[Any]) -> None:
        fresh = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            with open(fresh, "wb") as out:
                for part in parts:
                    out.write(part)
            os.replace(fresh, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(fresh)
            raise

    def _write_remote(self, path: str, parts: Sequence[Any]) -> None:
        whole = self.files.type_name in _OBJECT_STORES
        fresh = path if whole else f"{path}.{uuid.uuid4().hex}.tmp"
        with self.files.open_output_stream(fresh) as out:
            for part in parts:
                out.write(part)
        if not whole:
            self.files.move(fresh, path)

    def _make_folder(self, folder: str) -> None:
        if folder not in self._made:
            self.files.create_dir(folder, recursive=True)
            self._made.add(folder)

    def names(self, folder: str) -> list[str]:
        """What lies in a folder, in order; nothing if there is none."""
        if self.local:
            try:
                return sorted(os.listdir(folder))
            except (FileNotFoundError, NotADirectoryError):
                return []
        found = self.files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return sorted(info.base_name for info in found)

    def size(self, path: str) -> int | None:
        info = self.files.get_file_info(path)
        return info.size if info.type == fs.FileType.File else None

    def delete(self, path: str) -> None:
        """Delete a file; that somebody else has done so is fine."""
        with suppress(FileNotFoundError):
            self.files.delete_file(path)


@lru_cache(maxsize=16)
def open_location(location: str) -> StateLocation:
    """The folder that a path or URI names."""
    text = location
    if text.startswith("file:/") and not text.startswith("file://"):
        text = "file://" + text[len("file:") :]  # as Hadoop writes it
    try:
        if "://" not in text:
            return StateLocation(fs.LocalFileSystem(), os.path.abspath(text))
        files, root = fs.FileSystem.from_uri(text)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise OptionError(
            f"state= must be a folder or a URI that pyarrow.fs knows (file, hdfs, s3, gs); got {location!r}: {error}"
        ) from error
    return StateLocation(files, root)


def absolute(location: str) -> str:
    """The same for a worker, whose working folder is another."""
    return location if ":/" in location else os.path.abspath(location)
