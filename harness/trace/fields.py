"""The few kinds of value a trace holds, each checked where it is read: strict JSON, lengths, points in time, ids."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, NoReturn

import orjson

from harness.errors import TraceError
from harness.trace.options import TIME_UNITS_NS

MAX_TOKENS = 2**31 - 1
MAX_SPAN_US = (2**63 - 1) // 1000  # due times are 64-bit nanoseconds

_SHOWN = 60
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
_DECIMAL = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d{1,4})?", re.ASCII)
_WALL_CLOCK = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RowError(TraceError):
    """A row that cannot be used. `reason` is what it is counted under where bad rows are dropped."""

    def __init__(self, what: str, *, remedy: str, reason: str, where: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.reason = reason


class DroppedRowError(RowError):
    """A row that the format or an option says to leave out, whatever is done with bad rows."""


def refuse(name: str, value: object, remedy: str) -> NoReturn:
    """Raises the RowError for a value that cannot be used."""
    field = re.sub(r"\[.*", "", name)
    raise RowError(f"{name} is {shown(value)}", remedy=remedy, reason=f"{field}: not a value it can have")


def shown(value: object) -> str:
    """A value as an error message shows it: JSON's spelling, cut if it is long."""
    spelled = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)
    return spelled if len(spelled) <= _SHOWN else f"{spelled[:_SHOWN]}..."


def json_row(line: bytes) -> dict[str, Any]:
    """The JSON object in `line`, decimal fractions as Decimal, so that no digit is lost.

    Raises RowError for a blank line and anything that is no object, for bytes that are not UTF-8, for a key given
    twice, and for NaN or Infinity.
    """
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        row = None
    # orjson takes the last of repeated keys, and makes floats of fractions and of integers beyond 64 bits. As many
    # colons as keys means that no key came twice; anything else is read again, by the strict reader.
    if type(row) is dict and line.count(b":") == len(row) and float not in map(type, row.values()):
        ids = row.get("hash_ids")
        if type(ids) is not list or float not in map(type, ids):
            return row
    if not line.strip():
        raise RowError("blank line", remedy="remove it", reason="blank line")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise RowError(f"not UTF-8: {error.reason}", remedy="save the file as UTF-8", reason="not UTF-8") from error
    return json_object(text)


def json_object(text: str) -> dict[str, Any]:
    """The JSON object in `text`, strictly: as `json_row`, for objects that hold objects too. Raises RowError."""
    try:
        value = _STRICT.decode(text)
    except (ValueError, RecursionError) as error:
        raise RowError(f"not JSON: {error}", remedy="correct or remove this line", reason="not JSON") from error
    if not isinstance(value, dict):
        raise RowError(
            f"expected a JSON object, found {shown(value)}", remedy="write one object a line", reason="not an object"
        )
    return value


def pick(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The value of the one key of `names` that `row` has. Raises RowError if it has none or several."""
    present = [name for name in names if name in row]
    if not present:
        raise RowError(f"{names[0]} is missing", remedy=f"add {names[0]!r} to this row", reason=f"{names[0]}: missing")
    if len(present) > 1:
        raise RowError(
            f"{present[0]} and {present[1]} mean the same",
            remedy="keep one of them",
            reason=f"{names[0]}: given under two names",
        )
    return row[present[0]]


def token_count(value: object, name: str, *, least: int = 1) -> int:
    """A length in tokens, `least` to 2**31 - 1; 512.0 counts as 512, "512" does not. Raises RowError."""
    if type(value) is int and least <= value <= MAX_TOKENS:
        return value
    whole = isinstance(value, Decimal) and value.is_finite() and least <= value <= MAX_TOKENS and value == int(value)
    if not isinstance(value, Decimal) or not whole:
        refuse(name, value, f"write a whole number of tokens from {least} to {MAX_TOKENS}")
    return int(value)


def number(text: str, name: str) -> int | Decimal:
    """The number that `text` spells in ASCII digits, exactly. Raises RowError, for nan, inf and 1_000 too."""
    if len(text) < 30 and text.isdecimal() and text.isascii():
        return int(text)
    if not _DECIMAL.fullmatch(text):
        refuse(name, text, "write a number in decimal digits")
    return Decimal(text)


def instant_us(value: object, unit: str, name: str) -> int:
    """A point in time in `unit` (ns, us, ms, s), finite and not negative, as whole us, halves rounded up.

    Raises RowError for another kind of value and for one that is no time of this era in any unit.
    """
    if type(value) is int and 0 <= value < 10**24:
        thousandths = value * TIME_UNITS_NS[unit]
        return thousandths // 1000 if unit != "ns" else (value + 500) // 1000
    if not isinstance(value, Decimal) or not value.is_finite() or value < 0 or value.adjusted() > 23:
        refuse(name, value, "write a finite number that is not negative")
    if value.adjusted() < -30:
        return 0
    ns = _EXACT.multiply(value, Decimal(TIME_UNITS_NS[unit]))
    return int(_EXACT.divide(ns, Decimal(1000)).to_integral_value(rounding=ROUND_HALF_UP))


def wall_clock_us(text: str, name: str) -> tuple[int, bool]:
    """A date and time as us since 1970, and whether it names its offset from UTC (else it is taken as UTC).

    Up to nine fractional digits, rounded half up: Azure writes seven; `strptime` refuses and `fromisoformat` cuts.
    Raises RowError for anything else.
    """
    match = _WALL_CLOCK.fullmatch(text)
    remedy = "write YYYY-MM-DD HH:MM:SS with up to nine decimals, then nothing or the offset from UTC"
    if match is None:
        refuse(name, text, remedy)
    *whole, fraction, offset = match.groups()
    try:
        zone = datetime.strptime(offset.replace("Z", "+00:00"), "%z").tzinfo if offset else UTC
        since = datetime(*map(int, whole), tzinfo=zone) - _EPOCH  # type: ignore[misc,arg-type]
    except ValueError as error:
        raise RowError(
            f"{name} is {shown(text)}: {error}", remedy=remedy, reason=f"{name}: not a value it can have"
        ) from error
    ns = int((fraction or "").ljust(9, "0"))
    return (since.days * 86_400 + since.seconds) * 1_000_000 + (ns + 500) // 1000, bool(offset)


def block_ids(value: object, name: str = "hash_ids") -> Sequence[int | str]:
    """Block ids: whole numbers of any size from 0, or strings that are not empty. Raises RowError for any other."""
    if not isinstance(value, list):
        refuse(name, value, "write a list of block ids")
    if set(map(type, value)) <= {int} and (not value or min(value) >= 0):
        return value
    for position, block in enumerate(value):
        if not (type(block) is int and block >= 0) and not (isinstance(block, str) and block):
            refuse(f"{name}[{position}]", block, "write ids as whole numbers from 0, or as strings")
    return value


def text(row: Mapping[str, Any], name: str) -> str:
    """An optional string, empty if absent or null. Raises RowError for another value, and for lone surrogates."""
    value = row.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or (not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value)):
        refuse(name, value, "write a string, or leave the key out")
    return value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice!r} appears twice")
    return row


_STRICT = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeated)
