"""A cost model from numbers that somebody gives, without any machine: R=52.2k,s=48.4KB,T0=0.33,B=1.71GB/s."""

import re
from collections.abc import Callable

from harness.config.units import parse_bandwidth, parse_bytes, parse_seconds
from harness.errors import ConfigError
from harness.model import Estimate
from harness.model.placement import EVEN, Placement
from harness.model.uncertain import UncertainModel, assumed

_WHERE = "--assume"
_EXAMPLE = "R=52.2k,s=48.4KB,T0=0.33,B=1.71GB/s; after any of them +-5% for how far it may be off"
_SPREAD = re.compile(r"(?P<value>.*?)\s*(?:±|\+-|\+/-)\s*(?P<percent>\d+(?:\.\d+)?)\s*%")
_RATE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<scale>[kM]?)\s*(?:tok(?:en)?s?/s)?")
_SCALE = {"": 1.0, "k": 1e3, "M": 1e6}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def parse_assumptions(text: str, placement: Placement = EVEN) -> UncertainModel:
    """The model of `text`: R in tokens a second, s a size, T0 a time (a plain number is seconds), B a rate.

    B is of all instances together, and may be a multiple of B* (`2 Bstar`). Raises ConfigError that names the input
    which is missing, given twice, unknown, without its unit, or not above zero (T0 may be zero).
    """
    given = _split(text)
    rate = _estimate("R", given["R"], _tokens_per_s)
    size = _estimate("s", given["s"], lambda value: float(parse_bytes(value)))
    fixed = _estimate("T0", given["T0"], _seconds, zero=True)
    star = rate.value * size.value
    bandwidth = _estimate("B", given["B"], lambda value: parse_bandwidth(value).resolve(star))
    return assumed(rate, size, fixed, bandwidth, placement)


def _split(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in {"R", "s", "T0", "B"} or name in given:
            why = "is given twice" if name in given else "is not one of R=, s=, T0=, B="
            raise ConfigError(f"{part.strip()!r} {why}", where=_WHERE, remedy=f"write {_EXAMPLE}")
        given[name] = value
    missing = [name for name in ("R", "s", "T0", "B") if name not in given]
    if missing:
        raise ConfigError(f"{', '.join(missing)} is missing", where=_WHERE, remedy=f"write {_EXAMPLE}")
    return given


def _estimate(name: str, text: str, parse: Callable[[str], float], *, zero: bool = False) -> Estimate:
    spread = _SPREAD.fullmatch(text)
    plain, percent = (spread["value"], float(spread["percent"])) if spread else (text, 0.0)
    try:
        value = parse(plain)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}", where=_WHERE, remedy=f"write {_EXAMPLE}") from error
    if not (value > 0 or (zero and value == 0)):
        raise ConfigError(f"{name} is {plain}", where=_WHERE, remedy="it is above zero")
    if percent >= 100:
        raise ConfigError(f"{name} may be off by {percent:g} %", where=_WHERE, remedy="less than 100 %")
    share = percent / 100
    return Estimate(value, value * (1 - share), value * (1 + share), 1, "assumed")


def _tokens_per_s(text: str) -> float:
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a rate in tokens a second, such as 52.2k or 52200 tokens/s")
    return float(match["number"]) * _SCALE[match["scale"]]


def _seconds(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else parse_seconds(text)
