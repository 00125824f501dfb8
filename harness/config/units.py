"""Sizes, rates, times and ratios as people write them: 1GiB, 20MB/s, 250ms, 0.34 Bstar, 1/12.8."""

import re
from dataclasses import dataclass
from fractions import Fraction

_BYTES = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")
_RATIO = re.compile(r"\s*([0-9.]+)\s*(?:/\s*([0-9.]+)\s*)?")
_BSTAR = "Bstar"


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bytes a second, or a multiple of B* = s R, which the probe of the machine at hand makes a number."""

    bytes_per_s: float | None = None
    bstar: float | None = None

    def resolve(self, bstar_bytes_per_s: float) -> float:
        """Bytes a second, given this machine's B* in bytes a second."""
        if self.bytes_per_s is not None:
            return self.bytes_per_s
        return (self.bstar or 0.0) * bstar_bytes_per_s


def parse_bytes(text: object) -> int:
    """A size such as `1GiB` in bytes. Raises ValueError that names the units known."""
    value, unit = _split(text, "a size such as 1GiB")
    if unit not in _BYTES:
        raise ValueError(f"{text!r} is not a size: the unit is one of {', '.join(_BYTES)}")
    return round(value * _BYTES[unit])


def parse_seconds(text: object) -> float:
    """A time such as `250ms` in seconds. Raises ValueError that names the units known."""
    value, unit = _split(text, "a time such as 250ms")
    if unit not in _SECONDS:
        raise ValueError(f"{text!r} is not a time: the unit is one of {', '.join(_SECONDS)}")
    return value * _SECONDS[unit]


def parse_bandwidth(text: object) -> Bandwidth:
    """A rate such as `20MB/s`, or `0.34 Bstar`. Raises ValueError that says which forms are known."""
    head, slash, tail = str(text).partition("/")
    value, unit = _split(head, "a rate such as 20MB/s or 0.34 Bstar")
    if value <= 0:
        raise ValueError(f"{text!r}: a bandwidth is above zero")
    if not slash and unit == _BSTAR:
        return Bandwidth(bstar=value)
    if slash and tail.strip() == "s" and unit in _BYTES:
        return Bandwidth(bytes_per_s=value * _BYTES[unit])
    raise ValueError(f"{text!r} is not a rate: write 20MB/s, 1.5GB/s or 0.34 Bstar")


def parse_ratio(text: object) -> Fraction:
    """A ratio such as `1/12.8`, exact. Raises ValueError when it is not above zero."""
    match = _RATIO.fullmatch(str(text))
    try:
        ratio = Fraction(match[1]) / Fraction(match[2] or 1) if match else Fraction(0)
    except (ValueError, ZeroDivisionError):
        ratio = Fraction(0)
    if ratio <= 0:
        raise ValueError(f"{text!r} is not a ratio above zero, such as 1/12.8")
    return ratio


def _split(text: object, expected: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not {expected}: a number and its unit")
    return float(match[1]), match[2]
