"""LMCache's log, of any version from 0.3.1 to 0.5.6 and either mode: its lines about KV moving, as LoadEvents.

The lines themselves are in two tables: lmcache_mp.py and lmcache_inprocess.py. Here is what holds for all of them:
the version, lines that were cut or written over one another, and that no line about a move is ever passed over.
"""

import contextlib
import gc
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.collect.engine_lines import EngineLines
from harness.collect.faults import is_failure
from harness.collect.key_layout import KeyLayout
from harness.collect.lmcache_inprocess import INPROCESS
from harness.collect.lmcache_mp import MULTIPROCESS
from harness.collect.log_line import MARK, STAMP_LENGTH, Message, messages, plain, stamped_ns, writer
from harness.collect.pattern import Fields, Pattern, request_in, version_number
from harness.errors import CollectError
from harness.records import LoadEvent

OLDEST, NEWEST = "0.3.1", "0.5.6"
_USE_KNOWN = f"use LMCache {OLDEST} to {NEWEST}; the log itself is kept"

_BEGINNING = 6  # characters of a message that tell which lines it may be
_PATTERNS = (*MULTIPROCESS, *INPROCESS)
_BY_BEGINNING: dict[str, tuple[Pattern, ...]] = {
    beginning: tuple(p for p in _PATTERNS if p.opening.startswith(beginning))
    for beginning in {p.opening[:_BEGINNING] for p in _PATTERNS}
}
_INFORMS = f"{MARK}INFO: "
_TEXT_AT = STAMP_LENGTH + len(_INFORMS)
_ID_OPENING = "[req_id="
_BANNER = re.compile(
    r"LMCache v(\d+\.\d+\.\d+\S*) \(|LMCache initialized for role \S+ with version (\d+\.\d+\.\d+\S*),"
)
_OF_A_MOVE = re.compile(r"Prefetch request completed|\b(?:Retrieved|Stored) \d|Storing KV cache for \d|Reqid: \S+,")
_LINES_OF_A_START = 1000
_MULTIPROCESS_START = "Starting LMCache HTTP server on "
_MULTIPROCESS_END = "Shutting down LMCache HTTP server"
_INPROCESS_START = "LMCache initialized for role"
_OF_THE_SERVER = (_MULTIPROCESS_START, _MULTIPROCESS_END, _INPROCESS_START)


@dataclass(frozen=True, slots=True)
class LmcacheLog:
    """What a log says: its events in order, and its version: the banner's, else the package's, else what fits them.

    `cut` are lines about moves that another process wrote into, or whose beginning is lost, as `file:line: text`;
    `starts` are those by which more than one server began to write this file, none of them having ended before.
    """

    events: tuple[LoadEvent, ...]
    version: str
    cut: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()


def parse_log(
    lines: Iterable[str],
    *,
    arm: str,
    repeat: int,
    instance: str,
    file: str,
    version: str | None = None,
    layout: KeyLayout | None = None,
    may_be_silent: bool = False,
) -> LmcacheLog:
    """Read a log; `file` is its name for the record, `version` that of the package where it is known.

    Every line about a move is an event (records.LoadEvent says what is in it); with a `layout` keys become tokens and
    bytes. Any ERROR of LMCache, a WARNING that something did not work, and every known fault is a `failure`. The lines
    may be written over one another by several processes, coloured, and led by vLLM's name of the process.

    Raises CollectError, naming file:line and showing the line, on a line about a move in a format not known here; on a
    version outside OLDEST..NEWEST; and on a log without a single line of LMCache, unless it `may_be_silent`. A last
    line without its end of line is the writer's death, and is left out if it cannot be read.
    """
    reader = _Reader(arm, repeat, instance, file, version, layout)
    with _without_collections():
        for line_no, raw in enumerate(lines, start=1):
            reader.read(raw, line_no)
    return reader.log(may_be_silent=may_be_silent)


def stated_version(path: Path) -> str | None:
    """The version that a log states where its server starts; None if it does not, or there is no such file."""
    with contextlib.suppress(OSError), path.open(encoding="utf-8", errors="replace") as lines:
        for raw in itertools.islice(lines, _LINES_OF_A_START):
            if "LMCache" in raw and (found := _BANNER.search(plain(raw))):
                return str(found[1] or found[2]).split("-g", 1)[0]
    return None


