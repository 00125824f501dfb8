"""vLLM's own lines of an exception: which of them passed through LMCache.

(EngineCore pid=10267) ERROR 11-30 13:01:44 [core.py:1435]   File ".../lmcache/v1/lookup_client/...", line 175, in ...
(EngineCore pid=10267) ERROR 11-30 13:01:44 [core.py:1435]     time.time() - self.first_lookup_time[lookup_id]
(EngineCore pid=10267) ERROR 11-30 13:01:44 [core.py:1435] KeyError: 'cmpl-a24d4746676970bb-0-8e3196c5'
"""

import re
from datetime import datetime

from harness.collect.log_line import unix_ns

INSIDE = "/lmcache/"
"""Of a frame's file, if it is LMCache's."""

_LINE = re.compile(
    r"(?:\([^()]* pid=\d+\) )?ERROR (?P<minute>\d\d-\d\d \d\d:\d\d):(?P<second>\d\d) \[[^\]]+\] (?P<text>.*)"
)
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception)\b")


class EngineTraceback:
    """Reads lines one after another; `is_open` while an exception that passed through LMCache is still to come."""

    def __init__(self) -> None:
        self.is_open = False

    def ends(self, line: str, near_ns: int) -> int | None:
        """When the exception was (unix ns) that this line names and that passed through LMCache; None for any other.

        vLLM stamps without a year: it is that of `near_ns`.
        """
        found = _LINE.match(line)
        if found is None:
            self.is_open = False
        elif INSIDE in found["text"]:
            self.is_open = True
        elif self.is_open and _EXCEPTION.match(found["text"]):
            self.is_open = False
            year = datetime.fromtimestamp(near_ns / 1e9).astimezone().year
            t_unix_ns = unix_ns(f"{year}-{found['minute']}", found["second"], "000")
            return near_ns if t_unix_ns is None else t_unix_ns
        return None
