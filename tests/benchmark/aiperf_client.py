"""aiperf's trace replay on one of our works, its claims request by request; needs `aiperf` on the PATH.

    python -m tests.benchmark.aiperf_client URL WORK SCALE    (prints its claims as one JSON document)

Its stamps are of the wall clock; they are moved to the monotonic one by a pair of readings taken here. When its trace
began it does not say: its first request is taken to have been on time, so that what all were late by does not show.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.experiment.engine_model import cache_dir
from harness.experiment.null_work import WORKS, Work
from harness.stack.tiny_model import make_tiny_model

_REVISION = "0" * 40


def _trace(work: Work, path: Path) -> list[int]:
    """The work as a Mooncake trace (times in ms); its due times in ns."""
    due_ns = [request.due_ns or 0 for request in work.plan().requests]
    rows = (
        {
            "timestamp": round(due / 1e6),
            "input_length": work.prompt_tokens,
            "output_length": work.max_tokens,
            "hash_ids": [seq],
        }
        for seq, due in enumerate(due_ns)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return due_ns


def _in_hub(home: Path) -> str:
    """The name of a tokenizer in a hub cache made below `home`: aiperf's processes load it from nowhere else."""
    made = make_tiny_model("tiny-8l", cache_dir() / "models")
    repository = home / "hub" / "models--kvreplay--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(_REVISION)
    shutil.copytree(made, repository / "snapshots" / _REVISION, ignore=shutil.ignore_patterns("*.safetensors"))
    return "kvreplay/tiny"


def _claim(record: dict[str, Any], due_ns: int, offset_ns: int) -> list[Any] | None:
    about, metrics = record["metadata"], record["metrics"]
    if "time_to_first_token" not in metrics or not about.get("x_request_id"):
        return None
    sent_ns = about["request_start_ns"] - offset_ns
    first_ns = sent_ns + round(metrics["time_to_first_token"]["value"] * 1e6)
    return [about["x_request_id"], due_ns, sent_ns, [first_ns], about["request_end_ns"] - offset_ns]


def main(url: str, work_name: str, scale: float) -> None:
    """Send the work and print what was seen."""
    work = next(work for work in WORKS if work.name == work_name).scaled(scale)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        due_ns = _trace(work, folder / "trace.jsonl")
        command = [
            *("aiperf", "profile", "--model", "m", "--url", url, "--endpoint-type", "completions", "--streaming"),
            *("--input-file", str(folder / "trace.jsonl"), "--custom-dataset-type", "mooncake_trace"),
            *("--fixed-schedule", "--fixed-schedule-auto-offset", "--tokenizer", _in_hub(folder), "--ui", "none"),
            *("--output-artifact-dir", str(folder / "out")),
        ]
        offset_ns = time.time_ns() - time.perf_counter_ns()
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        own |= {"HF_HOME": str(folder), "HF_HUB_OFFLINE": "1"}
        subprocess.run(command, check=True, stdout=sys.stderr, env=own)
        (export,) = (folder / "out").rglob("profile_export.jsonl")
        records = [json.loads(line) for line in export.read_text().splitlines()]
    about = [record["metadata"] for record in records]
    first = min(about, key=lambda one: one["session_num"])
    zero_ns = first["request_start_ns"] - offset_ns - due_ns[first["session_num"]]
    due = [zero_ns + due_ns[one["session_num"]] for one in about]
    told = [_claim(record, at_ns, offset_ns) for record, at_ns in zip(records, due, strict=True)]
    claims = [claim for claim in told if claim is not None]
    cpu_s = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    json.dump({"claims": claims, "cpu_s": cpu_s}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
