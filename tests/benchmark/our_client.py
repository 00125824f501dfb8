"""The replay client as `kvreplay run` uses it, in a process of its own like the other clients.

python -m tests.benchmark.our_client URL WORK SCALE [httptools|aiohttp [WORKERS]]     (prints its claims as JSON)
"""

import json
import sys
from dataclasses import astuple

import uvloop

from harness.client import Http, raise_open_files
from harness.experiment.null_error import claims_of
from harness.experiment.null_work import WORKS
from harness.experiment.selftest import send


def main(url: str, work_name: str, scale: float, http: str = "httptools", workers: int = 1) -> None:
    """Send the work and print what was seen."""
    raise_open_files()
    work = next(work for work in WORKS if work.name == work_name).scaled(scale)
    records, cpu_s = uvloop.run(send(url, work, http=Http(http), workers=workers))
    json.dump({"claims": [astuple(claim) for claim in claims_of(records)], "cpu_s": cpu_s}, sys.stdout)


if __name__ == "__main__":
    url, work_name, scale, *rest = sys.argv[1:]
    main(url, work_name, float(scale), *rest[:1], *map(int, rest[1:]))
