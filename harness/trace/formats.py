"""The formats there are, and which one a file is: guessed only where a single one fits."""

import csv
from pathlib import Path

from harness.errors import TraceError
from harness.trace.azure import AZURE
from harness.trace.bailian import BAILIAN
from harness.trace.burstgpt import BURSTGPT
from harness.trace.csv_columns import CSV
from harness.trace.fields import RowError, json_row
from harness.trace.form import Form
from harness.trace.lines import text_file
from harness.trace.lmcache_agent import LMCACHE_AGENT
from harness.trace.lookup_hash import LOOKUP_HASH
from harness.trace.mooncake import AIPERF, MOONCAKE, VLLM
from harness.trace.weka import WEKA

_ALL = (MOONCAKE, AIPERF, VLLM, BURSTGPT, AZURE, BAILIAN, WEKA, LMCACHE_AGENT, CSV, LOOKUP_HASH)
FORMATS: dict[str, Form] = {form.name: form for form in _ALL}

_LONGEST_LINE = 1 << 20


def form_of(path: Path, name: str | None) -> tuple[Form, str]:
    """The format named, or the only one that fits the file, and who said so: `given` or `guessed`.

    Raises TraceError for a name there is not, and for a file that fits none, or several.
    """
    if name is not None:
        if name not in FORMATS:
            raise TraceError(f"no such format: {name}", where=str(path), remedy=f"use one of {', '.join(FORMATS)}")
        return FORMATS[name], "given"
    fitting = _fitting(path)
    if len(fitting) != 1:
        what = f"could be {' or '.join(fitting)}" if fitting else "fits no format that can be told from its first row"
        raise TraceError(what, where=str(path), remedy=f"name the format: --format with one of {', '.join(FORMATS)}")
    return FORMATS[fitting[0]], "guessed"


def _fitting(path: Path) -> list[str]:
    """The formats whose own marks are in the file's first row; what vLLM and aiperf share with Mooncake is Mooncake."""
    if path.is_dir():
        marks = {"weka": "trace_*.json", "lookup-hash": "lookup_hashes_*.jsonl"}
        return [name for name, pattern in marks.items() if any(path.glob(pattern))]
    with text_file(path) as file:
        line = file.readline(_LONGEST_LINE)
        whole = line.endswith(b"\n") or not file.read(1)
    if not line.strip():
        raise TraceError("no rows in the trace", where=str(path), remedy="give a file with a request a line")
    if not line.lstrip().startswith(b"{"):
        return _fitting_header(line)
    if not whole or line.strip() == b"{":
        return ["weka"] if path.suffix == ".json" else []
    try:
        return _fitting_keys(set(json_row(line)))
    except RowError as error:
        error.where = f"{path}:1"
        raise


def _fitting_header(line: bytes) -> list[str]:
    names = {cell.strip() for cell in next(csv.reader([line.decode(errors="replace")]), [])}
    headers = {
        "burstgpt": {"Timestamp", "Model", "Request tokens", "Response tokens"},
        "azure": {"TIMESTAMP", "ContextTokens", "GeneratedTokens"},
    }
    return [name for name, needed in headers.items() if needed <= names]


def _fitting_keys(keys: set[str]) -> list[str]:
    if "requests" in keys:
        return ["weka"]
    if "chunk_hashes" in keys:
        return ["lookup-hash"]
    if {"chat_id", "parent_chat_id", "turn"} <= keys:
        return ["bailian"]
    lengths = bool({"input_length", "input_tokens", "output_length", "output_tokens", "hash_ids"} & keys)
    text = {"input", "output", "timestamp"} <= keys
    return [name for name, fits in (("mooncake", lengths), ("lmcache-agent", text)) if fits]
