"""Times (`metav1.Time` of k8s.io/apimachinery): message {1: seconds since 1970, 2: nanoseconds}."""

import re
from datetime import date
from functools import lru_cache
from typing import Any, Final

from wasm_runtime.protobuf import scalar
from wasm_runtime.protobuf.errors import EncodeError

_MAX_CHARS: Final = 64
"""Characters of a time. Go does not bound the digits of a fraction, but what is cached must be."""

# What Go's time.Parse(time.RFC3339, text) takes: an hour of one digit, a decimal comma and
# offsets up to 24:60, too. Which months have 31 days is left to datetime.
_RFC3339: Final = re.compile(
    r"""([0-9]{4}) - ([0-9]{2}) - ([0-9]{2})
    T ([01]?[0-9] | 2[0-3]) : ([0-5][0-9]) : ([0-5][0-9]) (?:[.,][0-9]+)?
    (?: Z | ([+-]) ([01][0-9] | 2[0-4]) : ([0-5][0-9] | 60) )""",
    re.VERBOSE,
)

_EPOCH: Final = date(1970, 1, 1).toordinal()

_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
"""The Gregorian calendar repeats itself after so many years, or days."""

_seconds = scalar.integer(1, 64)


def timestamp(value: Any) -> bytes:
    """Encode a time from a string in RFC 3339.

    The fraction of a second is left out, as Go's `Time` does both when it writes and when it
    reads protobuf (pkg/apis/meta/v1/time_proto.go).

    Raises:
        EncodeError: *value* is no time.
    """
    data = _encode(value) if isinstance(value, str) and len(value) <= _MAX_CHARS else None
    if data is None:
        raise EncodeError("a time in RFC 3339", value)
    return data


@lru_cache(maxsize=1024)
def _encode(text: str) -> bytes | None:
    """Encode *text*; None if it is no time. A pod's times come again with every verb."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    try:
        days = _days(year, month, day)
    except ValueError:
        return None
    sign, offset_hour, offset_minute = match.groups()[6:]
    offset = int(f"{sign}1") * (int(offset_hour) * 60 + int(offset_minute)) * 60 if sign else 0
    return _seconds(((days * 24 + hour) * 60 + minute) * 60 + second - offset)


def _days(year: int, month: int, day: int) -> int:
    """Count the days from 1970 to a date; RFC 3339 has a year 0, Python's calendar has none.

    Raises:
        ValueError: there is no such day.
    """
    cycle, year_of_cycle = divmod(year, _CYCLE_YEARS)
    ordinal = date(_CYCLE_YEARS + year_of_cycle, month, day).toordinal()
    return ordinal + (cycle - 1) * _CYCLE_DAYS - _EPOCH
