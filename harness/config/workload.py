"""What is sent: documents in passes, or a trace with the transforms it goes through."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from harness.config.strict import Name, Ratio, Seconds, Strict


def _alone(key: str) -> BeforeValidator:
    """A model of which only one key is needed may be written as that key's value."""
    return BeforeValidator(lambda value: value if isinstance(value, dict) else {key: value})


class Passes(Strict):
    """D documents read in the given orders at a concurrency (closed loop), each pass with a question of its own."""

    documents: Annotated[int, Field(ge=1)]
    document_tokens: Annotated[int, Field(ge=1)]
    question_tokens: Annotated[int, Field(ge=1)]
    output_tokens: Annotated[int, Field(ge=1)] = 4
    order: Annotated[tuple[Literal["first", "again", "reverse"], ...], Field(strict=False, min_length=1)]
    concurrency: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.order)) != len(self.order):
            raise ValueError("order names a pass twice")
        return self


class Window(Strict):
    """What arrives from `start` on, for `length`; `window: 2min` is a window from the first request on."""

    length: Seconds
    start: Seconds = 0.0


class LengthScale(Strict):
    """A ratio for all lengths. With `chunk`, what prompts share becomes whole chunks of so many tokens."""

    ratio: Ratio
    chunk: Annotated[int, Field(ge=1)] | None = None


class Transform(Strict):
    """One step of a trace's `transforms`: exactly one key.

    `window` and `limit` keep rows by time and count; `keep_sessions` the first so many sessions or those named, and
    `sample_sessions` a share of them, whole; `speedup` 2 is twice as fast; `gap_cap` shortens longer gaps, in trace
    time; `jitter` spreads times that were recorded in steps; `length_scale` and `rate` as in TraceReplay.
    """

    window: Annotated[Window, _alone("length")] | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    keep_sessions: (
        Annotated[int, Field(ge=1)] | Annotated[tuple[str, ...], Field(strict=False, min_length=1)] | None
    ) = None
    sample_sessions: Annotated[float, Field(gt=0, le=1, strict=False)] | None = None
    speedup: Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)] | None = None
    gap_cap: Seconds | None = None
    jitter: Seconds | None = None
    length_scale: Annotated[LengthScale, _alone("ratio")] | None = None
    rate: Literal["match-rho"] | Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if len(self.model_fields_set) != 1 or getattr(self, self.key) is None:
            raise ValueError(f"a transform has exactly one key, one of {', '.join(type(self).model_fields)}")
        return self

    @property
    def key(self) -> str:
        """The name of the one key."""
        return next(iter(self.model_fields_set))

    @property
    def value(self) -> Any:
        """What the one key says."""
        return getattr(self, self.key)


class TraceReplay(Strict):
    """A timestamped trace, replayed open loop.

    `transforms` are applied in the order given. Then come four keys of their own, in this order: `length_scale` scales
    every length, `limit` keeps the first rows, `rate` sets the mean arrival rate: `recorded`, a number of requests a
    second, or `match-rho`: the rate at which arm `rho_arm` has load rho = lambda n s / B. `window` then keeps what
    arrives within a time, so that a slow machine, whose matched rate is low, ends a run too.

    `format` names the file's format where it cannot be told; `on_bad_row`, `zero_output` and `allow_unhashed` (rows
    that say nothing of what they share, each then a prompt of its own) are the choices a reader leaves to people. For
    whatever else a file must be told, convert it first. `over_length` says what becomes of requests longer than the
    engine takes: `fail`, `drop` them, or `clip-output`; prompts are never clipped. `turns`: a turn with a recorded
    delay waits for the one before it (`wait`), or goes at its recorded time.
    """

    file: str
    transforms: Annotated[tuple[Transform, ...], Field(strict=False)] = ()
    limit: Annotated[int, Field(ge=1)] | None = None
    length_scale: Ratio = Fraction(1)
    rate: Literal["recorded", "match-rho"] | Annotated[float, Field(gt=0, strict=False)] = "recorded"
    window: Seconds | None = None
    rho: Annotated[float, Field(gt=0)] = 1.13
    rho_arm: Name | None = None
    format: str | None = None
    on_bad_row: Literal["fail", "skip"] = "fail"
    zero_output: Literal["reject", "drop", "one"] = "reject"
    allow_unhashed: bool = False
    over_length: Literal["fail", "drop", "clip-output"] = "fail"
    turns: Literal["wait", "recorded"] = "wait"

    @property
    def steps(self) -> tuple[Transform, ...]:
        """Every transform, in the order in which it is applied."""
        return (*self.transforms, *self._own_steps())

    @property
    def matches_rho(self) -> bool:
        """Whether the times depend on the machine."""
        return any(step.rate == "match-rho" for step in self.steps)

    def _own_steps(self) -> Iterator[Transform]:
        if self.length_scale != 1:
            yield Transform.model_construct(length_scale=LengthScale.model_construct(ratio=self.length_scale))
        if self.limit is not None:
            yield Transform.model_construct(limit=self.limit)
        if self.rate != "recorded":
            yield Transform.model_construct(rate=self.rate)
        if self.window is not None:
            yield Transform.model_construct(window=Window.model_construct(length=self.window))

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        keys = [step.key for step in self.steps]
        for place, step in enumerate(self.steps):
            if step.key == "gap_cap" and {"speedup", "rate"} & set(keys[:place]):
                raise ValueError("gap_cap counts in trace time: write it before speedup and rate")
            if step.rate == "match-rho":
                for later in self.steps[place + 1 :]:
                    if later.limit is None and (later.window is None or later.window.start):
                        raise ValueError(
                            f"{later.key} after rate: match-rho: only limit and a window from the first request may be"
                        )
        return self


class Workload(Strict):
    """Either documents read in passes, or a trace; and the state the caches are in when it begins.

    `state` is `cold`, or one of three in which every shared prefix has been sent before. `warm` (`prewarm: true`):
    vLLM's own cache is emptied, the tiers behind it hold what the arm's policy leaves there. `warm-l2`: so is LMCache's
    host tier, and every hit comes from Valkey. `warm-all`: nothing is emptied.
    """

    name: Name
    passes: Passes | None = None
    trace: TraceReplay | None = None
    prewarm: bool = False
    state: Literal["cold", "warm", "warm-l2", "warm-all"] | None = None

    @property
    def starts(self) -> Literal["cold", "warm", "warm-l2", "warm-all"]:
        """The state as written, or as `prewarm` says."""
        return self.state or ("warm" if self.prewarm else "cold")

    @property
    def prewarms(self) -> bool:
        """Whether every shared prefix is sent beforehand."""
        return self.starts != "cold"

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.passes is None) == (self.trace is None):
            raise ValueError("a workload has either `passes` or `trace`")
        if self.prewarm and self.state == "cold":
            raise ValueError("prewarm: true and state: cold: which one?")
        return self
