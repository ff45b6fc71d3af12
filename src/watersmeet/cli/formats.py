"""File formats by name and by the end of a file's name."""

from pathlib import Path

from watersmeet.errors import OptionError

ENDS = {
    ".parquet": "parquet", ".csv": "csv", ".csv.gz": "csv.gz", ".ndjson": "ndjson", ".jsonl": "ndjson",
    ".ndjson.gz": "ndjson.gz", ".jsonl.gz": "ndjson.gz", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
FORMATS = tuple(dict.fromkeys(ENDS.values()))
LISTED = ", ".join(FORMATS)


def checked_format(given: str | None, option: str) -> str | None:
    """The format given by the option of that name, if any."""
    if given is not None and given not in FORMATS:
        raise OptionError(f"{option} must be one of {LISTED}; got {given!r}")
    return given


def format_of(what: str, path: str, given: str | None, option: str) -> str:
    """The format of the file: by its name; as ``given``, by the option of that name, where the name does not tell."""
    given = checked_format(given, option)
    end = end_of(path)
    if not end and given is None:
        raise OptionError(f"{what} must end in {', '.join(ENDS)}; got {path!r}; rename it, or give {option}")
    return ENDS.get(end, given or "")


def format_of_folder(path: str) -> str:
    """The format of a folder: by its name, else by the names of its files, which must agree."""
    if end_of(path):
        return ENDS[end_of(path)]
    inside = (file.relative_to(path) for file in Path(path).rglob("*") if file.is_file())
    names = sorted(
        str(file) for file in inside if not any(part.startswith((".", "_")) for part in file.parts)
    )
    kinds = {
        ENDS.get(end_of(name)): name for name in names
    }  # hidden files, and Spark's _SUCCESS, are never read
    if len(kinds) == 1 and None not in kinds:
        return next(kind for kind in kinds if kind)
    got = " and ".join(map(repr, list(kinds.values())[:2])) or "no file"
    raise OptionError(
        f"the files of a folder must have one format, told by the ends of their names: {', '.join(ENDS)}; got {got} in "
        f"{path!r}; give --format, or a folder of such files alone"
    )


def end_of(path: str) -> str:
    """The end of a file's name that tells its format, ``.csv.gz`` for instance; empty if none does."""
    lowered = path.lower().rstrip("/")
    return max((end for end in ENDS if lowered.endswith(end)), key=len, default="")
