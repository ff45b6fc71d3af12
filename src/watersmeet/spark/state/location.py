"""Where state lives: a folder on any ``pyarrow.fs`` file system. Files are written whole, in one step, and never changed.

On a local disk (and HDFS) a file is written beside its place and renamed; an object store shows an object only when it is
complete. So a reader sees a whole file or none.
"""

import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import fs

from watersmeet.errors import OptionError, StateError

CHECKPOINT = "spark.sql.streaming.checkpointLocation"
FOLDER = "_watersmeet"  # in the session's checkpoint location, beside the checkpoints of its queries
_OBJECT_STORES = ("s3", "gcs", "abfs", "az")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//?)")
_OTHERWISE = {  # what Hadoop calls by another name
    "s3a": 's3://, as in state="s3://bucket/folder"',
    "s3n": 's3://, as in state="s3://bucket/folder"',
    "dbfs": "the folder that it is mounted at, such as /dbfs/folder",
}


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
        with suppress(FileNotFoundError, NotADirectoryError), _told("readable", path):
            if self.local:
                if os.path.getsize(path) == 0:
                    return pa.py_buffer(b"")
                with pa.memory_map(path) as file:
                    return file.read_buffer()
            with self.files.open_input_file(path) as file:
                return file.read_buffer()
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
            self._made.clear()  # whatever was there may be gone
            raise _unreachable("writable", path, error) from error

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
            with suppress(FileNotFoundError, NotADirectoryError), _told("readable", folder):
                return sorted(os.listdir(folder))
            return []
        found = self.files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return sorted(info.base_name for info in found)

    def folders(self, folder: str) -> list[str]:
        """The folders in a folder, in order; nothing if there is none."""
        found = self.files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == fs.FileType.Directory)

    def size(self, path: str) -> int | None:
        info = self.files.get_file_info(path)
        return info.size if info.type == fs.FileType.File else None

    def delete(self, path: str) -> None:
        """Delete a file; that somebody else has done so is fine."""
        with suppress(FileNotFoundError), _told("writable", path):
            self.files.delete_file(path)


@contextmanager
def _told(what: str, path: str) -> Iterator[None]:
    """Clear words for what the file system refuses. That something is not there is no refusal."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise _unreachable(what, path, error) from error


def _unreachable(what: str, path: str, error: OSError) -> StateError:
    return StateError(
        f"the state of a join must be {what}; got {error} for {path}; do: make room or give access there, and start the "
        "query again from its checkpoint: it goes on after its last complete batch"
    )


@lru_cache(maxsize=16)
def open_location(location: str) -> StateLocation:
    """The folder that a path or URI names."""
    uri = _SCHEME.match(location)
    if uri is None:
        return StateLocation(fs.LocalFileSystem(), os.path.abspath(location))
    scheme, slashes = uri.group(1).lower(), uri.group(2)
    if scheme in _OTHERWISE:
        raise OptionError(
            f"state= must be a folder or a URI that pyarrow.fs knows (file, hdfs, s3, gs, abfs); got {location!r}; do: write "
            f"{_OTHERWISE[scheme]}"
        )
    text = location
    if slashes == "/":
        if scheme != "file":
            raise OptionError(
                f"state= must be a folder, or a URI with two slashes after its scheme; got {location!r}; do: write "
                f"{scheme}://HOST{location[uri.end() - 1 :]}, with the host or bucket that it lies in"
            )
        text = "file://" + location[len("file:") :]  # as Hadoop writes it
    try:
        files, root = fs.FileSystem.from_uri(text)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise OptionError(
            f"state= must be a folder or a URI that pyarrow.fs knows (file, hdfs, s3, gs, abfs); got {location!r}: {error}"
        ) from error
    return StateLocation(files, root)


def absolute(location: str) -> str:
    """The same for a worker, whose working folder is another."""
    return location if _SCHEME.match(location) else os.path.abspath(location)
