"""Dates, timestamps, intervals and numbers as SQL text writes them, read without loss.

An interval is a pair (months, microseconds): months have no fixed length, so the two never mix. A value
that cannot be read gives None: whether that is NULL (a cast) or an error (a literal) is the caller's to
say.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa

Interval = tuple[int, int]
"""(months, microseconds)."""

_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_SHORT = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "h": "hour",
}
_DATE = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_EPOCH = date(1970, 1, 1).toordinal()
_ZONE = re.compile(r"(?<=[\d ])(?:Z|UTC|([+-])(\d{1,2}):?(\d{2})?)$", re.IGNORECASE)
_DAY_TIME = re.compile(r"([+-])?(?:(\d+)\s+)?(\d+):(\d+)(?::(\d+)(?:\.(\d{1,9}))?)?$")
_YEAR_MONTH = re.compile(r"([+-])?(\d+)-(\d+)$")
_PART = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def number(text: str) -> tuple[int | Decimal | float, pa.DataType] | None:
    """A number as Spark reads it: INT or BIGINT; exact decimal if it has a point; double if it has an exponent."""
    if "e" in text.lower():
        return float(text), pa.float64()
    value = Decimal(text)
    if "." not in text:
        if -(2**31) <= int(text) < 2**31:
            return int(text), pa.int32()
        if -(2**63) <= int(text) < 2**63:
            return int(text), pa.int64()
        digits = len(text.lstrip("+-0"))
        return (value, decimal_type(digits, 0)) if digits <= 76 else None
    exponent = value.as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else 0
    precision = max(len(value.as_tuple().digits), scale, 1)
    return (value, decimal_type(precision, scale)) if precision <= 76 else (float(text), pa.float64())


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """The narrowest Arrow decimal (128 or 256 bits) of that precision."""
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def parse_days(text: str) -> int | None:
    """Days since 1970 of ``2024-01-31``, ``2024-01`` or ``2024``; after a whole date anything may follow a blank or T."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day = int(found[1]), int(found[2] or 1), int(found[3] or 1)
    if not (1 <= month <= 12 and 1 <= day <= _month_days(year, month)):
        return None
    start = np.datetime64(0, "Y") + np.timedelta64(year - 1970, "Y")
    days = (start.astype("datetime64[M]") + np.timedelta64(month - 1, "M")).astype("datetime64[D]")
    count = int(days.astype(np.int64)) + day - 1
    return count if -(2**31) <= count < 2**31 else None


def _month_days(year: int, month: int) -> int:
    return monthrange(2000 + year % 400, month)[1]  # the calendar repeats after 400 years


def parse_date(text: str) -> date | None:
    """The same as a Python date; None outside of the years 1 to 9999."""
    days = parse_days(text)
    try:
        return None if days is None else date.fromordinal(_EPOCH + days)
    except (ValueError, OverflowError):
        return None


def parse_timestamp(text: str) -> datetime | None:
    """``2024-01-31 12:34:56.789`` or with ``T`` between; aware (UTC) if the text ends in a zone."""
    body = text.strip()
    zone = _ZONE.search(body) if ":" in body else None
    if zone is not None:
        body = body[: zone.start()].strip()
    day, _, clock = body.replace("T", " ").partition(" ")
    start = parse_date(day)
    found = re.match(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?$", clock.strip() or "0")
    if start is None or found is None:
        return None
    micro = int((found[4] or "0").ljust(6, "0")[:6])
    try:
        naive = datetime(
            start.year, start.month, start.day, int(found[1]), int(found[2] or 0), int(found[3] or 0), micro
        )
    except ValueError:
        return None
    return naive if zone is None else _as_utc(naive, zone)


def _as_utc(naive: datetime, zone: re.Match[str]) -> datetime | None:
    if zone[1] is None:
        return naive.replace(tzinfo=UTC)
    try:
        return datetime.fromisoformat(
            f"{naive.isoformat()}{zone[1]}{zone[2]:0>2}:{zone[3] or '00'}"
        ).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_interval(text: str, unit: str | None) -> Interval | None:
    """``'10' SECOND``, ``'1 hour 30 minutes'``, ``'1 02:00:00' DAY TO SECOND``, ``'1-6' YEAR TO MONTH``.

    Months fit 32 bits and microseconds 64, as in Spark.
    """
    found = _interval(text.strip(), unit)
    fits = found is not None and abs(found[0]) < 2**31 and abs(found[1]) < 2**63
    return found if fits else None


def _interval(text: str, unit: str | None) -> Interval | None:
    if unit is not None and " TO " in unit:
        return _compound(text, unit)
    if unit is not None:
        return _amount(text, unit)
    months = micros = position = 0
    while position < len(text):
        found = _PART.match(text, position)
        one = None if found is None else _amount(found[1], found[2])
        if found is None or one is None:
            return None
        months, micros, position = months + one[0], micros + one[1], found.end()
    return (months, micros) if text else None


def _amount(text: str, unit: str) -> Interval | None:
    name = unit.lower()
    name = _SHORT.get(name, name.rstrip("s") if name not in _SHORT else name)
    try:
        amount = Decimal(text)
    except ArithmeticError:
        return None
    if not amount.is_finite() or abs(amount) >= 2**63:
        return None
    if name in _MONTHS and amount == int(amount):
        return int(amount) * _MONTHS[name], 0
    micros = amount * _MICROS.get(name, 0)
    return (0, int(micros)) if name in _MICROS and micros == int(micros) else None


def _compound(text: str, unit: str) -> Interval | None:
    if unit.upper() == "YEAR TO MONTH":
        found = _YEAR_MONTH.match(text)
        if found is None:
            return None
        months = int(found[2]) * 12 + int(found[3])
        return (-months if found[1] == "-" else months), 0
    return _clock(text, unit.upper())


def _clock(text: str, unit: str) -> Interval | None:
    """``D HH:MM:SS.f`` and its shorter forms, for DAY/HOUR/MINUTE TO HOUR/MINUTE/SECOND."""
    hours_only = re.match(r"([+-])?(\d+)\s+(\d+)$", text) if unit == "DAY TO HOUR" else None
    if hours_only is not None:
        micros = int(hours_only[2]) * _MICROS["day"] + int(hours_only[3]) * _MICROS["hour"]
        return 0, -micros if hours_only[1] == "-" else micros
    found = _DAY_TIME.match(text)
    if found is None:
        return None
    first, second, third = int(found[3]), int(found[4]), int(found[5] or 0)
    if unit == "MINUTE TO SECOND" and found[5] is None:
        first, second, third = 0, first, second
    micros = int(found[2] or 0) * _MICROS["day"] + first * _MICROS["hour"] + second * _MICROS["minute"]
    micros += third * _MICROS["second"] + int((found[6] or "0").ljust(6, "0")[:6])
    return 0, -micros if found[1] == "-" else micros
