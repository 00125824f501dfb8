"""When bytes have passed a link of a given rate: a token bucket kept as one moment in time. Pure: times are given."""


class TokenBucket:
    """A link of `bytes_per_s` that earns no credit while idle, so that nothing ever passes faster than the rate.

    Over any window of the times it returns, it passes at most `bytes_per_s` x window + the largest size taken. This is
    the virtual scheduling form of the leaky bucket (GCRA, ITU-T I.371 annex A) without tolerance. Times are seconds of
    any one clock. Raises ValueError unless `bytes_per_s` > 0.
    """

    def __init__(self, bytes_per_s: float) -> None:
        if not bytes_per_s > 0:
            raise ValueError(f"bytes_per_s must be positive: {bytes_per_s}")
        self._bytes_per_s = bytes_per_s
        self._free_at = float("-inf")

    @property
    def free_at(self) -> float:
        """When all that was taken has passed."""
        return self._free_at

    def take(self, size_bytes: int, ready_at: float) -> float:
        """Pass `size_bytes` that are there since `ready_at`, after all that was taken before; when the last has passed.

        The moment depends on `ready_at`, not on when it is asked: who asks late, on a busy core, loses no rate.
        """
        self._free_at = max(self._free_at, ready_at) + size_bytes / self._bytes_per_s
        return self._free_at
