"""Files and folders that a long run writes at its end: made sure of before it starts."""

import os
from pathlib import Path

from watersmeet.errors import OptionError


def may_write(path: Path) -> Path:
    """The file can be written: its folder is there, or is made."""
    if path.is_dir():
        raise OptionError(f"a file must be given; got {str(path)!r}, a folder; give a file's name in it")
    folder(path.parent)
    if path.exists() and not os.access(path, os.W_OK):
        raise OptionError(f"a file must be one that you may write to; got {str(path)!r}; choose another")
    return path


def folder(path: Path) -> Path:
    """The folder is there, or is made, and can be written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            f"a folder must be one that can be made; got {str(path)!r}: {error}; choose another"
        ) from error
    if not os.access(path, os.W_OK):
        raise OptionError(f"a folder must be one that you may write to; got {str(path)!r}; choose another")
    return path
