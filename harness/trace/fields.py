"""Strict JSON: objects and the few kinds of value a trace holds, each checked where it is read."""

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from harness.errors import TraceError

MAX_TOKENS = 2**31 - 1
MAX_SPAN_US = (2**63 - 1) // 1000  # due times are 64-bit nanoseconds

_SHOWN = 60


def json_object(text: str, where: str) -> dict[str, Any]:
    """The JSON object in `text`. Raises TraceError for anything else, a key given twice, and NaN or Infinity."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeated)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"not JSON: {error}", where=where, remedy="correct or remove this line") from error
    if not isinstance(value, dict):
        raise TraceError(f"expected a JSON object, found {shown(value)}", where=where, remedy="write one object a line")
    return value


def pick(row: Mapping[str, Any], names: tuple[str, ...], where: str) -> tuple[str, Any]:
    """The one key of `names` that `row` has, and its value. Raises TraceError if it has none or several."""
    present = [name for name in names if name in row]
    if not present:
        raise TraceError(f"{names[0]} is missing", where=where, remedy=f"add {names[0]!r} to this row")
    if len(present) > 1:
        raise TraceError(f"{present[0]} and {present[1]} mean the same", where=where, remedy="keep one of them")
    return present[0], row[present[0]]


def tokens(row: Mapping[str, Any], names: tuple[str, ...], where: str) -> int:
    """A length in tokens, 1 to 2**31 - 1; 512.0 counts as 512. Raises TraceError that names the field and its value."""
    name, value = pick(row, names, where)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 1 <= value <= MAX_TOKENS or value != int(value):
        refuse(name, value, where, f"write a whole number of tokens from 1 to {MAX_TOKENS}")
    return int(value)


def timestamp(row: Mapping[str, Any], names: tuple[str, ...], where: str) -> int | float:
    """A point in time in the trace's unit, finite, from 0. Raises TraceError that names the field and its value."""
    name, value = pick(row, names, where)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        refuse(name, value, where, "write a finite number that is not negative")
    return value


def block_ids(row: Mapping[str, Any], where: str) -> tuple[int | str, ...]:
    """The row's `hash_ids`: whole numbers of any size, or strings. Raises TraceError that names the id at fault."""
    name, value = pick(row, ("hash_ids",), where)
    if not isinstance(value, list):
        refuse(name, value, where, "write a list of block ids")
    for position, block in enumerate(value):
        opaque = (isinstance(block, int) and not isinstance(block, bool) and block >= 0) or (
            isinstance(block, str) and block != ""
        )
        if not opaque:
            refuse(f"{name}[{position}]", block, where, "write ids as whole numbers from 0, or as strings")
    return tuple(value)


def text(row: Mapping[str, Any], name: str, where: str) -> str:
    """An optional string, empty if the key is absent. Raises TraceError for another value, lone surrogates included."""
    value = row.get(name, "")
    if not isinstance(value, str) or any("\ud800" <= character <= "\udfff" for character in value):
        refuse(name, value, where, "write a string, or leave the key out")
    return value


def refuse(name: str, value: object, where: str, remedy: str) -> NoReturn:
    """Raises the TraceError for a value that cannot be used."""
    raise TraceError(f"{name} is {shown(value)}", where=where, remedy=remedy)


def shown(value: object) -> str:
    """A value as an error message shows it: JSON's spelling, cut if it is long."""
    spelled = json.dumps(value)
    return spelled if len(spelled) <= _SHOWN else f"{spelled[:_SHOWN]}..."


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice!r} appears twice")
    return row
