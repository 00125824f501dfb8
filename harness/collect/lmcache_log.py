"""LMCache's server log (multiprocess mode, 0.5.5 and 0.5.6): its lines about KV moving, as LoadEvents.

    [2026-11-29 20:15:05,201] LMCache INFO: Prefetch request completed (L1+L2): 5/5 retained keys (0 L1, 5 L2) in 9.1 ms
        (external_request_id=cmpl-kvr-r1a1-7-0-1a2b3c4d, prefetch_request_id=3) (storage_manager.py:726:...)
    [...] LMCache INFO: Retrieved 1280 tokens in 0.004 seconds (engine_driven_transfer.py:497:...)

What these lines do not say: a full miss leaves no prefetch line; loads and stores carry no request id; a prefetch's
time runs until the engine's scheduler asks and so bounds the transfer from above; where the GPU copies are queued
(CUDA) the seconds of a load end before the copy does. Hence no GB/s is derived from any of them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.errors import CollectError
from harness.records import LoadEvent

KNOWN_VERSIONS = ("0.5.5", "0.5.6")
_USE_KNOWN = f"use LMCache {' or '.join(KNOWN_VERSIONS)}; the log itself is kept"

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_ENVELOPE = re.compile(
    r"\[(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(?P<ms>\d{3})\] LMCache (?P<level>[A-Z]+): (?P<message>.*)"
)
_BANNER = re.compile(r"LMCache v\d+\.\d+")
_PREFETCH = re.compile(
    r"Prefetch request completed \(L1\+L2\): (?P<hit>\d+)/(?P<keys>\d+) retained keys "
    r"\((?P<l1>\d+) L1, (?P<l2>\d+) L2\) in (?P<ms>\d+(?:\.\d+)?) ms "
    r"\(external_request_id=(?P<id>.*?), prefetch_request_id=-?\d+\)(?: \(|$)"
)
_TRANSFER = re.compile(r"(?P<what>Retrieved|Stored) (?P<tokens>\d+) tokens in (?P<s>\d+(?:\.\d+)?) seconds(?: \(|$)")
_OF_A_MOVE = re.compile(r"Prefetch request completed|\b(?:Retrieved|Stored) \d")
_TROUBLE = re.compile(
    r"fail|error|exception|not found|does not answer|time[d ]*out|reject|cancel|underflow|mismatch|unhealthy|"
    r"cleaning up in-flight",
    re.IGNORECASE,
)
_ENGINE_ID = re.compile(r"\bcmpl-(?P<completion>\S+)-\d+-[0-9a-f]{8}\b|\bchatcmpl-(?P<chat>\S+)-[0-9a-f]{8}\b")
_OUR_SEQ = re.compile(r"kvr-.*-(\d+)")


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """What one key of LMCache stands for: keys = chunks x `kv_ranks` (for a model with one group of KV layers).

    `bytes_per_key` is the size of its value, where that is known.
    """

    chunk_size_tokens: int
    kv_ranks: int
    bytes_per_key: int | None = None

    def tokens(self, keys: int) -> int | None:
        """The tokens that `keys` cover; None unless every rank has the same number of them."""
        return None if keys % self.kv_ranks else keys // self.kv_ranks * self.chunk_size_tokens


def parse_log(
    lines: Iterable[str],
    *,
    arm: str,
    repeat: int,
    instance: str,
    file: str,
    version: str,
    layout: KeyLayout | None = None,
    require_known: bool = True,
) -> tuple[LoadEvent, ...]:
    """Every load, store, prefetch and failure of a log, in order; `file` is its name for the record.

    A prefetch has `keys` asked for, `l1_keys` and `l2_keys` found, and with a `layout` also `tokens` asked for,
    `hit_tokens` found and `bytes` that came from L2. Any ERROR of LMCache, and a WARNING that says that something did
    not work, is a failure.

    Raises CollectError, naming file:line, on a line about a move in a format not known here; and, if `require_known`,
    on a version not in KNOWN_VERSIONS or a log without a single line of LMCache: never an empty table for want of
    reading. A last line without its end of line is the writer's death, and is left out if it cannot be read.
    """
    if require_known and version not in KNOWN_VERSIONS:
        raise CollectError(f"LMCache {version}: its log lines are not known here", where=file, remedy=_USE_KNOWN)
    known, events = False, []
    unread: CollectError | None = None
    for line_no, raw in enumerate(lines, start=1):
        if unread is not None:
            raise unread
        line = _ANSI.sub("", raw).rstrip("\r\n").encode("utf-8", "replace").decode()
        known = known or _ENVELOPE.search(line) is not None or _BANNER.search(line) is not None
        fields = _fields(line, layout)
        if fields is not None:
            place: dict[str, Any] = {
                "instance": instance,
                "version": version,
                "file": file,
                "line": line,
                "line_no": line_no,
            }
            events.append(LoadEvent(arm=arm, repeat=repeat, **place, **fields))
        elif _OF_A_MOVE.search(line):
            what = f"an LMCache line of a format not known here: {line.strip()[:300]}"
            unread = CollectError(what, where=f"{file}:{line_no}", remedy=_USE_KNOWN)
            if raw.endswith("\n"):
                raise unread
    if require_known and not known:
        raise CollectError(
            "no line of this log is LMCache's", where=file, remedy="check that LMCache logs to this file"
        )
    return tuple(events)


def _fields(line: str, layout: KeyLayout | None) -> dict[str, Any] | None:
    """What a line says of its event; None if it says nothing about one."""
    envelope = _ENVELOPE.search(line)
    if envelope is None:
        return None
    message = envelope["message"]
    fields: dict[str, Any]
    if prefetch := _PREFETCH.match(message):
        fields = _prefetch(prefetch, layout)
    elif transfer := _TRANSFER.match(message):
        kind = "load" if transfer["what"] == "Retrieved" else "store"
        fields = {"kind": kind, "tokens": int(transfer["tokens"]), "cost_ms": float(transfer["s"]) * 1e3}
    elif envelope["level"] in {"ERROR", "CRITICAL"} or (envelope["level"] == "WARNING" and _TROUBLE.search(message)):
        fields = {"kind": "failure", **_request(message)}
    else:
        return None
    return {**fields, "t_unix_ns": _unix_ns(envelope)}


def _prefetch(match: re.Match[str], layout: KeyLayout | None) -> dict[str, Any]:
    keys, l2_keys = int(match["keys"]), int(match["l2"])
    fields: dict[str, Any] = {
        "kind": "prefetch",
        "keys": keys,
        "l1_keys": int(match["l1"]),
        "l2_keys": l2_keys,
        "cost_ms": float(match["ms"]),
        **(_request(match["id"]) or {"request_id": match["id"]}),
    }
    if layout is not None:
        fields |= {"tokens": layout.tokens(keys), "hit_tokens": layout.tokens(int(match["hit"]))}
        fields["bytes"] = None if layout.bytes_per_key is None else l2_keys * layout.bytes_per_key
    return fields


def _request(text: str) -> dict[str, Any]:
    """The client's id in `text` (vLLM wraps it as cmpl-<id>-<prompt>-<8 hex>), and its seq if the id is one of ours."""
    found = _ENGINE_ID.search(text)
    if found is None:
        return {}
    request_id = found["completion"] or found["chat"]
    ours = _OUR_SEQ.fullmatch(request_id)
    return {"request_id": request_id, "seq": int(ours[1]) if ours else None}


def _unix_ns(envelope: re.Match[str]) -> int:
    """LMCache stamps in the local time of its machine, which is this one; the hour repeated in autumn is its first."""
    local = datetime.strptime(envelope["stamp"], "%Y-%m-%d %H:%M:%S").astimezone()
    return int(local.timestamp()) * 10**9 + int(envelope["ms"]) * 10**6
