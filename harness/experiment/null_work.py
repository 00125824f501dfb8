"""The loads by which the harness, and any other client, is measured against a null server."""

from dataclasses import dataclass, replace

import numpy as np

from harness.schedule import PassPlan, PlannedRequest, Prompting, encode_body

TTFT_MS, ITL_MS = 50.0, 20.0
"""How the null server answers all of them: the first token so long after the arrival, the others so far apart."""

_PROMPTING = Prompting("m", "", 1_000, 30_000)
_SEED = 0
_DISTINCT_PROMPTS = 64  # what a prompt says is nothing to a null server; this many are enough to fill its caches


@dataclass(frozen=True, slots=True)
class Work:
    """`requests` prompts of `prompt_tokens`, Poisson arrivals at `rate_per_s` (None: all due at once), each answered by
    `max_tokens` tokens. `wave` > 0 makes all of that many due at once, the next ones `wave_gap_s` later.
    """

    name: str
    requests: int
    prompt_tokens: int
    rate_per_s: float | None
    max_tokens: int = 1
    wave: int = 0
    wave_gap_s: float = 0.0

    def scaled(self, scale: float) -> "Work":
        """The same work with `scale` times as many requests; whole waves, at least one; at least 20 requests."""
        if self.wave:
            return replace(self, requests=self.wave * max(1, round(self.requests / self.wave * scale)))
        return replace(self, requests=min(self.requests, max(20, round(self.requests * scale))))

    def plan(self) -> PassPlan:
        """The requests as an open loop; the same for the same work."""
        return PassPlan(
            "replay", tuple(self._request(seq, due) for seq, due in enumerate(self._due_ns())), concurrency=None
        )

    def _due_ns(self) -> list[int]:
        if self.wave:
            return [round(seq // self.wave * self.wave_gap_s * 1e9) for seq in range(self.requests)]
        if self.rate_per_s is None:
            return [0] * self.requests
        gaps_s = np.random.default_rng(_SEED).exponential(1 / self.rate_per_s, self.requests)
        return [int(due) for due in np.cumsum(gaps_s) * 1e9]

    def _request(self, seq: int, due_ns: int) -> PlannedRequest:
        draw = np.random.default_rng(seq % _DISTINCT_PROMPTS)
        tokens = draw.integers(_PROMPTING.vocab_low, _PROMPTING.vocab_high, self.prompt_tokens, dtype=np.uint32)
        body = encode_body(_PROMPTING, tokens, self.max_tokens)
        return PlannedRequest(seq, seq, "", due_ns, tokens, self.max_tokens, body)


WORKS = (
    Work("16k-20", 683, 16_000, 20.0),
    Work("512-200", 3_000, 512, 200.0),
    Work("512-1000", 5_000, 512, 1_000.0),
    Work("streams-100", 300, 512, None, max_tokens=100, wave=100, wave_gap_s=3.0),
    Work("streams-200", 600, 512, None, max_tokens=100, wave=200, wave_gap_s=3.0),
    Work("unpaced", 5_000, 512, None),
)
"""The loads on which the peers were measured: long prompts as of the published incident, short ones at rising rates,
many streams at once (tokens 20 ms apart), and as fast as it goes."""
