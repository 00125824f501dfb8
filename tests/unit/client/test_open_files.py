"""Room for connections, made before it is needed."""

import resource
import subprocess
import sys


def test_the_soft_limit_is_raised_and_no_file_stays_open() -> None:
    """In a process of its own, since limits are one: the soft limit is the hard one, the open files are the same."""
    code = (
        "import os, resource\n"
        "from harness.client import raise_open_files\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))\n"
        "before = os.listdir('/proc/self/fd')\n"
        "raise_open_files()\n"
        "assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)\n"
        "assert os.listdir('/proc/self/fd') == before\n"
        "print([line for line in open('/proc/self/status') if line.startswith('FDSize')][0].split()[1])\n"
    )
    size = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert size >= min(hard, 65_536), "the kernel's table of open files has not grown"
