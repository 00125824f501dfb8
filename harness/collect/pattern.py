"""What a table of LMCache's lines is made of, and what all its lines share: request ids and versions."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.collect.key_layout import KeyLayout

Fields = dict[str, Any]
Groups = tuple[Any, ...]
"""What a regex found: strings, or None for a part that may be left out."""

_ENGINE_ID = re.compile(r"(?:\d+_)?(?:cmpl-(?P<completion>\S+?)-\d+|chatcmpl-(?P<chat>\S+?))(?:-[0-9a-f]{8})?")
_ENGINE_ID_IN_TEXT = re.compile(r"\bcmpl-(?P<completion>\S+)-\d+-[0-9a-f]{8}\b|\bchatcmpl-(?P<chat>\S+)-[0-9a-f]{8}\b")
_HEX_DIGITS = 8
_UNTOLD = {"unspecified", "None", ""}


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A line that LMCache writes in versions `since` to `until`, both included.

    `opening` is how its message begins, `regex` all of it. `read` makes the figures of a LoadEvent out of the groups;
    a pattern of `kind` None is known, and says nothing that another line does not.
    """

    kind: str | None
    since: str
    until: str
    opening: str
    regex: re.Pattern[str]
    read: Callable[[Groups, KeyLayout | None], Fields]


def line(text: str) -> re.Pattern[str]:
    """The regex of a whole message; LMCache's place in its source may follow, in brackets."""
    return re.compile(rf"{text}(?= \(|\s*$)")


def request_of(engine_id: str | None) -> Fields:
    """The client's id out of the engine's, and its seq if it is one of ours.

    vLLM makes cmpl-<id>-<prompt> or chatcmpl-<id> of it, and since 0.11 or so appends 8 hex digits.
    """
    if engine_id is None or engine_id in _UNTOLD:
        return {}
    head, _, suffix = engine_id.rpartition("-")
    request_id, _, prompt = head.rpartition("-")
    if len(suffix) == _HEX_DIGITS and prompt.isdecimal() and request_id.startswith("cmpl-"):
        return _client(request_id[5:])  # as nearly all are
    found = _ENGINE_ID.fullmatch(engine_id)
    if found is None:
        return {"request_id": engine_id}
    return _client(found["completion"] or found["chat"])


def request_in(text: str) -> Fields:
    """The same for an engine's id somewhere in a text; nothing if there is none."""
    found = _ENGINE_ID_IN_TEXT.search(text)
    return {} if found is None else _client(found["completion"] or found["chat"])


def version_number(version: str) -> tuple[int, int, int] | None:
    """The comparable part of a version such as 0.5.5 or 0.4.7-g05a013b2; None if it has none."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def _client(request_id: str) -> Fields:
    _, _, seq = request_id.rpartition("-")
    if request_id.startswith("kvr-") and seq.isdecimal():
        return {"request_id": request_id, "seq": int(seq)}
    return {"request_id": request_id}
