"""NAME.meta.json: what a row of NAME.jsonl cannot say, from the unit of its times to where it comes from."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from harness.errors import TraceError
from harness.trace.fields import RowError, json_object, refuse

SIDECAR_SCHEMA = 1

_CHOICES = {
    "time_unit": ("ns", "us", "ms", "s"),
    "time_zero": ("first_row",),
    "tail": ("ceil", "floor", "unhashed"),
    "hash_kind": ("prefix", "content"),
    "hash_scope": ("global", "session"),
    "turn_lengths": ("cumulative", "delta"),
    "provenance": ("recorded", "converted", "reconstructed", "unstated"),
}


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What holds for every row of a trace; the defaults are those of Mooncake's own files.

    `tail` says how many ids a prompt of n tokens has: `ceil` ceil(n / block_size), the last one in part; `floor`
    floor(n / block_size), the rest without an id; `unhashed` any number up to that, the rest without an id.
    Ids of `hash_kind` prefix stand for a block and all before it, those of content for a block. Ids of `hash_scope`
    session mean something only within their session. `turn_lengths` says whether a turn's length counts the turns
    before it. `rows` and `sha256` (hex, of the whole file) are checked against the trace where they are given.
    `arrivals` is "recorded", or how the times were made.
    """

    time_unit: str = "ms"
    time_zero: str = "first_row"
    block_size: int = 512
    tail: str = "ceil"
    hash_kind: str = "prefix"
    hash_scope: str = "global"
    turn_lengths: str = "cumulative"
    arrivals: str | Mapping[str, Any] = "recorded"
    rows: int | None = None
    sha256: str | None = None
    source: str | Mapping[str, Any] = ""
    licence: str | None = None
    tokenizer: str | None = None
    provenance: str = "unstated"
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: str = ""

    def encode(self) -> bytes:
        """The sidecar as the bytes of its file: indented JSON in a fixed order, with a final newline."""
        document = {"schema": SIDECAR_SCHEMA, **asdict(self)}
        return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def sidecar_path(trace: Path) -> Path:
    """Where the sidecar of a trace lies: beside it, NAME.meta.json for NAME.jsonl."""
    return trace.with_suffix(".meta.json")


def read_sidecar(trace: Path) -> Sidecar | None:
    """The sidecar of `trace`, or None if there is none.

    Raises TraceError for a schema, key or value it does not know, and for another sha256 than that of the trace.
    """
    path = sidecar_path(trace)
    try:
        sidecar = _checked(json_object(path.read_text(encoding="utf-8-sig")))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"cannot read the sidecar: {error}", where=str(path), remedy="mend or remove it") from error
    except RowError as error:
        error.where = str(path)
        raise
    actual = _sha256(trace) if sidecar.sha256 is not None else None
    if sidecar.sha256 != actual:
        raise TraceError(
            f"sha256 is {sidecar.sha256}, but {trace.name} has {actual}",
            where=str(path),
            remedy=f"restore the file that the sidecar describes, or describe this one in {path.name}",
        )
    return sidecar


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TraceError(f"cannot read the trace: {error.strerror}", where=str(path), remedy="give a file") from error


def _checked(document: dict[str, Any]) -> Sidecar:
    """A Sidecar of values it knows."""
    schema = document.pop("schema", None)
    if schema != SIDECAR_SCHEMA or isinstance(schema, bool):
        refuse("schema", schema, f"this version reads schema {SIDECAR_SCHEMA}; newer ones need a newer kvreplay")
    known = {entry.name for entry in fields(Sidecar)}
    for name, value in document.items():
        if name not in known:
            refuse(name, value, f"unknown key: one of {', '.join(sorted(known))}")
        if name in _CHOICES and value not in _CHOICES[name]:
            refuse(name, value, f"write one of {', '.join(_CHOICES[name])}")
        if not _fits(name, value):
            refuse(name, value, "correct this value; its meaning is in workloads/README.md")
    return Sidecar(**document)


def _fits(name: str, value: object) -> bool:
    """Whether a value is of the kind its key holds (keys with a choice of words are checked by it)."""
    if name == "block_size":
        return _count(value, at_least=1)
    if name == "rows":
        return value is None or _count(value, at_least=0)
    if name in {"sha256", "licence", "tokenizer"}:
        return value is None or isinstance(value, str)
    if name in {"arrivals", "source"}:
        return isinstance(value, str | dict)
    if name == "dropped":
        return isinstance(value, dict) and all(_count(count, at_least=0) for count in value.values())
    return isinstance(value, str)


def _count(value: object, *, at_least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least
