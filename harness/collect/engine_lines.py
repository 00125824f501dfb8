"""Lines of vLLM's own that tell of a failure of the KV cache behind it.

An exception that passed through LMCache:

(EngineCore pid=10267) ERROR 11-30 13:01:44 [core.py:1435]   File ".../lmcache/v1/lookup_client/...", line 175, in ...
(EngineCore pid=10267) ERROR 11-30 13:01:44 [core.py:1435]     time.time() - self.first_lookup_time[lookup_id]
(EngineCore pid=10267) ERROR 11-30 13:01:44 [core.py:1435] KeyError: 'cmpl-a24d4746676970bb-0-8e3196c5'

and what became of requests whose KV could not be loaded:

(EngineCore pid=13755) ERROR 11-30 14:22:58 [scheduler.py:3340] Failing 1 request(s) due to KV load failure (...)
(EngineCore pid=14068) WARNING 11-30 14:24:53 [scheduler.py:3349] Recovered from KV load failure: 1 request(s) ...
"""

import re
from datetime import datetime

from harness.collect.log_line import unix_ns

_INSIDE = "/lmcache/"  # of a frame's file, if it is LMCache's
_NOT_LOADED = "KV load failure"
_LINE = re.compile(
    r"(?:\([^()]* pid=\d+\) )?(?P<level>ERROR|WARNING) "
    r"(?P<minute>\d\d-\d\d \d\d:\d\d):(?P<second>\d\d) \[[^\]]+\] (?P<text>.*)"
)
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception)\b")


class EngineLines:
    """Reads lines one after another, those that `may_tell` at least."""

    def __init__(self) -> None:
        self._in_traceback = False

    def may_tell(self, raw: str) -> bool:
        """Whether a line has to be read: an exception through LMCache is open, or begins, or KV was not loaded."""
        return self._in_traceback or _INSIDE in raw or _NOT_LOADED in raw

    def failed_ns(self, line: str, near_ns: int) -> int | None:
        """When the failure was (unix ns) that this line names; None for a line that names none.

        vLLM stamps without a year: it is that of `near_ns`.
        """
        found = _LINE.match(line)
        if found is None:
            self._in_traceback = False
            return None
        text = found["text"]
        if _NOT_LOADED not in text:
            if found["level"] == "ERROR" and _INSIDE in text:
                self._in_traceback = True
            if _INSIDE in text or not (self._in_traceback and _EXCEPTION.match(text)):
                return None
            self._in_traceback = False
        year = datetime.fromtimestamp(near_ns / 1e9).astimezone().year
        t_unix_ns = unix_ns(f"{year}-{found['minute']}", found["second"], "000")
        return near_ns if t_unix_ns is None else t_unix_ns
