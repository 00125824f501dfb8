"""The client's own error, as its self-test found it, for every display: a table, and a line for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

HEADERS = (
    "client",
    "work",
    "requests",
    "failed",
    "rate /s",
    "CPU",
    "send lag",
    "arrival error",
    "TTFT error",
    "inter-token error",
)
_MISSING = "-"
_UNMEASURED = "not measured on this machine: run `kvreplay selftest`"


def error_rows(errors: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """A row a work, in the order of HEADERS; errors as p50 / p99 / max in ms."""
    return [
        (
            str(error["client"]),
            str(error["work"]),
            f"{error['requests']:,}",
            f"{error['failed']:,}",
            f"{error['rate_per_s']:,.0f}",
            _MISSING if error["cpu_share"] is None else f"{error['cpu_share']:.0%}",
            *(_spread(error[name]) for name in ("send_lag_ms", "arrival_error_ms", "ttft_error_ms", "itl_error_ms")),
        )
        for error in errors
    ]


def selftest_line(selftest: Mapping[str, Any] | None) -> str:
    """When and how the client was measured, and the highest rate it held; or that it was not."""
    if selftest is None:
        return _UNMEASURED
    rate = selftest["highest_rate_per_s"]
    held = "no rate tried" if rate is None else f"{rate:,.0f} requests/s"
    return (
        f"self-test of {selftest['measured_at']} by {selftest['kvreplay']} ({selftest['http']}, "
        f"{selftest['workers']} process(es)) on {selftest['processor']}; held with p99 send lag below 1 ms: {held}"
    )


def selftest_brief(selftest: Mapping[str, Any] | None) -> str:
    """One line: the worst p99 of all works with a schedule (where all is due at once, all but one are late)."""
    if selftest is None:
        return f"the client's own error: {_UNMEASURED}"
    worst = {
        name: max(
            (
                error[name]["p99"]
                for error in selftest["errors"]
                if error["work"] != "unpaced" and error[name] is not None
            ),
            default=None,
        )
        for name in ("send_lag_ms", "ttft_error_ms")
    }
    lag, ttft = (_MISSING if value is None else f"{value:.2g} ms" for value in worst.values())
    return (
        f"the client's own error, worst p99 of its self-test ({selftest['measured_at']}): send lag {lag}, TTFT {ttft}"
    )


def _spread(spread: Mapping[str, Any] | None) -> str:
    return _MISSING if spread is None else f"{spread['p50']:.2f} / {spread['p99']:.2f} / {spread['max']:.2f}"
