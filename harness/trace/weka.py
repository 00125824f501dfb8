"""WEKA's kv-cache-tester traces: a conversation a file (JSON), or a line; seconds from the conversation's own start.

The format: github.com/callanjfox/kv-cache-tester, docs/trace_replay_tester.md. `hash_ids` counts whole blocks only
(floor) and `in` is the length; `hash_id_scope` local means that equal ids of two conversations have nothing in common.
Every conversation starts at 0, as recorded: put together, they all start at once. Entries of type `subagent` hold
requests of their own, whose times count from the entry in the tester's files and from the conversation in others'
(aiperf's page on Weka traces): they are refused until one is chosen. Each is then a session and, with local ids, a
scope of its own, for the tester's documents say that a subagent starts with an empty cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import TraceError
from harness.trace import fields
from harness.trace.form import Form, RawRow, Record
from harness.trace.lines import numbered_lines, text_file
from harness.trace.options import ReadOptions
from harness.trace.sidecar import Sidecar


@dataclass(frozen=True, slots=True)
class _Conversation:
    """The head of a conversation: where it stands, and what holds for its requests."""

    place: str
    name: str
    block_size: int
    local: bool
    shared_tokens: int
    requests: Sequence[Any]


def _records(path: Path, declared: Sidecar, options: ReadOptions) -> Iterator[Record]:
    for conversation in _conversations(path):
        if conversation.local != (declared.hash_scope == "session") and not options.warm_prefix:
            raise TraceError(
                f"hash_id_scope is {'local' if conversation.local else 'global'} here, but not elsewhere",
                where=f"{path}:{conversation.place}",
                remedy="convert conversations of different scopes apart",
            )
        if conversation.block_size != declared.block_size:
            raise TraceError(
                f"block_size is {conversation.block_size}, but {declared.block_size} elsewhere",
                where=f"{path}:{conversation.place}",
                remedy="convert conversations of different block sizes apart",
            )
        yield from _requests(conversation, conversation.requests, options)


def _requests(
    conversation: _Conversation, requests: Sequence[Any], options: ReadOptions, session: str = "", start_us: int = 0
) -> Iterator[Record]:
    session = session or conversation.name
    scope = session if conversation.local else ""
    warm = _Warm(conversation.shared_tokens // conversation.block_size) if options.warm_prefix else None
    for index, request in enumerate(requests):
        place = f"{conversation.place}requests[{index}] of {session}"
        if isinstance(request, dict) and request.get("type") == "subagent" and options.subagents != "refuse":
            at_us = start_us if options.subagents == "absolute" else start_us + _seconds_us(request)
            inner, agent = request.get("requests"), request.get("agent_id", index)
            if not isinstance(inner, list):
                yield place, partial(fields.refuse, "requests", inner, "give the subagent's list of requests")
            else:
                yield from _requests(conversation, inner, options, f"{session}/{agent}", at_us)
        else:
            yield place, partial(_row, request, session, scope, start_us, warm)


class _Warm:
    """The blocks of tools and system prompt in a conversation's first request: the same for every conversation."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._ids: dict[int | str, str] | None = None

    def rename(self, ids: Sequence[int | str], scope: str) -> Sequence[int | str]:
        """The ids with those of the shared prefix named by position, the others by scope."""
        if self._ids is None:
            self._ids = {name: f"warm {position}" for position, name in enumerate(ids[: self._count])}
        return [self._ids.get(name) or f"{scope} {name}" for name in ids]


def _row(request: object, session: str, scope: str, start_us: int, warm: _Warm | None) -> RawRow:
    if not isinstance(request, dict):
        fields.refuse("requests", request, "write each request as a JSON object")
    if request.get("type") == "subagent":
        raise fields.RowError(
            "a subagent's requests inside a request",
            remedy="say how its times count: --subagents relative (to the entry) or absolute (to the conversation)",
            reason="subagent",
        )
    ids = fields.block_ids(fields.pick(request, ("hash_ids",)))
    think = request.get("think_time")
    return RawRow(
        time_us=start_us + _seconds_us(request),
        input_tokens=fields.token_count(fields.pick(request, ("in",)), "in"),
        output_tokens=fields.token_count(fields.pick(request, ("out",)), "out", least=0),
        ids=warm.rename(ids, scope) if warm else ids,
        session=session,
        scope="" if warm else scope,
        delay_us=None if think is None else fields.instant_us(think, "s", "think_time"),
    )


def _seconds_us(request: dict[str, Any]) -> int:
    return fields.instant_us(fields.pick(request, ("t",)), "s", "t")


def _conversations(path: Path) -> Iterator[_Conversation]:
    """The conversations of a folder (its *.json in order of name), of a JSON file, or of a file of one a line."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise TraceError("no *.json in the folder", where=str(path), remedy="give a folder of WEKA's traces")
    for file in files:
        if path.is_dir() or path.suffix == ".json":
            with text_file(file) as stream:
                content = stream.read()
            yield _conversation(content, file, f"{file.name}: " if path.is_dir() else "")
        else:
            for number, line in numbered_lines(file):
                yield _conversation(line, file, f"{number}: ")


def _conversation(content: bytes, file: Path, place: str) -> _Conversation:
    try:
        document = fields.json_row(content)
        requests = fields.pick(document, ("requests",))
        if not isinstance(requests, list):
            fields.refuse("requests", requests, "write a list of requests")
        scope = document.get("hash_id_scope", "local")
        if scope not in ("local", "global"):
            fields.refuse("hash_id_scope", scope, "write local or global")
        parts = [fields.token_count(document.get(name, 0), name, least=0) for name in ("tool_tokens", "system_tokens")]
        return _Conversation(
            place=place,
            name=fields.text(document, "id") or file.stem,
            block_size=fields.token_count(fields.pick(document, ("block_size",)), "block_size"),
            local=scope == "local",
            shared_tokens=sum(parts),
            requests=requests,
        )
    except fields.RowError as error:
        error.where = f"{file}:{place}".rstrip(": ")
        raise TraceError(error.what, where=error.where, remedy=error.remedy) from error


def _declare(path: Path, options: ReadOptions) -> Sidecar:
    first = next(_conversations(path), None)
    return Sidecar(
        time_unit="s",
        block_size=first.block_size if first else 64,
        tail="floor",
        hash_scope="session" if first and first.local and not options.warm_prefix else "global",
        source="https://github.com/callanjfox/kv-cache-tester",
        licence="Apache-2.0",
        provenance="recorded",
    )


WEKA = Form("weka", _declare, _records, units=("s",))
