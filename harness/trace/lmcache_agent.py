"""LMCache's agent traces: JSONL of text with Unix times in us. A tokenizer makes tokens of it, and they make block ids.

The format: github.com/LMCache/lmcache-agent-trace: `timestamp`, `input` (the whole prompt), `output`, `session_id`. A
block's id is a hash of its tokens and of all before it, so that prompts share exactly the blocks in which they begin
alike under that tokenizer. Half of the published rows have no output, and a fifth come out of order.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from harness.errors import TraceError
from harness.trace import fields
from harness.trace.form import Form, RawRow, Record
from harness.trace.lines import numbered_lines
from harness.trace.options import ReadOptions, Tokenizer
from harness.trace.sidecar import Sidecar

_BLOCK_TOKENS = 16


def _records(path: Path, declared: Sidecar, options: ReadOptions) -> Iterator[Record]:
    if options.tokenizer is None:
        raise TraceError(
            "the trace is text: how many tokens it is depends on the tokenizer",
            where=str(path),
            remedy="give the model's: --tokenizer PATH",
        )
    for number, line in numbered_lines(path):
        yield number, partial(_row, line, declared, options.tokenizer)


def _row(line: bytes, declared: Sidecar, tokenizer: Tokenizer) -> RawRow:
    row = fields.json_row(line)
    prompt = tokenizer(_text(row, "input"))
    if not prompt:
        fields.refuse("input", row["input"], "give a prompt of at least one token")
    return RawRow(
        time_us=fields.instant_us(fields.pick(row, ("timestamp",)), declared.time_unit, "timestamp"),
        input_tokens=len(prompt),
        output_tokens=len(tokenizer(_text(row, "output"))),
        ids=prefix_ids(prompt, declared.block_size),
        session=fields.text(row, "session_id"),
    )


def _text(row: dict[str, object], name: str) -> str:
    fields.pick(row, (name,))
    return fields.text(row, name)


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a `tokenizer.json`, or in a model's folder, without the special tokens that a server may add.

    Raises TraceError where there is none, or where the package tokenizers is not installed.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        from tokenizers import Tokenizer as Fast  # noqa: PLC0415 - only text needs it, and it comes with the live stack

        tokenizer = Fast.from_str(file.read_text(encoding="utf-8"))
    except ImportError as error:
        raise TraceError("the package tokenizers is not installed", remedy="pip install 'kvreplay[cpu]'") from error
    except Exception as error:  # from_str raises Exception itself for what it cannot parse
        raise TraceError(f"no tokenizer: {error}", where=str(file), remedy="give a tokenizer.json") from error

    def tokens(text: str) -> Sequence[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return tokens


def prefix_ids(tokens: Sequence[int], block_size: int) -> list[str]:
    """An id for each block of `tokens`, the last one perhaps in part: equal ids, equal tokens up to the block's end."""
    digest = hashlib.blake2b(digest_size=16)
    ids = []
    for start in range(0, len(tokens), block_size):
        digest.update(np.asarray(tokens[start : start + block_size], dtype="<u4").tobytes())
        ids.append(digest.hexdigest())
    return ids


LMCACHE_AGENT = Form(
    "lmcache-agent",
    lambda _path, options: Sidecar(
        time_unit="us",
        block_size=_BLOCK_TOKENS,
        source="https://github.com/LMCache/lmcache-agent-trace",
        licence="Apache-2.0",
        tokenizer=options.tokenizer_name,
        provenance="recorded",
    ),
    _records,
)
