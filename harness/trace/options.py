"""What a reader is told, and what it reports: the choices a trace file cannot make, and the counts that reconcile."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.errors import TraceError

Tokenizer = Callable[[str], Sequence[int]]

TIME_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a trace is to be read; each None leaves the word to the sidecar, then to the format.

    `on_bad_row` skip drops rows that cannot be used and counts them by reason. `zero_output` says what an output of no
    tokens is: an error, a row to drop, or an output of one token. `allow_unhashed` accepts rows that say nothing of
    what they share; each then has a prompt of its own. `output_tokens` is every row's output where the format has none.
    `columns` names the file's columns (or keys) by ours: timestamp, input_length, output_length, hash_ids, session_id,
    request_id, delay. `tokenizer` turns text into tokens for traces of text. Of WEKA's conversations, `warm_prefix`
    makes the tools and system prompt one prefix that all share, and `subagents` says how nested times count.
    Raises TraceError for sizes below 1 and for a word that is not one of these.
    """

    on_bad_row: Literal["fail", "skip"] = "fail"
    zero_output: Literal["reject", "drop", "one"] = "reject"
    require_sorted: bool = False
    allow_unhashed: bool = False
    time_unit: str | None = None
    block_size: int | None = None
    tail: str | None = None
    hash_kind: str | None = None
    hash_scope: str | None = None
    turn_lengths: str | None = None
    output_tokens: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    tokenizer: Tokenizer | None = None
    tokenizer_name: str | None = None
    warm_prefix: bool = False
    subagents: Literal["refuse", "relative", "absolute"] = "refuse"

    def __post_init__(self) -> None:
        """Raises TraceError for the first option that has no such value."""
        choices = {
            "on_bad_row": ("fail", "skip"),
            "zero_output": ("reject", "drop", "one"),
            "subagents": ("refuse", "relative", "absolute"),
            "time_unit": (None, *TIME_UNITS_NS, "iso"),
            "tail": (None, "ceil", "floor", "unhashed"),
            "hash_kind": (None, "prefix", "content"),
            "hash_scope": (None, "global", "session"),
            "turn_lengths": (None, "cumulative", "delta"),
        }
        for name, words in choices.items():
            if getattr(self, name) not in words:
                expected = ", ".join(str(word) for word in words if word is not None)
                raise TraceError(f"{name} is {getattr(self, name)!r}", where="options", remedy=f"use one of {expected}")
        for name in ("block_size", "output_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise TraceError(f"{name} is {value}", where="options", remedy="give a whole number from 1")


@dataclass(frozen=True, slots=True)
class ReadReport:
    """What reading found: `read` = `kept` + the sum of `dropped` (by reason), always.

    `format` and `format_by` say as what it was read and who said so: `given`, `guessed`. The next seven are what was
    declared, by options, sidecar or format. `moved` rows came after a row of a later time; `raised_outputs` went
    from none to one token (`zero_output` one); `unhashed` kept rows say nothing of what they share. `ids` counts
    distinct block ids. `zero_us` is the first kept arrival on the source's own clock. `notes` are for the reader of a
    result: what was assumed, what is odd.
    """

    format: str
    format_by: str
    time_unit: str
    block_size: int
    tail: str
    hash_kind: str
    hash_scope: str
    turn_lengths: str
    sidecar: bool
    read: int
    kept: int
    dropped: Mapping[str, int]
    moved: int
    raised_outputs: int
    unhashed: int
    ids: int
    zero_us: int
    notes: tuple[str, ...]
