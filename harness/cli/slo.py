"""`--slo`: limits that a request must keep to count as goodput."""

from harness.config.units import parse_seconds
from harness.errors import HarnessError

_METRICS = ("ttft", "ttft_due", "tpot", "e2el")


def slo_limits(text: str | None) -> dict[str, float]:
    """`ttft:2s,e2el:10s` as limits in ms by metric; none of None. Raises HarnessError that says which part is wrong."""
    limits: dict[str, float] = {}
    for part in text.split(",") if text else ():
        metric, _, time = part.strip().partition(":")
        if metric not in _METRICS or metric in limits:
            remedy = f"METRIC:TIME once each, METRIC one of {', '.join(_METRICS)}"
            raise HarnessError(f"{part.strip()!r} is no limit", where="--slo", remedy=remedy)
        try:
            limits[metric] = 1000 * parse_seconds(time)
        except ValueError as error:
            raise HarnessError(str(error), where="--slo", remedy="write it as in ttft:2s,e2el:10s") from error
    return limits
