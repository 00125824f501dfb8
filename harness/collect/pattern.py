"""What a table of LMCache's lines is made of, and what all its lines share: request ids and versions."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
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

    `opening` is how its message begins but for a request's id, `regex` all of it. `read` makes the figures of a
    LoadEvent out of the groups; a pattern of `kind` None is known, and says nothing that another line does not.
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


@lru_cache(maxsize=1024)  # the lines of a request are near one another
def request_of(engine_id: str | None) -> tuple[str | None, int | None]:
    """The client's id out of the engine's, and its seq if it is one of ours; None each if there is no id.

    vLLM makes cmpl-<id>-<prompt> or chatcmpl-<id> of it, and since 0.11 or so appends 8 hex digits.
    """
    if engine_id is None or engine_id in _UNTOLD:
        return None, None
    head, _, suffix = engine_id.rpartition("-")
    request_id, _, prompt = head.rpartition("-")
    if len(suffix) == _HEX_DIGITS and prompt.isdecimal() and request_id.startswith("cmpl-"):
        request_id = request_id[5:]  # as nearly all are
    elif (found := _ENGINE_ID.fullmatch(engine_id)) is not None:
        request_id = found["completion"] or found["chat"]
    else:
        request_id = engine_id
    _, _, seq = request_id.rpartition("-")
    return request_id, int(seq) if request_id.startswith("kvr-") and seq.isdecimal() else None


def request_in(text: str) -> tuple[str | None, int | None]:
    """The same for an engine's id somewhere in a text."""
    found = _ENGINE_ID_IN_TEXT.search(text) if "cmpl-" in text else None
    return request_of(None if found is None else found[0])


def version_number(version: str) -> tuple[int, int, int] | None:
    """The comparable part of a version such as 0.5.5 or 0.4.7-g05a013b2; None if it has none."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))
