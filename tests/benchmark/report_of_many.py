"""How long the reports of a run of 100,000 requests take, and how large the page is.

python -m tests.benchmark.report_of_many [REQUESTS]
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.experiment.report import write_reports
from harness.records import SCHEMAS, Run
from tests.fakes.folders import written
from tests.fakes.runs import fake_run

ARMS = ("recompute", "host", "valkey-1", "valkey-4")
SECOND = 1_000_000_000


def requests_of(arm: str, n: int, random: np.random.Generator) -> dict[str, object]:
    """`n` requests of one arm at 50 a second, 20 tokens each."""
    due = np.sort(random.random(n)) * n / 50 * SECOND
    ttft = random.gamma(9, 20, size=n)
    gaps = random.gamma(9, 2, size=(n, 19))
    cached = random.integers(0, 4, size=n) * 256
    e2el = ttft + gaps.sum(axis=1)
    return {
        "arm": [arm] * n,
        "workload": ["trace"] * n,
        "pass": ["replay"] * n,
        "repeat": np.zeros(n, np.int64),
        "seq": np.arange(n),
        "row": np.arange(n),
        "source": ["live"] * n,
        "outcome": ["ok"] * n,
        "due_ns": due.astype(np.int64),
        "sent_ns": due.astype(np.int64),
        "done_ns": (due + e2el * 1e6).astype(np.int64),
        "prompt_tokens_planned": 512 + cached,
        "prompt_tokens": 512 + cached,
        "completion_tokens": np.full(n, 20),
        "cached_tokens": cached,
        "external_cached_tokens": cached,
        "ttft_ms": ttft,
        "ttft_due_ms": ttft,
        "tpot_ms": gaps.mean(axis=1),
        "e2el_ms": e2el,
        "send_lag_ms": np.zeros(n),
        "itl_ms": list(gaps),
    }


def run_of(total: int) -> Run:
    """A run of `total` requests over four arms."""
    random, schema = np.random.default_rng(0), SCHEMAS["requests"]
    tables = []
    for arm in ARMS:
        columns = requests_of(arm, total // len(ARMS), random)
        n = total // len(ARMS)
        tables.append(
            pa.table(
                {field.name: pa.array(columns.get(field.name, [None] * n), field.type) for field in schema},
                schema=schema,
            )
        )
    bare = fake_run([])
    spec = {"arms": [{"name": arm, "lmcache": None if arm == "recompute" else {}, "valkey": None} for arm in ARMS]}
    planned = {f"{arm}/trace/replay/0": total // len(ARMS) for arm in ARMS}
    meta = dict(bare.meta) | {"spec": spec, "planned": planned}
    return Run(bare.folder, meta, pa.concat_tables(tables), bare.loads, bare.samples, bare.passes)


def main(total: int) -> None:
    """Write the run, then its reports, and print what that took."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(run_of(total), Path(folder))
        begin = time.perf_counter()
        write_reports(path)
        spent = time.perf_counter() - begin
        size = (path / "report.html").stat().st_size
    sys.stdout.write(f"{total:,} requests: reports in {spent:.1f} s, report.html {size / 1e6:.1f} MB\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
