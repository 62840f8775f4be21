"""Values that are written in a query, as Spark reads them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final, TypeAlias, TypeVar

__all__ = ["DIGITS", "Value", "in_utc", "read_date", "read_timestamp"]

#: A value that is written in a query: never null. A float is Spark's double.
Value: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime

Dated = TypeVar("Dated", date, datetime)

#: A number of Spark's has so many digits at most.
DIGITS: Final = 38
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}:\d{2})(\.\d{1,6})?"
    # Java's zones end at 18 hours.
    r"(Z|[+-](?:18:00|(?:0\d|1[0-7]):[0-5]\d))?"
)


def read_date(text: str) -> date | None:
    """A date; None if it is none that Python has."""
    return _iso(date, text) if _DATE.fullmatch(text) else None


def read_timestamp(text: str) -> datetime | None:
    """A date and a time of day, in UTC if the text has a zone. None if it is no time that Python
    has."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day, time, fraction, zone = match.groups(default="")
    digits = f"{fraction:0<7}" if fraction else ""
    found = _iso(datetime, f"{day}T{time}{digits}{zone}")
    return found if found is None or not zone else in_utc(found)


def in_utc(value: datetime) -> datetime | None:
    """The same moment; None if Python has no year for it (0, 10000)."""
    try:
        return value.astimezone(UTC)
    except OverflowError:
        return None


def _iso(kind: type[Dated], text: str) -> Dated | None:
    try:
        return kind.fromisoformat(text)
    except ValueError:
        return None
