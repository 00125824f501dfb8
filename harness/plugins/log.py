"""The plugins' lines in LMCache's log, in the form of LMCache's own, so that what reads its log reads them too."""

import logging
import sys

_FORMAT = "[%(asctime)s] LMCache %(levelname)s: %(message)s (%(filename)s:%(lineno)d:%(name)s)"

logger = logging.getLogger("harness.plugins")


def show_in_lmcache_log() -> None:
    """Write the plugins' lines to stderr, as LMCache does with its own; once, however often it is called."""
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
