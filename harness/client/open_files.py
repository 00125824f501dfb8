"""Room for as many connections as a process may have, made before anything is on time."""

import contextlib
import os
import resource
from pathlib import Path

_WIDEST = 65_536


def raise_open_files() -> None:
    """Raise the usual soft limit of 1,024 to the hard one, and let the kernel make its table of open files now.

    The kernel doubles that table when the 256th, 512th, ... file is opened, and where a process has threads, as this
    one has, it waits for every core to have seen the new one (expand_fdtable in fs/file.c): 5 to 20 ms in mid-pass,
    measured, in which nothing is sent. A table never shrinks, so one duplicate far up makes it wide enough.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = (_WIDEST if soft == resource.RLIM_INFINITY else min(soft, _WIDEST)) - 1
    with contextlib.suppress(OSError), Path(os.devnull).open("rb") as any_file:
        os.close(os.dup2(any_file.fileno(), highest))
