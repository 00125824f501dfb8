"""Made traces: long shared prefixes with suffixes of each request's own, and documents that are read in passes.

Everything comes from a seed (`draws`), so that a spec gives the same bytes on every machine.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, count
from typing import Literal

from harness.errors import TraceError
from harness.trace.arrivals import Arrivals
from harness.trace.draws import shuffled, whole, without_end
from harness.trace.request import Trace, TraceRequest
from harness.trace.sidecar import Sidecar

ReuseOrder = Literal["cyclic", "zipf", "uniform"]


@dataclass(frozen=True, slots=True)
class MakeSpec:
    """Requests in groups that share a prefix. The defaults are the trace we ship.

    Each prompt is one of `prefixes` of `prefix_tokens`, and a suffix of its own of `suffix_tokens` (least, most).
    `order` is how prefixes are reused: `cyclic`, all of them and then all again, shuffled anew each time; `uniform`,
    each with equal chance; `zipf`, the k-th with chance proportional to k**-zipf_exponent. Raises TraceError for sizes
    that make no such trace.
    """

    requests: int = 683
    prefixes: int = 68
    prefix_tokens: int = 16_384
    suffix_tokens: tuple[int, int] = (32, 240)
    output_tokens: tuple[int, int] = (32, 160)
    order: ReuseOrder = "cyclic"
    zipf_exponent: float = 1.0
    block_size: int = 512
    arrivals: Arrivals = field(default_factory=Arrivals)
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises TraceError for the first size that is wrong, with what it must be."""
        _require(
            self,
            (self.requests >= 2, "requests", "at least 2"),
            (self.prefixes >= 1, "prefixes", "at least 1"),
            (self.block_size >= 1, "block_size", "at least 1"),
            (_whole_blocks(self.prefix_tokens, self.block_size), "prefix_tokens", "a multiple of block_size"),
            (1 <= self.suffix_tokens[0] <= self.suffix_tokens[1], "suffix_tokens", "least and most, from 1"),
            (1 <= self.output_tokens[0] <= self.output_tokens[1], "output_tokens", "least and most, from 1"),
            (self.order in _ORDERS, "order", f"one of {', '.join(_ORDERS)}"),
            (0 <= self.zipf_exponent < 100, "zipf_exponent", "from 0 to below 100"),
        )

    def prompts(self) -> Iterator["_Prompt"]:
        """Each request's shared part, its own part and its answer."""
        prefixes = _ORDERS[self.order](self)
        for row in range(self.requests):
            own = whole(self.seed, "suffix", row, *self.suffix_tokens)
            yield _Prompt(next(prefixes), self.prefix_tokens, own, whole(self.seed, "output", row, *self.output_tokens))

    def notes(self) -> str:
        """What people should know of it."""
        reused = {
            "cyclic": "cycles, each cycle in a new order",
            "uniform": "random order, each as likely as the others",
            "zipf": f"random order, the k-th with a chance proportional to k**-{self.zipf_exponent:g}",
        }[self.order]
        return f"{self.prefixes} prefixes of {self.prefix_tokens} tokens in {reused}; each suffix occurs once."


@dataclass(frozen=True, slots=True)
class PassesSpec:
    """Documents read in passes, each time with a question that occurs once: what a passes workload sends, with times.

    A pass is `first` or `again` (documents 0 to D - 1) or `reverse`. Raises TraceError for sizes that make no such
    trace.
    """

    documents: int = 10
    document_tokens: int = 1280
    question_tokens: int = 13
    output_tokens: int = 4
    order: tuple[str, ...] = ("first", "again", "reverse")
    block_size: int = 256
    arrivals: Arrivals = field(default_factory=Arrivals)

    def __post_init__(self) -> None:
        """Raises TraceError for the first size that is wrong, with what it must be."""
        _require(
            self,
            (self.documents >= 1, "documents", "at least 1"),
            (self.block_size >= 1, "block_size", "at least 1"),
            (_whole_blocks(self.document_tokens, self.block_size), "document_tokens", "a multiple of block_size"),
            (self.question_tokens >= 1, "question_tokens", "at least 1"),
            (self.output_tokens >= 1, "output_tokens", "at least 1"),
            (set(self.order) <= {"first", "again", "reverse"}, "order", "of first, again and reverse"),
            (self.requests >= 2, "order", "such that there are two requests or more"),
        )

    @property
    def requests(self) -> int:
        """Documents times passes."""
        return self.documents * len(self.order)

    def prompts(self) -> Iterator["_Prompt"]:
        """Each request's shared part, its own part and its answer."""
        for name in self.order:
            read = range(self.documents)
            for document in reversed(read) if name == "reverse" else read:
                yield _Prompt(document, self.document_tokens, self.question_tokens, self.output_tokens)

    def notes(self) -> str:
        """What people should know of it."""
        passes = ", ".join(self.order)
        return (
            f"{self.documents} documents of {self.document_tokens} tokens, read in passes ({passes}); "
            "each question occurs once."
        )


