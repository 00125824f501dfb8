"""One arm's requests, written in another tool's format."""

import json
import math
from collections.abc import Iterable
from pathlib import Path

from harness.analysis.export import aiperf_lines, cell_of, requests_of, vllm_json
from harness.analysis.export_llmd import llmd_report
from harness.errors import HarnessError
from harness.store import open_run
from harness.store.folder import write_atomically


def export_run(
    folder: Path,
    to: str,
    out: Path,
    *,
    arm: str | None,
    workload: str | None,
    pass_name: str | None,
    allow_incomplete: bool = False,
) -> None:
    """Write `out` whole or not at all. llm-d's report is YAML: JSON, which YAML includes, is written.

    csv has every column and, where neither arm, workload nor pass is named, every request; lists are JSON in it.
    Raises HarnessError if it is not clear which requests are meant or `out` has no folder, RunFolderError on the run.
    """
    run = open_run(folder, allow_incomplete=allow_incomplete)
    if to == "csv" and arm is None and workload is None and pass_name is None:
        rows = run.requests.to_pandas()
    else:
        cell = cell_of(run, arm, workload, pass_name)
        rows = requests_of(run, cell)
    if to == "vllm-json":
        text = json.dumps(vllm_json(run, cell), allow_nan=False) + "\n"
    elif to == "aiperf-jsonl":
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in aiperf_lines(run, cell))
    elif to == "llm-d-report":
        text = json.dumps(llmd_report(run, cell), indent=2, allow_nan=False) + "\n"
    else:
        for name in ("chunk_ns", "itl_ms"):
            rows[name] = [None if one is None else _json_list(one) for one in rows[name]]
        text = rows.to_csv(index=False)
    if not out.parent.is_dir():
        raise HarnessError("there is no such folder", where=str(out.parent), remedy="make it, or give another --out")
    write_atomically(out, lambda file: file.write(text.encode()))


def _json_list(values: Iterable[float]) -> str:
    return json.dumps([float(value) if math.isfinite(value) else None for value in values], allow_nan=False)
