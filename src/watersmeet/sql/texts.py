"""Text functions: LIKE, SUBSTRING, CONCAT; in Arrow if patterns and places are constant, else row by row."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.sql import types
from watersmeet.sql.types import Value

_FAR = 2**31 - 1  # longer than any text; what Arrow's slice kernels take as "to the end"


def concat(*parts: Value) -> Value:
    """The texts one after the other; NULL if one is NULL."""
    return pc.binary_join_element_wise(*parts, pa.scalar("", types.TEXT), null_handling="emit_null")


def upper(text: Value) -> Value:
    """UPPER: of some letters several come, as Unicode says (ß is SS); Arrow keeps to one."""
    return _cased(text, pc.ascii_upper, str.upper)


def lower(text: Value) -> Value:
    """LOWER, in the same way."""
    return _cased(text, pc.ascii_lower, str.lower)


def _cased(text: Value, ascii_case: Callable[[Value], Value], case: Callable[[str], str]) -> Value:
    if isinstance(text, pa.Scalar):
        return pa.scalar(case(text.as_py()) if text.is_valid else None, text.type)
    if pc.all(pc.string_is_ascii(text)).as_py() is not False:
        return ascii_case(text)
    return pa.array([None if one is None else case(one) for one in text.to_pylist()], text.type)


def like(text: Value, pattern: Value, escape: str, *, ignore_case: bool) -> Value:
    """SQL LIKE: ``%`` any text, ``_`` one character, ``escape`` before either for itself; ILIKE is LIKE in lower case."""
    if ignore_case:
        text, pattern = lower(text), lower(pattern)
    if isinstance(pattern, pa.Scalar):
        regex = like_regex(pattern.as_py(), escape) if pattern.is_valid else ""
        found = pc.match_substring_regex(text, regex)
        return (
            found
            if pattern.is_valid
            else pc.if_else(found, pa.scalar(None, pa.bool_()), pa.scalar(None, pa.bool_()))
        )
    texts = text.to_pylist() if isinstance(text, pa.Array) else [text.as_py()] * len(pattern)
    pairs = zip(texts, pattern.to_pylist(), strict=True)
    return pa.array([_matches(one, like, escape) for one, like in pairs], pa.bool_())


def _matches(text: str | None, pattern: str | None, escape: str) -> bool | None:
    if text is None or pattern is None:
        return None
    return _compiled(like_regex(pattern, escape)).match(text) is not None


@lru_cache(maxsize=1024)
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex.replace(r"\z", r"\Z"))


@lru_cache(maxsize=1024)
def like_regex(pattern: str, escape: str) -> str:
    """A LIKE pattern as a regular expression that both RE2 and Python read."""
    parts, position = [], 0
    while position < len(pattern):
        mark = pattern[position]
        if mark == escape and position + 1 < len(pattern):
            position += 1
            parts.append(re.escape(pattern[position]))
        else:
            parts.append({"%": ".*", "_": "."}.get(mark) or re.escape(mark))
        position += 1
    return f"(?s)\\A{''.join(parts)}\\z"


def substring(text: Value, start: Value, length: Value | None = None) -> Value:
    """SUBSTRING: places count from 1; 0 is 1; a negative start counts from the end."""
    if isinstance(start, pa.Scalar) and (length is None or isinstance(length, pa.Scalar)):
        if not start.is_valid or (length is not None and not length.is_valid):
            return pc.if_else(pc.is_null(text), text, pa.scalar(None, text.type))
        first, last = _slice(start.as_py(), None if length is None else length.as_py())
        kernel = pc.utf8_slice_codeunits if text.type == types.TEXT else pc.binary_slice
        return kernel(text, first, last)
    rows = next(len(part) for part in (text, start, length) if isinstance(part, pa.Array))
    columns = [_listed(part, rows) for part in (text, start, length)]
    missing = length is None
    results: list[Any] = []
    for one, place, size in zip(*columns, strict=True):
        if one is None or place is None or (size is None and not missing):
            results.append(None)
        else:
            first, last = _slice(place, size)
            results.append(one[first:last])
    return pa.array(results, text.type)


def _listed(part: Value | None, rows: int) -> list[Any]:
    if part is None:
        return [None] * rows
    return part.to_pylist() if isinstance(part, pa.Array) else [part.as_py()] * rows


def _slice(start: int, length: int | None) -> tuple[int, int]:
    """Python's slice for SQL's place and length."""
    first = start - 1 if start > 0 else start
    if length is None:
        return first, _FAR
    if length <= 0:
        return 0, 0
    last = first + length
    return first, _FAR if first < 0 <= last else min(last, _FAR)