def make_trace(spec: MakeSpec | PassesSpec) -> Trace:
    """The trace of a spec: the same on every machine. Specs that differ in `arrivals` only have the same rows."""
    size = spec.block_size
    names: dict[tuple[str, int, int], int] = {}
    requests = []
    for row, (arrival_us, prompt) in enumerate(zip(spec.arrivals.times_us(spec.requests), spec.prompts(), strict=True)):
        keys = [("prefix", prompt.prefix, i) for i in range(prompt.prefix_tokens // size)]
        keys += [("suffix", row, i) for i in range(-(-prompt.own_tokens // size))]
        requests.append(
            TraceRequest(
                row=row,
                session="",
                turn=0,
                arrival_us=arrival_us,
                input_tokens=prompt.prefix_tokens + prompt.own_tokens,
                output_tokens=prompt.output_tokens,
                blocks=tuple(names.setdefault(key, len(names)) for key in keys),
            )
        )
    return Trace(tuple(requests), size, "trace make", "reconstructed")


def sidecar_of(spec: MakeSpec | PassesSpec) -> Sidecar:
    """The sidecar of a made trace; `write_trace` fills in its rows and sha256."""
    return Sidecar(
        block_size=spec.block_size,
        arrivals=spec.arrivals.stated(spec.requests),
        source="kvreplay trace make",
        licence="Apache-2.0",
        provenance="reconstructed",
        notes=(
            "Made from summary statistics with a seeded generator; not a recording. "
            + (
                "Arrivals are conditioned on the number of rows and on the span: the first row is at 0 and the last "
                "at span_ms, so that the rate is exact and a rebased first row shifts nothing. "
                if spec.arrivals.process != "recorded"
                else "Only the arrivals were recorded. "
            )
            + spec.notes()
        ),
    )


@dataclass(frozen=True, slots=True)
class _Prompt:
    prefix: int
    prefix_tokens: int
    own_tokens: int
    output_tokens: int


def _cyclic(spec: MakeSpec) -> Iterator[int]:
    for cycle in count():
        yield from shuffled(spec.seed, f"cycle {cycle}", spec.prefixes)


def _uniform(spec: MakeSpec) -> Iterator[int]:
    for draw in without_end(spec.seed, "prefix"):
        yield int(draw * spec.prefixes)


def _zipf(spec: MakeSpec) -> Iterator[int]:
    """The inverse of the cumulated chances at uniforms."""
    cumulated = list(accumulate(float(k) ** -spec.zipf_exponent for k in range(1, spec.prefixes + 1)))
    for draw in without_end(spec.seed, "prefix"):
        yield min(bisect_right(cumulated, draw * cumulated[-1]), spec.prefixes - 1)


_ORDERS: dict[str, Callable[[MakeSpec], Iterator[int]]] = {"cyclic": _cyclic, "uniform": _uniform, "zipf": _zipf}


def _whole_blocks(tokens: int, block_size: int) -> bool:
    return tokens >= block_size >= 1 and tokens % block_size == 0


def _require(spec: MakeSpec | PassesSpec, *rules: tuple[bool, str, str]) -> None:
    for holds, name, expected in rules:
        if not holds:
            raise TraceError(f"{name} is {getattr(spec, name)}", where="trace make", remedy=f"must be {expected}")


SHIPPED = {
    "trace-16k-683": MakeSpec(),
    "trace-16k-683-deterministic": MakeSpec(arrivals=Arrivals("deterministic")),
    "trace-16k-683-gamma": MakeSpec(arrivals=Arrivals("gamma")),
}
