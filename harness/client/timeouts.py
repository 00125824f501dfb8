"""How long to wait for each step of a request."""

from dataclasses import dataclass

from harness.client.transport import Exchange


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits in seconds; a request that breaks one ends as `timeout`, with the limit's name in its error.

    `connect_s` runs until the request is written to an open connection, `first_byte_s` from then to the first byte of
    the response's body (so it covers the server's queue and its prefill), `between_bytes_s` from one chunk to the next,
    `total_s` over all of it. The defaults let a server far past saturation answer, and still end a run that hangs.
    """

    connect_s: float = 10.0
    first_byte_s: float = 600.0
    between_bytes_s: float = 120.0
    total_s: float = 1800.0

    @property
    def shortest_s(self) -> float:
        """The shortest of the limits, in seconds."""
        return min(self.connect_s, self.first_byte_s, self.between_bytes_s, self.total_s)

    def next_limit(self, begun_ns: int, seen: Exchange) -> tuple[str, int]:
        """The limit that ends first given what has happened so far: its name, and when it ends on the clock (ns)."""
        if seen.sent_ns is None:
            step, since_ns = "connect_s", begun_ns
        elif not seen.chunks:
            step, since_ns = "first_byte_s", seen.sent_ns
        else:
            step, since_ns = "between_bytes_s", seen.chunks[-1][0]
        step_ends_ns = since_ns + self._ns(step)
        total_ends_ns = begun_ns + self._ns("total_s")
        return (step, step_ends_ns) if step_ends_ns <= total_ends_ns else ("total_s", total_ends_ns)

    def _ns(self, name: str) -> int:
        limit_s: float = getattr(self, name)
        return round(limit_s * 1e9)
