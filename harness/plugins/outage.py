"""Whether a Valkey instance answers, said once an outage: the misses it causes are otherwise silent."""

import math
import threading
import time

from harness.plugins.log import logger


class Outage:
    """What the workers of one endpoint know of it; any of them may tell."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._lasts = False
        self._answered_s = -math.inf

    def begins(self, trouble: OSError, tried_s: float) -> None:
        """The endpoint could not be reached; one warning in LMCache's log until it answers again.

        A try that began (`time.monotonic`) before another worker's was answered tells nothing new.
        """
        with self._lock:
            if not self._lasts and tried_s >= self._answered_s:
                self._lasts = True
                logger.warning("Valkey %s does not answer, its chunks are misses: %s", self.name, trouble)

    def ends(self) -> None:
        """The endpoint has answered."""
        with self._lock:
            self._answered_s = time.monotonic()
            if self._lasts:
                self._lasts = False
                logger.warning("Valkey %s answers again", self.name)