class _Reader:
    """Reads lines one after another; what a line leaves open waits for the next."""

    def __init__(
        self, arm: str, repeat: int, instance: str, file: str, version: str | None, layout: KeyLayout | None
    ) -> None:
        self._file, self._layout = file, layout
        self._events: list[LoadEvent] = []
        self._patterns: set[Pattern] = set()
        self._cut: list[str] = []
        self._starts: list[str] = []
        self._open: tuple[Message, int] | None = None  # a message that another one cut
        self._engine = EngineLines()
        self._said_ns: int | None = None  # when LMCache last said anything
        self._torn: CollectError | None = None  # what is wrong with the last line, should another follow
        self._first = ""
        self._version = version if version is not None and self._require_known(version) else None
        self._banner: str | None = None
        self._same = arm, repeat, instance, file, self._version or ""

    def read(self, raw: str, line_no: int) -> None:
        """Take the next line."""
        if self._torn is not None:
            raise self._torn
        if line_no == 1:
            self._first = raw
        if "LMCache" not in raw and self._open is None and ":lmcache." not in raw:
            if self._engine.may_tell(raw):
                self._engines_own(plain(raw), line_no)
            return
        line = plain(raw)
        if self._open is None and self._quickly(line, line_no):
            return
        found = messages(line)
        if not found:
            self._without_envelope(line, line_no)
            return
        if self._open is not None:
            self._give_up()
        for message in found:
            self._message(message, raw, line, line_no)

    def _quickly(self, line: str, line_no: int) -> bool:
        """Take a line as nearly all are: whole, at INFO, nothing in front. False if it is another."""
        if not line.startswith(_INFORMS, STAMP_LENGTH):
            return False
        patterns = _QUICKLY.get(_beginning(line, _TEXT_AT))
        if patterns is None:
            return self._tells_nothing(line)
        for pattern in patterns:
            match = pattern.regex.match(line, _TEXT_AT)
            if match is not None and pattern.kind is not None and line.find(MARK, match.end()) < 0:
                t_unix_ns = stamped_ns(line)
                if t_unix_ns is not None:
                    self._said_ns = t_unix_ns
                    self._patterns.add(pattern)
                    self._append(pattern.kind, t_unix_ns, line, line_no, pattern.read(match.groups(), self._layout))
                    return True
        return False

    def _tells_nothing(self, line: str) -> bool:
        """Whether such a line is neither about a move nor about the server."""
        known = line[_TEXT_AT : _TEXT_AT + _BEGINNING] in _BY_BEGINNING or line.startswith(_OF_THE_SERVER, _TEXT_AT)
        if known or line.find(MARK, _TEXT_AT) >= 0 or (t_unix_ns := stamped_ns(line)) is None:
            return False
        self._said_ns = t_unix_ns
        return True

    def log(self, *, may_be_silent: bool) -> LmcacheLog:
        """What has been read."""
        self._give_up()
        if self._said_ns is None and self._banner is None and not may_be_silent:
            raise CollectError(
                "no line of this log is LMCache's",
                where=f"{self._file}:1",
                detail=f"its first line: {plain(self._first)[:300]}",
                remedy="check that LMCache logs to this file",
            )
        version = self._banner or self._version
        if version is None:
            version = self._era()
            self._events = [event._replace(version=version) for event in self._events]
        return LmcacheLog(tuple(self._events), version, tuple(self._cut), tuple(self._starts))

    def _message(self, message: Message, raw: str, line: str, line_no: int) -> None:
        text = message.text
        self._said_ns = message.t_unix_ns
        patterns = _BY_BEGINNING.get(text[:_BEGINNING])
        if (known := _known(text)) is not None:
            pattern, match = known
            self._patterns.add(pattern)
            if pattern.kind is not None:
                fields = pattern.read(match.groups(), self._layout)
                fields["rank"], fields["pid"] = writer(message.process)
                self._append(pattern.kind, message.t_unix_ns, line, line_no, fields)
            return
        if message.cut and (patterns is not None or _may_be_of_a_move(text)):
            self._give_up()
            self._open = message, line_no
        elif patterns is not None and _OF_A_MOVE.search(text):
            self._unread(line, line_no, ended=raw.endswith("\n"))
        elif is_failure(message.level, text):
            self._fail(message.t_unix_ns, text, line_no, line, message.process)
        else:
            self._about_the_server(text, line, line_no)

    def _append(self, kind: str, t_unix_ns: int, line: str, line_no: int, fields: Fields) -> None:
        arm, repeat, instance, file, version = self._same
        self._events.append(LoadEvent(arm, repeat, t_unix_ns, instance, version, kind, line, line_no, file, **fields))

    def _without_envelope(self, line: str, line_no: int) -> None:
        """What is left of a message that was cut, the banner, or a line of a version before the first known."""
        if self._open is not None:
            cut, cut_no = self._open
            whole = cut._replace(text=cut.text + line, cut=False)
            if _known(whole.text) is not None:
                self._open = None
                self._message(whole, "\n", whole.text, cut_no)
                return
        banner = _BANNER.search(line)
        if banner is not None:
            self._take_version(banner[1] or banner[2], line, line_no)
        elif "LMCache: " in line and _OF_A_MOVE.search(line):
            self._unread(line, line_no, ended=True)
        elif line_no == 1 or _OF_A_MOVE.search(line):
            self._cut.append(f"{self._file}:{line_no}: {line[:300]}")

    def _engines_own(self, line: str, line_no: int) -> None:
        """A line of vLLM's, once LMCache has said in which year it is."""
        if self._said_ns is not None and (t_unix_ns := self._engine.failed_ns(line, self._said_ns)) is not None:
            self._fail(t_unix_ns, line, line_no, line, line.partition(" [")[0])

    def _fail(self, t_unix_ns: int, text: str, line_no: int, line: str, process: str) -> None:
        (request_id, seq), (rank, pid) = request_in(text), writer(process)
        fields = {"request_id": request_id, "seq": seq, "rank": rank, "pid": pid}
        self._append("failure", t_unix_ns, line, line_no, fields)

    def _give_up(self) -> None:
        """The message that was cut will not be whole any more."""
        if self._open is not None:
            message, line_no = self._open
            self._cut.append(f"{self._file}:{line_no}: {message.text[:300]}")
            self._open = None

    def _about_the_server(self, text: str, line: str, line_no: int) -> None:
        if text.startswith(_INPROCESS_START) and (banner := _BANNER.search(text)):
            self._take_version(banner[1] or banner[2], line, line_no)
        elif text.startswith(_MULTIPROCESS_START):
            self._starts.append(f"{self._file}:{line_no}: {line[:300]}")
        elif text.startswith(_MULTIPROCESS_END):
            self._starts.clear()

    def _take_version(self, stated: str, line: str, line_no: int) -> None:
        self._require_known(stated)
        version = stated.split("-g", 1)[0]
        if self._banner not in {None, version}:
            self._starts.append(f"{self._file}:{line_no}: {line[:300]}")
        self._banner = version
        self._same = (*self._same[:-1], version)

    def _require_known(self, version: str) -> bool:
        number = version_number(version)
        if number is None or not (version_number(OLDEST) or ()) <= number <= (version_number(NEWEST) or ()):
            raise CollectError(
                f"LMCache {version}: its log lines are not known here", where=self._file, remedy=_USE_KNOWN
            )
        return True

    def _era(self) -> str:
        """The versions that have all the lines that were seen."""
        if not self._patterns:
            return "unknown"
        since = max((p.since for p in self._patterns), key=lambda v: version_number(v) or ())
        until = min((p.until for p in self._patterns), key=lambda v: version_number(v) or ())
        return since if since == until else f"{since} to {until}"

    def _unread(self, line: str, line_no: int, *, ended: bool) -> None:
        what = f"an LMCache line of a format not known here: {line.strip()[:300]}"
        unread = CollectError(what, where=f"{self._file}:{line_no}", remedy=_USE_KNOWN)
        if ended:
            raise unread
        self._torn = unread


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """No garbage collection: each would look through all the events again, and none of them is garbage.

    Nor one right afterwards: what was made is counted as old.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.unfreeze()
            gc.enable()


def _beginning(line: str, at: int = 0) -> str:
    """The characters of a message that tell which lines it may be: those after the request's id if it begins so."""
    if line.startswith(_ID_OPENING, at):
        at = line.find("] ", at)
    return line[at : at + _BEGINNING]


_QUICKLY = {
    beginning: tuple(p for p in _PATTERNS if _beginning(p.opening) == beginning)
    for beginning in {_beginning(p.opening) for p in _PATTERNS}
}


def _known(text: str) -> tuple[Pattern, re.Match[str]] | None:
    """The known line that begins a message's text, if one does."""
    for pattern in _BY_BEGINNING.get(text[:_BEGINNING], ()):
        if match := pattern.regex.match(text):
            return pattern, match
    return None


def _may_be_of_a_move(text: str) -> bool:
    """Whether a message that ends in its beginning may be one about a move."""
    return any(pattern.opening.startswith(text) for pattern in _PATTERNS)
