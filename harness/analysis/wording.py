"""Numbers as people read them: significant digits without exponents, units that fit."""

import math
from collections.abc import Sequence

_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SCALES = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))


def digits(value: float, significant: int = 3) -> str:
    """`value` to that many significant digits, thousands separated; whole parts stay whole (12,345 is 12,345)."""
    if not math.isfinite(value):
        return str(value)
    magnitude = int(f"{value:.{significant - 1}e}".partition("e")[2])  # of the rounded value: 9.999 has that of 10.0
    return f"{value:,.{max(0, significant - 1 - magnitude)}f}"


def count(number: int) -> str:
    """`number` as a word up to ten."""
    return _COUNTS[number] if 0 <= number < len(_COUNTS) else f"{number:,}"


def rate(bytes_per_s: float) -> str:
    """A bandwidth in the largest decimal unit that keeps it at 1 or above; an infinite one in words."""
    if math.isinf(bytes_per_s):
        return "no limit"
    for size, unit in _SCALES:
        if bytes_per_s >= size:
            return f"{digits(bytes_per_s / size)} {unit}"
    return f"{digits(bytes_per_s)} B/s"


def times_ms(values_ms: Sequence[float]) -> list[str]:
    """Times in one common unit, so that they can be compared at a glance: s if any is a second or more, else ms."""
    if any(value >= 1000 for value in values_ms):
        return [f"{digits(value / 1000, 2)} s" for value in values_ms]
    return [f"{digits(value)} ms" for value in values_ms]
